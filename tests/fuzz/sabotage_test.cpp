// The fuzzer is fuzzed: with a check of validity switched off, it finds a wrong result.
#include <gtest/gtest.h>

#include "tests/fuzz/fuzz.h"

namespace fettle::fuzz {
namespace {

struct Sabotage {
  const char* check;              // base/checks.h
  std::vector<std::string> also;  // others that refuse the same programs
  uint64_t seed;
};

class Sabotaged : public ::testing::TestWithParam<Sabotage> {};

TEST_P(Sabotaged, IsNoticed) {
  FuzzOptions options;
  options.seed = GetParam().seed;
  options.traces = 3000;  // as a rule a few hundred are enough
  options.backend = find_backend("llvm");
  options.shrink = false;
  options.disabled_checks = GetParam().also;
  options.disabled_checks.push_back(GetParam().check);
  const FuzzReport report = fuzz(options);
  EXPECT_FALSE(report.findings.empty()) << "nothing found in " << report.traces << " traces";
}

TEST(Fuzz, NothingIsFoundWhileAllChecksAreOn) {
  FuzzOptions options;
  options.seed = 3;
  options.traces = 300;
  options.backend = find_backend("llvm");
  const FuzzReport report = fuzz(options);
  EXPECT_TRUE(report.findings.empty()) << report.to_text();
}

INSTANTIATE_TEST_SUITE_P(
    Fuzz, Sabotaged,
    ::testing::Values(Sabotage{"races", {}, 3}, Sabotage{"reorder.ordered", {}, 3}, Sabotage{"split.shift", {}, 3},
                      Sabotage{"decompose_reduction.outer", {}, 3}, Sabotage{"compute_at.consumers", {}, 3},
                      Sabotage{"reverse_compute_at.covered", {}, 3}, Sabotage{"reverse_compute_inline.all", {}, 3},
                      Sabotage{"reverse_compute_inline.readers", {}, 3}, Sabotage{"cache_inplace.users", {}, 3},
                      Sabotage{"cache_inplace.carried", {}, 3}, Sabotage{"cache_read.in_place", {}, 3},
                      Sabotage{"verify.bindings", {}, 3}, Sabotage{"made_in_iteration", {}, 3}),
    [](const auto& info) {
      std::string name = info.param.check;
      for (char& c : name)
        if (c == '.') c = '_';
      return name;
    });

}  // namespace
}  // namespace fettle::fuzz
