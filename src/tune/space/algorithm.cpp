#include "tune/space/algorithm.h"

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

constexpr int64_t kTaps = 3, kFewChannels = 16, kFewPixels = 4;

// The dimensions of a convolution's output, where minimal filtering may pay.
std::optional<MinimalFiltering> filtered_convolution(const Func& func, const BlockNode& block) {
  const auto structure = block_structure(func, block);
  if (!structure || !structure->multiplies_two_loads || structure->loads.size() != 2) return {};
  if (!structure->store.buffer->dtype.is_float() || structure->store.buffer->dtype.bits != 32) return {};
  const bool first = is_constant(func, structure->loads[0].buffer);
  if (first == is_constant(func, structure->loads[1].buffer)) return {};
  const AccessPattern& weights = structure->loads[first ? 0 : 1];
  const AccessPattern& data = structure->loads[first ? 1 : 0];
  MinimalFiltering found{.block = block.name};
  const size_t rank = structure->store.indices.size();
  if (data.indices.size() != rank || rank < 3) return {};
  int n_windows = 0, n_channels = 0, n_outs = 0;
  for (size_t i = 0; i < structure->n_iters(); ++i) {
    const Var& var = structure->vars[i];
    if (structure->reduce[i]) {
      if (data.dimension_of(var) == static_cast<int>(rank) - 1 && weights.touches(i)) {
        if (structure->extents[i] < kFewChannels) return {};
        ++n_channels;
      } else if (structure->extents[i] != kTaps) {
        return {};
      }
      continue;
    }
    if (structure->extents[i] == 1) continue;  // of one image
    const int dimension = structure->store.dimension_of(var);
    if (dimension < 0) return {};
    const auto d = static_cast<size_t>(dimension);
    const bool slides = std::ranges::any_of(structure->vars, [&](const Var& other) {
      return other.get() != var.get() && data.shares_dimension(var, other);
    });
    if (slides) {
      if (structure->extents[i] < kFewPixels) return {};
      (n_windows++ == 0 ? found.height : found.width) = d;
    } else if (!data.touches(i)) {
      if (d + 1 != rank || structure->extents[i] < kFewChannels) return {};
      ++n_outs;
    }
  }
  if (n_windows != 2 || n_channels != 1 || n_outs != 1) return {};
  if (found.height > found.width) std::swap(found.height, found.width);
  return found;
}

}  // namespace

std::optional<MinimalFiltering> filterable_convolution(const Func& func) {
  const BlockNode* reduction = nullptr;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (!block->init) continue;
    if (reduction) return {};
    reduction = block;
  }
  return reduction ? filtered_convolution(func, *reduction) : std::nullopt;
}

Result<MinimalFiltering> filtered(Schedule& s, const MinimalFiltering& convolution, int64_t m) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = convolution.block}));
  FETTLE_TRY(const std::vector<BlockRef> parts, reformulate(s, {.block = block, .kind = "winograd", .numbers = {m}}));
  if (parts.size() != 6) return fail(ErrorCode::E230, "the reformulation has other parts");
  MinimalFiltering result = convolution;
  result.outputs = m;
  const auto name_of = [&](size_t part) -> Result<std::string> {
    FETTLE_TRY(const Stmt stmt, s.block(parts[part]));
    return stmt.as<BlockNode>()->name;
  };
  FETTLE_TRY(result.weights, name_of(0));
  FETTLE_TRY(result.rows, name_of(1));
  FETTLE_TRY(result.tiles, name_of(2));
  FETTLE_TRY(result.product, name_of(3));
  FETTLE_TRY(result.columns, name_of(4));
  const BlockNode* weights = find_block(s.func()->body, result.weights);
  if (!weights || weights->writes.size() != 1) return fail(ErrorCode::E230, result.weights);
  result.weights_buffer = weights->writes[0].buffer->name;
  return result;
}

double least_share_of_products(const Func& workload, double max_error_bound) {
  const auto convolution = filterable_convolution(workload);
  double least = 1;
  for (const int64_t m : kFilterOutputs) {
    Schedule trial(workload);
    if (!convolution || !filtered(trial, *convolution, m)) return 1;
    const double share = static_cast<double>(m + kTaps - 1) / static_cast<double>(m * kTaps);
    if (error_bound_of(trial.func()) <= max_error_bound) least = std::min(least, share * share);
  }
  return least;
}

Result<> choose_algorithm(RuleContext& ctx) {
  if (ctx.lanes(kF32) == 1) return {};
  const auto convolution = filterable_convolution(ctx.schedule.func());
  if (!convolution) return {};
  std::vector<int64_t> outputs = {0};
  std::vector<double> weights = {0.5};
  for (const auto& [m, weight] : {std::pair{2, 0.2}, std::pair{4, 0.3}}) {
    Schedule trial = ctx.schedule;
    if (!filtered(trial, *convolution, m)) return {};  // strides, dilation
    if (error_bound_of(trial.func()) > ctx.max_error_bound) continue;
    outputs.push_back(m);
    weights.push_back(weight);
  }
  if (outputs.size() == 1) return {};
  ctx.schedule.set_address_prefix("algorithm/" + convolution->block);
  FETTLE_TRY(const int64_t m, choose(ctx, "winograd", outputs, 0, weights));
  if (m == 0) return {};
  FETTLE_TRY(ctx.filtering, filtered(ctx.schedule, *convolution, m));
  return {};
}

}  // namespace fettle
