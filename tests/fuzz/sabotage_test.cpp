// Each check that keeps wrong results out is switched off in turn: the fuzzer must notice.
#include "tests/fuzz/fuzz.h"

#include <gtest/gtest.h>

#include <ostream>

namespace fettle::fuzz {
namespace {

struct Sabotage {
  const char* check;              // base/checks.h
  std::vector<std::string> also;  // others that refuse the same programs
  uint64_t seed;
  int64_t first_case = 0;  // where it takes long to get there
  bool affine = false;     // FuzzOptions::affine
};

void PrintTo(const Sabotage& sabotage, std::ostream* out) { *out << "seed " << sabotage.seed; }

class Sabotaged : public ::testing::TestWithParam<Sabotage> {};

TEST_P(Sabotaged, IsNoticed) {
  FuzzOptions options;
  options.seed = GetParam().seed;
  options.first_case = GetParam().first_case;
  options.traces = options.first_case > 0 ? 50 : 3000;  // as a rule a few hundred are enough
  options.backend = find_backend("llvm");
  options.shrink = false;
  options.affine = GetParam().affine;
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
    ::testing::Values(
        Sabotage{"races", {}, 3}, Sabotage{"reorder.ordered", {}, 3}, Sabotage{"split.shift", {}, 3},
        Sabotage{"decompose_reduction.outer", {}, 3}, Sabotage{"compute_at.consumers", {}, 3},
        Sabotage{"reverse_compute_at.covered", {}, 3}, Sabotage{"reverse_compute_inline.all", {}, 3},
        Sabotage{"reverse_compute_inline.readers", {}, 3}, Sabotage{"cache_inplace.users", {}, 3},
        Sabotage{"cache_inplace.carried", {}, 3}, Sabotage{"cache_read.in_place", {}, 3},
        Sabotage{"verify.bindings", {}, 6, 6432}, Sabotage{"made_in_iteration", {}, 4, 2536},
        Sabotage{"reverse_compute_at.carried", {}, 3, 832}, Sabotage{"reverse_compute_at.overwritten", {}, 3, 400},
        Sabotage{"reverse_compute_at.parts", {"verify.cover"}, 3, 8592}, Sabotage{"compute_at.overwritten", {}, 3, 704},
        Sabotage{"compute_inline.overwritten", {}, 3, 1392}, Sabotage{"iterations_apart", {}, 3, 3512},
        Sabotage{"decompose_reduction.once", {}, 3, 4296}, Sabotage{"rfactor.init", {}, 3, 19680},
        Sabotage{"verify.accesses", {"rfactor.init"}, 4, 6976},
        Sabotage{"verify.cover", {"reverse_compute_at.parts"}, 3, 8592},
        Sabotage{"move.predicate", {"verify.accesses"}, 3, 4736}, Sabotage{"compute_at.producers", {}, 3, 120},
        Sabotage{"decompose_reduction.reads", {}, 3, 5120}, Sabotage{"cache_inplace.reads", {}, 3, 52648},
        Sabotage{"cache_read.overwritten", {}, 3, 46008}, Sabotage{"cache_inplace.once", {}, 3, 24632},
        Sabotage{"blockize.once", {"reorder.ordered"}, 3, 64096}, Sabotage{"complete.readers", {}, 3, 880},
        Sabotage{"must_stay_below", {}, 3, 200}, Sabotage{"reschedule.order", {}, 1, 0, true}),
    [](const auto& info) {
      std::string name = info.param.check;
      for (char& c : name)
        if (c == '.') c = '_';
      return name;
    });

}  // namespace
}  // namespace fettle::fuzz
