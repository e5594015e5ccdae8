#include "graph/passes/lower_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/passes/match.h"
#include "graph/passes/node_builder.h"

namespace fettle::passes {
namespace {

// Opset 23 broadcasts a mask, where later ones take what is behind its end for hidden.
constexpr std::string_view kWholeMask = "whole_mask";

using ops::bad_attribute;
using ops::bad_types;

Result<> check_names(const Node& node, std::initializer_list<std::string_view> integers,
                     std::initializer_list<std::string_view> floats = {}) {
  for (const auto& [name, value] : node.attrs.entries) {
    const bool is_int = std::ranges::count(integers, name) > 0, is_float = std::ranges::count(floats, name) > 0;
    if (!is_int && !is_float) return bad_attribute(node, fmt::format("it has no attribute \"{}\"", name));
    if (is_int ? !std::holds_alternative<int64_t>(value) : !std::holds_alternative<double>(value))
      return bad_attribute(node, fmt::format("{} is of another type", name));
  }
  return {};
}

Result<> check_range(const Node& node, std::string_view name, int64_t most) {
  const int64_t value = node.attrs.get_int(name, 0);
  if (value >= 0 && value <= most) return {};
  return bad_attribute(node, fmt::format("{} is {}, not 0 to {}", name, value, most));
}

/// The extent of each of `heads`, of which `whole` has as many.
Result<Dim> head_width(const Node& node, std::string_view input, const Dim& whole, int64_t heads) {
  if (!ops::may_divide(heads, whole))
    return bad_types(node, fmt::format("the {} columns of {} are no {} heads", whole.to_string(), input, heads));
  ops::note_divides(node, heads, whole, fmt::format("the columns of {} in heads", input));
  return floordiv(whole, heads);
}

/// A node's work in the making.
class LayerLowering {
 public:
  LayerLowering(Graph& graph, Node* layer)
      : graph_(graph), layer_(*layer), nodes_(graph, layer->name + ".", layer->provenance) {}

 protected:
  Value* unsqueezed(Value* x, std::vector<int64_t> axes) {
    return nodes_.value("Unsqueeze", "unsqueezed", {x}, {{{"axes", std::move(axes)}}});
  }
  Value* cast(Value* x, int64_t to) { return nodes_.value("Cast", "cast", {x}, {{{"to", to}}}); }
  Value* number(double value) { return nodes_.constant("number", scalar(value, layer_.input(0)->dtype())); }
  void replace(size_t output, Value* value) {
    if (output < layer_.outputs.size()) graph_.replace_uses(layer_.outputs[output], value);
  }

  Graph& graph_;
  Node& layer_;
  NodeBuilder nodes_;
};

// --- Attention ----------------------------------------------------------------------------------------------------

enum Input : size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };
enum Output : size_t { kY, kPresentKey, kPresentValue, kScores };
/// What the output of scores has.
enum ScoresMode : int64_t { kProduct, kCapped, kMasked, kSoftmax };

class AttentionLowering : LayerLowering {
 public:
  using LayerLowering::LayerLowering;

  Result<std::vector<Node*>> run() {
    FETTLE_TRY_VOID(check_attributes());
    FETTLE_TRY_VOID(read_shapes());
    FETTLE_TRY_VOID(check_mask());
    Value* key = with_past(kPastKey, heads_first(kK, {batch_, kv_heads_, new_keys_, width_}));
    Value* value = with_past(kPastValue, heads_first(kV, {batch_, kv_heads_, new_keys_, value_width_}));
    replace(kPresentKey, key);
    replace(kPresentValue, value);
    Value* query = heads_first(kQ, {batch_, heads_, queries_, width_});
    Value* turned = nodes_.transposed(repeated(key, width_), {0, 1, 3, 2});
    Value* scores = nodes_.value("MatMul", "scores", {scaled(query), turned});
    give_scores(kProduct, scores);
    if (const double cap = layer_.attrs.get_float("softcap", 0); cap > 0) {
      Value* bent = nodes_.value("Tanh", "capped", {nodes_.value("Div", "uncapped", {scores, number(cap)})});
      scores = nodes_.value("Mul", "capped", {bent, number(cap)});
    }
    give_scores(kCapped, scores);
    scores = masked(scores, key);
    give_scores(kMasked, scores);
    scores = softmax(scores);
    give_scores(kSoftmax, scores);
    Value* y = nodes_.value("MatMul", "values", {scores, repeated(value, value_width_)});
    if (is_flat())
      y = nodes_.value("Reshape", "flat", {nodes_.transposed(y, {0, 2, 1, 3})},
                       reshape_attrs({batch_, queries_, heads_ * value_width_}));
    replace(kY, y);
    graph_.erase(&layer_);
    return nodes_.added();
  }

 private:
  Value* input(Input i) const { return layer_.input(i); }
  bool is_flat() const { return input(kQ)->rank() == 3; }

  Result<> check_attributes() const {
    FETTLE_TRY_VOID(check_names(
        layer_, {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "softmax_precision", kWholeMask},
        {"scale", "softcap"}));
    FETTLE_TRY_VOID(check_range(layer_, "is_causal", 1));
    FETTLE_TRY_VOID(check_range(layer_, "qk_matmul_output_mode", kSoftmax));
    if (const double cap = layer_.attrs.get_float("softcap", 0); !(cap >= 0))
      return bad_attribute(layer_, fmt::format("softcap is {}, not 0 or more", cap));
    if (layer_.attrs.has("softmax_precision")) {
      const int64_t code = layer_.attrs.get_int("softmax_precision", 0);
      const auto dtype = element_type(code);
      if (!dtype || !dtype->is_float())
        return bad_attribute(layer_, fmt::format("softmax_precision is {}, no type of floats", code));
    }
    if ((input(kPastKey) == nullptr) != (input(kPastValue) == nullptr))
      return bad_attribute(layer_, "past_key and past_value come together");
    if (input(kLengths) && input(kPastKey))
      return bad_attribute(layer_, "nonpad_kv_seqlen is of caches that are whole, and there are past keys");
    return {};
  }

  /// Of inputs of rank 3 the attribute; of rank 4 the extent, which the attribute must not contradict.
  Result<Dim> heads_of(Input i, std::string_view name) const {
    const int64_t stated = layer_.attrs.get_int(name, 0);
    if (layer_.attrs.has(name) && stated < 1) return bad_attribute(layer_, fmt::format("{} is {}", name, stated));
    if (is_flat() && stated == 0) return bad_attribute(layer_, fmt::format("inputs of rank 3 need {}", name));
    if (is_flat()) return Dim(stated);
    const Dim& heads = input(i)->shape()[1];
    if (stated == 0) return heads;
    if (!may_equal(heads, stated))
      return bad_attribute(layer_, fmt::format("{} is {}, of {} heads", name, stated, heads.to_string()));
    ops::note_equal(layer_, heads, stated, name);
    return Dim(stated);
  }

  Result<> read_shapes() {
    const TensorType& q = *input(kQ)->type;
    const DType dtype = q.dtype;
    const size_t rank = q.shape.size();
    if (!dtype.is_float() || (rank != 3 && rank != 4))
      return bad_types(layer_, fmt::format("Q is {}, not of rank 3 or 4 and floating point", q.to_string()));
    for (const auto& [i, name] : {std::pair(kK, "K"), std::pair(kV, "V")}) {
      const TensorType& type = *input(i)->type;
      if (type.shape.size() != rank)
        return bad_types(layer_, fmt::format("{} is {}, and Q is {}", name, type.to_string(), q.to_string()));
      if (type.dtype != dtype)
        return fail(
            ErrorCode::E603,
            fmt::format("Attention with {} of {}, and Q of {}", name, type.dtype.to_string(), dtype.to_string()),
            layer_.name);
    }
    FETTLE_TRY(heads_, heads_of(kQ, "q_num_heads"));
    FETTLE_TRY(kv_heads_, heads_of(kK, "kv_num_heads"));
    const Shape &k = input(kK)->shape(), &v = input(kV)->shape();
    batch_ = q.shape[0];
    queries_ = q.shape[rank - 2];
    new_keys_ = k[rank - 2];
    width_ = q.shape.back();
    value_width_ = v.back();
    if (is_flat()) {
      FETTLE_TRY(width_, head_width(layer_, "Q", width_, heads_.value()));
      FETTLE_TRY(value_width_, head_width(layer_, "V", value_width_, kv_heads_.value()));
    }
    const auto whole = [&](const Dim& width) {
      return is_flat() ? Shape{batch_, new_keys_, kv_heads_ * width} : Shape{batch_, kv_heads_, new_keys_, width};
    };
    FETTLE_TRY_VOID(ops::check_type(layer_, input(kK), "K", {dtype, whole(width_)}));
    FETTLE_TRY_VOID(ops::check_type(layer_, input(kV), "V", {dtype, whole(value_width_)}));
    keys_ = new_keys_;
    if (input(kPastKey)) {
      const TensorType& past = *input(kPastKey)->type;
      if (past.shape.size() != 4)
        return bad_types(layer_, fmt::format("past_key is {}, not of rank 4", past.to_string()));
      past_ = past.shape[2];
      keys_ = past_ + new_keys_;
      FETTLE_TRY_VOID(
          ops::check_type(layer_, input(kPastKey), "past_key", {dtype, {batch_, kv_heads_, past_, width_}}));
      FETTLE_TRY_VOID(
          ops::check_type(layer_, input(kPastValue), "past_value", {dtype, {batch_, kv_heads_, past_, value_width_}}));
    }
    FETTLE_TRY_VOID(ops::check_type(layer_, input(kLengths), "nonpad_kv_seqlen", {kI64, {batch_}}));
    return read_group();
  }

  Result<> read_group() {
    if (heads_ == kv_heads_) return {};
    if (kv_heads_.max() < 1 || !may_divide_by(heads_, kv_heads_))
      return bad_types(layer_, fmt::format("{} heads of queries do not share {} of keys", heads_.to_string(),
                                           kv_heads_.to_string()));
    group_ = floordiv(heads_, kv_heads_);
    ops::note_equal(layer_, group_ * kv_heads_, heads_, "heads of queries in groups");
    return {};
  }
  static bool may_divide_by(const Dim& whole, const Dim& part) {
    return !part.is_number() || ops::may_divide(part.value(), whole);
  }

  /// Its last extent may be smaller, unless it was read from an opset that broadcasts it.
  Result<> check_mask() {
    const Value* mask = input(kMask);
    if (!mask) return {};
    const TensorType& type = *mask->type;
    if (!type.dtype.is_bool() && type.dtype != input(kQ)->dtype())
      return fail(
          ErrorCode::E603,
          fmt::format("Attention of {} with a mask of {}", input(kQ)->dtype().to_string(), type.dtype.to_string()),
          layer_.name);
    const Shape scores{batch_, heads_, queries_, keys_};
    const size_t rank = type.shape.size();
    bool fits = rank >= 1 && rank <= scores.size();
    for (size_t d = 0; fits && d < rank; ++d) {
      const Dim &is = type.shape[d], &wanted = scores[scores.size() - rank + d];
      if (d + 1 == rank && is_padded()) {
        fits = is.min() <= wanted.max();
        ops::note_not_negative(layer_, wanted - is, "keys beyond those of the mask");
      } else if (!(is == Dim(1))) {
        fits = may_equal(is, wanted);
        ops::note_equal(layer_, is, wanted, fmt::format("dim {} of the mask", d));
      }
    }
    if (!fits)
      return bad_types(layer_,
                       fmt::format("the mask is {}, and the scores are {}", type.to_string(), to_string(scores)));
    return {};
  }
  bool is_padded() const { return layer_.attrs.get_int(kWholeMask, 0) == 0; }

  /// [batch, heads, rows, width]
  Value* heads_first(Input i, Shape shape) {
    if (!is_flat()) return input(i);
    std::swap(shape[1], shape[2]);
    return nodes_.transposed(nodes_.value("Reshape", "heads", {input(i)}, reshape_attrs(std::move(shape))),
                             {0, 2, 1, 3});
  }

  Value* with_past(Input past, Value* x) {
    return input(past) ? nodes_.value("Concat", "present", {input(past), x}, {{{"axis", int64_t{2}}}}) : x;
  }

  /// Each head of keys or values as often as heads of queries read it.
  Value* repeated(Value* x, const Dim& width) {
    if (group_ == Dim(1)) return x;
    Attrs attrs;
    attrs.set("shape", dims_attr({batch_, kv_heads_, group_, keys_, width}));
    Value* expanded = nodes_.value("Expand", "repeated", {unsqueezed(x, {2})}, std::move(attrs));
    return nodes_.value("Reshape", "repeated", {expanded}, reshape_attrs({batch_, heads_, keys_, width}));
  }

  Value* scaled(Value* query) {
    if (layer_.attrs.has("scale"))
      return nodes_.value("Mul", "scaled", {query, number(layer_.attrs.get_float("scale", 1))});
    if (width_.is_number())
      return nodes_.value("Mul", "scaled", {query, number(1 / std::sqrt(static_cast<double>(width_.value())))});
    constexpr int64_t kFloat = 1;
    Value* width = nodes_.extent(query, 3);
    Value* root = nodes_.value("Sqrt", "root", {cast(width, kFloat)});
    return nodes_.value("Div", "scaled", {query, nodes_.value("CastLike", "root", {root, query})});
  }

  Value* seen(Value* condition, Value* scores) {
    return nodes_.value("Where", "masked", {condition, scores, number(-std::numeric_limits<double>::infinity())});
  }

  Value* masked(Value* scores, Value* key) {
    if (Value* mask = input(kMask)) {
      const bool is_truth = mask->dtype().is_bool();
      const Dim& columns = mask->shape().back();
      if (is_padded() && !(columns == keys_)) {
        Attrs attrs{{"axes", std::vector<int64_t>{-1}}, {"pads", dims_attr({0, keys_ - columns})}};
        if (!is_truth) attrs.set("value", -std::numeric_limits<double>::infinity());
        mask = nodes_.value("Pad", "mask", {mask}, std::move(attrs));
      }
      scores = is_truth ? seen(mask, scores) : nodes_.value("Add", "masked", {scores, mask});
    }
    const bool is_causal = layer_.attrs.get_int("is_causal", 0) != 0;
    if (!is_causal && !input(kLengths)) return scores;
    Value* columns = places(nodes_.extent(key, 2));
    if (is_causal) {
      Value* rows = unsqueezed(places(nodes_.extent(input(kQ), is_flat() ? 1 : 2)), {1});
      if (input(kPastKey)) rows = nodes_.value("Add", "rows", {rows, nodes_.extent(input(kPastKey), 2)});
      scores = seen(nodes_.value("LessOrEqual", "causal", {columns, rows}), scores);
    }
    if (Value* lengths = input(kLengths))
      scores = seen(nodes_.value("Less", "filled", {columns, unsqueezed(lengths, {1, 2, 3})}), scores);
    return scores;
  }

  /// 0, 1, …
  Value* places(Value* count) {
    return nodes_.value("Range", "places", {nodes_.number("zero", 0), count, nodes_.number("one", 1)});
  }

  Value* softmax(Value* scores) {
    const int64_t code = layer_.attrs.get_int("softmax_precision", 0);
    const bool converts = code != 0 && *element_type(code) != scores_type();
    Value* x = converts ? cast(scores, code) : scores;
    x = nodes_.value("Softmax", "softmax", {x}, {{{"axis", int64_t{-1}}}});
    return converts ? nodes_.value("CastLike", "softmax", {x, input(kQ)}) : x;
  }
  DType scores_type() const { return input(kQ)->dtype(); }

  void give_scores(ScoresMode mode, Value* scores) {
    if (layer_.attrs.get_int("qk_matmul_output_mode", kProduct) == mode) replace(kScores, scores);
  }

  Dim batch_, heads_, kv_heads_, queries_, keys_, new_keys_, width_, value_width_;
  Dim past_ = 0, group_ = 1;
};

// --- RotaryEmbedding ----------------------------------------------------------------------------------------------

class RotaryLowering : LayerLowering {
 public:
  using LayerLowering::LayerLowering;

  Result<std::vector<Node*>> run() {
    FETTLE_TRY_VOID(check_names(layer_, {"interleaved", "num_heads", "rotary_embedding_dim"}));
    FETTLE_TRY_VOID(check_range(layer_, "interleaved", 1));
    FETTLE_TRY_VOID(read_shapes());
    Value* x = layer_.input(0);
    const Shape whole = x->shape();
    if (is_flat_) x = nodes_.value("Reshape", "heads", {x}, reshape_attrs({batch_, steps_, heads_, width_}));
    Value* rest = nullptr;
    if (!(turned_ == width_)) {
      rest = part(x, turned_, width_);
      x = part(x, 0, turned_);
    }
    x = turn(x, factor(1), factor(2));
    if (rest) x = nodes_.value("Concat", "whole", {x, rest}, {{{"axis", int64_t{-1}}}});
    if (is_flat_) x = nodes_.value("Reshape", "flat", {x}, reshape_attrs(whole));
    replace(0, x);
    graph_.erase(&layer_);
    return nodes_.added();
  }

 private:
  Result<> read_shapes() {
    const TensorType& x = *layer_.input(0)->type;
    const size_t rank = x.shape.size();
    if (!x.dtype.is_float() || (rank != 3 && rank != 4))
      return bad_types(layer_, fmt::format("X is {}, not of rank 3 or 4 and floating point", x.to_string()));
    is_flat_ = rank == 3;
    batch_ = x.shape[0];
    steps_ = x.shape[rank - 2];
    width_ = x.shape.back();
    if (is_flat_) {
      heads_ = layer_.attrs.get_int("num_heads", 0);
      if (heads_.value() < 1) return bad_attribute(layer_, "an input of rank 3 needs num_heads");
      FETTLE_TRY(width_, head_width(layer_, "X", width_, heads_.value()));
    }
    turned_ = layer_.attrs.get_int("rotary_embedding_dim", 0);
    if (turned_ == Dim(0)) turned_ = width_;
    if (turned_.max() < 0 || turned_.min() > width_.max() || !ops::may_divide(2, turned_))
      return bad_attribute(layer_, fmt::format("{} columns of {} are turned: it must be an even number of them",
                                               turned_.to_string(), width_.to_string()));
    ops::note_not_negative(layer_, width_ - turned_, "columns that are not turned");
    ops::note_divides(layer_, 2, turned_, "columns in pairs");
    const Value* positions = layer_.input(3);
    const Shape at{batch_, steps_};
    if (positions) {
      FETTLE_TRY_VOID(ops::check_type(layer_, positions, "position_ids", {kI64, at}));
    }
    for (const size_t i : {1, 2}) {
      const Shape& given = layer_.input(i)->shape();
      const Dim pairs = floordiv(turned_, 2);
      const Shape wanted = positions ? Shape{given.empty() ? Dim(0) : given[0], pairs} : Shape{batch_, steps_, pairs};
      FETTLE_TRY_VOID(ops::check_type(layer_, layer_.input(i), i == 1 ? "cos_cache" : "sin_cache", {x.dtype, wanted}));
    }
    return {};
  }

  Value* part(Value* x, const Dim& from, const Dim& to, int64_t step = 1) {
    Attrs attrs;
    attrs.set("starts", dims_attr({from}));
    attrs.set("ends", dims_attr({to}));
    attrs.set("axes", std::vector<int64_t>{-1});
    attrs.set("steps", std::vector<int64_t>{step});
    return nodes_.value("Slice", "part", {x}, std::move(attrs));
  }

  /// Cosines or sines, beside the heads.
  Value* factor(size_t i) {
    Value* table = layer_.input(i);
    if (Value* positions = layer_.input(3)) table = nodes_.pick("factor", table, positions);
    return unsqueezed(table, {is_flat_ ? 2 : 1});
  }

  Value* turn(Value* x, Value* cosine, Value* sine) {
    const bool interleaved = layer_.attrs.get_int("interleaved", 0) != 0;
    const Dim half = floordiv(turned_, 2);
    Value* a = interleaved ? part(x, 0, turned_, 2) : part(x, 0, half);
    Value* b = interleaved ? part(x, 1, turned_, 2) : part(x, half, turned_);
    const auto product = [&](Value* u, Value* v) { return nodes_.value("Mul", "turned", {u, v}); };
    Value* real = nodes_.value("Sub", "real", {product(a, cosine), product(b, sine)});
    Value* imaginary = nodes_.value("Add", "imaginary", {product(a, sine), product(b, cosine)});
    if (!interleaved) return nodes_.value("Concat", "turned", {real, imaginary}, {{{"axis", int64_t{-1}}}});
    Value* pairs = nodes_.value("Concat", "pairs", {unsqueezed(real, {-1}), unsqueezed(imaginary, {-1})},
                                {{{"axis", int64_t{-1}}}});
    const Dim rows = is_flat_ ? steps_ : layer_.input(0)->shape()[1];
    const Dim columns = is_flat_ ? heads_ : steps_;
    return nodes_.value("Reshape", "turned", {pairs}, reshape_attrs({batch_, rows, columns, turned_}));
  }

  bool is_flat_ = false;
  Dim batch_, steps_, heads_, width_, turned_;
};

}  // namespace

Result<std::vector<Node*>> lower_attention_layer(Graph& graph, Node* layer) {
  if (layer->op->name == "Attention") return AttentionLowering(graph, layer).run();
  return RotaryLowering(graph, layer).run();
}

}  // namespace fettle::passes
