#include "driver/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "codegen/artefact/artefact.h"
#include "codegen/llvm/jit_module.h"
#include "codegen/llvm/llvm_codegen.h"
#include "driver/kernel_costs.h"
#include "graph/plan/host_program.h"
#include "ir/text.h"
#include "rt/context.h"
#include "rt/model.h"
#include "runtime/dtype.h"

namespace fettle {

/// Bytes aligned to a cache line, kept alive by whom they belong to.
struct ConstantBytes {
  std::shared_ptr<const std::byte> bytes;
  int64_t size = 0;
};

struct CompiledModel::State {
  std::string name;
  Target target;
  int threads = 1;
  std::vector<ArtefactTensor> inputs, outputs;
  std::vector<ConstantBytes> constants;
  std::vector<std::string> kernel_names, kernel_origins;  // of each call
  std::vector<std::vector<uint8_t>> objects;
  std::string entry;
  int64_t arena_bytes = 0;
  std::vector<TaskInfo> tasks;
  std::string plan_text;
};

namespace {

constexpr const char* kCompiler = "fettle 0.1.0";

Result<std::shared_ptr<std::byte>> allocate_bytes(int64_t size) {
  auto block = zeroed_bytes(size);
  if (!block) return fail(ErrorCode::E710, fmt::format("no memory for a constant of {} bytes", size));
  return block;
}

Result<std::vector<ArtefactTensor>> describe_tensors(const std::vector<std::pair<std::string, const Value*>>& values) {
  std::vector<ArtefactTensor> tensors;
  for (const auto& [name, value] : values) {
    FETTLE_TRY(const FettleDtype dtype, to_fettle_dtype(value->dtype()));
    tensors.push_back({name, dtype, value->extents()});
  }
  return tensors;
}

/// "conv1: Conv_Relu, from Conv conv1, Relu relu1"
std::string label_of(const PlannedCall& call) {
  constexpr size_t kNamed = 6;
  return call.provenance.empty() ? call.name : call.name + ", from " + to_text(call.provenance, kNamed);
}

/// Puts the constants of each call in place: as they are, in the kernel's layout, or packed by its prologue.
class ConstantBuilder {
 public:
  ConstantBuilder(const Plan& plan, const std::vector<CompiledKernel>& kernels) : plan_(plan), kernels_(kernels) {}

  /// The constants of call `index`: one address index a parameter of its kernel, -1 where it has none.
  Result<std::vector<int>> place(const PlannedCall& call) {
    const CompiledKernel& kernel = kernels_[static_cast<size_t>(call.workload)];
    std::vector<int> indices(kernel.params.size(), -1);
    std::vector<ConstantBytes> contents(kernel.params.size());
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const KernelParam& param = kernel.params[i];
      if (!param.constant || param.source < 0) continue;
      const Storage& storage =
          plan_.storages[static_cast<size_t>(call.operands[static_cast<size_t>(param.source)].storage)];
      FETTLE_CHECK(storage.constant);
      FETTLE_TRY(contents[i], laid_out(*storage.constant, param));
      if (param.is_read) indices[i] = add(contents[i]);
    }
    if (kernel.prologue_symbol.empty()) return indices;
    FETTLE_TRY(FettleKernel prologue, find_prologue(kernel));
    std::vector<void*> buffers;
    for (int p : kernel.prologue_params) {
      const auto i = static_cast<size_t>(p);
      if (kernel.params[i].source < 0) {
        const int64_t bytes = kernel.params[i].layout.physical_bytes();
        FETTLE_TRY(contents[i].bytes, allocate_bytes(bytes));
        contents[i].size = bytes;
        indices[i] = add(contents[i]);
      }
      buffers.push_back(const_cast<std::byte*>(contents[i].bytes.get()));
    }
    if (prologue(context_.get(), buffers.data(), nullptr) != FETTLE_OK)
      return fail(ErrorCode::E710, "packing the constants of " + label_of(call) + " failed");
    return indices;
  }

  std::vector<ConstantBytes> take() { return std::move(constants_); }

 private:
  int add(const ConstantBytes& content) {
    const auto [found, fresh] = known_.emplace(content.bytes.get(), static_cast<int>(constants_.size()));
    if (fresh) constants_.push_back(content);
    return found->second;
  }

  Result<ConstantBytes> laid_out(const Value& value, const KernelParam& param) {
    const ConstantTensor& tensor = *value.constant;
    if (param.layout.is_identity()) {
      ConstantBytes& plain = plain_[&value];
      if (plain.bytes) return plain;
      plain = {tensor.bytes, tensor.size_bytes};
      if (reinterpret_cast<uintptr_t>(tensor.bytes.get()) % 64 == 0)
        return plain;  // a mapped file may hold it anywhere
      FETTLE_TRY(const std::shared_ptr<std::byte> copy, allocate_bytes(tensor.size_bytes));
      std::memcpy(copy.get(), tensor.data(), static_cast<size_t>(tensor.size_bytes));
      plain.bytes = copy;
      return plain;
    }
    FETTLE_TRY(const std::shared_ptr<std::byte> bytes, allocate_bytes(param.layout.physical_bytes()));
    param.layout.to_physical(tensor.data(), bytes.get());
    return ConstantBytes{bytes, param.layout.physical_bytes()};
  }

  Result<FettleKernel> find_prologue(const CompiledKernel& kernel) {
    if (const auto found = prologues_.find(kernel.symbol); found != prologues_.end()) return found->second;
    std::vector<std::vector<uint8_t>> objects;
    for (const NamedObject& object : kernel.prologue_objects) objects.push_back(*object.bytes);
    FETTLE_TRY(JitModule module, JitModule::load(objects));
    const auto function = reinterpret_cast<FettleKernel>(module.lookup(kernel.prologue_symbol));
    if (!function) return fail(ErrorCode::E303, "the object does not define " + kernel.prologue_symbol);
    modules_.push_back(std::move(module));
    prologues_[kernel.symbol] = function;
    return function;
  }

  const Plan& plan_;
  const std::vector<CompiledKernel>& kernels_;
  rt::OwnedContext context_{1};
  std::vector<JitModule> modules_;
  std::unordered_map<std::string, FettleKernel> prologues_;
  std::vector<ConstantBytes> constants_;
  std::unordered_map<const std::byte*, int> known_;
  std::unordered_map<const Value*, ConstantBytes> plain_;  // row-major, aligned
};

HostAddress address_in(const Plan& plan, const Operand& operand) {
  const Storage& storage = plan.storages[static_cast<size_t>(operand.storage)];
  switch (storage.kind) {
    case Storage::Kind::kInput:
      return {HostAddress::Kind::kInput, storage.index, operand.offset_bytes};
    case Storage::Kind::kOutput:
      return {HostAddress::Kind::kOutput, storage.index, operand.offset_bytes};
    default:
      return {HostAddress::Kind::kArena, 0, storage.offset_bytes + operand.offset_bytes};
  }
}

/// A kernel whose tiles overlap computes elements twice, so it must not write over what it reads.
bool computes_once(const CompiledKernel& kernel) { return kernel.trace.find("tail=\"shift\"") == std::string::npos; }

/// Compiles every workload: with its trace where one is known and still good, else with the default.
Result<std::vector<CompiledKernel>> compile_workloads(const Plan& plan, const CompileOptions& options) {
  std::vector<KernelRequest> requests;
  for (const PlannedWorkload& workload : plan.workloads) {
    KernelRequest request{to_text(workload.func), {}, "k_" + workload.hash.hex(), {}, options.max_error_bound};
    if (auto trace = options.find_trace ? options.find_trace(workload.func) : std::nullopt)
      request.trace = std::move(*trace);
    requests.push_back(std::move(request));
  }
  for (const PlannedCall& call : plan.calls) {
    std::string& label = requests[static_cast<size_t>(call.workload)].label;
    if (label.empty()) label = label_of(call);
  }
  const int compile_threads = options.compile_threads > 0 ? options.compile_threads : available_threads();
  FETTLE_TRY(std::vector<CompiledKernel> kernels,
             compile_kernels(requests, options.target, options.threads, compile_threads));
  for (size_t i = 0; i < kernels.size(); ++i)
    if (!kernels[i].warning.empty() && options.warn)
      options.warn(
          fmt::format("the recorded schedule of {} is of no use any more: {}", requests[i].label, kernels[i].warning));
  return kernels;
}

}  // namespace

std::string one_a_line(const Provenance& provenance) {
  std::string lines;
  for (const Origin& origin : provenance) {
    std::string line = origin.to_string();
    std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
    lines += (lines.empty() ? "" : "\n") + line;
  }
  return lines;
}

Result<FettleDtype> to_fettle_dtype(DType dtype) {
  if (const auto found = find_dtype(dtype.to_string())) return *found;
  return fail(ErrorCode::E605, "tensors of type " + dtype.to_string() + " are not supported as inputs or outputs");
}

Result<CompiledModel> compile_model(const Graph& graph, const CompileOptions& options) {
  auto state = std::make_shared<CompiledModel::State>();
  state->name = options.name;
  state->target = options.target;
  state->threads = options.threads;
  std::vector<std::pair<std::string, const Value*>> inputs, outputs;
  for (const Value* value : graph.inputs()) inputs.emplace_back(value->name, value);
  for (const GraphOutput& output : graph.outputs()) outputs.emplace_back(output.name, output.value);
  FETTLE_TRY(state->inputs, describe_tensors(inputs));
  FETTLE_TRY(state->outputs, describe_tensors(outputs));

  PlanOptions planning{.layout = options.layout, .joined = {}};
  if (options.joined) {
    planning.joined = *options.joined;
  } else {
    KnownKernelCosts costs(options.target, nullptr, nullptr, options.max_error_bound);
    FETTLE_TRY(planning.joined, choose_joined(graph, options.layout, options.threads, costs));
  }
  FETTLE_TRY(Plan plan, make_plan(graph, planning));
  FETTLE_TRY(const std::vector<CompiledKernel> kernels, compile_workloads(plan, options));
  assign_memory(plan, [&](int workload) { return computes_once(kernels[static_cast<size_t>(workload)]); });

  ConstantBuilder constants(plan, kernels);
  std::vector<HostCall> calls;
  for (const PlannedCall& call : plan.calls) {
    const CompiledKernel& kernel = kernels[static_cast<size_t>(call.workload)];
    FETTLE_TRY(const std::vector<int> constant_index, constants.place(call));
    HostCall made{kernel.symbol, {}};
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const KernelParam& param = kernel.params[i];
      if (!param.constant)
        made.buffers.push_back(address_in(plan, call.operands[static_cast<size_t>(param.source)]));
      else if (constant_index[i] >= 0)
        made.buffers.push_back({HostAddress::Kind::kConstant, constant_index[i], 0});
      else
        made.buffers.push_back({HostAddress::Kind::kArena, 0, 0});  // never read
    }
    calls.push_back(std::move(made));
    state->kernel_names.push_back(call.name);
    state->kernel_origins.push_back(one_a_line(call.provenance));
  }
  state->constants = constants.take();
  state->arena_bytes = std::max<int64_t>(plan.arena_bytes, 64);

  HostInterface interface;
  interface.arena_bytes = state->arena_bytes;
  for (const Value* value : graph.inputs()) {
    FETTLE_TRY(const int64_t bytes, checked_bytes(value->dtype(), value->extents()));
    interface.input_bytes.push_back(bytes);
  }
  for (const GraphOutput& output : graph.outputs()) {
    FETTLE_TRY(const int64_t bytes, checked_bytes(output.value->dtype(), output.value->extents()));
    interface.output_bytes.push_back(bytes);
  }
  for (const ConstantBytes& constant : state->constants) interface.constant_bytes.push_back(constant.size);
  state->entry = "fettle_host";
  IrModule host;
  host.entry = "host";
  host.funcs["host"] = host_program("host", interface, calls);
  FETTLE_TRY(std::vector<uint8_t> host_object, compile_object(host, options.target, {.entry_name = state->entry}));
  state->objects.push_back(std::move(host_object));
  std::unordered_set<std::string> linked;
  for (const CompiledKernel& kernel : kernels)
    for (const NamedObject& object : kernel.objects)
      if (linked.insert(object.name).second) state->objects.push_back(*object.bytes);

  for (size_t w = 0; w < kernels.size(); ++w) {
    const PlannedWorkload& workload = plan.workloads[w];
    state->tasks.push_back({workload.func->name,
                            workload.hash.hex(),
                            to_text(workload.func),
                            kernels[w].trace,
                            workload.count,
                            kernels[w].tuned,
                            kernels[w].numerics,
                            kernels[w].error_bound,
                            kernels[w].seconds,
                            {}});
  }
  for (const PlannedCall& call : plan.calls)
    state->tasks[static_cast<size_t>(call.workload)].calls.push_back({call.name, call.provenance});
  state->plan_text = to_text(plan);
  return CompiledModel(std::move(state));
}

const std::vector<TaskInfo>& CompiledModel::tasks() const { return state_->tasks; }
const std::string& CompiledModel::plan_text() const { return state_->plan_text; }
int64_t CompiledModel::arena_bytes() const { return state_->arena_bytes; }
int64_t CompiledModel::constant_bytes() const {
  int64_t bytes = 0;
  for (const ConstantBytes& constant : state_->constants) bytes += constant.size;
  return bytes;
}

Result<std::shared_ptr<const FettleModelInfo>> CompiledModel::load() const {
  /// Owns all that the description points to.
  struct Loaded {
    std::shared_ptr<State> state;
    std::optional<JitModule> code;
    std::string features;
    std::vector<FettleTensor> inputs, outputs, constants;
    std::vector<const char*> kernel_names, kernel_origins;
    std::vector<int64_t> constant_sizes;
    FettleModelInfo info{};
  };
  auto loaded = std::make_shared<Loaded>();
  loaded->state = state_;
  FETTLE_TRY(loaded->code, JitModule::load(state_->objects));
  loaded->features = needed_features(state_->target.features);
  const auto describe = [](const std::vector<ArtefactTensor>& tensors, std::vector<FettleTensor>& out) {
    for (const ArtefactTensor& tensor : tensors)
      out.push_back({tensor.name.c_str(), nullptr, tensor.shape.data(), static_cast<int32_t>(tensor.shape.size()),
                     static_cast<int32_t>(tensor.dtype)});
  };
  describe(state_->inputs, loaded->inputs);
  describe(state_->outputs, loaded->outputs);
  for (const ConstantBytes& constant : state_->constants) loaded->constant_sizes.push_back(constant.size);
  for (size_t i = 0; i < state_->constants.size(); ++i)
    loaded->constants.push_back(
        {"", const_cast<std::byte*>(state_->constants[i].bytes.get()), &loaded->constant_sizes[i], 1, FETTLE_U8});
  for (const std::string& name : state_->kernel_names) loaded->kernel_names.push_back(name.c_str());
  for (const std::string& origins : state_->kernel_origins) loaded->kernel_origins.push_back(origins.c_str());
  FettleModelInfo& info = loaded->info;
  info.magic = FETTLE_MAGIC;
  info.abi_version = FETTLE_ABI_VERSION;
  info.name = state_->name.c_str();
  info.compiler = kCompiler;
  info.target_cpu = state_->target.cpu.c_str();
  info.target_features = loaded->features.c_str();
  info.inputs = loaded->inputs.data();
  info.outputs = loaded->outputs.data();
  info.kernel_names = loaded->kernel_names.data();
  info.kernel_origins = loaded->kernel_origins.data();
  info.constants = loaded->constants.data();
  info.n_inputs = static_cast<int32_t>(loaded->inputs.size());
  info.n_outputs = static_cast<int32_t>(loaded->outputs.size());
  info.n_kernels = static_cast<int32_t>(loaded->kernel_names.size());
  info.n_constants = static_cast<int32_t>(loaded->constants.size());
  info.default_threads = state_->threads;
  info.arena_bytes = state_->arena_bytes;
  info.entry = reinterpret_cast<FettleKernel>(loaded->code->lookup(state_->entry));
  info.run = fettle_rt_model_run;
  info.profile = fettle_rt_model_profile;
  info.destroy = fettle_rt_model_destroy;
  info.error = fettle_rt_model_error;
  if (!info.entry) return fail(ErrorCode::E303, "the host program is missing");
  return std::shared_ptr<const FettleModelInfo>(loaded, &loaded->info);
}

Result<Model> CompiledModel::instantiate(const FettleOptions& options) const {
  FETTLE_TRY(std::shared_ptr<const FettleModelInfo> info, load());
  return Model::make(std::move(info), options);
}

Result<> CompiledModel::write(const std::filesystem::path& out) const {
  Artefact artefact;
  artefact.name = state_->name;
  artefact.compiler = kCompiler;
  artefact.target_cpu = state_->target.cpu;
  artefact.target_features = needed_features(state_->target.features);
  artefact.inputs = state_->inputs;
  artefact.outputs = state_->outputs;
  for (size_t i = 0; i < state_->constants.size(); ++i) {
    const ConstantBytes& constant = state_->constants[i];
    artefact.constants.push_back({{fmt::format("constant{}", i), FETTLE_U8, {constant.size}},
                                  {constant.bytes.get(), static_cast<size_t>(constant.size)}});
  }
  artefact.kernel_names = state_->kernel_names;
  artefact.kernel_origins = state_->kernel_origins;
  artefact.objects = state_->objects;
  artefact.entry = state_->entry;
  artefact.default_threads = state_->threads;
  artefact.arena_bytes = state_->arena_bytes;
  return write_artefact(artefact, out);
}

}  // namespace fettle
