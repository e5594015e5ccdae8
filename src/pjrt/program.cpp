#include "pjrt/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "driver/build_model.h"
#include "driver/open.h"
#include "frontend/stablehlo/import.h"
#include "frontend/stablehlo/read.h"
#include "graph/random_calls.h"
#include "pjrt/compile_options.h"

namespace fettle::pjrt {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// The function that is run: `main`, or the only one that others may call.
Result<const stablehlo::Function*> entry_function(const stablehlo::Module& module) {
  if (const stablehlo::Function* main = module.find("main")) return main;
  const stablehlo::Function* only = nullptr;
  for (const stablehlo::Function& function : module.functions) {
    if (!function.is_public) continue;
    if (only) return fail(ErrorCode::E602, "the module has several public functions, and none of them is 'main'");
    only = &function;
  }
  if (!only) return fail(ErrorCode::E602, "the module has no public function");
  return only;
}

Result<ShapeRef> shape_of(const stablehlo::Type& type, const std::string& what) {
  if (type.kind == stablehlo::Type::Kind::kToken) return make_shape(PJRT_Buffer_Type_TOKEN, {});
  if (type.kind != stablehlo::Type::Kind::kTensor || !type.is_ranked)
    return fail(ErrorCode::E603,
                fmt::format("{} is of type {}: arrays and tokens can be given", what, type.to_string()));
  const auto element = buffer_type(type.element);
  if (!element)
    return fail(ErrorCode::E603, fmt::format("{} is of type {}, whose elements no array has", what, type.to_string()));
  for (const int64_t extent : type.shape)
    if (extent < 0)
      return fail(ErrorCode::E603, fmt::format("{} is of type {}: open extents cannot be given to a program of JAX; "
                                               "compile for the shapes that it shall have",
                                               what, type.to_string()));
  return make_shape(*element, type.shape);
}

bool is_donated(const stablehlo::Attributes& attributes) {
  if (stablehlo::find_attribute(attributes, "tf.aliasing_output")) return true;
  const stablehlo::Attribute* donor = stablehlo::find_attribute(attributes, "jax.buffer_donor");
  const bool* value = donor ? donor->get_if<bool>() : nullptr;
  return value && *value;
}

Result<ProgramInterface> interface_of(const stablehlo::Module& module) {
  FETTLE_TRY(const stablehlo::Function* entry, entry_function(module));
  ProgramInterface made;
  made.name = module.name.empty() ? entry->name : module.name;
  for (size_t i = 0; i < entry->body.argument_types.size(); ++i) {
    FETTLE_TRY(ShapeRef shape, shape_of(entry->body.argument_types[i], fmt::format("argument {}", i)));
    made.inputs.push_back(std::move(shape));
    made.donated.push_back(i < entry->argument_attributes.size() && is_donated(entry->argument_attributes[i]));
  }
  for (size_t i = 0; i < entry->result_types.size(); ++i) {
    FETTLE_TRY(ShapeRef shape, shape_of(entry->result_types[i], fmt::format("result {}", i)));
    made.outputs.push_back(std::move(shape));
  }
  return made;
}

/// Numbers of those that are tensors, in order.
std::vector<int> tensors_among(const std::vector<ShapeRef>& shapes) {
  std::vector<int> made;
  for (size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i]->type != PJRT_Buffer_Type_TOKEN) made.push_back(static_cast<int>(i));
  return made;
}

/// Each output gets the memory of one donated input, each of these goes to one output.
std::vector<int> written_over(const ProgramInterface& interface, const PlannedModel& planned) {
  std::vector<int> made(interface.outputs.size(), -1);
  const std::vector<int> inputs = tensors_among(interface.inputs), outputs = tensors_among(interface.outputs);
  const auto computes_once = [&](int workload) {
    return planned.schedules[static_cast<size_t>(workload)].info.computes_once;
  };
  for (const OverwrittenInput& pair : overwritten_inputs(planned.plan, computes_once)) {
    // Effects, and the number of calls, are nobody's.
    if (static_cast<size_t>(pair.output) >= outputs.size() || static_cast<size_t>(pair.input) >= inputs.size())
      continue;
    const int input = inputs[static_cast<size_t>(pair.input)];
    int& of_output = made[static_cast<size_t>(outputs[static_cast<size_t>(pair.output)])];
    if (of_output < 0 && interface.donated[static_cast<size_t>(input)] && std::ranges::count(made, input) == 0)
      of_output = input;
  }
  return made;
}

Result<> check_devices(std::string_view options) {
  FETTLE_TRY(const ProgramOptions chosen, read_compile_options(options));
  if (chosen.replicas <= 1 && chosen.partitions <= 1) return {};
  return fail(ErrorCode::E603,
              fmt::format("{} replicas of {} partitions: Fettle has one device", chosen.replicas, chosen.partitions));
}

/// Whether the model's tensors are these, in order; tokens are left out.
bool are_tensors(const std::vector<ShapeRef>& shapes, std::span<const FettleTensor> tensors) {
  size_t at = 0;
  for (const ShapeRef& shape : shapes) {
    if (shape->type == PJRT_Buffer_Type_TOKEN) continue;
    if (at == tensors.size()) return false;
    const FettleTensor& tensor = tensors[at++];
    const std::vector<int64_t> dims = shape->tensor_dims();
    if (tensor.dtype != find_element(shape->type)->dtype) return false;
    if (!std::ranges::equal(dims, std::span(tensor.shape, static_cast<size_t>(tensor.rank)))) return false;
  }
  return at == tensors.size();
}

bool has_random_calls(const Model& model) {
  return !model.inputs().empty() && std::string_view(model.inputs().back().name) == kRandomCalls;
}

/// Each context of the process counts its calls from another number, so that no two draw the same.
Result<> begin_random_calls(ModelContext& context) {
  static std::atomic<int64_t> contexts{0};
  int64_t first = contexts.fetch_add(1) << 32;
  FettleTensor number = context.model().inputs().back();
  number.data = &first;
  return context.set_state(kRandomCalls, number);
}

std::string list(std::span<const FettleTensor> tensors) {
  std::string text;
  for (const FettleTensor& tensor : tensors)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", tensor_type_to_string(tensor));
  return text;
}
std::string list(const std::vector<ShapeRef>& shapes) {
  std::string text;
  for (const ShapeRef& shape : shapes) text += fmt::format("{}{}", text.empty() ? "" : ", ", shape->to_string());
  return text;
}

}  // namespace

Result<> check_interface(const ProgramInterface& interface, const Model& model) {
  // Random numbers have a state, and the last call with an effect leaves a result: nobody is given these.
  std::span<const FettleTensor> inputs = model.inputs(), outputs = model.outputs();
  if (has_random_calls(model)) {
    inputs = inputs.first(inputs.size() - 1);
    outputs = outputs.first(outputs.size() - 1);
  }
  if (!outputs.empty() && std::string_view(outputs.back().name) == "effects" &&
      !are_tensors(interface.outputs, outputs))
    outputs = outputs.first(outputs.size() - 1);
  if (are_tensors(interface.inputs, inputs) && are_tensors(interface.outputs, outputs)) return {};
  return fail(ErrorCode::E710,
              fmt::format("'{}' takes {} and gives {}, and its model takes {} and gives {}", interface.name,
                          list(interface.inputs), list(interface.outputs), list(inputs), list(outputs)));
}

ProgramRun::ProgramRun(const PJRT_Client& client) : team(shared_team(client.threads)) {
  options.struct_bytes = sizeof options;
  options.host_team = &team;
}

Result<ProgramRef> compile_program(const PJRT_Client& client, std::string_view code, std::string_view options) {
  FETTLE_TRY_VOID(check_devices(options));
  FETTLE_TRY(const stablehlo::Module module, stablehlo::read_module(bytes_of(code), "program"));
  auto program = std::make_shared<Program>();
  FETTLE_TRY(program->interface, interface_of(module));
  FETTLE_TRY(Graph graph, import_stablehlo(module));
  program->fingerprint = digest_bytes(code);
  program->code = code;
  program->options = options;
  const ImportedModel imported{std::make_shared<const Graph>(std::move(graph)), program->interface.name,
                               program->fingerprint};
  const OpenOptions open{.threads = client.threads, .database = client.database};
  FETTLE_TRY(PlannedModel planned, plan_source(imported, open));
  program->graph = planned.graph;
  program->interface.written_over = written_over(program->interface, planned);
  FETTLE_TRY(const BuiltModel built, build_model(std::move(planned)));
  FETTLE_TRY(program->compiled, package_model(built));
  program->temporary_bytes = program->compiled->arena_bytes();
  FETTLE_TRY(program->model, program->compiled->instantiate(ProgramRun(client).options));
  FETTLE_TRY_VOID(check_interface(program->interface, program->model));
  return program;
}

Result<std::unique_ptr<ProgramCall>> Program::take_call() {
  if (ProgramCall* call = at_hand.exchange(nullptr, std::memory_order_acquire))
    return std::unique_ptr<ProgramCall>(call);
  {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      std::unique_ptr<ProgramCall> call = std::move(idle.back());
      idle.pop_back();
      return call;
    }
  }
  FETTLE_TRY(ModelContext context, model.make_context());
  if (has_random_calls(model)) FETTLE_TRY_VOID(begin_random_calls(context));
  return std::make_unique<ProgramCall>(ProgramCall{std::move(context),
                                                   {model.inputs().begin(), model.inputs().end()},
                                                   {model.outputs().begin(), model.outputs().end()}});
}

void Program::give_back(std::unique_ptr<ProgramCall> call) {
  ProgramCall* none = nullptr;
  if (at_hand.compare_exchange_strong(none, call.get(), std::memory_order_release)) {
    (void)call.release();
    return;
  }
  const std::lock_guard lock(mutex);
  idle.push_back(std::move(call));
}

}  // namespace fettle::pjrt
