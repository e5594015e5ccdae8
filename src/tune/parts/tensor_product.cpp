#include "tune/parts/tensor_product.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/matrix_form.h"

namespace fettle {
namespace {

// C + cast(x) * cast(y), in any order: the loads x and y; nulls where it is not.
std::pair<const LoadNode*, const LoadNode*> factors_of(const StoreNode& store) {
  const auto* sum = store.value.as<BinaryNode>();
  if (!sum || sum->op != BinaryOp::kAdd) return {};
  for (const auto& [old, term] : {std::pair{sum->a, sum->b}, std::pair{sum->b, sum->a}}) {
    const auto* own = old.as<LoadNode>();
    const auto* product = term.as<BinaryNode>();
    if (!own || own->buffer != store.buffer || !product || product->op != BinaryOp::kMul) continue;
    const auto* x = product->a.as<CastNode>();
    const auto* y = product->b.as<CastNode>();
    if (x && y) return {x->a.as<LoadNode>(), y->a.as<LoadNode>()};
  }
  return {};
}

bool is_var(const BlockStructure& s, const Expr& index) {
  return std::ranges::any_of(s.vars, [&](const Var& var) { return var.get() == index.get(); });
}

// Of the rows of matrices one in so many has to be there: vectors take longer, since they convert or wait.
constexpr int64_t kLeastRows = 4;

// Vectors of columns for which rows are worth a copy.
constexpr int64_t kLeastColumns = 2;

// Of constant extents, and a product of two matrices but for where their elements lie.
bool copies_as_matrix(const BlockStructure& s) {
  return std::ranges::find(s.open, true) == s.open.end() && matrix_roles(s).has_value();
}

// Every index is an iterator of the block, or constant where that iterator runs once.
bool is_plain(const BlockStructure& s, const AccessPattern& load) {
  return std::ranges::all_of(load.indices, [&](const Expr& index) { return is_zero(index) || is_var(s, index); });
}

// … and is so as the block itself writes it.
bool is_einsum(const BlockNode& block, const std::vector<Expr>& indices) {
  return std::ranges::all_of(indices, [&](const Expr& index) {
    return std::ranges::any_of(block.iters, [&](const IterVar& iter) { return iter.var.get() == index.get(); });
  });
}

// The iterator stands in one index alone, perhaps after what others add.
bool steps_alone(const BlockStructure& s, const AccessPattern& load, size_t iter) {
  int uses = 0;
  for (const Expr& index : load.indices) uses += uses_var(index, s.vars[iter].get());
  return uses == 1 && load.dimension_of(s.vars[iter]) >= 0;
}

// What a product's meaning says of its types and extents; nothing for intrinsics of other forms.
struct ProductForm {
  DType a, b, c;
  int64_t rows, lanes, steps;
};
std::optional<ProductForm> product_form(const TensorIntrinsicDef& intrinsic) {
  const Func meaning = meaning_of(intrinsic);
  if (meaning->params.size() != 3) return {};
  const auto& [a, b, c] = std::tie(meaning->params[0].buffer, meaning->params[1].buffer, meaning->params[2].buffer);
  if (a->rank() != c->rank() || b->rank() != 2 || (c->rank() == 2 && intrinsic.row_group == 1)) return {};
  const int64_t rows = c->rank() == 2 ? *as_int(c->shape[0]) : 1;
  return ProductForm{a->dtype, b->dtype, c->dtype, rows, *as_int(c->shape.back()), *as_int(a->shape.back())};
}

// The rows' operand is of the intrinsic's type, or is brought to it before: all bytes are numbers of 16 bits.
bool can_be_rows(DType given, DType wanted) {
  return given == wanted || ((given == kU8 || given == kI8) && wanted == kI16);
}

// The longest iterator of the output that moves A and not B, of constant extent.
std::optional<size_t> longest_row(const BlockStructure& s, const AccessPattern& a, const AccessPattern& b) {
  std::optional<size_t> row;
  for (size_t i = 0; i < s.n_iters(); ++i)
    if (!s.reduce[i] && !s.open[i] && a.touches(i) && !b.touches(i) && (!row || s.extents[i] > s.extents[*row]))
      row = i;
  return row;
}

}  // namespace

std::optional<TensorProduct> tensor_product(const BlockNode& block, const BlockStructure& s, const Target& target,
                                            const TensorIntrinsicDef* only) {
  const StoreNode* store = single_store(block);
  if (!store || !block.init || s.loads.size() != 2) return {};
  const auto [x, y] = factors_of(*store);
  if (!x || !y || x->buffer == y->buffer || s.loads[0].guarded || s.loads[1].guarded) return {};
  std::optional<size_t> vector;
  for (size_t i = 0; i < s.n_iters() && !vector; ++i)
    if (!s.reduce[i] && s.extents[i] > 1 && s.store.strides[i] == 1) vector = i;
  if (!vector || s.open[*vector]) return {};

  std::optional<TensorProduct> best;
  double best_work = 0;  // of one instruction
  for (const TensorIntrinsicDef* intrinsic : tensor_intrinsics()) {
    if (only && intrinsic != only) continue;
    const auto form = product_form(*intrinsic);
    if (!form || !intrinsic->available(target) || form->c != store->buffer->dtype) continue;
    const double work = static_cast<double>(form->rows * form->lanes * form->steps) / intrinsic->instructions;
    if (best && work <= best_work) continue;
    for (const size_t a : {0, 1}) {
      const size_t b = 1 - a;
      const AccessPattern &row = s.loads[a], &panel = s.loads[b];
      if (!can_be_rows(row.buffer->dtype, form->a) || panel.buffer->dtype != form->b) continue;
      if (row.touches(*vector) || !panel.touches(*vector) || !is_plain(s, panel)) continue;
      std::optional<size_t> depth;
      for (size_t i = 0; i < s.n_iters(); ++i) {
        if (!s.reduce[i] || s.open[i] || !panel.touches(i) || !steps_alone(s, row, i) ||
            s.extents[i] * 2 <= form->steps)
          continue;
        if (!depth || (row.strides[i] == 1 && row.strides[*depth] != 1)) depth = i;
      }
      if (!depth || s.extents[*vector] * 2 <= form->lanes) continue;
      const bool x_is_row = x->buffer == row.buffer;
      TensorProduct found{.intrinsic = intrinsic,
                          .lanes = form->lanes,
                          .steps = form->steps,
                          .rows = form->rows,
                          .a = a,
                          .b = b,
                          .vector = *vector,
                          .depth = *depth,
                          .a_is_plain = is_einsum(block, (x_is_row ? x : y)->indices),
                          .b_is_plain = is_einsum(block, (x_is_row ? y : x)->indices)};
      if (found.of_matrices()) {
        found.row = longest_row(s, row, panel);
        if (!found.row || s.extents[*found.row] * kLeastRows < form->rows) continue;
        // Windows of convolutions are copied, and dot products read them in place: few columns do not pay for that.
        const bool windows = !found.a_is_plain || !found.b_is_plain;
        if (windows && (s.extents[*vector] < kLeastColumns * form->lanes || !copies_as_matrix(s))) continue;
      }
      best = found;
      best_work = work;
      break;
    }
  }
  return best;
}

}  // namespace fettle
