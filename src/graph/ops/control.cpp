// Control flow: operators that run graphs of their own, their bodies (graph/control.h).

#include <fmt/format.h>

#include <algorithm>

#include "graph/control.h"
#include "graph/late_sizes.h"
#include "graph/loop_kernel.h"
#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

Result<> check_bodies(const Node& node, size_t count) {
  if (node.bodies.size() != count)
    return bad_attribute(node, fmt::format("it has {} bodies instead of {}", node.bodies.size(), count));
  return {};
}

Result<> check_condition(const Node& node, const Value& value, std::string_view what) {
  if (value.dtype() != kBool || (value.is_static() && element_count(value.shape()) != Dim(1)))
    return bad_types(node, fmt::format("{} is {}, not one truth value", what, value.type->to_string()));
  return {};
}

// Whether they may be equal: then they must be.
bool note_same_shape(const Node& node, const Shape& a, const Shape& b) {
  if (!std::ranges::equal(a, b, may_equal)) return false;
  for (size_t d = 0; d < a.size(); ++d) note_equal(node, a[d], b[d], "shapes");
  return true;
}

// Sizes that a node defines for dims of values, one after the other.
class SizesInOrder {
 public:
  SizesInOrder(const Node& node, std::string_view key) : dims_(dims_of_attr(node, key)) {}

  // Of the next value, which is of either shape: where a size is defined, it is that of both.
  void put_into(Shape& a, Shape& b) {
    for (size_t d = 0; d < a.size(); ++d, ++next_)
      if (next_ < dims_.size() && !(dims_[next_] == Dim(-1))) a[d] = b[d] = dims_[next_];
  }

 private:
  std::vector<Dim> dims_;
  size_t next_ = 0;
};

// If(condition, argument…) {then, else}: both bodies take the arguments and return the node's outputs.
Types if_type(const Node& node) {
  FETTLE_TRY_VOID(check_bodies(node, 2));
  FETTLE_TRY_VOID(check_condition(node, *node.inputs[0], "the condition"));
  const Graph &then = *node.bodies[0], &otherwise = *node.bodies[1];
  std::vector<TensorType> types;
  for (const auto& body : node.bodies)
    if (body->outputs().size() < node.outputs.size() || body->inputs().size() + 1 != node.inputs.size())
      return bad_types(node, fmt::format("its body {} has {} inputs and {} outputs", body->name(),
                                         body->inputs().size(), body->outputs().size()));
  SizesInOrder own(node, kDefinesKey);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    TensorType a = *then.outputs()[i].value->type, b = *otherwise.outputs()[i].value->type;
    if (a.dtype != b.dtype)
      return bad_types(node, fmt::format("output {} is {} or {}", i, a.to_string(), b.to_string()));
    if (a.shape.size() != b.shape.size())
      return not_known(node, fmt::format("If: output {} is {} or {}: its rank depends on the condition", i,
                                         a.to_string(), b.to_string()));
    own.put_into(a.shape, b.shape);
    if (!note_same_shape(node, a.shape, b.shape))
      return bad_types(node, fmt::format("output {} is {} or {}", i, a.to_string(), b.to_string()));
    types.push_back(std::move(a));
  }
  return types;
}

// Loop(iterations or none, condition or none, carried…, captured…) {body}: see LoopParts.
Types loop_type(const Node& node) {
  FETTLE_TRY_VOID(check_bodies(node, 1));
  const LoopParts loop(node);
  const Graph& body = *node.bodies[0];
  if (loop.n_carried < 0 || node.inputs.size() < static_cast<size_t>(2 + loop.n_carried) ||
      body.inputs().size() != node.inputs.size() || loop.n_scans < 0 ||
      body.outputs().size() != static_cast<size_t>(1 + loop.n_carried + loop.n_scans))
    return bad_types(node, fmt::format("its body has {} inputs and {} outputs, for {} values that are carried",
                                       body.inputs().size(), body.outputs().size(), loop.n_carried));
  if (node.inputs[0] && (!node.inputs[0]->dtype().is_int() ||
                         (node.inputs[0]->is_static() && element_count(node.inputs[0]->shape()) != Dim(1))))
    return bad_types(node, "the number of iterations is no integer");
  if (node.inputs[1]) FETTLE_TRY_VOID(check_condition(node, *node.inputs[1], "the condition"));
  FETTLE_TRY_VOID(check_condition(node, *body.outputs()[0].value, "the body's condition"));
  std::vector<TensorType> types;
  SizesInOrder own(node, kDefinesKey);
  for (int i = 0; i < loop.n_carried; ++i) {
    TensorType before = *loop.initial(i)->type, after = *loop.carried_out(i)->type;
    if (before.dtype != after.dtype || before.shape.size() != after.shape.size())
      return bad_types(node, fmt::format("a value that it carries is {} before an iteration and {} after it",
                                         before.to_string(), after.to_string()));
    own.put_into(before.shape, after.shape);
    if (!note_same_shape(node, before.shape, after.shape))
      return bad_types(node, fmt::format("{} is {} before an iteration and {} after it", loop.carried_in(i)->name,
                                         before.to_string(), after.to_string()));
    types.push_back(std::move(before));
  }
  const Dim iterations = loop.iterations();
  for (int i = 0; i < loop.n_scans; ++i) {
    TensorType type = *loop.scan_out(i)->type;
    for (const Dim& dim : type.shape)
      if (mentions_any(dim, sizes_of_body(node, 0)))
        return fail(ErrorCode::E604,
                    fmt::format("Loop: \"{}\" is {}: rows whose shape an iteration decides cannot be stacked",
                                loop.scan_out(i)->name, type.to_string()),
                    node.name);
    type.shape.insert(type.shape.begin(), iterations);
    types.push_back(std::move(type));
  }
  return types;
}

// DefineSizes(value): the planner reads the sizes where the value lies.
Types define_sizes_type(const Node& node) {
  if (!dtype_of(node, 0).is_int() || dtype_of(node, 0).bits < 32)
    return bad_types(node, fmt::format("sizes are integers, not {}", dtype_of(node, 0).to_string()));
  return same_type(node);
}

constexpr OpDef control_defs[] = {
    {.name = kDefineSizes, .infer = define_sizes_type},
    {.name = "If", .min_inputs = 1, .max_inputs = -1, .infer = if_type, .compute = nullptr, .n_outputs = -1},
    {.name = "Loop",
     .min_inputs = 0,
     .max_inputs = -1,
     .infer = loop_type,
     .compute = loop_compute,
     .n_outputs = -1,
     .work = ElementWork::kConverts},
    // (state…, scanned…, captured…) {body}: lower_scan makes a Loop of it.
    {.name = "Scan", .min_inputs = 1, .max_inputs = -1, .infer = not_lowered, .compute = nullptr, .n_outputs = -1},
};

}  // namespace

extern constinit const OpFamily control_ops{"control", control_defs};

}  // namespace fettle
