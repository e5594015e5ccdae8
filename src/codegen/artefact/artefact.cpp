#include "codegen/artefact/artefact.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/artefact/elf_segment.h"
#include "codegen/artefact/elf_symbols.h"
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

/// What the symbols of a target's code end in, so that equal names of several targets stand side by side.
std::string symbol_suffix(std::span<const Artefact> targets, size_t i) {
  return targets.size() == 1 ? "" : fmt::format(".{}", targets[i].target);
}

/// Builds the object that holds the model's descriptions.
///   strings, shapes → .rodata · structs with pointers → .data.rel.ro
/// Constants come into the library when it is linked: their pointers point to nothing of meaning before.
class Describer {
 public:
  explicit Describer(std::span<const Artefact> targets)
      : targets_(targets),
        text_(
            object_.add_section({.name = ".rodata.fettle", .type = SHT_PROGBITS, .flags = SHF_ALLOC, .alignment = 8})),
        tables_(object_.add_section(
            {.name = ".data.rel.ro.fettle", .type = SHT_PROGBITS, .flags = SHF_ALLOC | SHF_WRITE, .alignment = 8})),
        note_(object_.add_section(spare_note())) {}

  /// Once.
  ObjectBuilder build() {
    std::vector<uint64_t> infos;
    for (size_t i = 0; i < targets_.size(); ++i) infos.push_back(add_info(targets_[i], symbol_suffix(targets_, i)));
    object_.define(kInfoSymbol, tables_, infos[0], sizeof(FettleModelInfo));  // the table's first
    if (targets_.size() == 1) return std::move(object_);
    const std::vector<FettleModelInfo*> blank(infos.size());
    const uint64_t list = add_table(blank.data(), blank.size() * sizeof(blank[0]));
    for (size_t i = 0; i < infos.size(); ++i) {
      point_to_table(list + i * sizeof(blank[0]), infos[i]);
      point_to_table(infos[i] + offsetof(FettleModelInfo, targets), list);
    }
    return std::move(object_);
  }

  /// What is to be appended to the library, and where tables point to it: from the symbol on.
  const ElfSection& constants() const { return constants_; }
  const std::vector<SegmentPointer>& pointers() const { return pointers_; }

 private:
  /// The description of one target, whose symbols end so; returns where it is.
  uint64_t add_info(const Artefact& artefact, const std::string& suffix) {
    FettleModelInfo info{};
    info.magic = FETTLE_MAGIC;
    info.abi_version = FETTLE_ABI_VERSION;
    info.struct_bytes = sizeof info;
    info.n_inputs = static_cast<int32_t>(artefact.inputs.size());
    info.n_outputs = static_cast<int32_t>(artefact.outputs.size());
    info.n_kernels = static_cast<int32_t>(artefact.kernel_names.size());
    info.n_constants = static_cast<int32_t>(artefact.constants.size());
    info.n_states = static_cast<int32_t>(artefact.states.size());
    info.n_sizes = artefact.n_sizes;
    info.n_size_errors = static_cast<int32_t>(artefact.size_errors.size());
    info.n_stages = static_cast<int32_t>(artefact.stages.size());
    info.n_structures = static_cast<int32_t>(artefact.structures.size());
    info.default_threads = artefact.default_threads;
    info.default_streams = artefact.default_streams;
    info.device = artefact.device;
    info.arena_bytes = artefact.arena_bytes;
    info.n_strings = std::ssize(artefact.strings);
    info.n_steps = std::ssize(artefact.step_names);
    info.n_packings = std::ssize(artefact.packings);
    info.n_targets = targets_.size() > 1 ? static_cast<int32_t>(targets_.size()) : 0;
    const uint64_t at = add_table(&info, sizeof info);
    point_to_string(at + offsetof(FettleModelInfo, name), artefact.name);
    point_to_string(at + offsetof(FettleModelInfo, compiler), artefact.compiler);
    point_to_string(at + offsetof(FettleModelInfo, target_cpu), artefact.target_cpu);
    point_to_string(at + offsetof(FettleModelInfo, target_features), artefact.target_features);
    point_to_table(at + offsetof(FettleModelInfo, inputs), add_tensors(artefact.inputs));
    point_to_table(at + offsetof(FettleModelInfo, outputs), add_tensors(artefact.outputs));
    point_to_table(at + offsetof(FettleModelInfo, kernel_names), add_strings(artefact.kernel_names));
    point_to_table(at + offsetof(FettleModelInfo, kernel_origins), add_strings(artefact.kernel_origins));
    point_to_table(at + offsetof(FettleModelInfo, states), add_states(artefact));
    point_to_table(at + offsetof(FettleModelInfo, structures), add_structures(artefact));
    point_to_table(at + offsetof(FettleModelInfo, constants), add_constants(artefact));
    point_to_table(at + offsetof(FettleModelInfo, size_errors), add_strings(artefact.size_errors));
    object_.point_to_symbol(tables_, at + offsetof(FettleModelInfo, entry), artefact.entry + suffix);
    if (!artefact.resize.empty())
      object_.point_to_symbol(tables_, at + offsetof(FettleModelInfo, resize), artefact.resize + suffix);
    object_.point_to_symbol(tables_, at + offsetof(FettleModelInfo, functions), "fettle_rt_functions");
    if (!artefact.driver.empty())
      object_.point_to_symbol(tables_, at + offsetof(FettleModelInfo, driver), artefact.driver);
    if (!artefact.kernel_work.empty())
      object_.point(tables_, at + offsetof(FettleModelInfo, kernel_work), text_,
                    add_text(artefact.kernel_work.data(), artefact.kernel_work.size() * sizeof(FettleKernelWork)));
    point_to_table(at + offsetof(FettleModelInfo, step_names), add_strings(artefact.step_names));
    if (!artefact.strings.empty()) {
      const StringList strings = string_list(artefact.strings);
      object_.point(tables_, at + offsetof(FettleModelInfo, string_bytes), text_,
                    add_text(strings.bytes.data(), strings.bytes.size()));
      object_.point(tables_, at + offsetof(FettleModelInfo, string_ends), text_,
                    add_text(strings.ends.data(), strings.ends.size() * sizeof(int64_t)));
    }
    if (!artefact.stages.empty()) {
      point_to_table(at + offsetof(FettleModelInfo, stages), add_stages(artefact, suffix));
      object_.point(tables_, at + offsetof(FettleModelInfo, output_stages), text_,
                    add_text(artefact.output_stages.data(), artefact.output_stages.size() * sizeof(int32_t)));
    }
    if (!artefact.target.empty()) point_to_string(at + offsetof(FettleModelInfo, target), artefact.target);
    if (!artefact.packings.empty())
      point_to_table(at + offsetof(FettleModelInfo, packings), add_packings(artefact, suffix));
    return at;
  }
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
  uint64_t add_states(const Artefact& artefact) {
    std::vector<FettleState> states;
    std::vector<ArtefactTensor> tensors;
    for (const ArtefactState& state : artefact.states) {
      states.push_back({sizeof(FettleState), state.input, state.output, state.length_axis, nullptr});
      tensors.push_back(state.tensor);
    }
    const uint64_t at = add_table(states.data(), states.size() * sizeof(FettleState));
    const uint64_t first = add_tensors(tensors);
    for (size_t i = 0; i < states.size(); ++i)
      point_to_table(at + i * sizeof(FettleState) + offsetof(FettleState, tensor), first + i * sizeof(FettleTensor));
    return at;
  }
  uint64_t add_structures(const Artefact& artefact) {
    std::vector<FettleStructure> structures;
    for (const ArtefactStructure& made : artefact.structures)
      structures.push_back(
          {sizeof(FettleStructure), made.is_output ? 1 : 0, made.first_tensor, made.n_tensors, nullptr, nullptr});
    const uint64_t at = add_table(structures.data(), structures.size() * sizeof(FettleStructure));
    for (size_t i = 0; i < structures.size(); ++i) {
      const uint64_t one = at + i * sizeof(FettleStructure);
      point_to_string(one + offsetof(FettleStructure, name), artefact.structures[i].name);
      point_to_string(one + offsetof(FettleStructure, type), artefact.structures[i].type);
    }
    return at;
  }
  uint64_t add_stages(const Artefact& artefact, const std::string& suffix) {
    std::vector<FettleStage> stages;
    for (const ArtefactStage& stage : artefact.stages) stages.push_back({nullptr, stage.arena_bytes_at, stage.keeps});
    const uint64_t at = add_table(stages.data(), stages.size() * sizeof(FettleStage));
    for (size_t i = 0; i < stages.size(); ++i)
      object_.point_to_symbol(tables_, at + i * sizeof(FettleStage) + offsetof(FettleStage, resize),
                              artefact.stages[i].resize + suffix);
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
  uint64_t add_packings(const Artefact& artefact, const std::string& suffix) {
    std::vector<FettlePacking> packings;
    for (const ArtefactPacking& made : artefact.packings)
      packings.push_back({nullptr, nullptr, std::ssize(made.constants)});
    const uint64_t at = add_table(packings.data(), packings.size() * sizeof(FettlePacking));
    for (size_t i = 0; i < packings.size(); ++i) {
      const ArtefactPacking& made = artefact.packings[i];
      const uint64_t one = at + i * sizeof(FettlePacking);
      object_.point_to_symbol(tables_, one + offsetof(FettlePacking, run), made.run + suffix);
      object_.point(tables_, one + offsetof(FettlePacking, constants), text_,
                    add_text(made.constants.data(), made.constants.size() * sizeof(int32_t)));
    }
    return at;
  }
  uint64_t add_constants(const Artefact& artefact) {
    std::vector<ArtefactTensor> tensors;
    for (const ArtefactConstant& constant : artefact.constants) tensors.push_back(constant.tensor);
    const uint64_t at = add_tensors(tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (artefact.constants[i].is_packed_late) continue;
      const std::span<const std::byte> bytes = artefact.constants[i].bytes;
      const auto [known, fresh] = blobs_.try_emplace({bytes.data(), bytes.size()}, 0);
      if (fresh) known->second = constants_.add_blob(bytes, bytes.size() >= kLarge ? kPage : 64);
      const uint64_t pointer = at + i * sizeof(FettleTensor) + offsetof(FettleTensor, data);
      object_.point(tables_, pointer, note_, 0);
      pointers_.push_back({pointer, known->second});
    }
    return at;
  }

  const std::span<const Artefact> targets_;
  ObjectBuilder object_;
  int text_, tables_, note_;
  ElfSection constants_;
  std::map<std::pair<const std::byte*, size_t>, uint64_t> blobs_;  // where each is in the segment
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

Result<> write_artefact(const Artefact& artefact, const std::filesystem::path& out) {
  return write_artefact(std::span(&artefact, 1), out);
}

Result<> write_artefact(std::span<const Artefact> targets, const std::filesystem::path& out) {
  FETTLE_TRY(const std::string header_text, artefact_header(targets));
  const std::string& prefix = targets[0].prefix;
  std::filesystem::path header_path = out;
  header_path.replace_extension(".h");
  if (header_path == out) return fail(ErrorCode::E709, "the library would have the name of its header", out.string());
  FETTLE_TRY(OutputFile library, OutputFile::create(out, {.mode = 0777, .regular_only = true}));
  FETTLE_TRY(OutputFile header, OutputFile::create(header_path, {.regular_only = true}));
  FETTLE_TRY_VOID(header.write(header_text));
  FETTLE_TRY_VOID(header.close());

  LinkRequest request;
  std::vector<std::vector<uint8_t>> renamed;
  for (size_t i = 0; targets.size() > 1 && i < targets.size(); ++i)
    FETTLE_TRY_VOID(rename_symbols(targets[i].objects, symbol_suffix(targets, i), renamed));
  for (const std::vector<uint8_t>& object : targets.size() > 1 ? renamed : targets[0].objects)
    request.objects.emplace_back(reinterpret_cast<const char*>(object.data()), object.size());
  request.objects.emplace_back(reinterpret_cast<const char*>(rt_object_begin),
                               static_cast<size_t>(rt_object_end - rt_object_begin));
  Describer describer(targets);
  request.writers.push_back([&](int fd) { return describer.build().write(fd); });
  request.exports.emplace_back(kInfoSymbol, kInfoSymbol);
  for (const ExportedFunction& function : kExports)
    request.exports.emplace_back(prefix + "_" + function.suffix, function.symbol);
  FETTLE_TRY_VOID(link_shared_library(request, library));
  if (!describer.pointers().empty())
    FETTLE_TRY_VOID(append_segment(library.temporary(), describer.constants(), kInfoSymbol, describer.pointers()));
  FETTLE_TRY_VOID(library.commit());
  return header.commit();
}

}  // namespace fettle
