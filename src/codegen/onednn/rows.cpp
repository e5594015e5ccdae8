#include "codegen/onednn/rows.h"

#include <cmath>
#include <limits>

namespace fettle::onednn {
namespace {

/// Rows, and the elements of one: a step's iterators are the row, then perhaps the element.
struct Rows {
  int64_t count = 0, length = 0;
};

const BufferNode* written(const Step& step) { return step.store->buffer.get(); }

/// e == buffer[row], or buffer[row, element].
bool is_load(const Expr& e, const BufferNode* buffer, const Step& step, size_t rank) {
  const auto* load = e.as<LoadNode>();
  if (!load || load->mask || load->buffer.get() != buffer || load->indices.size() != rank) return false;
  for (size_t d = 0; d < rank; ++d)
    if (load->indices[d].get() != step.iterators[d].var.get()) return false;
  return true;
}

/// e == a op b, in either order where `either`; the operands, the one that `first` accepts before the other.
template <class First>
std::optional<std::pair<Expr, Expr>> operands(const Expr& e, BinaryOp op, bool either, First first) {
  const auto* node = e.as<BinaryNode>();
  if (!node || node->op != op) return std::nullopt;
  if (first(node->a)) return std::pair(node->a, node->b);
  if (either && first(node->b)) return std::pair(node->b, node->a);
  return std::nullopt;
}

bool has_shape(const Step& step, const Rows& rows, bool elements, bool reduces) {
  const auto& its = step.iterators;
  return its.size() == (elements ? 2u : 1u) && its[0].extent == rows.count && !its[0].reduces &&
         (!elements || (its[1].extent == rows.length && its[1].reduces == reduces));
}

bool stores(const Step& step, size_t rank) {
  if (step.store->indices.size() != rank) return false;
  for (size_t d = 0; d < rank; ++d)
    if (step.store->indices[d].get() != step.iterators[d].var.get()) return false;
  return true;
}

/// What a sum of a row adds: the term of  s[row] = s[row] + term.
Expr term_of_sum(const Step& step, BinaryOp op, double initial) {
  const auto* start = step.initial.as<FloatImmNode>();
  if (!stores(step, 1) || !start || start->value != initial) return nullptr;
  const auto found =
      operands(step.store->value, op, true, [&](const Expr& e) { return is_load(e, written(step), step, 1); });
  return found ? found->second : Expr();
}

/// The parameter of f32 of this shape, all of its elements in rows; -1: none.
int param_of_rows(const Func& program, const BufferNode* buffer, const Rows& rows) {
  const auto shape = shape_of(*buffer);
  return buffer->dtype == kF32 && shape && *shape == std::vector<int64_t>{rows.count, rows.length}
             ? param_of(program, buffer)
             : -1;
}

MatchedTensor tensor_of(const Func& program, int32_t argument, int param) {
  const BufferNode& buffer = *program->params[static_cast<size_t>(param)].buffer;
  return {argument, param, *shape_of(buffer),
          strides_of(buffer).value_or(std::vector<int64_t>(buffer.shape.size(), 0))};
}

std::optional<Rows> rows_of(const std::vector<Step>& steps, size_t count) {
  if (steps.size() != count || steps[0].iterators.size() != 2) return std::nullopt;
  return Rows{steps[0].iterators[0].extent, steps[0].iterators[1].extent};
}

bool is_number(const Expr& e, double value) {
  const auto* imm = e.as<FloatImmNode>();
  return imm && std::abs(imm->value - value) <= 1e-6 * std::abs(value);
}

}  // namespace

std::optional<Matched> match_softmax(const Func& program, const std::vector<Step>& steps) {
  const auto rows = rows_of(steps, 4);
  if (!rows) return std::nullopt;
  const Step &most = steps[0], &powers = steps[1], &sum = steps[2], &result = steps[3];
  if (!has_shape(most, *rows, true, true) || !has_shape(powers, *rows, true, false) ||
      !has_shape(sum, *rows, true, true) || !has_shape(result, *rows, true, false) || !stores(powers, 2) ||
      !stores(result, 2))
    return std::nullopt;
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  Expr x = term_of_sum(most, BinaryOp::kOrderedMax, kLeast);
  if (!x) x = term_of_sum(most, BinaryOp::kMax, kLeast);
  const auto* source = x.as<LoadNode>();
  if (!source || !is_load(x, source->buffer.get(), most, 2)) return std::nullopt;
  const auto is_x = [&](const Step& step) {
    return [&](const Expr& e) { return is_load(e, source->buffer.get(), step, 2); };
  };
  const auto is_power = [&](const Step& step) {
    return [&](const Expr& e) { return is_load(e, written(powers), step, 2); };
  };
  const auto* exp = powers.store->value.as<CallNode>();
  if (!exp || exp->name != "exp") return std::nullopt;
  const auto difference = operands(exp->args[0], BinaryOp::kSub, false, is_x(powers));
  if (!difference || !is_load(difference->second, written(most), powers, 1)) return std::nullopt;
  const Expr added = term_of_sum(sum, BinaryOp::kAdd, 0);
  if (!added || !is_power(sum)(added)) return std::nullopt;
  const auto quotient = operands(result.store->value, BinaryOp::kDiv, false, is_power(result));
  if (!quotient || !is_load(quotient->second, written(sum), result, 1)) return std::nullopt;
  const int from = param_of_rows(program, source->buffer.get(), *rows),
            to = param_of_rows(program, written(result), *rows);
  if (from < 0 || to < 0) return std::nullopt;
  Matched matched;
  matched.kind = rt::kOnednnSoftmax;
  matched.algorithm = rt::onednn::kSoftmaxAccurate;
  matched.tensors = {tensor_of(program, rt::onednn::kSource, from), tensor_of(program, rt::onednn::kDestination, to)};
  return matched;
}

std::optional<Matched> match_layer_norm(const Func& program, const std::vector<Step>& steps) {
  const auto rows = rows_of(steps, 5);
  if (!rows) return std::nullopt;
  const Step &sum = steps[0], &mean = steps[1], &squares = steps[2], &scale = steps[3], &result = steps[4];
  if (!has_shape(sum, *rows, true, true) || !has_shape(mean, *rows, false, false) ||
      !has_shape(squares, *rows, true, true) || !has_shape(scale, *rows, false, false) ||
      !has_shape(result, *rows, true, false) || !stores(mean, 1) || !stores(scale, 1) || !stores(result, 2))
    return std::nullopt;
  const double share = 1.0 / static_cast<double>(rows->length);
  const Expr x = term_of_sum(sum, BinaryOp::kAdd, 0);
  const auto* source = x.as<LoadNode>();
  if (!source || !is_load(x, source->buffer.get(), sum, 2)) return std::nullopt;
  const auto is_share_of = [&](const Expr& e, const Step& of, const Step& step) {
    const auto found =
        operands(e, BinaryOp::kMul, true, [&](const Expr& a) { return is_load(a, written(of), step, 1); });
    return found && is_number(found->second, share);
  };
  const auto is_centred = [&](const Expr& e, const Step& step) {
    const auto found =
        operands(e, BinaryOp::kSub, false, [&](const Expr& a) { return is_load(a, source->buffer.get(), step, 2); });
    return found && is_load(found->second, written(mean), step, 1);
  };
  if (!is_share_of(mean.store->value, sum, mean)) return std::nullopt;
  const Expr square = term_of_sum(squares, BinaryOp::kAdd, 0);
  const auto factors =
      square ? operands(square, BinaryOp::kMul, false, [&](const Expr& e) { return is_centred(e, squares); })
             : std::nullopt;
  if (!factors || !is_centred(factors->second, squares)) return std::nullopt;
  const auto* root = scale.store->value.as<CallNode>();
  if (!root || root->name != "rsqrt") return std::nullopt;
  const auto inside =
      operands(root->args[0], BinaryOp::kAdd, true, [&](const Expr& e) { return is_share_of(e, squares, scale); });
  const auto* epsilon = inside ? inside->second.as<FloatImmNode>() : nullptr;
  if (!epsilon) return std::nullopt;
  // ((x - mean) * scale) * w[element] + b[element]
  const auto vector_of = [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    const bool fits = load && !load->mask && load->indices.size() == 1 &&
                      load->indices[0].get() == result.iterators[1].var.get() && load->buffer->dtype == kF32 &&
                      shape_of(*load->buffer) == std::vector<int64_t>{rows->length};
    const int param = fits ? param_of(program, load->buffer.get()) : -1;
    return param >= 0 && strides_of(*load->buffer) == std::vector<int64_t>{1} ? param : -1;
  };
  const auto shifted =
      operands(result.store->value, BinaryOp::kAdd, true, [&](const Expr& e) { return vector_of(e) >= 0; });
  if (!shifted) return std::nullopt;
  const auto scaled = operands(shifted->second, BinaryOp::kMul, true, [&](const Expr& e) { return vector_of(e) >= 0; });
  if (!scaled) return std::nullopt;
  const auto normal =
      operands(scaled->second, BinaryOp::kMul, true, [&](const Expr& e) { return is_centred(e, result); });
  if (!normal || !is_load(normal->second, written(scale), result, 1)) return std::nullopt;
  const int from = param_of_rows(program, source->buffer.get(), *rows),
            to = param_of_rows(program, written(result), *rows);
  if (from < 0 || to < 0) return std::nullopt;
  Matched matched;
  matched.kind = rt::kOnednnLayerNorm;
  matched.epsilon = static_cast<float>(epsilon->value);
  matched.tensors = {tensor_of(program, rt::onednn::kSource, from), tensor_of(program, rt::onednn::kDestination, to),
                     tensor_of(program, rt::onednn::kScale, vector_of(scaled->first)),
                     tensor_of(program, rt::onednn::kShift, vector_of(shifted->first))};
  return matched;
}

}  // namespace fettle::onednn
