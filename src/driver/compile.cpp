#include "driver/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_set>

#include "base/version.h"
#include "codegen/artefact/artefact.h"
#include "codegen/device/host_stub.h"
#include "codegen/llvm/llvm_codegen.h"
#include "driver/alternation.h"
#include "driver/call_graph.h"
#include "driver/compiled_state.h"
#include "driver/necessary_work.h"
#include "graph/plan/host_program.h"
#include "graph/strings.h"
#include "rt/device.h"
#include "runtime/dtype.h"

namespace fettle {

namespace {

Result<std::vector<ArtefactTensor>> describe_tensors(const std::vector<std::pair<std::string, const Value*>>& values) {
  std::vector<ArtefactTensor> tensors;
  for (const auto& [name, value] : values) {
    FETTLE_TRY(const FettleDtype dtype, to_fettle_dtype(value->dtype()));
    ArtefactTensor tensor{name, dtype, {}, {}};
    for (const Dim& dim : value->shape()) {
      tensor.shape.push_back(dim.is_number() ? dim.value() : -1);
      tensor.axis_names.push_back(dim.is_number() ? "" : dim.to_string());
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

HostAddress address_of(const Plan& plan, Operand operand) {
  const Storage& storage = plan.storages[static_cast<size_t>(operand.storage)];
  if (storage.in_place_of >= 0) return address_of(plan, {storage.in_place_of, operand.offset_bytes});
  switch (storage.kind) {
    case Storage::Kind::kInput:
      return {HostAddress::Kind::kInput, storage.index, operand.offset_bytes};
    case Storage::Kind::kOutput:
      return {HostAddress::Kind::kOutput, storage.index, operand.offset_bytes};
    case Storage::Kind::kArena:
      return {HostAddress::Kind::kArena, storage.stage, storage.offset_bytes + operand.offset_bytes};
    case Storage::Kind::kState:
      return {HostAddress::Kind::kState, storage.index, operand.offset_bytes};
    case Storage::Kind::kCounter:
      return {HostAddress::Kind::kCounter, storage.index, operand.offset_bytes};
    case Storage::Kind::kWindow: {
      HostAddress address = address_of(plan, {storage.base, storage.offset_bytes + operand.offset_bytes});
      if (storage.loop >= 0) address.steps.emplace_back(storage.loop, storage.step_bytes);
      return address;
    }
    case Storage::Kind::kConstant:
      break;  // the prologue alone reads it
  }
  return {};
}

/// Where an argument lies: a constant, or the operand `source` of the call.
HostAddress argument_address(const Plan& plan, const PlannedCall& call, int source, int constant) {
  if (constant >= 0) return {HostAddress::Kind::kConstant, constant, 0};
  return source < 0 ? HostAddress{} : address_of(plan, call.operands[static_cast<size_t>(source)]);
}

/// A name for a tracer, behind the others; returns its number, -1 for what stands for no node.
int add_step_name(std::vector<std::string>& names, const Node* node, std::string_view part = "") {
  if (!node) return -1;
  const std::string of =
      node->provenance.empty() ? fmt::format("{} {}", node->op->name, node->name) : node->provenance[0].to_string();
  names.push_back(of + std::string(part));
  return static_cast<int>(names.size()) - 1;
}

/// What a run of the workload takes, for a tracer.
FettleKernelWork work_of(const PlannedWorkload& workload) {
  if (!workload.func->int_params.empty()) return {-1, -1, -1};
  const NecessaryWork work = necessary_work(workload.func);
  return {work.flops, work.read_bytes + work.written_bytes, -1};
}

/// calls: the plan's, then those of its host functions. names: of loops and branches, which are added.
std::vector<HostStep> host_steps(const Plan& plan, const std::vector<PlanStep>& steps,
                                 const std::vector<HostCall>& calls, std::vector<std::string>& names) {
  const auto at = [&](const Operand& operand) {
    return operand.storage < 0 ? std::optional<HostAddress>() : address_of(plan, operand);
  };
  std::vector<HostStep> made;
  for (const PlanStep& step : steps) {
    if (step.kind == PlanStep::Kind::kCall && copies_to_itself(plan, plan.calls[static_cast<size_t>(step.call)]))
      continue;
    HostStep host;
    switch (step.kind) {
      case PlanStep::Kind::kCall:
        host.call = calls[static_cast<size_t>(step.call)];
        break;
      case PlanStep::Kind::kHost:
        host.call = calls[plan.calls.size() + static_cast<size_t>(step.call)];
        break;
      case PlanStep::Kind::kBranch:
        host.kind = HostStep::Kind::kBranch;
        host.mark = add_step_name(names, step.node, ": then");
        host.otherwise_mark = add_step_name(names, step.node, ": else");
        break;
      case PlanStep::Kind::kLoop:
        host.kind = HostStep::Kind::kLoop;
        host.mark = add_step_name(names, step.node);
        break;
      case PlanStep::Kind::kSections:
        host.kind = HostStep::Kind::kSections;
        break;
      case PlanStep::Kind::kSection:
        host.kind = HostStep::Kind::kSection;
        break;
      case PlanStep::Kind::kSizes:
        host.kind = HostStep::Kind::kSizes;
        host.stage = step.stage;
        for (const PlannedInteger& read : step.read) host.read.push_back({at(read.at), read.bytes, read.number});
        break;
    }
    host.condition = at(step.condition);
    host.body = host_steps(plan, step.body, calls, names);
    host.otherwise = host_steps(plan, step.otherwise, calls, names);
    host.loop = step.loop;
    host.limit = step.limit;
    host.limit_at = at(step.limit_at);
    if (host.limit_at)
      host.limit_bytes = plan.storages[static_cast<size_t>(step.limit_at.storage)].dtype.element_bytes();
    made.push_back(std::move(host));
  }
  return made;
}

/// "oneDNN 3.2.0": those whose kernels the model has.
std::set<std::string> libraries_of(const std::vector<BuiltKernel>& kernels) {
  std::set<std::string> libraries;
  for (const BuiltKernel& kernel : kernels)
    if (const std::string& source = kernel.info.source; !source.empty())
      libraries.insert(source.substr(0, source.find(':')));
  return libraries;
}

}  // namespace

std::string one_a_line(const Provenance& provenance) {
  std::string lines;
  for (const Origin& origin : provenance) {
    std::string line = origin.to_string();
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
    lines += (lines.empty() ? "" : "\n") + line;
  }
  return lines;
}

Result<FettleDtype> to_fettle_dtype(DType dtype) {
  if (const auto found = find_dtype(dtype.to_string())) return *found;
  return fail(ErrorCode::E605, "tensors of type " + dtype.to_string() + " are not supported as inputs or outputs");
}

Result<CompiledModel> package_model(const BuiltModel& built) {
  const PlannedModel& planned = built.planned;
  const Graph& graph = *planned.graph;
  const Plan& plan = planned.plan;
  auto state = std::make_shared<CompiledModel::State>();
  Artefact& artefact = state->artefact;
  const Target& target = planned.options.target;
  artefact.name = planned.options.name;
  artefact.compiler = name_and_version();
  for (const std::string& library : libraries_of(built.kernels)) artefact.compiler += ", needs " + library;
  FETTLE_TRY(state->device, device_of(target));
  const bool on_device = !state->device->shares_host_memory();
  // The host program of such a model starts its kernels. Not every processor has a multiplication that adds.
  const Target host_target = on_device ? host_of_devices() : target;
  if (on_device) {
    artefact.device = state->device->driver->device;
    artefact.driver = state->device->driver_symbol;
  }
  artefact.target = planned.options.target_name;
  artefact.target_cpu = on_device ? fmt::format("{} {}", target.kind, target.cpu) : target.cpu;
  artefact.default_threads = planned.options.threads;
  artefact.default_streams = target.streams;
  artefact.entry = "fettle_host";
  artefact.arena_bytes = planned.arena_bytes();
  std::vector<std::pair<std::string, const Value*>> inputs, outputs;
  for (const Value* value : graph.inputs()) inputs.emplace_back(value->name, value);
  for (const GraphOutput& output : graph.outputs()) outputs.emplace_back(output.name, output.value);
  FETTLE_TRY(artefact.inputs, describe_tensors(inputs));
  FETTLE_TRY(artefact.outputs, describe_tensors(outputs));
  for (const GraphState& kept : graph.states()) {
    if (kept.input->dtype().is_string())
      return fail(ErrorCode::E605, "a state cannot hold strings: they last for one call", kept.input->name);
    const auto input = std::ranges::find(graph.inputs(), kept.input) - graph.inputs().begin();
    FETTLE_TRY(const FettleDtype dtype, to_fettle_dtype(kept.input->dtype()));
    artefact.states.push_back(
        {{kept.input->name, dtype, kept.capacity, {}}, static_cast<int32_t>(input), kept.output, kept.axis});
  }
  for (const GraphStructure& made : graph.structures())
    artefact.structures.push_back({made.name, made.type, made.is_output, made.first, made.count});
  state->constants = built.constants;
  for (const ConstantBytes& constant : state->constants) {
    const auto bytes = static_cast<size_t>(constant.bytes ? constant.size : 0);
    artefact.constants.push_back(
        {{fmt::format("constant{}", artefact.constants.size()), FETTLE_U8, {constant.size}, {}},
         {constant.bytes.get(), bytes},
         !constant.bytes});
  }
  for (const LateConstants::Packing& packing : built.packings)
    artefact.packings.push_back({packing.entry, {packing.constants.begin(), packing.constants.end()}});
  for (const int64_t number : planned.constants.strings) artefact.strings.emplace_back(string_of(number));
  state->weight_bytes = planned.constants.weight_bytes;
  state->tasks = planned.tasks();
  state->plan_text = to_text(plan);
  state->function = graph.function();
  state->calls = call_graph(plan);

  std::vector<FettleKernelWork> work;  // of each workload
  for (const PlannedWorkload& workload : plan.workloads) work.push_back(work_of(workload));
  std::vector<HostCall> calls;
  const std::vector<int> turns = alternating_calls(planned);
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const PlannedCall& call = plan.calls[c];
    HostCall made{static_cast<int>(c), built.kernels[static_cast<size_t>(call.workload)].entry, {}, {}};
    const std::vector<KernelParam>& params = planned.schedules[static_cast<size_t>(call.workload)].info.params;
    for (size_t i = 0; i < params.size(); ++i)
      made.buffers.push_back(argument_address(plan, call, params[i].source, planned.constants.of_call[c][i]));
    made.sizes = call.sizes;
    bool alternates = built.kernels[static_cast<size_t>(call.workload)].alternates;
    for (const PlannedClass& of : planned.classes) {
      if (of.workload != call.workload) continue;
      const SizeClass& sizes = planned.size_class(of);
      made.classes.push_back({sizes.param, sizes.most, built.kernels[of.request].entry});
      alternates = alternates || built.kernels[of.request].alternates;
    }
    if (alternates) made.turn = turns[c];
    calls.push_back(std::move(made));
    const std::string& source = built.kernels[static_cast<size_t>(call.workload)].info.source;
    artefact.kernel_names.push_back(source.empty() ? call.name : fmt::format("{} by {}", call.name, source));
    artefact.kernel_origins.push_back(one_a_line(call.provenance));
    artefact.kernel_work.push_back(work[static_cast<size_t>(call.workload)]);
    artefact.kernel_work.back().arena_bytes = call.live_bytes;
  }
  for (size_t c = 0; c < plan.host_calls.size(); ++c) {
    const PlannedHostCall& call = plan.host_calls[c];
    HostCall made{static_cast<int>(calls.size()), call.function, {}, call.integers};
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const int constant = planned.constants.of_host_call[c][i];
      made.buffers.push_back(constant >= 0 ? HostAddress{HostAddress::Kind::kConstant, constant, 0}
                                           : address_of(plan, call.operands[i]));
    }
    calls.push_back(std::move(made));
    artefact.kernel_names.push_back(on_device ? call.name + " on the CPU" : call.name);
    artefact.kernel_origins.push_back(one_a_line(call.provenance));
    artefact.kernel_work.push_back({-1, -1, call.live_bytes});
  }
  HostInterface interface;
  interface.arena_bytes = max(plan.arena_bytes, 64);
  interface.n_loops = plan.n_loops;
  interface.on_device = on_device;
  interface.counters_at = planned.counters_at;
  for (const SizeStage& stage : plan.stages) interface.stage_arena_bytes.push_back(stage.arena_bytes);
  for (const GraphOutput& output : graph.outputs()) {
    int stage = 0;
    for (const Dim& dim : output.value->shape()) stage = std::max(stage, stage_of(plan, dim));
    interface.late_outputs.push_back(stage > 0);
    artefact.output_stages.push_back(stage);
  }
  for (const auto& [values, list] : {std::pair{&inputs, &interface.input_bytes}, {&outputs, &interface.output_bytes}})
    for (const auto& [name, value] : *values)
      list->push_back(element_count(value->shape()) * value->dtype().element_bytes());
  for (const GraphState& kept : graph.states())
    interface.state_bytes.push_back(element_count(Shape(kept.capacity.begin(), kept.capacity.end())) *
                                    kept.input->dtype().element_bytes());
  for (const ConstantBytes& constant : state->constants) interface.constant_bytes.push_back(constant.size);
  IrModule host;
  host.entry = "host";
  SizeTable table(graph, plan);
  host.funcs["host"] = host_program("host", interface, host_steps(plan, plan.steps, calls, artefact.step_names), table);
  FETTLE_TRY(std::vector<uint8_t> host_object,
             compile_object(host, host_target, {.contract = !on_device, .entry_name = artefact.entry}));
  artefact.objects.push_back(std::move(host_object));
  if (!table.empty()) {
    const std::vector<Func> programs = table.programs("sizes");
    for (size_t stage = 0; stage < programs.size(); ++stage) {
      IrModule sizes;
      sizes.entry = programs[stage]->name;
      sizes.funcs[sizes.entry] = programs[stage];
      const std::string symbol = "fettle_" + sizes.entry;
      if (stage == 0)
        artefact.resize = symbol;
      else
        artefact.stages.push_back({symbol, table.arena_of(static_cast<int>(stage)), plan.stages[stage - 1].keeps});
      FETTLE_TRY(std::vector<uint8_t> object,
                 compile_object(sizes, host_target, {.contract = !on_device, .entry_name = symbol}));
      artefact.objects.push_back(std::move(object));
    }
    artefact.n_sizes = static_cast<int32_t>(table.entries().size());
    artefact.size_errors = table.errors();
  }
  std::unordered_set<std::string> linked;
  const auto link = [&](const KernelImage& image) {
    for (const CodePart& object : image)
      if (linked.insert(object.name).second) artefact.objects.push_back(*object.bytes);
  };
  std::set<std::string> packed;
  for (const LateConstants::Packing& packing : built.packings) packed.insert(packing.entry);
  for (const BuiltKernel& kernel : built.kernels) {
    link(kernel.image);
    if (packed.contains(kernel.prologue_entry)) link(kernel.prologue_image);
  }
  artefact.target_features = needed_features(host_target.features, artefact.objects);
  return CompiledModel(std::move(state));
}

namespace {

Result<CompiledModel> compile_planned(Result<PlannedModel> planned) {
  if (!planned) return fail(std::move(planned.error()));
  FETTLE_TRY(const BuiltModel built, build_model(std::move(*planned)));
  return package_model(built);
}

}  // namespace

Result<CompiledModel> compile_model(const Graph& graph, const CompileOptions& options) {
  Plans plans(graph);
  return compile_model(plans, options);
}

Result<CompiledModel> compile_model(Plans& plans, const CompileOptions& options) {
  return compile_planned(plan_model(plans, options));
}

Result<CompiledModel> compile_known(Plans& plans, std::shared_ptr<Database> database, CompileOptions options) {
  return compile_planned(plan_known(plans, std::move(database), std::move(options)));
}

}  // namespace fettle
