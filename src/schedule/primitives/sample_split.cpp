#include "schedule/primitives/sample_split.h"

#include <algorithm>
#include <set>

#include "schedule/edit/steps.h"
#include "schedule/sampling.h"

namespace fettle {
namespace {

constexpr int64_t kMaxParts = 8, kMaxExtent = int64_t{1} << 31;
constexpr size_t kMaxChoices = 100'000;

struct Enumeration {
  int64_t extent;
  std::vector<int64_t> factors;  // that one part may have
  bool no_tail;
  std::vector<Decision::List> choices;

  // Parts number `part` and further out are open; those inside multiply to `product`.
  bool extend(Decision::List& sizes, size_t part, int64_t product) {
    if (part == 0) {
      if (extent % product != 0 && (no_tail || product > extent)) return true;
      sizes[0] = -floordiv_int(-extent, product);
      choices.push_back(sizes);
      return choices.size() <= kMaxChoices;
    }
    for (int64_t factor : factors) {
      if (factor > extent / product) break;
      sizes[part] = factor;
      if (!extend(sizes, part - 1, product * factor)) return false;
    }
    return true;
  }
};

// The given lists, with the outermost size worked out. A list that is no cut of the loop is an error.
Result<std::vector<Decision::List>> given_choices(const SampleSplitArgs& args, int64_t extent) {
  std::vector<Decision::List> choices;
  for (Decision::List sizes : args.candidates) {
    int64_t product = 1;
    bool fits = sizes.size() == static_cast<size_t>(args.n);
    for (size_t part = 1; fits && part < sizes.size(); ++part)
      fits = sizes[part] >= 1 && !__builtin_mul_overflow(product, sizes[part], &product);
    if (fits && sizes[0] == kInfer) sizes[0] = -floordiv_int(-extent, product);
    int64_t all = 0;
    if (!fits || sizes[0] < 1 || __builtin_mul_overflow(sizes[0], product, &all) || all < extent)
      return fail(ErrorCode::E237, "candidate " + std::to_string(choices.size()) + " is no cut of " +
                                       std::to_string(extent) + " iterations in " + std::to_string(args.n));
    if (args.no_tail && all != extent) continue;
    choices.push_back(std::move(sizes));
  }
  return choices;
}

Result<std::vector<Decision::List>> choices_for(int64_t extent, const SampleSplitArgs& args) {
  Enumeration all{extent, {}, args.no_tail || args.policy == "factors", {}};
  if (args.policy == "candidates") {
    FETTLE_TRY(all.choices, given_choices(args, extent));
  } else {
    std::set<int64_t> factors;
    if (args.policy == "factors" || args.policy == "verbose")
      for (int64_t d = 1; d <= extent / d; ++d)
        if (extent % d == 0) factors.insert({d, extent / d});
    if (args.policy == "power2" || args.policy == "verbose")
      for (int64_t power = 1; power <= extent; power *= 2) factors.insert(power);
    if (factors.empty()) return fail(ErrorCode::E241, "no policy \"" + args.policy + "\"");
    for (int64_t factor : factors)
      if (args.max_factor == 0 || factor <= args.max_factor) all.factors.push_back(factor);
    Decision::List sizes(static_cast<size_t>(args.n), 1);
    if (!all.extend(sizes, sizes.size() - 1, 1))
      return fail(ErrorCode::E237, "more than " + std::to_string(kMaxChoices) + " choices");
  }
  if (all.choices.empty()) return fail(ErrorCode::E237, "no choices are left");
  return std::move(all.choices);
}

Result<int64_t> checked_extent(const Schedule& s, const SampleSplitArgs& args) {
  FETTLE_TRY(const Stmt loop, s.loop(args.loop));
  if (args.n < 1 || args.n > kMaxParts)
    return refused(ErrorCode::E202, s.func(), loop.get(), "n is {}, not 1 to 8", std::to_string(args.n));
  if (args.max_factor < 0) return refused(ErrorCode::E202, s.func(), loop.get(), "max_factor is negative");
  const int64_t* extent = as_int(loop.as<ForNode>()->extent);
  if (!extent || *extent < 1 || *extent > kMaxExtent)
    return refused(ErrorCode::E221, s.func(), loop.get(), "the extent has no factors to choose from");
  return *extent;
}

Result<Applied> apply_sample_split(const Schedule& s, const SampleSplitArgs& args) {
  FETTLE_TRY(const std::vector<Decision::List> choices, split_choices(s, args));
  const auto valid = [&](const Decision& d) { return std::ranges::find(choices, d.list()) != choices.end(); };
  const auto draw = [&](RandomStream& stream) { return Decision(choices[stream.below(choices.size())]); };
  FETTLE_TRY(Drawn drawn, decide(s, args.name, valid, draw));
  return sampled(std::move(drawn));
}

}  // namespace

Result<std::vector<Decision::List>> split_choices(const Schedule& s, const SampleSplitArgs& args) {
  FETTLE_TRY(const int64_t extent, checked_extent(s, args));
  return choices_for(extent, args);
}

constinit const PrimitiveDef sample_split_def = define_sampling<SampleSplitArgs, apply_sample_split>("sample_split", 1);

Result<std::vector<ValueRef>> sample_split(Schedule& s, const SampleSplitArgs& args) {
  return run<std::vector<ValueRef>>(s, sample_split_def, args);
}

}  // namespace fettle
