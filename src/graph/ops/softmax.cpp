// Softmax and its logarithm.

#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

Types softmax_type(const Node& node) {
  if (rank_of(node, 0) == 0) return bad_types(node, "a scalar has no axis");
  FETTLE_TRY_VOID(positive_axis(node, node.attrs.get_int("axis", -1), rank_of(node, 0)));
  return same_type(node);
}

//   greatest = max(x), total = sum(exp(x - greatest)), y = exp(x - greatest) / total
// over one axis, or with `coerced` (opsets before 13) over all from `axis` on.
template <bool Log>
Tensors softmax(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", -1), x.rank()));
  const int64_t last = node.attrs.get_int("coerced", 0) ? x.rank() - 1 : axis;
  const auto is_summed = [&](int64_t d) { return d >= axis && d <= last; };
  std::vector<Expr> kept;
  for (int d = 0; d < x.rank(); ++d)
    if (!is_summed(d)) kept.push_back(x.dim(d));

  const auto outer = [&](const Indices& i) {  // of the output's indices, those that are kept
    Indices indices;
    for (int d = 0; d < x.rank(); ++d)
      if (!is_summed(d)) indices.push_back(i[static_cast<size_t>(d)]);
    return indices;
  };
  const auto inner = [&](const Indices& i, std::vector<te::ReduceAxis>& axes) {
    Indices indices;
    size_t next = 0;
    for (int d = 0; d < x.rank(); ++d) {
      if (!is_summed(d)) {
        indices.push_back(i[next++]);
        continue;
      }
      axes.push_back(te::reduce_axis(x.dim(d), "k" + std::to_string(axes.size())));
      indices.push_back(axes.back().var);
    }
    return indices;
  };
  const te::Tensor greatest = te::compute(
      kept,
      [&](const std::vector<Var>& i) -> te::Body {
        std::vector<te::ReduceAxis> axes;
        const Expr value = x(inner(to_indices(i), axes));
        return te::max(value, axes);
      },
      "softmax_max");
  const auto shifted_exp = [&](const Indices& at, const Indices& row) { return math("exp", {x(at) - greatest(row)}); };
  if (Log) {
    const te::Tensor total = te::compute(
        kept,
        [&](const std::vector<Var>& i) -> te::Body {
          std::vector<te::ReduceAxis> axes;
          const Indices at = inner(to_indices(i), axes);
          return te::sum(shifted_exp(at, to_indices(i)), axes);
        },
        "softmax_sum");
    return one(
        map_output(node, [&](const Indices& i) { return x(i) - greatest(outer(i)) - math("log", {total(outer(i))}); }));
  }
  // The exponentials are kept, so that each is computed once.
  const te::Tensor exps = te::compute(
      x.shape(), [&](const std::vector<Var>& i) { return shifted_exp(to_indices(i), outer(to_indices(i))); },
      "softmax_exp");
  const te::Tensor total = te::compute(
      kept,
      [&](const std::vector<Var>& i) -> te::Body {
        std::vector<te::ReduceAxis> axes;
        const Expr value = exps(inner(to_indices(i), axes));
        return te::sum(value, axes);
      },
      "softmax_sum");
  return one(map_output(node, [&](const Indices& i) { return exps(i) / total(outer(i)); }));
}

constexpr OpDef defs[] = {
    {.name = "Softmax", .fusion = FusionKind::kReduction, .infer = softmax_type, .compute = softmax<false>},
    {.name = "LogSoftmax", .fusion = FusionKind::kReduction, .infer = softmax_type, .compute = softmax<true>},
};

}  // namespace

extern constinit const OpFamily softmax_ops{"softmax", defs};

}  // namespace fettle
