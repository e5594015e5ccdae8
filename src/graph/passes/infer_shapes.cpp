#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "graph/control.h"
#include "graph/late_sizes.h"
#include "graph/op_util.h"
#include "graph/ops/sequence.h"
#include "graph/passes/fold_node.h"
#include "graph/passes/lower_scan.h"
#include "graph/passes/lowering.h"
#include "graph/passes/node_builder.h"
#include "graph/passes/passes.h"

namespace fettle::passes {

// Contents beyond this are no shape arithmetic.
constexpr int64_t kMaxContent = 64;

std::optional<std::vector<Dim>> known_content(const Node& node) {
  if (!node.op->content || node.outputs.size() != 1) return std::nullopt;
  const Value& output = *node.outputs[0];
  if (!output.is_static() || output.shape().size() > ops::kMaxContentRank) return std::nullopt;
  const DType dtype = output.dtype();
  if (!dtype.is_bool() && (!dtype.is_int() || dtype.bits < 32)) return std::nullopt;
  const int64_t count = element_count(output.shape()).value();
  if (count > kMaxContent) return std::nullopt;
  auto content = node.op->content(node);
  if (!content || std::ssize(*content) != count) return std::nullopt;
  for (const Dim& d : *content)  // dims saturate: what large numbers become is not known
    if (d.is_number() && std::abs(d.value()) >= kMaxDim) return std::nullopt;
  return content;
}

namespace {

Result<ConstantTensor> to_constant(const Value& value, const std::vector<int64_t>& numbers) {
  FETTLE_TRY(TensorBuilder tensor, make_tensor(value.dtype(), value.extents()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (value.dtype().is_bool())
      tensor.elems<uint8_t>()[i] = numbers[i] != 0;
    else if (value.dtype().bits == 64)
      tensor.elems<int64_t>()[i] = numbers[i];
    else
      tensor.elems<int32_t>()[i] = static_cast<int32_t>(numbers[i]);
  }
  return std::move(tensor).finish();
}

// The attribute that stands for a constant input.
std::optional<AttrValue> as_attribute(const ConstantTensor& data, ParamInput::Kind kind) {
  using Kind = ParamInput::Kind;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  switch (kind) {
    case Kind::kInts:
    case Kind::kDims:
      return AttrValue(to_ints(data));
    case Kind::kInt:
      return data.n_elems() == 1 ? std::optional<AttrValue>(data.int_at(0)) : std::nullopt;
    case Kind::kFloats:
      return AttrValue(to_doubles(data));
    case Kind::kFloat:
      if (data.dtype.is_small_float() || data.dtype.is_string()) return std::nullopt;  // a code is no number
      if (data.n_elems() != 1 || (data.dtype.is_int() && std::abs(data.at(0)) >= kExact)) return std::nullopt;
      return AttrValue(data.at(0));
    case Kind::kTensor:
      return AttrValue(data);
  }
  return std::nullopt;
}

// What sizes depend on and is not known becomes sizes itself.
void define_params(Graph& graph, const Node& node) {
  for (const ParamInput& param : node.op->params) {
    Value* input = node.input(static_cast<size_t>(param.index));
    if (param.kind == ParamInput::Kind::kDims && input) define_sizes(graph, input, -kMaxDim, kMaxDim);
  }
}

void settle_params(Graph& graph, Node* node) {
  for (const ParamInput& param : node->op->params) {
    const auto i = static_cast<size_t>(param.index);
    const Value* input = node->input(i);
    if (!input || param.attr.empty()) continue;
    std::optional<AttrValue> value;
    if (input->is_constant())
      value = as_attribute(*input->constant, param.kind);
    else if (input->content && (param.kind == ParamInput::Kind::kInts || param.kind == ParamInput::Kind::kInt ||
                                param.kind == ParamInput::Kind::kDims))
      value = dims_attr(*input->content);
    if (!value) continue;
    node->attrs.set(std::string(param.attr), std::move(*value));
    graph.set_input(node, i, nullptr);
  }
  size_t count = node->inputs.size();
  while (count > 0 && !node->inputs[count - 1]) --count;
  graph.resize_inputs(node, count);
}

// The types of a body's inputs, from what the node gives.
void type_inputs(const Node& node) {
  const Captured captured = captured_inputs(node);
  const std::vector<Dim> carried = dims_of_attr(node, kCarriedSizesKey);
  for (const auto& body : node.bodies) {
    const auto& inputs = body->inputs();
    if (is_loop(node)) {
      inputs[0]->type = TensorType{kI64, {}};
      inputs[1]->type = TensorType{kBool, {}};
    }
    size_t next = 0;
    for (size_t i = is_loop(node) ? 2 : captured.first; i < node.inputs.size(); ++i) {
      Value* input = inputs[i - captured.node_only];
      input->type = node.inputs[i]->type;
      if (i >= captured.first) {
        input->content = node.inputs[i]->content;
        continue;
      }
      for (Dim& dim : input->type->shape) {
        if (next < carried.size() && !(carried[next] == Dim(-1))) dim = carried[next];
        ++next;
      }
    }
  }
}

// How often body i runs at most. Where sizes do not tell, it is a size that is 1 while the body runs.
Dim runs_of_body(Node& node, size_t i) {
  const Value* value = is_loop(node) ? LoopParts(node).limit() : node.inputs[0];
  const auto content = value ? ops::content_of(*value) : std::nullopt;
  if (content && content->size() == 1) {
    if (is_loop(node)) return max(content->front(), 0);
    return i == 0 ? content->front() : 1 - content->front();
  }
  std::vector<Dim> runs = dims_of_attr(node, kRunsKey);
  while (runs.size() < node.bodies.size())
    runs.push_back(ops::fresh_size(fmt::format("{}.{}.runs", node.name, node.bodies[runs.size()]->name()), 0, 1, 1));
  node.attrs.set(kRunsKey, dims_attr(runs));
  return runs[i];
}

Result<> infer_node(Graph& graph, Node* node, const PassContext& context);

Result<> infer_nodes(Graph& graph, const std::vector<Node*>& nodes, const PassContext& context) {
  for (Node* node : nodes)
    if (!node->erased) FETTLE_TRY_VOID(infer_node(graph, node, context));
  return {};
}

// The If becomes this body of it.
Result<> take_branch(Graph& graph, Node* node, size_t body, const PassContext& context) {
  const Graph& taken = *node->bodies[body];
  const std::vector<Value*> arguments(node->inputs.begin() + kFirstArgument, node->inputs.end());
  if (taken.inputs().size() != arguments.size() || taken.outputs().size() < node->outputs.size())
    return fail(ErrorCode::E605, "the taken branch does not fit its If", node->name);
  std::vector<Node*> added;
  const std::vector<Value*> results = inline_body(graph, taken, arguments, node->provenance, &added);
  for (size_t i = 0; i < node->outputs.size(); ++i) graph.replace_uses(node->outputs[i], results[i]);
  graph.erase(node);
  return infer_nodes(graph, added, context);
}

/// Which body each If takes whose bodies return other ranks, so that what follows can be for one of them alone: the one
/// for usual sizes, unless the rest of the model cannot be then.
struct RankChoices {
  std::vector<bool> unusual;  // of each such If, in the order in which they are met
  size_t met = 0;

  bool next() {
    if (met == unusual.size()) unusual.push_back(false);
    return unusual[met++];
  }
  /// The next combination. False: there is none.
  bool advance() {
    unusual.resize(met);
    met = 0;
    while (!unusual.empty() && unusual.back()) unusual.pop_back();
    if (unusual.empty()) return false;
    unusual.back() = true;
    return true;
  }
};
thread_local RankChoices* rank_choices = nullptr;

/// `infer` types the graph; where it cannot, it tries again with other choices. The error is the first.
Result<> with_rank_choices(Graph& graph, const std::function<Result<>()>& infer) {
  constexpr int kMostTries = 16;
  bool has_branches = false;
  for_each_graph(std::as_const(graph), [&](const Graph& g) {
    has_branches = has_branches || std::ranges::any_of(g.nodes(), [](const Node* node) { return is_branch(*node); });
  });
  if (!has_branches) return infer();
  RankChoices choices;
  Result<> first;
  for (int tries = 0;; ++tries) {
    Graph before = graph.clone();
    Graph* rules = ops::SizeCheckScope::graph();
    const size_t n_checks = rules->size_checks().size();
    RankChoices* const around = std::exchange(rank_choices, &choices);
    Result<> inferred = infer();
    rank_choices = around;
    if (inferred) return {};
    if (tries == 0) first = std::move(inferred);
    if (tries == kMostTries || !choices.advance()) return first;
    graph = std::move(before);
    rules->keep_size_checks(n_checks);
  }
}

// The body that an If takes, where that is known: by its condition; or, where bodies return other ranks, by sizes,
// which must then be such.
std::optional<size_t> known_branch(const Node& node) {
  const Value* condition = node.inputs[0];
  if (condition->is_constant() && condition->constant->n_elems() == 1)
    return condition->constant->int_at(0) != 0 ? 0 : 1;
  const auto content = ops::content_of(*condition);
  if (!content || content->size() != 1) return {};
  bool same = true;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const auto type_of = [&](size_t b) { return node.bodies[b]->outputs()[i].value->type; };
    same = same && (!type_of(0) || !type_of(1) || type_of(0)->shape.size() == type_of(1)->shape.size());
  }
  if (same) return {};
  const bool usually = content->front().typical() != 0;
  const bool taken = rank_choices && rank_choices->next() ? !usually : usually;
  ops::note_equal(node, content->front(), taken ? 1 : 0, "a branch of another rank cannot be taken");
  return taken ? 0 : 1;
}

// The dims of a list of types, one after the other.
std::vector<Dim> all_dims(const std::vector<const TensorType*>& types) {
  std::vector<Dim> dims;
  for (const TensorType* type : types) dims.insert(dims.end(), type->shape.begin(), type->shape.end());
  return dims;
}

bool same_ranks(const std::vector<const TensorType*>& a, const std::vector<const TensorType*>& b) {
  return std::ranges::equal(a, b, [](const TensorType* x, const TensorType* y) {
    return x->shape.size() == y->shape.size() && x->dtype == y->dtype;
  });
}

// Where two lists differ, a size of its own, of a range that is at least [0, range], unless `sizes` has one already.
// Whether there are new ones.
bool add_sizes(const std::vector<Dim>& a, const std::vector<Dim>& b, int64_t range, const std::string& name,
               std::vector<Dim>& sizes) {
  bool any = false;
  sizes.resize(a.size(), -1);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || !(sizes[i] == Dim(-1))) continue;
    sizes[i] = ops::fresh_size(fmt::format("{}.{}", name, i), 0, std::max({range, a[i].max(), b[i].max()}),
                               std::max(a[i].typical(), b[i].typical()));
    any = true;
  }
  return any;
}

Result<> infer_graph(Graph& graph, const PassContext& context);

Result<> infer_body(Node* node, size_t i, const PassContext& context) {
  const ops::BodyCheckScope checks(runs_of_body(*node, i));
  FETTLE_TRY_VOID(infer_graph(*node->bodies[i], context));
  node->bodies[i]->sort();
  return {};
}

// What stands for an optional that has no element, in this rank.
Result<ConstantTensor> nothing_of(DType dtype, size_t rank) {
  FETTLE_TRY(TensorBuilder tensor, make_tensor(dtype, std::vector<int64_t>(rank, 0)));
  return std::move(tensor).finish();
}

/// What has to be done to one of two values, which are one part of a structure, for both to have one rank.
struct PartFix {
  bool is_first = false;  // to which
  bool is_widened = false;
  size_t rank = 0;  // widened: so many columns; else it is nothing, of this rank
};

using PartOf = std::function<const Value*(size_t)>;
/// Of part i of two lists of values.
std::optional<PartFix> fix_of_part(const std::vector<int64_t>& parts, size_t i, const PartOf& first,
                                   const PartOf& second) {
  const Shape &x = first(i)->shape(), &y = second(i)->shape();
  if (parts[i] == kDimsPart && x.size() == 2 && y.size() == 2 && x[1].is_number() && y[1].is_number() &&
      !(x[1] == y[1])) {
    const int64_t columns = std::max(x[1].value(), y[1].value());
    return PartFix{x[1].value() < columns, true, static_cast<size_t>(columns)};
  }
  if (parts[i] != kAbsentPart || i == 0 || x.size() == y.size()) return std::nullopt;
  // Before it stands whether it is there.
  const auto is_absent = [](const Value* present) {
    return present->is_constant() && present->constant->int_at(0) == 0;
  };
  if (is_absent(first(i - 1))) return PartFix{true, false, y.size()};
  if (is_absent(second(i - 1))) return PartFix{false, false, x.size()};
  return std::nullopt;
}

// The value in that form, which is not typed yet.
Result<Value*> fixed_part(Graph& graph, Value* value, const PartFix& fix) {
  if (fix.is_widened)
    return graph
        .add_node(find_op(kSequenceWiden), value->name + ".widened", {value},
                  {{"rank", static_cast<int64_t>(fix.rank)}})
        ->output();
  FETTLE_TRY(ConstantTensor nothing, nothing_of(value->dtype(), fix.rank));
  return graph.add_constant(value->name, std::move(nothing));
}

// The bodies of an If return structures whose parts have one rank.
Result<> align_branches(Node* node, const PassContext& context) {
  const std::vector<int64_t> parts = node->attrs.get_ints(kPartsKey);
  node->attrs.erase(kPartsKey);
  for (size_t i = 0; i < std::min(parts.size(), node->outputs.size()); ++i) {
    const auto of_then = [&](size_t k) { return node->bodies[0]->outputs()[k].value; };
    const auto of_else = [&](size_t k) { return node->bodies[1]->outputs()[k].value; };
    const auto fix = fix_of_part(parts, i, of_then, of_else);
    if (!fix) continue;
    Graph& body = *node->bodies[fix->is_first ? 0 : 1];
    FETTLE_TRY(Value * fixed, fixed_part(body, fix->is_first ? of_then(i) : of_else(i), *fix));
    body.set_output(i, fixed);
    if (fixed->producer) FETTLE_TRY_VOID(infer_node(body, fixed->producer, context));
    body.sort();
  }
  return {};
}

// What a loop carries of structures has one rank before and after an iteration. `body`: the loop's, not typed yet.
// Whether something was changed, so that the loop has to be typed anew.
Result<bool> align_carried(Graph& graph, Node* node, Graph& body, const PassContext& context) {
  const std::vector<int64_t> parts = node->attrs.get_ints(kPartsKey);
  bool any = false;
  for (size_t i = 0; i < std::min(parts.size(), static_cast<size_t>(LoopParts(*node).n_carried)); ++i) {
    const LoopParts loop(*node);
    const auto before = [&](size_t k) { return loop.initial(static_cast<int>(k)); };
    const auto after = [&](size_t k) { return loop.carried_out(static_cast<int>(k)); };
    const auto fix = fix_of_part(parts, i, before, after);
    if (!fix || (!fix->is_first && !fix->is_widened)) continue;
    any = true;
    if (fix->is_first) {
      FETTLE_TRY(Value * fixed, fixed_part(graph, loop.initial(static_cast<int>(i)), *fix));
      graph.set_input(node, 2 + i, fixed);
      if (fixed->producer) FETTLE_TRY_VOID(infer_node(graph, fixed->producer, context));
    } else {
      FETTLE_TRY(Value * fixed, fixed_part(body, body.outputs()[1 + i].value, *fix));
      body.set_output(1 + i, fixed);
    }
  }
  return any;
}

// A loop that carries values whose shapes change is typed anew, with sizes of their own in place of what changes.
Result<> infer_loop_body(Graph& graph, Node* node, const PassContext& context) {
  const bool may_change = node->attrs.get_int("keeps_shapes", 0) == 0 && LoopParts(*node).n_carried > 0;
  Graph* rules = ops::SizeCheckScope::graph();
  for (;;) {
    Graph before;
    const size_t n_checks = rules->size_checks().size();
    if (may_change) before = node->bodies[0]->clone();
    type_inputs(*node);
    FETTLE_TRY_VOID(infer_body(node, 0, context));
    if (!may_change) return {};
    FETTLE_TRY(const bool is_other, align_carried(graph, node, before, context));
    if (is_other) {
      node->bodies[0] = std::make_shared<Graph>(std::move(before));
      rules->keep_size_checks(n_checks);
      continue;
    }
    const LoopParts loop(*node);
    std::vector<const TensorType*> found, left;
    for (int i = 0; i < loop.n_carried; ++i) {
      found.push_back(&*loop.carried_in(i)->type);
      left.push_back(&*loop.carried_out(i)->type);
    }
    if (!same_ranks(found, left)) return {};  // which the loop's own rule refuses
    std::vector<Dim> sizes = dims_of_attr(*node, kCarriedSizesKey);
    if (!add_sizes(all_dims(found), all_dims(left), kMaxDim, node->name + ".carried", sizes)) return {};
    node->attrs.set(kCarriedSizesKey, dims_attr(std::move(sizes)));
    node->bodies[0] = std::make_shared<Graph>(std::move(before));
    rules->keep_size_checks(n_checks);
  }
}

// A row whose extents an iteration decides has those that the file declares, if it does: each iteration looks.
Result<> settle_rows(Node* node, const PassContext& context) {
  Graph& body = *node->bodies[0];
  const auto own = sizes_of_body(*node, 0);
  const LoopParts loop(*node);
  for (int i = 0; i < loop.n_scans; ++i) {
    Value* row = loop.scan_out(i);
    if (!row->type || !row->declared || row->declared->shape.size() != row->shape().size()) continue;
    Lowering g(body, *node);
    Shape shape = row->shape();
    for (size_t d = 0; d < shape.size(); ++d) {
      const Dim& declared = row->declared->shape[d];
      if (!declared.is_number() || !mentions_any(shape[d], own)) continue;
      Value* extent = g("Gather", {g("Shape", {row}), g.index(static_cast<int64_t>(d))});
      g.require(g("Equal", {extent, g.index(declared.value())}),
                fmt::format("\"{}\" is not {}, as the file declares it", row->name, row->declared->to_string()));
      shape[d] = declared;
    }
    if (shape == row->shape()) continue;
    body.set_output(static_cast<size_t>(1 + loop.n_carried + i), g.reshape(row, shape));
    FETTLE_TRY_VOID(g.status());
    const ops::BodyCheckScope checks(runs_of_body(*node, 0));
    FETTLE_TRY_VOID(infer_nodes(body, g.added(), context));
    body.sort();
  }
  return {};
}

// An If one of whose bodies cannot be, with these sizes, is the other: that it takes this one is looked at when it
// runs. Where neither can be, the error is that of the first.
Result<std::optional<size_t>> only_branch(Graph& graph, Node* node, const PassContext& context) {
  Graph* rules = ops::SizeCheckScope::graph();
  Result<> results[2];
  type_inputs(*node);
  for (const size_t i : {0, 1}) {
    const size_t n_checks = rules->size_checks().size();
    results[i] = with_rank_choices(*node->bodies[i], [&] { return infer_body(node, i, context); });
    if (!results[i]) rules->keep_size_checks(n_checks);
  }
  if (results[0] && results[1]) return std::optional<size_t>();
  if (!results[0] && !results[1]) return fail(std::move(results[0].error()));
  const size_t taken = results[0] ? 0 : 1;
  NodeBuilder nodes(graph, node->name + ".", node->provenance);
  Value* condition = nodes.value("Cast", "condition", {node->inputs[0]}, {{"to", int64_t{7}}});
  FETTLE_TRY_VOID(infer_nodes(graph, nodes.added(), context));
  Node* check = add_size_definition(graph, condition, {taken == 0 ? 1 : 0});
  check->attrs.set(kReasonKey, fmt::format("If \"{}\" takes a branch that cannot be: {}", node->name,
                                           results[1 - taken].error().message));
  FETTLE_TRY_VOID(infer_nodes(graph, {check}, context));
  return std::optional<size_t>(taken);
}

// The sizes of outputs that only a run tells.
void settle_late_sizes(Graph& graph, Node* node) {
  std::vector<Dim> sizes = dims_of_attr(*node, kDefinesKey);
  if (is_branch(*node)) {
    const auto types_of = [&](size_t body) {
      std::vector<const TensorType*> types;
      for (size_t i = 0; i < std::min(node->outputs.size(), node->bodies[body]->outputs().size()); ++i)
        types.push_back(&*node->bodies[body]->outputs()[i].value->type);
      return types;
    };
    const auto a = types_of(0), b = types_of(1);
    if (same_ranks(a, b)) add_sizes(all_dims(a), all_dims(b), 0, node->name, sizes);
  } else {
    if (!sizes.empty()) return;  // of a loop that was typed before it came to this graph
    const LoopParts loop(*node);
    for (const Dim& carried : dims_of_attr(*node, kCarriedSizesKey))
      sizes.push_back(carried == Dim(-1) ? carried
                                         : ops::fresh_size(fmt::format("{}.{}", node->name, sizes.size()), 0,
                                                           carried.max(), carried.typical()));
    if (loop.n_scans > 0) {
      const Value* limit = loop.limit();
      if (limit && loop.is_counted() && !ops::content_of(*limit))
        define_sizes(graph, node->inputs[0], -kMaxDim, kMaxDim);
      const bool is_known = loop.iterations().symbol_name() != node->name + ".iterations";
      if (sizes.empty())
        for (int i = 0; i < loop.n_carried; ++i) sizes.insert(sizes.end(), loop.initial(i)->shape().size(), -1);
      sizes.push_back(is_known ? Dim(-1) : ops::fresh_size(node->name + ".iterations", 0, kMaxDim));
    } else if (!sizes.empty()) {
      sizes.emplace_back(-1);
    }
  }
  if (std::ranges::any_of(sizes, [](const Dim& size) { return !size.symbol_name().empty(); }))
    node->attrs.set(kDefinesKey, dims_attr(std::move(sizes)));
}

// A loop without iterations leaves what it begins with, whatever its body is. False where it may have some, or where
// rows of it are asked for.
bool take_beginning(Graph& graph, Node* node) {
  const LoopParts loop(*node);
  if (loop.n_carried < 0 || loop.n_scans < 0 || loop.iterations().max() > 0) return false;
  const auto n_carried = std::min(static_cast<size_t>(loop.n_carried), node->outputs.size());
  for (size_t i = n_carried; i < node->outputs.size(); ++i)
    if (graph.use_count(node->outputs[i]) > 0) return false;
  hand_provenance_to_users(node);
  for (size_t i = 0; i < n_carried; ++i) graph.replace_uses(node->outputs[i], loop.initial(static_cast<int>(i)));
  graph.erase(node);
  return true;
}

Result<> infer_graph(Graph& graph, const PassContext& context) {
  return infer_nodes(graph, std::vector<Node*>(graph.nodes()), context);
}

Result<> infer_node(Graph& graph, Node* node, const PassContext& context) {
  define_params(graph, *node);
  if (node->op->lower) {
    FETTLE_TRY(const std::vector<Node*> added, node->op->lower(graph, node));
    return infer_nodes(graph, added, context);
  }
  if (node->op->lower_by_data) {
    FETTLE_TRY(const auto added, node->op->lower_by_data(graph, node));
    if (added) return infer_nodes(graph, *added, context);
  }
  if (!node->bodies.empty()) {
    if (is_branch(*node))
      if (const auto body = known_branch(*node)) return take_branch(graph, node, *body, context);
    if (is_scan(*node)) {
      settle_captured(graph, node);
      type_scan_body(*node);
      FETTLE_TRY_VOID(infer_graph(*node->bodies[0], context));
      node->bodies[0]->sort();
      FETTLE_TRY(const std::vector<Node*> added, lower_scan(graph, node));
      return infer_nodes(graph, added, context);
    }
    if (is_loop(*node) && take_beginning(graph, node)) return {};
    settle_captured(graph, node);
    if (is_branch(*node)) {
      FETTLE_TRY(auto body, only_branch(graph, node, context));
      settle_captured(graph, node);
      if (!body) FETTLE_TRY_VOID(align_branches(node, context));
      if (!body) body = known_branch(*node);
      if (body) return take_branch(graph, node, *body, context);
    } else {
      FETTLE_TRY_VOID(infer_loop_body(graph, node, context));
      FETTLE_TRY_VOID(settle_rows(node, context));
      node->attrs.erase(kPartsKey);
      settle_captured(graph, node);
    }
    settle_late_sizes(graph, node);
  }
  if (is_size_definition(*node)) node->inputs[0]->content = dims_of_attr(*node, kDefinesKey);
  FETTLE_TRY_VOID(check_strings(*node));
  FETTLE_TRY(auto types, node->op->infer(*node));
  if (types.size() < node->outputs.size())
    return fail(ErrorCode::E606, fmt::format("{} has {} outputs", node->op->name, node->outputs.size()), node->name);
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    FETTLE_TRY_VOID(
        check_limit(context.limits, &Limits::rank, static_cast<int64_t>(types[i].shape.size()), node->name));
    if (const auto shape = static_shape(types[i].shape)) {
      if (auto bytes = checked_bytes(types[i].dtype, *shape); !bytes) {
        bytes.error().where = node->name;
        return fail(std::move(bytes.error()));
      }
      FETTLE_TRY_VOID(
          check_limit(context.limits, &Limits::elements, element_count(types[i].shape).value(), node->name));
    }
    node->outputs[i]->type = std::move(types[i]);
    for (const Dim& dim : node->outputs[i]->shape()) ops::note_not_negative(*node, dim, "an extent");
  }
  if (auto content = known_content(*node)) {
    Value* output = node->outputs[0];
    if (const auto numbers = static_shape(*content)) {
      FETTLE_TRY(ConstantTensor data, to_constant(*output, *numbers));
      hand_provenance_to_users(node);
      graph.replace_uses(output, graph.add_constant(output->name, std::move(data)));
      graph.erase(node);
      return {};
    }
    output->content = std::move(content);
  }
  if (folds_at_once(*node)) {
    FETTLE_TRY(const bool folded, fold_node(graph, node, context));
    if (folded) return {};
  }
  settle_params(graph, node);
  return {};
}

// Whether a type can be what the model's file says of it.
bool may_be(const TensorType& type, const TensorType& declared) {
  if (type.dtype != declared.dtype) return false;
  // Exporters write names of axes for outputs whose ranks they do not know.
  if (type.shape.size() != declared.shape.size()) return !is_static(declared.shape);
  for (size_t d = 0; d < type.shape.size(); ++d) {
    const Dim &dim = type.shape[d], &wanted = declared.shape[d];
    if (wanted.is_number() && (wanted.value() < dim.min() || wanted.value() > dim.max())) return false;
  }
  return true;
}

Result<> check_declared(const Graph& graph) {
  const auto check = [](const Value& value) -> Result<> {
    if (!value.declared || !value.type || may_be(*value.type, *value.declared)) return {};
    return fail(ErrorCode::E605,
                fmt::format("the file declares it as {}, and it is {}: correct the file, or leave that out",
                            value.declared->to_string(), value.type->to_string()),
                value.name);
  };
  for (const Node* node : graph.nodes())
    for (const Value* output : node->outputs) FETTLE_TRY_VOID(check(*output));
  for (const GraphOutput& output : graph.outputs()) FETTLE_TRY_VOID(check(*output.value));
  return {};
}

}  // namespace

Result<> infer_shapes(Graph& graph, const PassContext& context) {
  const ops::SizeCheckScope checks(graph);
  FETTLE_TRY_VOID(with_rank_choices(graph, [&] { return infer_graph(graph, context); }));
  Result<> as_declared;
  for_each_graph(graph, [&](Graph& g) {
    if (as_declared) as_declared = check_declared(g);
  });
  return as_declared;
}

}  // namespace fettle::passes
