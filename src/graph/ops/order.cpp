// Operators that order elements: TopK.

#include <fmt/format.h>

#include "graph/ops/heap.h"

namespace fettle {
namespace {

using namespace ops;

// --- TopK(x, k) {axis, largest}: a heap of k positions, whose root gives way to what comes ahead of it

Result<Dim> count_of(const Node& node) {
  FETTLE_TRY(const auto k, dims_param(node, 1, "k"));
  if (!k || k->size() != 1) return bad_attribute(node, "k must be one number");
  return k->front();
}
Types top_k_type(const Node& node) {
  FETTLE_TRY(const int64_t axis, axis_of(node, -1));
  FETTLE_TRY(const Dim k, count_of(node));
  const Dim& extent = shape_of(node, 0)[static_cast<size_t>(axis)];
  if (k.max() < 0 || (extent - k).max() < 0)
    return bad_attribute(node, fmt::format("k = {} of an extent of {}", k.to_string(), extent.to_string()));
  note_not_negative(node, k, "k");
  note_not_negative(node, extent - k, "an extent without its k elements");
  if (dtype_of(node, 0) == kBool) return bad_types(node, "elements that are true or false have no order");
  const Shape shape = with_replaced(shape_of(node, 0), axis, k);
  return std::vector<TensorType>{{dtype_of(node, 0), shape}, {kI64, shape}};
}
Tensors top_k(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, -1, in[0].rank()));
  const bool largest = node.attrs.get_int("largest", 1) != 0;
  const Expr n = in[0].dim(static_cast<int>(axis)), k = size_expr(output_shape(node)[static_cast<size_t>(axis)]);
  std::vector<te::BlockAxis> rows;
  Indices row;
  for (int d = 0; d < in[0].rank(); ++d)
    if (d != axis) {
      rows.push_back({make_var("vi" + std::to_string(d)), in[0].dim(d)});
      row.push_back(rows.back().var);
    }
  // Halves are compared in single precision.
  const DType compared = computed_dtype(in[0].dtype());
  const auto element = [&](const Expr& i) { return cast(compared, in[0](with_inserted(row, axis, i))); };
  const auto ahead = [&](const Buffer& verdict, const Expr& i, const Expr& j) {
    const Stmt told = let_be("x", element(i), [&](const Expr& x) {
      return let_be("y", element(j), [&](const Expr& y) {
        const Expr before = largest ? ordered_less(y, x) : ordered_less(x, y);
        const Expr after = largest ? ordered_less(x, y) : ordered_less(y, x);
        return set(verdict, select(logical_or(before, logical_and(logical_not(after), lt(i, j))), Expr(1), Expr(0)));
      });
    });
    return if_then(logical_and(inside(i, n), inside(j, n)), told);
  };
  std::vector<Expr> shape;
  for (const Dim& d : output_shape(node)) shape.push_back(size_expr(d));
  const te::Tensor order = te::opaque(
      {{shape, kI64}}, rows,
      [&](const std::vector<Buffer>& out) {
        const Heap heap(out[0], k, [&](const Expr& slot) { return with_inserted(row, axis, slot); }, ahead);
        // The root's element: what does not pass it, as most do not, is told by one comparison.
        const Buffer bound = make_buffer("bound", {1}, compared, kScopeRegister);
        const Stmt note_bound = let_be("root", heap.item(0), [&](const Expr& root) {
          return if_then(inside(root, n), set(bound, element(root)));
        });
        const Stmt others = count_up("i", n - k, [&](const Expr& i) {
          return let_be("next", k + i, [&](const Expr& next) {
            const Stmt challenge = let_be("root", heap.item(0), [&](const Expr& root) {
              return heap.if_ahead(next, root, seq({heap.sift(next, 0, k), note_bound}));
            });
            const Expr x = element(next), stays = largest ? le(x, get(bound)) : le(get(bound), x);
            return if_then(logical_not(stays), challenge);
          });
        });
        std::vector<Buffer> locals = heap.locals();
        locals.push_back(bound);
        return te::Statements(
            seq({count_up("i", k, [&](const Expr& i) { return heap.put(i, i); }), heap.arrange(k),
                 if_then(lt(Expr(0), k), seq({set(bound, constant(0, compared)), note_bound, others})), heap.sort(k)}),
            std::move(locals));
      },
      tensor_name(node) + "_order")[0];
  return std::vector<te::Tensor>{
      map_output(node, [&](const Indices& i) { return in[0](with_replaced(i, axis, wrapped(order(i), n))); }), order};
}

constexpr ParamInput k_param[] = {{1, "k", kDims}};
constexpr OpDef order_defs[] = {
    define(kOpaque, "TopK", {1, 2}, top_k_type, top_k, {.params = k_param, .n_outputs = 2, .work = kMoves}),
};

}  // namespace

extern constinit const OpFamily order_ops{"order", order_defs};

}  // namespace fettle
