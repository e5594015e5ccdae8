#include "schedule/primitives/sample_partitioned_tile.h"

#include "schedule/edit/steps.h"
#include "schedule/sampling.h"

namespace fettle {
namespace {

Result<Applied> apply_sample_partitioned_tile(const Schedule& s, const SamplePartitionedTileArgs& args) {
  constexpr int64_t kMaxParts = 16, kMaxExtent = int64_t{1} << 40;
  FETTLE_TRY(const Stmt loop, s.loop(args.loop));
  if (args.n < 1 || args.n > kMaxParts || args.partition_pos < 0 || args.partition_pos > args.n ||
      args.innerpart_factor < 1)
    return refused(ErrorCode::E202, s.func(), loop.get(),
                   "n must be 1 to 16, partition_pos 0 to n, and innerpart_factor at least 1");
  const int64_t* constant = as_int(loop.as<ForNode>()->extent);
  if (!constant || *constant < 1 || *constant > kMaxExtent)
    return refused(ErrorCode::E221, s.func(), loop.get(), "the extent has no factors to choose from");
  const int64_t extent = *constant, inner = args.innerpart_factor;
  const auto n = static_cast<size_t>(args.n), at = static_cast<size_t>(args.partition_pos);
  // Without an inner part, or where the constraint cannot be met, all is outside.
  const bool constrained = at < n && extent % inner == 0;

  const auto valid = [&](const Decision& decision) {
    const Decision::List& d = decision.list();
    if (d.size() != n) return false;
    int64_t all = 1, inside = 1;
    for (size_t i = 0; i < n; ++i) {
      if (d[i] < 1 || __builtin_mul_overflow(all, d[i], &all)) return false;
      if (i >= at) inside *= d[i];
    }
    return all == extent && (!constrained || inside % inner == 0);
  };
  // Each prime factor of the extent goes to a place of its own; those of innerpart_factor to one of the inner part.
  const auto draw = [&](RandomStream& stream) {
    Decision::List decision(n, 1);
    const auto scatter = [&](int64_t product, size_t first) {
      const auto give = [&](int64_t prime) { decision[first + stream.below(n - first)] *= prime; };
      for (int64_t prime = 2; prime <= product / prime; ++prime)
        for (; product % prime == 0; product /= prime) give(prime);
      if (product > 1) give(product);
    };
    if (constrained) scatter(inner, at);
    scatter(constrained ? extent / inner : extent, 0);
    return decision;
  };
  FETTLE_TRY(Drawn drawn, decide(s, args.name, valid, draw));
  return sampled(std::move(drawn));
}

}  // namespace

extern constinit const PrimitiveDef sample_partitioned_tile_def =
    define_sampling<SamplePartitionedTileArgs, apply_sample_partitioned_tile>("sample_partitioned_tile", 1);

Result<std::vector<ValueRef>> sample_partitioned_tile(Schedule& s, const SamplePartitionedTileArgs& args) {
  return run<std::vector<ValueRef>>(s, sample_partitioned_tile_def, args);
}

}  // namespace fettle
