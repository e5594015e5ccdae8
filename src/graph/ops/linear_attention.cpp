// Layers of language models that carry a state: LinearAttention, CausalConvWithState.

#include <cmath>

#include <fmt/format.h>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using passes::composite;
using passes::Lowering;
using Values = Result<std::vector<Value*>>;

// --- CausalConvWithState(x [n, c, length], w [c, 1, k], bias, past [n, c, k - 1]) → (y, the last k - 1 of past and x)

Values causal_conv(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(passes::check_attributes(node, {"activation"}));
  const std::string activation = node.attrs.get_string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return bad_attribute(node, "activation is " + activation);
  for (const size_t i : {0, 1}) FETTLE_TRY_VOID(check_rank(node, i, 3, 3));
  const Dim &k = shape_of(node, 1)[2], &channels = shape_of(node, 1)[0];
  if (!k.is_number() || !channels.is_number())
    return not_known(node, fmt::format("{}: channels and kernel extents of the weights {} must be fixed", node.op->name,
                                       to_string(shape_of(node, 1))));
  const int64_t before = k.value() - 1;
  Value* x = node.inputs[0];
  if (node.input(3)) {
    FETTLE_TRY_VOID(check_rank(node, 3, 3, 3));
    FETTLE_TRY_VOID(common_dim(node, shape_of(node, 3)[2], before, "the past and the kernel extent"));
    x = g("Concat", {node.inputs[3], x}, {{{"axis", int64_t{2}}}});
  } else if (before > 0) {
    x = g("Pad", {x}, {{{"pads", std::vector<int64_t>{before, 0}}, {"axes", std::vector<int64_t>{2}}}});
  }
  Value* y = g("Conv", {x, node.inputs[1], node.input(2)}, {{{"group", channels.value()}}});
  if (activation != "none") y = g("Swish", {y});
  Attrs last;
  last.set("starts", dims_attr({x->shape()[2] - before}));
  last.set("ends", dims_attr({x->shape()[2]}));
  last.set("axes", std::vector<int64_t>{2});
  return std::vector{y, g("Slice", {x}, std::move(last))};
}

// --- LinearAttention: a Loop over the steps, which carries a state of [dk, dv] for each head of keys.
//   S = exp(decay) ⊙ S        v = beta ⊙ (v - kᵀ · S)        S = S + k · vᵀ        o = scale * q · S

class LinearAttention {
 public:
  LinearAttention(Lowering& g, const Node& node) : g_(g), node_(node) {}

  Values run() {
    FETTLE_TRY_VOID(check());
    const DType dtype = dtype_of(node_, 0), work = computed_dtype(dtype);
    const Shape& q_shape = shape_of(node_, 0);
    const Dim batch = q_shape[0], steps = q_shape[1];
    const int64_t per_head = q_heads_ / heads_;  // heads of queries that share one of keys
    const Dim dk = floordiv(q_shape[2], q_heads_), dv = floordiv(shape_of(node_, 2)[2], heads_);
    const auto each_step = [&](size_t input, Shape shape) {
      Value* x = g_.reshape(g_.cast(node_.inputs[input], work), std::move(shape));
      std::vector<int64_t> perm = first_numbers(x->shape().size());
      std::swap(perm[0], perm[1]);
      return g_.transpose(x, std::move(perm));
    };
    double scale = node_.attrs.get_float("scale", 0);
    if (scale == 0) {
      if (!dk.is_number()) return not_known(node_, "LinearAttention needs the heads' size when the model is compiled");
      scale = 1 / std::sqrt(static_cast<double>(dk.value()));
    }
    Value* q = g_("Mul", {each_step(0, {batch, steps, heads_, per_head, dk}), g_.number(scale, work)});
    Value* k = each_step(1, {batch, steps, heads_, 1, dk});
    Value* v = each_step(2, {batch, steps, heads_, 1, dv});
    Value *decay = nullptr, *beta = nullptr;
    if (gates_) {
      const bool is_scalar = shape_of(node_, 4)[2] == Dim(heads_);
      decay = g_("Exp", {each_step(4, {batch, steps, heads_, is_scalar ? Dim(1) : dk, 1})});
    }
    if (corrects_) beta = each_step(5, {batch, steps, shape_of(node_, 5)[2], 1, 1});
    const Shape state_shape{batch, heads_, dk, dv};
    Value* initial = node_.input(3) ? g_.cast(node_.inputs[3], work)
                                    : g_("Expand", {g_.number(0, work)}, {{{"shape", dims_attr(state_shape)}}});

    passes::NodeBuilder& outside = g_.nodes();
    passes::LoopBuilder loop(outside, outside.extent(node_.inputs[0], 1));
    passes::NodeBuilder& body = loop.body();
    Value* state = loop.carry("state", initial);
    const auto step = [&](const char* name, Value* all) {
      return body.pick(name, loop.capture(name, all), loop.iteration());
    };
    Value *q_t = step("q", q), *k_t = step("k", k), *v_t = step("v", v);
    if (decay) state = body.value("Mul", "decayed", {state, step("decay", decay)});
    if (beta) {
      Value* rest = body.value("Sub", "rest", {v_t, body.value("MatMul", "retrieved", {k_t, state})});
      v_t = body.value("Mul", "correction", {step("beta", beta), rest});
    }
    Value* written = body.value("Mul", "written", {body.transposed(k_t, {0, 1, 3, 2}), v_t});
    state = body.value("Add", "state", {state, written});
    Value* read = body.value("MatMul", "read", {q_t, state});
    Node* made = loop.finish(outside.name("loop"), {{"state", state}}, {{"read", read}});
    made->outputs[0]->type = TensorType{work, state_shape};
    made->outputs[1]->type = TensorType{work, {steps, batch, heads_, per_head, dv}};

    Value* y = g_.transpose(made->outputs[1], {1, 0, 2, 3, 4});
    y = g_.reshape(y, {batch, steps, dv * q_heads_});
    return std::vector{g_.cast(y, dtype), g_.cast(made->outputs[0], node_.input(3) ? dtype_of(node_, 3) : dtype)};
  }

 private:
  Result<> check() {
    FETTLE_TRY_VOID(
        passes::check_attributes(node_, {"chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule"}));
    const std::string rule = node_.attrs.get_string("update_rule", "gated_delta");
    if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
      return bad_attribute(node_, "update_rule is " + rule);
    gates_ = rule == "gated" || rule == "gated_delta";
    corrects_ = rule == "delta" || rule == "gated_delta";
    if (gates_ != (node_.input(4) != nullptr) || corrects_ != (node_.input(5) != nullptr))
      return bad_attribute(node_, "decay or beta does not fit the update_rule " + rule);
    q_heads_ = node_.attrs.get_int("q_num_heads", 0);
    heads_ = node_.attrs.get_int("kv_num_heads", 0);
    if (heads_ < 1 || q_heads_ < 1 || q_heads_ % heads_ != 0 || q_heads_ > kMaxDim)
      return bad_attribute(node_, fmt::format("{} heads of queries, {} of keys", q_heads_, heads_));
    const Shape& q = shape_of(node_, 0);
    for (const size_t i : {0, 1, 2, 4, 5}) {
      if (!node_.input(i)) continue;
      FETTLE_TRY_VOID(check_rank(node_, i, 3, 3));
      for (const size_t d : {0, 1})
        FETTLE_TRY_VOID(common_dim(node_, q[d], shape_of(node_, i)[d], fmt::format("dim {} of input {}", d, i)));
      const Dim& last = shape_of(node_, i)[2];
      const int64_t n = i == 0 ? q_heads_ : heads_;
      if (i == 5 && last == Dim(1)) continue;
      if (!may_divide(n, last))
        return bad_types(node_, fmt::format("input {} has {} in {} heads", i, last.to_string(), n));
      note_divides(node_, n, last, fmt::format("input {} in heads", i));
    }
    FETTLE_TRY_VOID(
        common_dim(node_, floordiv(q[2], q_heads_), floordiv(shape_of(node_, 1)[2], heads_), "queries and keys"));
    if (corrects_ && !(shape_of(node_, 5)[2] == Dim(1)))
      FETTLE_TRY_VOID(common_dim(node_, shape_of(node_, 5)[2], heads_, "beta"));
    if (gates_) {
      const Dim& last = shape_of(node_, 4)[2];
      if (!last.is_number() && may_equal(last, heads_))
        return not_known(node_, "LinearAttention needs the last extent of decay when the model is compiled");
      if (!(last == Dim(heads_))) FETTLE_TRY_VOID(common_dim(node_, last, shape_of(node_, 1)[2], "decay and keys"));
    }
    return {};
  }

  Lowering& g_;
  const Node& node_;
  bool gates_ = false, corrects_ = false;
  int64_t q_heads_ = 0, heads_ = 0;
};

Values linear_attention(Lowering& g, const Node& node) { return LinearAttention(g, node).run(); }

constexpr OpDef linear_attention_defs[] = {
    composite<causal_conv>("CausalConvWithState", {2, 4}, 2),
    composite<linear_attention>("LinearAttention", {3, 6}, 2),  // (q, k, v, past state, decay, beta) → (y, state)
};

}  // namespace

extern constinit const OpFamily linear_attention_ops{"linear_attention", linear_attention_defs};

}  // namespace fettle
