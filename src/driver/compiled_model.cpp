#include <fmt/format.h>

#include <set>

#include "codegen/llvm/jit_module.h"
#include "driver/compile.h"
#include "driver/compiled_state.h"
#include "rt/device.h"
#include "rt/model.h"
#include "rt/targets.h"

namespace fettle {

CompiledModel CompiledModel::joined(std::vector<CompiledModel> targets) {
  CompiledModel all = std::move(targets.at(0));
  for (size_t i = 1; i < targets.size(); ++i)
    all.targets_.insert(all.targets_.end(), targets[i].targets_.begin(), targets[i].targets_.end());
  return all;
}

Result<std::shared_ptr<const CompiledModel::State>> CompiledModel::picked() const {
  if (targets_.size() == 1) return std::shared_ptr<const State>(targets_[0]);
  std::vector<FettleModelInfo> infos(targets_.size());
  std::vector<const FettleModelInfo*> list;
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].struct_bytes = sizeof(FettleModelInfo);
    infos[i].target = targets_[i]->artefact.target.c_str();
    infos[i].target_features = targets_[i]->artefact.target_features.c_str();
    list.push_back(&infos[i]);
  }
  infos[0].targets = list.data();
  infos[0].n_targets = static_cast<int32_t>(list.size());
  char why[256];
  const FettleModelInfo* found = fettle_pick_target(infos.data(), nullptr, why, sizeof why);
  if (!found) return fail(ErrorCode::E707, why, targets_[0]->artefact.name);
  return std::shared_ptr<const State>(targets_[static_cast<size_t>(found - infos.data())]);
}

const CompiledModel::State& CompiledModel::shown() const {
  const auto found = picked();
  return found ? **found : *targets_[0];
}

std::vector<std::string> CompiledModel::targets() const {
  std::vector<std::string> names;
  for (const auto& target : targets_)
    if (!target->artefact.target.empty()) names.push_back(target->artefact.target);
  return names;
}

const std::vector<TaskInfo>& CompiledModel::tasks() const { return shown().tasks; }
const std::vector<GraphCall>& CompiledModel::calls() const { return shown().calls; }
const std::string& CompiledModel::plan_text() const { return shown().plan_text; }
const GraphFunction& CompiledModel::function() const { return shown().function; }
int64_t CompiledModel::arena_bytes() const { return shown().artefact.arena_bytes; }
int64_t CompiledModel::constant_bytes() const {
  std::set<const std::byte*> seen;
  int64_t bytes = 0;
  for (const auto& target : targets_)
    for (const ConstantBytes& constant : target->constants)
      if (constant.bytes && seen.insert(constant.bytes.get()).second) bytes += constant.size;
  return bytes;
}

int64_t CompiledModel::weight_bytes() const { return shown().weight_bytes; }

namespace {

/// A description in memory, which owns all that it points to.
struct LoadedModel {
  std::shared_ptr<const CompiledModel::State> state;
  std::optional<JitModule> code;
  std::vector<FettleTensor> inputs, outputs, constants, state_tensors;
  std::vector<FettleState> states;
  std::vector<FettleStructure> structures;
  std::vector<FettleStage> stages;
  std::vector<FettlePacking> packings;
  std::vector<std::vector<const char*>> axis_names;
  std::vector<const char*> kernel_names, kernel_origins, size_errors, step_names;
  StringList strings;
  FettleModelInfo info{};

  FettleTensor describe(const ArtefactTensor& tensor, const std::byte* data = nullptr) {
    FettleTensor made{};
    made.struct_bytes = sizeof made;
    made.dtype = tensor.dtype;
    made.rank = static_cast<int32_t>(tensor.shape.size());
    made.device = FETTLE_CPU;
    made.name = tensor.name.c_str();
    made.data = const_cast<std::byte*>(data);
    made.shape = tensor.shape.data();
    if (!tensor.axis_names.empty()) {
      std::vector<const char*>& names = axis_names.emplace_back();
      for (const std::string& name : tensor.axis_names) names.push_back(name.empty() ? nullptr : name.c_str());
      made.axis_names = names.data();
    }
    return made;
  }
};

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> made;
  for (const std::string& text : strings) made.push_back(text.c_str());
  return made;
}

template <class T>
int32_t count(const std::vector<T>& list) {
  return static_cast<int32_t>(list.size());
}

}  // namespace

Result<std::shared_ptr<const FettleModelInfo>> CompiledModel::load() const {
  auto loaded = std::make_shared<LoadedModel>();
  FETTLE_TRY(loaded->state, picked());
  const Artefact& artefact = loaded->state->artefact;
  FETTLE_TRY(loaded->code, JitModule::load(artefact.objects));
  for (const ArtefactTensor& tensor : artefact.inputs) loaded->inputs.push_back(loaded->describe(tensor));
  for (const ArtefactTensor& tensor : artefact.outputs) loaded->outputs.push_back(loaded->describe(tensor));
  for (const ArtefactConstant& constant : artefact.constants)
    loaded->constants.push_back(
        loaded->describe(constant.tensor, constant.is_packed_late ? nullptr : constant.bytes.data()));
  for (const ArtefactState& state : artefact.states) loaded->state_tensors.push_back(loaded->describe(state.tensor));
  for (size_t i = 0; i < artefact.states.size(); ++i) {
    const ArtefactState& state = artefact.states[i];
    loaded->states.push_back(
        {sizeof(FettleState), state.input, state.output, state.length_axis, &loaded->state_tensors[i]});
  }
  for (const ArtefactStructure& made : artefact.structures)
    loaded->structures.push_back({sizeof(FettleStructure), made.is_output ? 1 : 0, made.first_tensor, made.n_tensors,
                                  made.name.c_str(), made.type.c_str()});
  loaded->kernel_names = pointers(artefact.kernel_names);
  loaded->kernel_origins = pointers(artefact.kernel_origins);
  loaded->size_errors = pointers(artefact.size_errors);
  loaded->step_names = pointers(artefact.step_names);
  FettleModelInfo& info = loaded->info;
  info.magic = FETTLE_MAGIC;
  info.abi_version = FETTLE_ABI_VERSION;
  info.struct_bytes = sizeof info;
  info.default_threads = artefact.default_threads;
  info.default_streams = artefact.default_streams;
  info.name = artefact.name.c_str();
  info.compiler = artefact.compiler.c_str();
  info.target_cpu = artefact.target_cpu.c_str();
  info.target_features = artefact.target_features.c_str();
  info.inputs = loaded->inputs.data();
  info.outputs = loaded->outputs.data();
  info.states = loaded->states.data();
  info.kernel_names = loaded->kernel_names.data();
  info.kernel_origins = loaded->kernel_origins.data();
  info.constants = loaded->constants.data();
  info.size_errors = loaded->size_errors.data();
  info.n_inputs = count(loaded->inputs);
  info.n_outputs = count(loaded->outputs);
  info.n_states = count(loaded->states);
  info.n_kernels = count(loaded->kernel_names);
  info.n_constants = count(loaded->constants);
  info.n_size_errors = count(loaded->size_errors);
  info.n_sizes = artefact.n_sizes;
  info.arena_bytes = artefact.arena_bytes;
  loaded->strings = string_list(artefact.strings);
  info.string_bytes = loaded->strings.bytes.data();
  info.string_ends = loaded->strings.ends.data();
  info.n_strings = std::ssize(artefact.strings);
  info.entry = reinterpret_cast<FettleKernel>(loaded->code->lookup(artefact.entry));
  if (!artefact.resize.empty()) info.resize = reinterpret_cast<FettleKernel>(loaded->code->lookup(artefact.resize));
  for (const ArtefactStage& stage : artefact.stages)
    loaded->stages.push_back(
        {reinterpret_cast<FettleKernel>(loaded->code->lookup(stage.resize)), stage.arena_bytes_at, stage.keeps});
  info.structures = loaded->structures.data();
  info.n_structures = count(loaded->structures);
  info.stages = loaded->stages.data();
  info.n_stages = count(loaded->stages);
  info.output_stages = artefact.output_stages.data();
  info.kernel_work = artefact.kernel_work.data();
  info.step_names = loaded->step_names.data();
  info.n_steps = std::ssize(loaded->step_names);
  for (const ArtefactPacking& packing : artefact.packings)
    loaded->packings.push_back({reinterpret_cast<FettleKernel>(loaded->code->lookup(packing.run)),
                                packing.constants.data(), std::ssize(packing.constants)});
  info.packings = loaded->packings.data();
  info.n_packings = std::ssize(loaded->packings);
  if (!artefact.target.empty()) info.target = artefact.target.c_str();
  info.functions = &fettle_rt_functions;
  info.driver = loaded->state->device->driver;
  info.device = artefact.device;
  if (!info.entry || (info.n_sizes > 0 && !info.resize)) return fail(ErrorCode::E303, "the host program is missing");
  return std::shared_ptr<const FettleModelInfo>(loaded, &loaded->info);
}

Result<Model> CompiledModel::instantiate(const FettleOptions& options) const {
  FETTLE_TRY(std::shared_ptr<const FettleModelInfo> info, load());
  return Model::make(std::move(info), options);
}

Result<> CompiledModel::write(const std::filesystem::path& out) const {
  if (targets_.size() == 1) return write_artefact(targets_[0]->artefact, out);
  std::vector<Artefact> artefacts;
  for (const auto& target : targets_) artefacts.push_back(target->artefact);
  return write_artefact(artefacts, out);
}

}  // namespace fettle
