#include "tune/bound.h"

#include <algorithm>
#include <unordered_map>

#include "arith/int_eval.h"
#include "arith/linear.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

constexpr int64_t kMostIndices = 1 << 20;  // of one dimension, that are looked at

double elements(const BufferNode& buffer) {
  double count = 1;
  for (const Expr& extent : buffer.shape) {
    const int64_t* n = as_int(extent);
    count *= n ? static_cast<double>(*n) : 1;
  }
  return count;
}

/// How often an index takes each of its values, by value; nothing where it is no sum of multiples of the block's loops.
std::optional<std::unordered_map<int64_t, double>> values_of(const Expr& index, const BlockStructure& block,
                                                             std::vector<const VarNode*>& used) {
  const LinearForm form = linear_form(index);
  std::unordered_map<int64_t, double> values{{form.constant, 1}};
  for (const LinearTerm& term : form.terms) {
    const auto loop = std::ranges::find(block.vars, term.expr.get(), &Var::get);
    if (loop == block.vars.end() || std::ranges::find(used, loop->get()) != used.end()) return {};
    used.push_back(loop->get());
    const int64_t extent = block.extents[static_cast<size_t>(loop - block.vars.begin())];
    if (static_cast<int64_t>(values.size()) * extent > kMostIndices) return {};
    std::unordered_map<int64_t, double> sums;
    for (const auto& [value, count] : values)
      for (int64_t i = 0; i < extent; ++i) sums[value + term.coeff * i] += count;
    values = std::move(sums);
  }
  return values;
}

}  // namespace

Paddings::Paddings(const Func& workload) {
  for (const BlockNode* block : blocks_of(workload.root()))
    if (auto padding = padding_of(workload, *block)) paddings_.push_back(std::move(*padding));
}

std::optional<Paddings::Padding> Paddings::padding_of(const Func& workload, const BlockNode& block) {
  const auto structure = block_structure(workload, block);
  if (!structure || std::ranges::count(structure->reduce, true) > 0) return {};
  if (structure->loads.size() != 1 || !structure->loads.front().guarded) return {};
  const StoreNode& store = *single_store(block);
  Padding padding{.buffer = store.buffer};
  padding.share = std::min(1.0, elements(*structure->loads.front().buffer) / elements(*store.buffer));
  const auto* choice = store.value.as<SelectNode>();
  if (!choice || choice->if_true.kind() != ExprKind::kLoad) return padding;
  // The condition is taken to be one of each index: told dimension by dimension, all others in the middle.
  IntEnv point;
  for (const Expr& index : store.indices) {
    const auto* var = index.as<VarNode>();
    const int64_t* extent = as_int(store.buffer->shape[point.size()]);
    if (!var || !extent || *extent > kMostIndices || point.find(var)) return padding;
    point.push(var, *extent / 2);
  }
  const auto holds = [&] {
    int64_t value = 0;
    return evaluate_int(choice->condition, point, value) == IntProblem::kNone && value != 0;
  };
  if (!holds()) return padding;
  for (size_t d = 0; d < store.indices.size(); ++d) {
    const auto* var = store.indices[d].as<VarNode>();
    std::vector<char>& inside = padding.inside.emplace_back();
    for (int64_t i = 0; i < *as_int(store.buffer->shape[d]); ++i) {
      point.set(var, i);
      inside.push_back(holds());
    }
    point.set(var, static_cast<int64_t>(inside.size()) / 2);
  }
  return padding;
}

double Paddings::share_inside(const BlockStructure& reader, const AccessPattern& load, const Padding& padding) {
  if (padding.inside.empty()) return padding.share;
  double share = 1;
  std::vector<const VarNode*> used;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    const std::vector<char>& inside = padding.inside[d];
    if (std::ranges::count(inside, 0) == 0) continue;
    const auto values = values_of(load.indices[d], reader, used);
    if (!values) return std::min(share, padding.share);
    double all = 0, those = 0;
    for (const auto& [value, count] : *values) {
      all += count;
      if (value >= 0 && value < static_cast<int64_t>(inside.size()) && inside[static_cast<size_t>(value)])
        those += count;
    }
    share *= those / all;
  }
  return share;
}

double Paddings::share_inside(const BlockStructure& reader) const {
  double share = 1;
  for (const AccessPattern& load : reader.loads)
    for (const Padding& padding : paddings_)
      if (padding.buffer.get() == load.buffer.get()) share = std::min(share, share_inside(reader, load, padding));
  return share;
}

double needed_flops(const Func& workload) {
  const Paddings paddings(workload);
  double flops = 0;
  for (const BlockNode* block : blocks_of(workload.root()))
    if (const auto structure = block_structure(workload, *block); structure && structure->multiplies_two_loads)
      flops += 2 * paddings.share_inside(*structure) * static_cast<double>(structure->points());
  return flops;
}

}  // namespace fettle
