#include "codegen/artefact/artefact.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "codegen/artefact/elf_segment.h"
#include "codegen/artefact/elf_writer.h"
#include "codegen/artefact/link.h"
#include "rt/cpu.h"
#include "rt_object.h"

namespace fettle {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLarge = 64 << 10;  // constants from this size on start a page
constexpr const char* kInfoSymbol = "fettle_artefact";

struct ExportedFunction {
  const char* suffix;
  const char* symbol;
};
constexpr ExportedFunction kExports[] = {
    {"open", "fettle_artefact_open"},
    {"info", "fettle_artefact_info"},
    {"close", "fettle_rt_close"},
    {"create_context", "fettle_rt_create_context"},
    {"destroy_context", "fettle_rt_destroy_context"},
    {"run", "fettle_rt_run"},
    {"begin", "fettle_rt_begin"},
    {"wait", "fettle_rt_wait"},
    {"cancel", "fettle_rt_cancel"},
    {"output_shapes", "fettle_rt_output_shapes"},
    {"get_state", "fettle_rt_get_state"},
    {"set_state", "fettle_rt_set_state"},
    {"allocate_with", "fettle_rt_allocate_with"},
    {"profile", "fettle_rt_profile"},
    {"trace", "fettle_rt_trace"},
    {"error", "fettle_rt_error"},
};

/// Builds the object that holds the model's description.
///   strings, shapes → .rodata · structs with pointers → .data.rel.ro
/// Constants come into the library when it is linked: their pointers point to nothing of meaning before.
class Describer {
 public:
  explicit Describer(const Artefact& artefact)
      : artefact_(artefact),
        text_(
            object_.add_section({.name = ".rodata.fettle", .type = SHT_PROGBITS, .flags = SHF_ALLOC, .alignment = 8})),
        tables_(object_.add_section(
            {.name = ".data.rel.ro.fettle", .type = SHT_PROGBITS, .flags = SHF_ALLOC | SHF_WRITE, .alignment = 8})),
        note_(object_.add_section(spare_note())) {}

  /// Once.
  ObjectBuilder build() {
    FettleModelInfo info{};
    info.magic = FETTLE_MAGIC;
    info.abi_version = FETTLE_ABI_VERSION;
    info.struct_bytes = sizeof info;
    info.n_inputs = static_cast<int32_t>(artefact_.inputs.size());
    info.n_outputs = static_cast<int32_t>(artefact_.outputs.size());
    info.n_kernels = static_cast<int32_t>(artefact_.kernel_names.size());
    info.n_constants = static_cast<int32_t>(artefact_.constants.size());
    info.n_states = static_cast<int32_t>(artefact_.states.size());
    info.n_sizes = artefact_.n_sizes;
    info.n_size_errors = static_cast<int32_t>(artefact_.size_errors.size());
    info.n_stages = static_cast<int32_t>(artefact_.stages.size());
    info.n_structures = static_cast<int32_t>(artefact_.structures.size());
    info.default_threads = artefact_.default_threads;
    info.arena_bytes = artefact_.arena_bytes;
    info.n_strings = std::ssize(artefact_.strings);
    info.n_steps = std::ssize(artefact_.step_names);
    const uint64_t at = add_table(&info, sizeof info);
    object_.define(kInfoSymbol, tables_, at, sizeof info);  // the table's first
    point_to_string(at + offsetof(FettleModelInfo, name), artefact_.name);
    point_to_string(at + offsetof(FettleModelInfo, compiler), artefact_.compiler);
    point_to_string(at + offsetof(FettleModelInfo, target_cpu), artefact_.target_cpu);
    point_to_string(at + offsetof(FettleModelInfo, target_features), artefact_.target_features);
    point_to_table(at + offsetof(FettleModelInfo, inputs), add_tensors(artefact_.inputs));
    point_to_table(at + offsetof(FettleModelInfo, outputs), add_tensors(artefact_.outputs));
    point_to_table(at + offsetof(FettleModelInfo, kernel_names), add_strings(artefact_.kernel_names));
    point_to_table(at + offsetof(FettleModelInfo, kernel_origins), add_strings(artefact_.kernel_origins));
    point_to_table(at + offsetof(FettleModelInfo, states), add_states());
    point_to_table(at + offsetof(FettleModelInfo, structures), add_structures());
    point_to_table(at + offsetof(FettleModelInfo, constants), add_constants());
    point_to_table(at + offsetof(FettleModelInfo, size_errors), add_strings(artefact_.size_errors));
    object_.point_to_symbol(tables_, at + offsetof(FettleModelInfo, entry), artefact_.entry);
    if (!artefact_.resize.empty())
      object_.point_to_symbol(tables_, at + offsetof(FettleModelInfo, resize), artefact_.resize);
    object_.point_to_symbol(tables_, at + offsetof(FettleModelInfo, functions), "fettle_rt_functions");
    if (!artefact_.kernel_work.empty())
      object_.point(tables_, at + offsetof(FettleModelInfo, kernel_work), text_,
                    add_text(artefact_.kernel_work.data(), artefact_.kernel_work.size() * sizeof(FettleKernelWork)));
    point_to_table(at + offsetof(FettleModelInfo, step_names), add_strings(artefact_.step_names));
    if (!artefact_.strings.empty()) {
      const StringList strings = string_list(artefact_.strings);
      object_.point(tables_, at + offsetof(FettleModelInfo, string_bytes), text_,
                    add_text(strings.bytes.data(), strings.bytes.size()));
      object_.point(tables_, at + offsetof(FettleModelInfo, string_ends), text_,
                    add_text(strings.ends.data(), strings.ends.size() * sizeof(int64_t)));
    }
    if (!artefact_.stages.empty()) {
      point_to_table(at + offsetof(FettleModelInfo, stages), add_stages());
      object_.point(tables_, at + offsetof(FettleModelInfo, output_stages), text_,
                    add_text(artefact_.output_stages.data(), artefact_.output_stages.size() * sizeof(int32_t)));
    }
    return std::move(object_);
  }

  /// What is to be appended to the library, and where tables point to it: from the symbol on.
  const ElfSection& constants() const { return constants_; }
  const std::vector<SegmentPointer>& pointers() const { return pointers_; }

 private:
  uint64_t add(int section, const void* data, size_t size) {
    std::string& bytes = object_.section(section).bytes;
    const uint64_t at = bytes.size();
    bytes.append(static_cast<const char*>(data), size);
    bytes.resize((bytes.size() + 7) / 8 * 8);
    return at;
  }
  uint64_t add_table(const void* data, size_t bytes) { return add(tables_, data, bytes); }
  uint64_t add_text(const void* data, size_t bytes) { return add(text_, data, bytes); }
  void point_to_table(uint64_t at, uint64_t target) { object_.point(tables_, at, tables_, target); }
  void point_to_string(uint64_t at, const std::string& text) {
    object_.point(tables_, at, text_, add_text(text.c_str(), text.size() + 1));
  }

  /// An array of FettleTensor without data.
  uint64_t add_tensors(const std::vector<ArtefactTensor>& tensors) {
    const std::vector<FettleTensor> blank(tensors.size());
    const uint64_t at = add_table(blank.data(), blank.size() * sizeof(FettleTensor));
    for (size_t i = 0; i < tensors.size(); ++i) fill_tensor(at + i * sizeof(FettleTensor), tensors[i]);
    return at;
  }
  void fill_tensor(uint64_t at, const ArtefactTensor& tensor) {
    FettleTensor filled{};
    filled.struct_bytes = sizeof filled;
    filled.device = FETTLE_CPU;
    filled.rank = static_cast<int32_t>(tensor.shape.size());
    filled.dtype = tensor.dtype;
    object_.section(tables_).bytes.replace(at, sizeof filled, reinterpret_cast<const char*>(&filled), sizeof filled);
    point_to_string(at + offsetof(FettleTensor, name), tensor.name);
    object_.point(tables_, at + offsetof(FettleTensor, shape), text_,
                  add_text(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t)));
    if (!tensor.axis_names.empty())
      point_to_table(at + offsetof(FettleTensor, axis_names), add_strings(tensor.axis_names, true));
  }
  uint64_t add_states() {
    std::vector<FettleState> states;
    std::vector<ArtefactTensor> tensors;
    for (const ArtefactState& state : artefact_.states) {
      states.push_back({sizeof(FettleState), state.input, state.output, state.length_axis, nullptr});
      tensors.push_back(state.tensor);
    }
    const uint64_t at = add_table(states.data(), states.size() * sizeof(FettleState));
    const uint64_t first = add_tensors(tensors);
    for (size_t i = 0; i < states.size(); ++i)
      point_to_table(at + i * sizeof(FettleState) + offsetof(FettleState, tensor), first + i * sizeof(FettleTensor));
    return at;
  }
  uint64_t add_structures() {
    std::vector<FettleStructure> structures;
    for (const ArtefactStructure& made : artefact_.structures)
      structures.push_back(
          {sizeof(FettleStructure), made.is_output ? 1 : 0, made.first_tensor, made.n_tensors, nullptr, nullptr});
    const uint64_t at = add_table(structures.data(), structures.size() * sizeof(FettleStructure));
    for (size_t i = 0; i < structures.size(); ++i) {
      const uint64_t one = at + i * sizeof(FettleStructure);
      point_to_string(one + offsetof(FettleStructure, name), artefact_.structures[i].name);
      point_to_string(one + offsetof(FettleStructure, type), artefact_.structures[i].type);
    }
    return at;
  }
  uint64_t add_stages() {
    std::vector<FettleStage> stages;
    for (const ArtefactStage& stage : artefact_.stages) stages.push_back({nullptr, stage.arena_bytes_at, stage.keeps});
    const uint64_t at = add_table(stages.data(), stages.size() * sizeof(FettleStage));
    for (size_t i = 0; i < stages.size(); ++i)
      object_.point_to_symbol(tables_, at + i * sizeof(FettleStage) + offsetof(FettleStage, resize),
                              artefact_.stages[i].resize);
    return at;
  }
  /// An array of strings; null for those that are empty, where `absent` says so.
  uint64_t add_strings(const std::vector<std::string>& strings, bool absent = false) {
    const std::vector<const char*> blank(strings.size());
    const uint64_t at = add_table(blank.data(), blank.size() * sizeof(char*));
    for (size_t i = 0; i < blank.size(); ++i)
      if (!absent || !strings[i].empty()) point_to_string(at + i * sizeof(char*), strings[i]);
    return at;
  }
  uint64_t add_constants() {
    std::vector<ArtefactTensor> tensors;
    for (const ArtefactConstant& constant : artefact_.constants) tensors.push_back(constant.tensor);
    const uint64_t at = add_tensors(tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::span<const std::byte> bytes = artefact_.constants[i].bytes;
      const uint64_t pointer = at + i * sizeof(FettleTensor) + offsetof(FettleTensor, data);
      object_.point(tables_, pointer, note_, 0);
      pointers_.push_back({pointer, constants_.add_blob(bytes, bytes.size() >= kLarge ? kPage : 64)});
    }
    return at;
  }

  const Artefact& artefact_;
  ObjectBuilder object_;
  int text_, tables_, note_;
  ElfSection constants_;
  std::vector<SegmentPointer> pointers_;
};

}  // namespace

StringList string_list(const std::vector<std::string>& strings) {
  StringList list;
  for (const std::string& text : strings) {
    list.bytes += text;
    list.ends.push_back(std::ssize(list.bytes));
  }
  return list;
}

std::string needed_features(std::string_view llvm_features, std::span<const std::vector<uint8_t>> objects) {
  constexpr std::string_view kUse = "fettle_tiles_begin";
  const bool uses_tiles = std::ranges::any_of(
      objects, [&](const std::vector<uint8_t>& object) { return !std::ranges::search(object, kUse).empty(); });
  std::string needed;
  while (!llvm_features.empty()) {
    const size_t end = std::min(llvm_features.find(','), llvm_features.size());
    std::string_view name = llvm_features.substr(0, end);
    llvm_features.remove_prefix(std::min(end + 1, llvm_features.size()));
    if (name.starts_with('-')) continue;
    if (name.starts_with('+')) name.remove_prefix(1);
    if (name.starts_with("amx-") && !uses_tiles) continue;
    char ignored[2];
    if (name.empty() || fettle_cpu_check(std::string(name).c_str(), ignored, sizeof ignored) == 2) continue;
    needed += needed.empty() ? "" : ",";
    needed += name;
  }
  return needed;
}

namespace {

/// What is wrong with what is said of sizes, states and structures; null: nothing.
const char* wrong_sizes(const Artefact& artefact) {
  const auto is_open = [](const ArtefactTensor& tensor) { return std::ranges::count(tensor.shape, -1) > 0; };
  if ((artefact.n_sizes > 0) != !artefact.resize.empty()) return "sizes are open, but nothing computes them";
  int64_t extents = 1;
  for (const auto* tensors : {&artefact.inputs, &artefact.outputs}) {
    for (const ArtefactTensor& tensor : *tensors) {
      if (artefact.n_sizes == 0 && is_open(tensor)) return "a tensor has an open extent, but all sizes are fixed";
      if (!tensor.axis_names.empty() && tensor.axis_names.size() != tensor.shape.size())
        return "a tensor does not have one name for each axis";
      if (tensors == &artefact.outputs) extents += static_cast<int64_t>(tensor.shape.size());
    }
  }
  if (artefact.n_sizes > 0 && artefact.n_sizes < extents)
    return "the table of sizes has no room for the outputs' extents";
  for (const ArtefactStage& stage : artefact.stages)
    if (stage.arena_bytes_at < 0 || stage.arena_bytes_at >= artefact.n_sizes)
      return "the size of a stage's arena is not in the table of sizes";
  if (!artefact.stages.empty() && artefact.output_stages.size() != artefact.outputs.size())
    return "not every output has its stage";
  for (const ArtefactState& state : artefact.states) {
    const auto has = [&](const std::vector<ArtefactTensor>& tensors, int32_t i) {
      return i >= 0 && i < static_cast<int32_t>(tensors.size()) &&
             tensors[static_cast<size_t>(i)].shape.size() == state.tensor.shape.size() &&
             tensors[static_cast<size_t>(i)].dtype == state.tensor.dtype;
    };
    if (!has(artefact.inputs, state.input) || !has(artefact.outputs, state.output) || is_open(state.tensor) ||
        state.length_axis >= static_cast<int32_t>(state.tensor.shape.size()))
      return "a state does not fit the input and the output that it stands for";
  }
  for (const ArtefactStructure& made : artefact.structures) {
    const auto n_tensors = static_cast<int64_t>((made.is_output ? artefact.outputs : artefact.inputs).size());
    if (made.first_tensor < 0 || made.n_tensors < 1 || made.first_tensor > n_tensors - made.n_tensors)
      return "a structure's tensors are not among the model's";
  }
  return nullptr;
}

}  // namespace

Result<> check_artefact(const Artefact& artefact) {
  const std::string& prefix = artefact.prefix;
  bool identifier = !prefix.empty() && std::isdigit(static_cast<unsigned char>(prefix[0])) == 0;
  for (const char c : prefix) identifier = identifier && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
  if (!identifier) return fail(ErrorCode::E303, fmt::format("the prefix '{}' is not a C identifier", prefix));
  if (artefact.kernel_origins.size() != artefact.kernel_names.size())
    return fail(ErrorCode::E303, "not every kernel has its origins");
  if (!artefact.kernel_work.empty() && artefact.kernel_work.size() != artefact.kernel_names.size())
    return fail(ErrorCode::E303, "not every kernel has its work");
  if (const char* wrong = wrong_sizes(artefact)) return fail(ErrorCode::E303, wrong);
  if (prefix == "fettle_artefact" || prefix.starts_with("fettle_rt"))
    return fail(ErrorCode::E303, fmt::format("the prefix '{}' is taken", prefix));
  char unknown[32];
  if (fettle_cpu_check(artefact.target_features.c_str(), unknown, sizeof unknown) == 2)
    return fail(ErrorCode::E303, fmt::format("the CPU feature '{}' is not known to rt", unknown));
  return {};
}

Result<> write_artefact(const Artefact& artefact, const std::filesystem::path& out) {
  FETTLE_TRY(const std::string header_text, artefact_header(artefact));
  std::filesystem::path header_path = out;
  header_path.replace_extension(".h");
  if (header_path == out) return fail(ErrorCode::E709, "the library would have the name of its header", out.string());
  FETTLE_TRY(OutputFile library, OutputFile::create(out, {.mode = 0777, .regular_only = true}));
  FETTLE_TRY(OutputFile header, OutputFile::create(header_path, {.regular_only = true}));
  FETTLE_TRY_VOID(header.write(header_text));
  FETTLE_TRY_VOID(header.close());

  LinkRequest request;
  for (const std::vector<uint8_t>& object : artefact.objects)
    request.objects.emplace_back(reinterpret_cast<const char*>(object.data()), object.size());
  request.objects.emplace_back(reinterpret_cast<const char*>(rt_object_begin),
                               static_cast<size_t>(rt_object_end - rt_object_begin));
  Describer describer(artefact);
  request.writers.push_back([&](int fd) { return describer.build().write(fd); });
  request.exports.emplace_back(kInfoSymbol, kInfoSymbol);
  for (const ExportedFunction& function : kExports)
    request.exports.emplace_back(artefact.prefix + "_" + function.suffix, function.symbol);
  FETTLE_TRY_VOID(link_shared_library(request, library));
  if (!artefact.constants.empty())
    FETTLE_TRY_VOID(append_segment(library.temporary(), describer.constants(), kInfoSymbol, describer.pointers()));
  FETTLE_TRY_VOID(library.commit());
  return header.commit();
}

}  // namespace fettle
