#include "schedule/primitives/sample_tile.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_sample_tile(const Schedule& s, const SampleTileArgs& args) {
  FETTLE_TRY(const Stmt loop, s.loop(args.loop));
  constexpr int64_t kMaxParts = 16;
  if (args.n < 1 || args.n > kMaxParts)
    return fail(ErrorCode::E202, "n is " + std::to_string(args.n) + ", not 1 to 16");
  if (args.element_bytes < 1) return fail(ErrorCode::E202, "element_bytes is less than 1");
  const int64_t* extent = as_int(loop.as<ForNode>()->extent);
  if (!extent || *extent < 1)
    return refused(ErrorCode::E221, s.func(), loop.get(), "there are no tiles to choose from");
  const auto n = static_cast<size_t>(args.n);
  const auto candidates = [&](size_t k, int64_t left) {
    return tile_candidates(left, s.target(), k == n - 1 ? args.innermost : TilePosition::kOuter, args.element_bytes);
  };

  const auto valid = [&](const Decision& decision) {
    const Decision::List& d = decision.list();
    if (d.size() != n) return false;
    int64_t left = *extent;
    for (size_t k = n - 1; k > 0; --k) {
      if (!std::ranges::binary_search(candidates(k, left), d[k])) return false;
      left = ceil_div(left, d[k]);
    }
    return d[0] == left;
  };
  const auto draw = [&](RandomStream& stream) {
    Decision::List decision(n, 1);
    int64_t left = *extent;
    for (size_t k = n - 1; k > 0; --k) {
      const std::vector<int64_t> sizes = candidates(k, left);
      decision[k] = sizes[stream.below(sizes.size())];
      left = ceil_div(left, decision[k]);
    }
    decision[0] = left;
    return decision;
  };
  FETTLE_TRY(Drawn drawn, decide(s, args.name, valid, draw));
  return sampled(std::move(drawn));
}

}  // namespace

extern constinit const PrimitiveDef sample_tile_def =
    define_sampling<SampleTileArgs, apply_sample_tile>("sample_tile", 1);

Result<std::vector<ValueRef>> sample_tile(Schedule& s, const SampleTileArgs& args) {
  return run<std::vector<ValueRef>>(s, sample_tile_def, args);
}

}  // namespace fettle
