#include "codegen/onednn/program.h"

#include <algorithm>
#include <limits>

#include "analysis/sites.h"

namespace fettle::onednn {
namespace {

/// Each iterator is a loop of its own, from 0 to the iterator's extent.
bool covers(const BlockSite& site) {
  if (site.parent >= 0 || site.condition || site.block->predicate) return false;
  std::vector<const VarNode*> bound;
  for (const IterVar& iter : site.block->iters) {
    const auto* var = iter.binding.as<VarNode>();
    const auto loop = std::ranges::find_if(site.loops, [&](const ForNode* f) { return f->var.get() == var; });
    if (is_zero(iter.binding) && is_one(iter.extent)) continue;
    if (!var || loop == site.loops.end() || std::ranges::find(bound, var) != bound.end()) return false;
    if (!is_zero((*loop)->min) || !structural_equal((*loop)->extent, iter.extent)) return false;
    bound.push_back(var);
  }
  return true;
}

std::optional<std::vector<int64_t>> numbers(const std::vector<Expr>& list) {
  std::vector<int64_t> found;
  for (const Expr& e : list) {
    const int64_t* value = as_int(e);
    if (!value) return std::nullopt;
    found.push_back(*value);
  }
  return found;
}

/// Bounds lo <= v < hi of one dimension each.
struct Bounds {
  std::vector<int64_t> low, high;
};

bool read_bounds(const Expr& condition, const std::vector<Iterator>& iterators, Bounds& bounds) {
  if (const auto* call = condition.as<CallNode>(); call && call->name == "likely" && call->args.size() == 1)
    return read_bounds(call->args[0], iterators, bounds);
  const auto* compare = condition.as<BinaryNode>();
  if (!compare) return is_one(condition);
  if (compare->op == BinaryOp::kAnd)
    return read_bounds(compare->a, iterators, bounds) && read_bounds(compare->b, iterators, bounds);
  if (compare->op != BinaryOp::kLt && compare->op != BinaryOp::kLe) return false;
  // 0 <= b - a, or 0 < b - a
  LinearForm form = linear_form(compare->b);
  form.add(linear_form(compare->a), -1);
  if (compare->op == BinaryOp::kLt) form.add_constant(-1);
  if (form.terms.size() != 1) return false;
  const auto& [term, coefficient] = form.terms[0];
  for (size_t i = 0; i < iterators.size(); ++i) {
    if (term.get() != iterators[i].var.get()) continue;
    if (coefficient == 1)
      bounds.low[i] = std::max(bounds.low[i], -form.constant);
    else if (coefficient == -1)
      bounds.high[i] = std::min(bounds.high[i], form.constant + 1);
    else
      return false;
    return true;
  }
  return false;
}

}  // namespace

bool Step::reduces() const {
  return std::ranges::any_of(iterators, [](const Iterator& i) { return i.reduces; });
}

Result<std::vector<Step>> read_steps(const Func& program) {
  if (!program->int_params.empty()) return declined("sizes are open");
  std::vector<Step> steps;
  for (const BlockSite& site : block_sites(program)) {
    Step step;
    step.block = site.block;
    step.store = site.block->body.as<StoreNode>();
    if (!covers(site) || !step.store || step.store->mask) return declined("the program is not as it was made");
    for (const IterVar& iter : site.block->iters) {
      const int64_t* extent = as_int(iter.extent);
      if (!extent) return declined("sizes are open");
      if (iter.kind != IterKind::kSpatial && iter.kind != IterKind::kReduce)
        return declined("it goes on from step to step");
      step.iterators.push_back({iter.var, *extent, iter.kind == IterKind::kReduce});
    }
    if (const auto* init = site.block->init.as<StoreNode>()) step.initial = init->value;
    if (step.reduces() && !step.initial) return declined("a reduction goes on from what is there");
    steps.push_back(std::move(step));
  }
  return steps;
}

int param_of(const Func& program, const BufferNode* buffer) {
  for (size_t i = 0; i < program->params.size(); ++i)
    if (program->params[i].buffer.get() == buffer) return static_cast<int>(i);
  return -1;
}

std::optional<std::vector<int64_t>> shape_of(const BufferNode& buffer) {
  return buffer.layout ? std::nullopt : numbers(buffer.shape);
}

std::optional<std::vector<int64_t>> strides_of(const BufferNode& buffer) {
  if (!buffer.strides.empty()) return buffer.layout ? std::nullopt : numbers(buffer.strides);
  auto strides = shape_of(buffer);
  if (!strides) return strides;
  int64_t step = 1;
  for (size_t d = strides->size(); d-- > 0;) step *= std::exchange((*strides)[d], step);
  return strides;
}

std::optional<Index> index_of(const Expr& index, const std::vector<Iterator>& iterators) {
  const LinearForm form = linear_form(index);
  Index found{std::vector<int64_t>(iterators.size(), 0), form.constant};
  for (const LinearTerm& term : form.terms) {
    const auto at = std::ranges::find_if(iterators, [&](const Iterator& i) { return i.var.get() == term.expr.get(); });
    if (at == iterators.end()) return std::nullopt;
    found.coefficients[static_cast<size_t>(at - iterators.begin())] = term.coeff;
  }
  return found;
}

const Step* writer_of(const std::vector<Step>& steps, const BufferNode* buffer) {
  for (const Step& step : steps)
    if (step.store->buffer.get() == buffer) return &step;
  return nullptr;
}

bool is_identity(const std::vector<Expr>& indices, const std::vector<Iterator>& iterators) {
  if (indices.size() != iterators.size()) return false;
  for (size_t d = 0; d < indices.size(); ++d)
    if (indices[d].get() != iterators[d].var.get() && !(iterators[d].extent == 1 && is_zero(indices[d]))) return false;
  return true;
}

std::optional<Padded> read_padding(const Step& step) {
  const auto* choice = step.store->value.as<SelectNode>();
  if (!choice || step.reduces() || !is_identity(step.store->indices, step.iterators)) return std::nullopt;
  const auto* inside = choice->if_true.as<LoadNode>();
  const auto* value = choice->if_false.as<FloatImmNode>();
  if (!inside || !value || inside->mask) return std::nullopt;
  const auto shape = shape_of(*inside->buffer);
  const size_t n = step.iterators.size();
  if (!shape || shape->size() != n) return std::nullopt;
  Bounds bounds{std::vector<int64_t>(n, std::numeric_limits<int64_t>::min()),
                std::vector<int64_t>(n, std::numeric_limits<int64_t>::max())};
  if (!read_bounds(choice->condition, step.iterators, bounds)) return std::nullopt;
  Padded padded{inside->buffer.get(), value->value, {}, {}};
  for (size_t d = 0; d < shape->size(); ++d) {
    const auto index = index_of(inside->indices[d], step.iterators);
    if (!index) return std::nullopt;
    const auto one = std::ranges::find(index->coefficients, 1);
    if (one == index->coefficients.end() || std::ranges::count(index->coefficients, 0) + 1 != static_cast<int64_t>(n))
      return std::nullopt;
    const auto i = static_cast<size_t>(one - index->coefficients.begin());
    const int64_t low = -index->constant, high = low + (*shape)[d];
    if (low < 0 || std::ranges::find(padded.dimension, static_cast<int>(i)) != padded.dimension.end())
      return std::nullopt;
    // The condition says neither more nor less than that the image has the element.
    if (std::max<int64_t>(bounds.low[i], 0) != std::max<int64_t>(low, 0) ||
        std::min(bounds.high[i], step.iterators[i].extent) != std::min(high, step.iterators[i].extent))
      return std::nullopt;
    padded.dimension.push_back(static_cast<int>(i));
    padded.low.push_back(low);
  }
  return padded;
}

}  // namespace fettle::onednn
