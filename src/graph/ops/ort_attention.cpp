// Layers of attention of ONNX Runtime (com.microsoft), as products, masks and elementwise work: Attention, QAttention,
// MultiHeadAttention, GroupQueryAttention, RotaryEmbedding.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;

/// What the inputs' layouts are brought to: [batch, heads, steps, width]. Keys and values include those of the past.
struct Heads {
  Value *q, *k, *v;
};

Value* joined_at(Lowering& g, Value* past, Value* x, int64_t axis) {
  return past ? g("Concat", {past, x}, {{{"axis", axis}}}) : x;
}
Value* extent(Lowering& g, Value* x, int64_t axis) {
  return g("Squeeze", {g("Shape", {x}, {{{"start", axis}, {"end", axis + 1}}})});
}
Value* picked_at(Lowering& g, Value* x, int64_t axis, int64_t i) {
  return g("Squeeze", {g.slice(x, axis, i, i + 1)}, {{{"axes", std::vector<int64_t>{axis}}}});
}
Value* plus(Lowering& g, Value* x, Value* more) { return more ? g("Add", {x, more}) : x; }

/// [b, s, n * w] → [b, n, s, w]
Result<Value*> split_heads(Lowering& g, const Node& node, Value* x, int64_t heads) {
  if (x->rank() != 3) return bad_types(node, fmt::format("{} is not of rank 3", x->type->to_string()));
  const Dim &batch = x->shape()[0], &steps = x->shape()[1], &columns = x->shape()[2];
  if (heads < 1 || !may_divide(heads, columns))
    return bad_attribute(node, fmt::format("{} columns in {} heads", columns.to_string(), heads));
  note_divides(node, heads, columns, "columns of heads");
  return g.transpose(g.reshape(x, {batch, steps, heads, floordiv(columns, heads)}), {0, 2, 1, 3});
}

/// [b, n, s, w] → [b, s, n * w]
Value* join_heads(Lowering& g, Value* x) {
  const Shape& shape = x->shape();
  return g.reshape(g.transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

/// The attribute, or 1 / √width; 0 counts as missing.
Result<double> scale_of(const Node& node, const Value* q) {
  if (const double stated = node.attrs.get_float("scale", 0); stated != 0) return stated;
  const Dim& width = q->shape()[3];
  if (!width.is_number()) return not_known(node, "the width of a head must be known when the model is compiled");
  return 1 / std::sqrt(static_cast<double>(width.value()));
}

Result<Value*> scores_of(Lowering& g, const Node& node, Value* q, Value* k) {
  FETTLE_TRY(const double scale, scale_of(node, q));
  return g("Mul", {g("MatMul", {q, swapped(g, k)}), g.number(scale, q->dtype())});
}

/// What is added to the scores: 0 of keys that a query sees, else mask_filter_value.
/// mask: [b], how many are seen · [2 * b], the first that is not, and the first that is
///       [b, t] or [b, s, t]: whether it is seen
Result<Value*> padding(Lowering& g, const Node& node, Value* mask, const Heads& heads) {
  const DType dtype = heads.q->dtype();
  Value *hidden = g.attribute("mask_filter_value", -10000, dtype), *seen = g.number(0, dtype);
  const Dim& batch = heads.q->shape()[0];
  const auto chosen = [&](Value* is_seen) { return g("Where", {is_seen, seen, hidden}); };
  if (mask->rank() == 1) {
    const Dim& count = mask->shape()[0];
    Value* places = count_up(g, heads.k, 2);
    const auto limits = [&](Value* list) { return g.unsqueeze(g.cast(list, kI64), {1, 2, 3}); };
    if (may_equal(count, batch)) {
      FETTLE_TRY_VOID(common_dim(node, count, batch, "lengths"));
      return chosen(g("Less", {places, limits(mask)}));
    }
    if (!may_equal(count, batch * 2))
      return bad_types(node, fmt::format("a mask of {} for a batch of {}", count.to_string(), batch.to_string()));
    note_equal(node, count, batch * 2, "ends and beginnings");
    Value* both = g.reshape(mask, {2, batch});
    Value* before_end = g("Less", {places, limits(picked_at(g, both, 0, 0))});
    return chosen(g("And", {before_end, g("LessOrEqual", {limits(picked_at(g, both, 0, 1)), places})}));
  }
  if (mask->rank() != 2 && mask->rank() != 3)
    return bad_types(node, fmt::format("a mask of {} dims is not supported", mask->rank()));
  Value* is_seen = g("Greater", {mask, g.number(0, mask->dtype())});
  return chosen(g.unsqueeze(is_seen, mask->rank() == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}));
}

/// softmax(q · kᵀ * scale + masks + bias) · v, as [b, s, n * w]
/// past: keys before the queries' own, along axis 2 of it.
Result<Value*> attended(Lowering& g, const Node& node, const Heads& heads, Value* past, Value* mask, Value* bias) {
  FETTLE_TRY(Value * scores, scores_of(g, node, heads.q, heads.k));
  const DType dtype = scores->dtype();
  if (mask) {
    FETTLE_TRY(Value * added, padding(g, node, mask, heads));
    scores = g("Add", {scores, added});
  }
  if (node.attrs.get_int("unidirectional", 0) != 0) {
    Value* query = g.unsqueeze(count_up(g, heads.q, 2), {1});
    if (past) query = g("Add", {query, extent(g, past, 2)});
    // Not by mask_filter_value, which may be any number: a later key has no weight.
    Value* hidden = g.number(-std::numeric_limits<double>::infinity(), dtype);
    scores = g("Add", {scores, g("Where", {g("Less", {query, count_up(g, heads.k, 2)}), hidden, g.number(0, dtype)})});
  }
  scores = plus(g, scores, bias);
  return join_heads(g, g("MatMul", {g("Softmax", {scores}, {{{"axis", int64_t{-1}}}}), heads.v}));
}

// --- layers that make queries, keys and values themselves

constexpr std::string_view kSelfAttention[] = {
    "num_heads",        "unidirectional", "mask_filter_value",         "scale",
    "qkv_hidden_sizes", "do_rotary",      "past_present_share_buffer", "rotary_embedding_dim"};

/// all: queries, keys and values beside each other; past: [2, b, n, p, w] → (y, past and new keys and values)
Values self_attention(Lowering& g, const Node& node, Value* all, Value* past, Value* mask, Value* bias) {
  FETTLE_TRY_VOID(check_attributes(node, kSelfAttention));
  for (const char* name : {"do_rotary", "past_present_share_buffer"})
    if (node.attrs.get_int(name, 0) != 0) return bad_attribute(node, fmt::format("{} is not supported", name));
  const int64_t count = node.attrs.get_int("num_heads", 0);
  const Dim& columns = all->shape()[2];
  if (!columns.is_number())
    return not_known(node,
                     fmt::format("{} needs the columns of its weights when the model is compiled", node.op->name));
  std::vector<int64_t> sizes = node.attrs.get_ints("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, columns.value() / 3);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != columns.value() || sizes[0] != sizes[1])
    return bad_attribute(node, fmt::format("{} columns of weights for queries, keys and values", columns.value()));
  std::vector<Value*> parts;
  for (int64_t i = 0, begin = 0; i < 3; begin += sizes[static_cast<size_t>(i++)]) {
    Value* part = g.slice(all, 2, begin, begin + sizes[static_cast<size_t>(i)]);
    FETTLE_TRY(part, split_heads(g, node, part, count));
    parts.push_back(part);
  }
  Heads heads{parts[0], parts[1], parts[2]};
  Value* past_keys = nullptr;
  if (past) {
    if (past->rank() != 5) return bad_types(node, "past is not of rank 5");
    past_keys = picked_at(g, past, 0, 0);
    heads.k = joined_at(g, past_keys, heads.k, 2);
    heads.v = joined_at(g, picked_at(g, past, 0, 1), heads.v, 2);
  }
  FETTLE_TRY(Value * y, attended(g, node, heads, past_keys, mask, bias));
  Value* present = nullptr;
  if (sizes[1] == sizes[2])
    present = g("Concat", {g.unsqueeze(heads.k, {0}), g.unsqueeze(heads.v, {0})}, {{{"axis", int64_t{0}}}});
  return std::vector{y, present};
}

// (x [b, s, in], W [in, columns], bias, mask, past, bias of scores)
Values attention(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3, 3));
  FETTLE_TRY_VOID(check_rank(node, 1, 2, 2));
  Value* all = plus(g, g("MatMul", {node.inputs[0], node.inputs[1]}), node.input(2));
  return self_attention(g, node, all, node.input(4), node.input(3), node.input(5));
}

// (x, W, bias, x scale, W scale, mask, x zero, W zero, past)
Values q_attention(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3, 3));
  FETTLE_TRY_VOID(check_rank(node, 1, 2, 2));
  Value* sum = g("MatMulInteger", {node.inputs[0], node.inputs[1], node.input(6), node.input(7)});
  Value* scale = g("Mul", {node.inputs[3], node.inputs[4]});
  Value* all = g("Add", {g("Mul", {g.cast(sum, scale->dtype()), scale}), node.inputs[2]});
  return self_attention(g, node, all, node.input(8), node.input(5), nullptr);
}

// --- MultiHeadAttention

// (q, k, v, bias, mask, bias of scores, past keys, past values). Queries may come with keys and values, as
// [b, s, n, 3, w], and keys with values, as [b, s, n, 2, w]; keys and values of another attention as [b, n, s, w].
Values multi_head_attention(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"num_heads", "mask_filter_value", "scale", "unidirectional"}));
  const int64_t count = node.attrs.get_int("num_heads", 0);
  for (const size_t i : {8, 9})
    if (node.input(i)) return bad_attribute(node, fmt::format("input {} is not supported", i));
  Value *q = node.inputs[0], *k = node.input(1), *v = node.input(2), *bias = node.input(3);
  Heads heads{};
  const auto turned = [&](Value* packed, int64_t i) { return g.transpose(picked_at(g, packed, 3, i), {0, 2, 1, 3}); };
  const auto with_bias = [&](Value* x, int64_t begin, int64_t end) {
    return bias ? g("Add", {x, g.slice(bias, 0, begin, end)}) : x;
  };
  if (q->rank() == 5) {
    if (k || v || bias) return bad_types(node, "queries that come with keys and values, and a bias or keys beside");
    heads = {turned(q, 0), turned(q, 1), turned(q, 2)};
  } else {
    if (!k || q->rank() != 3) return bad_types(node, "there are no keys, or the queries are not of rank 3");
    const Dim& columns = q->shape().back();
    if (bias && !columns.is_number()) return not_known(node, "the columns of a bias must be known");
    const int64_t width = columns.is_number() ? columns.value() : 0;
    FETTLE_TRY(heads.q, split_heads(g, node, with_bias(q, 0, width), count));
    if (k->rank() == 5) {
      if (v || bias) return bad_types(node, "keys that come with values, and a bias or values beside");
      heads.k = turned(k, 0);
      heads.v = turned(k, 1);
    } else if (k->rank() == 4) {
      if (!v || v->rank() != 4) return bad_types(node, "keys of rank 4, and values that are not");
      heads.k = k;
      heads.v = v;
    } else {
      if (!v) return bad_types(node, "there are no values");
      FETTLE_TRY(heads.k, split_heads(g, node, with_bias(k, width, 2 * width), count));
      FETTLE_TRY(heads.v, split_heads(g, node, with_bias(v, 2 * width, std::numeric_limits<int64_t>::max()), count));
    }
  }
  if ((node.input(6) == nullptr) != (node.input(7) == nullptr))
    return bad_types(node, "past keys and past values come together");
  for (const size_t i : {6, 7})
    if (node.input(i)) FETTLE_TRY_VOID(check_rank(node, i, 4, 4));
  heads.k = joined_at(g, node.input(6), heads.k, 2);
  heads.v = joined_at(g, node.input(7), heads.v, 2);
  FETTLE_TRY(Value * y, attended(g, node, heads, node.input(6), node.input(4), node.input(5)));
  return std::vector{y, heads.k, heads.v};
}

// --- RotaryEmbedding, GroupQueryAttention

/// x [b, n, s, w] or [b, s, n * w], turned by where each step is, of positions [b, s]. ONNX's operator.
Value* rotated(Lowering& g, Value* x, Value* cosines, Value* sines, Value* positions, Attrs attrs) {
  Value* y = g.nodes().value("RotaryEmbedding", "turned", {x, cosines, sines, positions}, std::move(attrs));
  y->type = x->type;  // until its node is lowered
  return y;
}

// (x, positions, cosines, sines); one position is that of the first step
Values rotary_embedding(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(
      check_attributes(node, {"interleaved", "num_heads", "rotary_embedding_dim", "scale", "is_packed_batching"}));
  if (node.attrs.get_int("is_packed_batching", 0) != 0)
    return bad_attribute(node, "is_packed_batching is not supported");
  FETTLE_TRY_VOID(check_rank(node, 0, 3, 4));
  FETTLE_TRY_VOID(check_rank(node, 2, 2, 2));
  Value *x = node.inputs[0], *positions = g.cast(node.inputs[1], kI64);
  const bool is_flat = x->rank() == 3;
  Attrs attrs = picked(node, {"interleaved", "rotary_embedding_dim"});
  if (is_flat) {
    int64_t count = node.attrs.get_int("num_heads", 0);
    const Dim &columns = x->shape()[2], width = shape_of(node, 2)[1] * 2;
    if (count == 0) {
      if (!columns.is_number() || !width.is_number() || width.value() < 1 || columns.value() % width.value() != 0)
        return bad_types(node, fmt::format("{} columns in heads of {}", columns.to_string(), width.to_string()));
      count = columns.value() / width.value();
    }
    attrs.set("num_heads", count);
  }
  const Dim &batch = x->shape()[0], &steps = x->shape()[is_flat ? 1 : 2];
  if (positions->rank() == 1) {
    if (!may_equal(positions->shape()[0], 1)) return bad_types(node, "positions are neither one nor one a step");
    positions = g("Add", {g.reshape(positions, {}), count_up(g, x, is_flat ? 1 : 2)});
    positions = g("Expand", {positions}, {{{"shape", dims_attr({batch, steps})}}});
  }
  return std::vector{rotated(g, x, node.inputs[2], node.inputs[3], positions, std::move(attrs))};
}

enum GroupInput : size_t {
  kPastKey = 3,
  kPastValue,
  kLastPlace,  // of each batch's keys
  kTotal,      // the most keys of a batch
  kCosines,
  kSines,
  kPositions,
  kBias,
  kSinks,
};

/// past, in which x lies from `first` on, one a batch: [b, n, capacity, w].
Value* cached(Lowering& g, Value* past, Value* x, Value* first, const Dim& capacity) {
  const Shape& shape = x->shape();
  if (!past && shape[2] == capacity) return x;  // then all begin at 0
  const Dim missing = past ? capacity - past->shape()[2] : capacity;
  if (!(missing == Dim(0))) {
    Value* zeros =
        g("Expand", {g.number(0, x->dtype())}, {{{"shape", dims_attr({shape[0], shape[1], missing, shape[3]})}}});
    past = past ? joined_at(g, past, zeros, 2) : zeros;
  }
  return g("TensorScatter", {past, x, first}, {{{"axis", int64_t{2}}}});
}

// A batch has lengths of its own: its new keys follow those of its past, and a query sees those up to its own, or the
// last `local_window_size` of them. What is behind these in the cache is not looked at.
Values group_query_attention(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(
      check_attributes(node, {"num_heads", "kv_num_heads", "scale", "softcap", "local_window_size", "do_rotary",
                              "rotary_interleaved", "smooth_softmax", "causal", "kv_cache_bit_width", "k_quant_type",
                              "v_quant_type", "qk_output", "sliding_window_cache", "qk_norm_epsilon"}));
  for (const char* name : {"kv_cache_bit_width", "qk_output", "sliding_window_cache"})
    if (node.attrs.get_int(name, 0) != 0) return bad_attribute(node, fmt::format("{} is not supported", name));
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (node.attrs.get_string(name, "NONE") != "NONE")
      return bad_attribute(node, fmt::format("{} is not supported", name));
  for (size_t i = kSinks + 1; i < node.inputs.size(); ++i)
    if (node.input(i)) return bad_attribute(node, fmt::format("input {} is not supported", i));
  const int64_t window = node.attrs.get_int("local_window_size", -1);
  if (window < 1 && window != -1) return bad_attribute(node, fmt::format("local_window_size is {}", window));
  FETTLE_TRY_VOID(check_given(node, {kLastPlace, kTotal}));
  const int64_t count = node.attrs.get_int("num_heads", 0), shared = node.attrs.get_int("kv_num_heads", 0);
  if (count < 1 || shared < 1 || count % shared != 0)
    return bad_attribute(node, fmt::format("{} heads of queries, {} of keys", count, shared));
  FETTLE_TRY_VOID(check_rank(node, 0, 3, 3));
  Value *q = node.inputs[0], *k = node.input(1), *v = node.input(2);
  if ((k == nullptr) != (v == nullptr)) return bad_types(node, "keys and values come together");
  if (!k) {
    const Dim& columns = q->shape()[2];
    if (!columns.is_number() || columns.value() % (count + 2 * shared) != 0)
      return bad_types(node, fmt::format("{} columns of queries, keys and values", columns.to_string()));
    const int64_t width = columns.value() / (count + 2 * shared);
    k = g.slice(q, 2, count * width, (count + shared) * width);
    v = g.slice(q, 2, (count + shared) * width, columns.value());
    q = g.slice(q, 2, 0, count * width);
  }
  FETTLE_TRY(q, split_heads(g, node, q, count));
  FETTLE_TRY(k, split_heads(g, node, k, shared));
  FETTLE_TRY(v, split_heads(g, node, v, shared));
  const auto total = content_of(*node.inputs[kTotal]);
  if (!total || total->size() != 1) return not_known(node, "total_sequence_length is not known");
  const Dim batch = q->shape()[0], steps = q->shape()[2];
  Value* lengths = g("Add", {g.reshape(g.cast(node.inputs[kLastPlace], kI64), {batch}), g.index(1)});
  // A prompt has no past, though some of it may be padding.
  Value* before = g("Max", {g("Sub", {lengths, extent(g, q, 2)}), g.index(0)});
  Value* places = g("Add", {g.unsqueeze(before, {1}), g.unsqueeze(count_up(g, q, 2), {0})});  // [b, s]
  if (node.attrs.get_int("do_rotary", 0) != 0) {
    FETTLE_TRY_VOID(check_given(node, {kCosines, kSines}));
    FETTLE_TRY_VOID(check_rank(node, kCosines, 2, 2));
    const Dim &width = q->shape()[3], turned = shape_of(node, kCosines)[1] * 2;
    Attrs attrs{{{"interleaved", node.attrs.get_int("rotary_interleaved", 0)}}};
    if (!(width == turned) && turned.is_number()) attrs.set("rotary_embedding_dim", turned.value());
    Value* at = node.input(kPositions) ? g.cast(node.input(kPositions), kI64) : places;
    q = rotated(g, q, node.inputs[kCosines], node.inputs[kSines], at, attrs);
    k = rotated(g, k, node.inputs[kCosines], node.inputs[kSines], at, attrs);
  }
  Value *past_k = node.input(kPastKey), *past_v = node.input(kPastValue);
  if ((past_k == nullptr) != (past_v == nullptr)) return bad_types(node, "past keys and past values come together");
  for (const size_t i : {kPastKey, kPastValue})
    if (node.input(i)) FETTLE_TRY_VOID(check_rank(node, i, 4, 4));
  const Dim capacity = past_k ? max(past_k->shape()[2], total->front()) : total->front();
  note_not_negative(node, capacity - steps, "keys beside those of the queries");
  Value *keys = cached(g, past_k, k, before, capacity), *values = cached(g, past_v, v, before, capacity);
  FETTLE_TRY(k, repeated_heads(g, node, keys, count));
  FETTLE_TRY(v, repeated_heads(g, node, values, count));

  FETTLE_TRY(Value * scores, scores_of(g, node, q, k));
  const DType dtype = scores->dtype();
  if (const double cap = node.attrs.get_float("softcap", 0); cap != 0) {
    Value* most = g.number(cap, dtype);
    scores = g("Mul", {g("Tanh", {g("Div", {scores, most})}), most});
  }
  if (Value* bias = node.input(kBias)) {
    FETTLE_TRY_VOID(check_rank(node, kBias, 4, 4));
    if (!(bias->shape()[3] == capacity)) {  // of a cache that is larger than what is used of it
      const Dim behind = capacity - bias->shape()[3];
      note_not_negative(node, behind, "keys beside those of the bias");
      const Shape& shape = bias->shape();
      Value* zeros =
          g("Expand", {g.number(0, dtype)}, {{{"shape", dims_attr({shape[0], shape[1], shape[2], behind})}}});
      bias = joined_at(g, bias, zeros, 3);
    }
    scores = g("Add", {scores, bias});
  }
  Value *place = g.unsqueeze(places, {1, 3}), *key = count_up(g, keys, 2);
  Value* seen = nullptr;
  if (node.attrs.get_int("causal", 1) != 0) {
    seen = g("LessOrEqual", {key, place});
    if (window > 0)
      seen = g("And", {seen, g("Less", {g("Sub", {place, g.number(static_cast<double>(window), kI64)}), key})});
  } else {
    seen = g("Less", {key, g.unsqueeze(lengths, {1, 2, 3})});
  }
  scores = g("Where", {seen, scores, g.number(-std::numeric_limits<double>::infinity(), dtype)});
  // Another key, of no value, that each query may look at.
  Value* sink = node.input(kSinks)                            ? g.reshape(node.input(kSinks), {1, count, 1, 1})
                : node.attrs.get_int("smooth_softmax", 0) > 0 ? g.number(0, dtype)
                                                              : nullptr;
  if (sink) {
    sink = g("Expand", {g.cast(sink, dtype)}, {{{"shape", dims_attr({batch, count, steps, 1})}}});
    scores = g("Concat", {sink, scores}, {{{"axis", int64_t{3}}}});
  }
  Value* likely = g("Softmax", {scores}, {{{"axis", int64_t{-1}}}});
  if (sink) likely = g.slice(likely, 3, 1, std::numeric_limits<int64_t>::max());
  return std::vector{join_heads(g, g("MatMul", {likely, v})), keys, values};
}

constexpr ParamInput total_param[] = {{kTotal, "", kDims}};
constexpr OpDef ort_attention_defs[] = {
    composite<attention>("com.microsoft.Attention", {2, 7}, 2),
    composite<q_attention>("com.microsoft.QAttention", {5, 9}, 2),
    composite<multi_head_attention>("com.microsoft.MultiHeadAttention", {1, 10}, 4),
    composite<group_query_attention>("com.microsoft.GroupQueryAttention", {1, 16}, 4, total_param),
    composite<rotary_embedding>("com.microsoft.RotaryEmbedding", 4),
};

}  // namespace

extern constinit const OpFamily ort_attention_ops{"ort_attention", ort_attention_defs};

}  // namespace fettle
