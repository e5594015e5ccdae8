#include "frontend/stablehlo/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/stablehlo/importer.h"
#include "frontend/stablehlo/read.h"
#include "frontend/stablehlo/refused.h"
#include "frontend/stablehlo/survey.h"
#include "graph/op_util.h"
#include "graph/random_calls.h"

namespace fettle {
namespace stablehlo {
namespace {

constexpr std::string_view kCustomCall = "stablehlo.custom_call";

Result<> check_type(const Type& type, std::string_view what) {
  if (type.kind == Type::Kind::kTensor && !type.is_ranked)
    return fail(ErrorCode::E603, fmt::format("{} is of a tensor without a rank", what));
  if (!type.element.unknown.empty())
    return fail(ErrorCode::E603, fmt::format("{} is of element type {}", what, type.element.unknown));
  for (const Type& part : type.inputs) FETTLE_TRY_VOID(check_type(part, what));
  return {};
}

// Whether a tensor is what a type says, as far as can be told.
bool fits(const Tensor& tensor, const Type& type) {
  if (type.kind == Type::Kind::kToken) return true;
  if (type.kind == Type::Kind::kTuple)
    return tensor.parts.size() == type.inputs.size() &&
           std::ranges::equal(tensor.parts, type.inputs, [](const Tensor& a, const Type& b) { return fits(a, b); });
  if (!tensor.re || tensor.is_complex() != type.element.is_complex) return false;
  const TensorType& made = *tensor.re->type;
  if (made.dtype != type.element.dtype || made.shape.size() != type.shape.size()) return false;
  for (size_t d = 0; d < type.shape.size(); ++d)
    if (type.shape[d] != kDynamic && !may_equal(made.shape[d], type.shape[d])) return false;
  return true;
}

}  // namespace

std::string label_of(const Op& op) {
  if (op.name != kCustomCall) return op.name;
  const Attribute* target = find_attribute(op.attributes, "call_target_name");
  const auto* name = target ? target->get_if<std::string>() : nullptr;
  return fmt::format("{} @{}", kCustomCall, name ? *name : "");
}

Value* Importer::reach(Value* value, Scope* owner, Scope& in) {
  if (owner == &in) return value;
  if (const auto found = in.captures.find(value); found != in.captures.end()) return found->second;
  Value* outside = reach(value, owner, *in.around);
  if (outside != value)
    if (const auto found = in.captures.find(outside); found != in.captures.end())
      return in.captures[value] = found->second;
  Value* inside = nullptr;
  if (outside->is_constant()) {
    inside = in.graph.add_constant(outside->name, *outside->constant);
  } else {
    inside = in.graph.add_input(outside->name, *outside->type);
    inside->content = outside->content;
    in.captured.push_back({outside, inside});
  }
  // What it was before it was broadcast is known inside, too.
  if (const auto narrow = in.around->narrow.find(outside);
      narrow != in.around->narrow.end() && narrow->second->is_constant())
    in.narrow[inside] = in.graph.add_constant(narrow->second->name, *narrow->second->constant);
  in.captures[value] = inside;
  return in.captures[outside] = inside;
}

bool Importer::has_effects(const Region& region) {
  return std::ranges::any_of(region.blocks, [&](const Block& block) { return has_effects(block); });
}

bool Importer::has_effects(const Block& block) {
  return std::ranges::any_of(block.ops, [&](const Op& op) {
    if (is_host_effect(op)) return true;
    if (std::ranges::any_of(op.regions, [&](const Region& region) { return has_effects(region); })) return true;
    return std::ranges::any_of(called_functions(op), [&](std::string_view name) {
      const Function* function = module_.find(name);
      if (!function) return false;
      if (const auto [known, is_new] = with_effects_.try_emplace(function, false); !is_new) return known->second;
      return with_effects_[function] = has_effects(function->body);
    });
  });
}

Value* Importer::effects(Scope& scope) {
  if (scope.effects) return scope.effects;
  if (!scope.around) return scope.effects = scope.graph.add_constant("effects", scalar(0, kU8));
  return scope.effects = reach(effects(*scope.around), scope.around, scope);
}

Result<Importer::Draw> Importer::draw() {
  Scope* program = scope_;
  for (; program->around; program = program->around)
    if (program->repeats)
      return fail(ErrorCode::E603, "random numbers in a loop: each iteration would have the same. Draw them before it");
  if (!random_calls_) random_calls_ = add_random_calls(program->graph);
  return Draw{reach(random_calls_, program), n_draws_++};
}

Result<> Importer::in_body(Scope& body, std::string name, const std::function<Result<>()>& fill) {
  body.graph = Graph(std::move(name));
  body.around = scope_;
  body.depth = scope_->depth + 1;
  body.number = ++n_scopes_;
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::nesting, body.depth));
  scope_ = &body;
  Result<> filled = fill();
  scope_ = body.around;
  return filled;
}

Result<Tensors> Importer::import_region(const Region& region, const Tensors& arguments) {
  if (region.blocks.size() != 1)
    return fail(ErrorCode::E603, fmt::format("a region of {} blocks", region.blocks.size()));
  return import_block(region.blocks[0], arguments);
}

Result<Tensors> Importer::import_block(const Block& block, const Tensors& arguments) {
  if (block.arguments.size() != arguments.size())
    return fail(ErrorCode::E605,
                fmt::format("a block takes {} values and is given {}", block.arguments.size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) frame_->values[block.arguments[i]] = {arguments[i], scope_->number};
  for (const Op& op : block.ops) {
    if (!is_return(op)) {
      auto done = import_op(op);
      if (done) continue;
      // An operator in a region of this one has said where it stands.
      if (done.error().code != ErrorCode::kNone && !is_placed_) done.error() = placed(std::move(done.error()), op);
      is_placed_ = !problems_;
      if (!problems_) return fail(std::move(done.error()));
      note(std::move(done.error()));
      for (const ValueId result : op.results) frame_->values[result] = {{}, scope_->number, true};
      continue;
    }
    Tensors results;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      FETTLE_TRY(results.emplace_back(), value_of(op.operands[i]));
    }
    return results;
  }
  return fail(ErrorCode::E605, "a block returns nothing");
}

Result<Tensor> Importer::value_of(ValueId id) {
  const auto found = frame_->values.find(id);
  Scope* owner = scope_;
  while (owner && found != frame_->values.end() && owner->number != found->second.scope) owner = owner->around;
  if (!owner || found == frame_->values.end())
    return fail(ErrorCode::E605, "an operand is used before it is made, or beyond its region");
  if (found->second.is_missing) return fail(ErrorCode::kNone);
  Tensor tensor = found->second.tensor;
  if (owner != scope_) for_each_part(tensor, [&](Value*& value) { value = reach(value, owner); });
  return tensor;
}

// A function that is called twice says the same twice.
void Importer::note(Diagnostic problem) {
  const auto is_same = [&](const Diagnostic& other) {
    return other.code == problem.code && other.message == problem.message && other.where == problem.where;
  };
  if (problem.code != ErrorCode::kNone && std::ranges::none_of(*problems_, is_same))
    problems_->push_back(std::move(problem));
}

std::vector<Diagnostic> Importer::problems() {
  std::vector<Diagnostic> found;
  if (const Survey survey(module_, function_); !survey.unknown().empty()) return survey.problems();
  problems_ = &found;
  if (const auto graph = run(); !graph) note(graph.error());
  return found;
}

Result<> Importer::import_op(const Op& op) {
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::nodes, ++n_ops_));
  const OpEntry* entry = find_entry(op);
  if (!entry) return fail(ErrorCode::E603, why_refused(op));
  for (const auto* types : {&op.operand_types, &op.result_types})
    for (const Type& type : *types) FETTLE_TRY_VOID(check_type(type, "an operand or a result"));
  Tensors operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    FETTLE_TRY(operands.emplace_back(), value_of(op.operands[i]));
  }
  OpImport o(*this, op, std::move(operands));
  auto results = import_with(o, *entry);
  FETTLE_TRY_VOID(o.g.status());
  if (!results) return fail(std::move(results.error()));
  if (results->size() != op.results.size())
    return fail(ErrorCode::E605, fmt::format("it has {} results, not {}", results->size(), op.results.size()));
  for (size_t i = 0; i < results->size(); ++i) {
    const Tensor& made = (*results)[i];
    if (!fits(made, op.result_types[i]))
      return fail(ErrorCode::E605,
                  fmt::format("its result is {}, not {}", made.re ? made.re->type->to_string() : "none",
                              op.result_types[i].to_string()));
    frame_->values[op.results[i]] = {made, scope_->number};
  }
  if (results->size() == 1) follow_progressions(o, results->front());
  return {};
}

Result<Tensors> Importer::call(const std::string& name, const Tensors& arguments, const std::string& location) {
  const Function* function = module_.find(name);
  if (!function) return fail(ErrorCode::E605, fmt::format("there is no function @{}", name), location);
  for (const Frame* frame = frame_; frame; frame = frame->caller)
    if (frame->function == function) return fail(ErrorCode::E603, fmt::format("@{} calls itself", name), location);
  Frame frame{.function = function, .caller = frame_};
  frame_ = &frame;
  auto results = import_block(function->body, arguments);
  frame_ = frame.caller;
  return results;
}

Result<Tensor> Importer::add_input(const Function& function, size_t i, const Type& type, const std::string& name) {
  FETTLE_TRY_VOID(check_type(type, fmt::format("the input \"{}\"", name)));
  Tensor tensor;
  if (type.kind == Type::Kind::kToken) return tensor;
  if (type.kind == Type::Kind::kTuple) {
    for (size_t k = 0; k < type.inputs.size(); ++k) {
      FETTLE_TRY(tensor.parts.emplace_back(), add_input(function, i, type.inputs[k], fmt::format("{}.{}", name, k)));
    }
    return tensor;
  }
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, std::ssize(type.shape), name));
  Shape shape;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    const int64_t bound = d < type.bounds.size() && type.bounds[d] != kDynamic ? type.bounds[d] : kMaxDim;
    shape.push_back(type.shape[d] == kDynamic ? Dim::symbol(fmt::format("{}.{}", name, d), 0, bound)
                                              : Dim(type.shape[d]));
  }
  if (type.element.is_complex) shape.emplace_back(2);
  Value* value = scope_->graph.add_input(name, {type.element.dtype, shape});
  tensor.quantization = type.element.quantization;
  if (!type.element.is_complex) {
    tensor.re = value;
    return tensor;
  }
  const Node node{.name = name};
  passes::Lowering g(scope_->graph, node);
  const int64_t last = std::ssize(shape) - 1;
  shape.pop_back();
  tensor.re = g.reshape(g.slice(value, last, 0, 1), shape);
  tensor.im = g.reshape(g.slice(value, last, 1, 2), shape);
  FETTLE_TRY_VOID(g.status());
  return tensor;
}

Result<> Importer::add_output(const std::string& name, const Tensor& tensor) {
  for (size_t k = 0; k < tensor.parts.size(); ++k)
    FETTLE_TRY_VOID(add_output(fmt::format("{}.{}", name, k), tensor.parts[k]));
  if (!tensor.re) return {};
  Value* value = tensor.re;
  if (tensor.im) {
    const Node node{.name = name};
    passes::Lowering g(scope_->graph, node);
    const int64_t rank = std::ssize(value->shape());
    value = g("Concat", {g.unsqueeze(tensor.re, {rank}), g.unsqueeze(tensor.im, {rank})}, {{{"axis", rank}}});
    FETTLE_TRY_VOID(g.status());
  }
  std::string unique = name;
  const auto is_taken = [&](const std::string& text) {
    return std::ranges::find(scope_->graph.outputs(), text, &GraphOutput::name) != scope_->graph.outputs().end();
  };
  for (int k = 1; is_taken(unique); ++k) unique = fmt::format("{}.{}", name, k);
  scope_->graph.add_output(std::move(unique), value);
  return {};
}

Result<Graph> Importer::run() {
  FETTLE_TRY(const Function* main, entry_of(module_, function_));
  if (const Survey survey(module_, function_); !survey.unknown().empty()) {
    std::vector<std::string> unknown;
    for (const Op* op : survey.unknown())
      unknown.push_back(place_of(*op).empty()
                            ? fmt::format("{}: {}", label_of(*op), why_refused(*op))
                            : fmt::format("{} ({}): {}", label_of(*op), place_of(*op), why_refused(*op)));
    return fail(ErrorCode::E603, fmt::format("{}", fmt::join(unknown, "; ")), "operators");
  }
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::inputs, std::ssize(main->body.arguments)));
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::outputs, std::ssize(main->result_types)));
  Scope scope{.graph = Graph(module_.name.empty() ? "module" : module_.name)};
  scope.graph.set_function({main->name, entry_names(module_)});
  scope_ = &scope;
  Tensors arguments;
  for (size_t i = 0; i < main->body.arguments.size(); ++i) {
    FETTLE_TRY(arguments.emplace_back(), add_input(*main, i, main->body.argument_types[i],
                                                   name_of(main->argument_attributes, i, "jax.arg_info", "arg")));
  }
  FETTLE_TRY(const Tensors results, call(main->name, arguments, {}));
  for (size_t i = 0; i < results.size(); ++i)
    FETTLE_TRY_VOID(add_output(name_of(main->result_attributes, i, "jax.result_info", "result"), results[i]));
  if (scope.effects) FETTLE_TRY_VOID(add_output("effects", {.re = scope.effects}));
  if (random_calls_) count_random_calls(scope.graph, random_calls_);
  scope.graph.sort();
  return std::move(scope.graph);
}

}  // namespace stablehlo

Result<Graph> import_stablehlo(const stablehlo::Module& module, const Limits& limits, std::string_view function) {
  return stablehlo::Importer(module, limits, function).run();
}

std::vector<Diagnostic> stablehlo_problems(const stablehlo::Module& module, const Limits& limits,
                                           std::string_view function) {
  return stablehlo::Importer(module, limits, function).problems();
}

Result<ImportedModel> import_stablehlo_bytes(std::span<const std::byte> bytes, const std::string& label,
                                             const Limits& limits) {
  FETTLE_TRY(const stablehlo::Module module, stablehlo::read_module(bytes, label, limits));
  FETTLE_TRY(Graph graph, import_stablehlo(module, limits));
  ImportedModel model;
  return ImportedModel{std::make_shared<const Graph>(std::move(graph)), label,
                       digest_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()})};
}

}  // namespace fettle
