#include "tune/search/known_points.h"

#include <gtest/gtest.h>

#include "cost/cost_model.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "ir/compare.h"
#include "target/target.h"
#include "tune/search/workbench.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

// The space of the rules, which counts what it is asked.
class CountingSpace : public Space {
 public:
  explicit CountingSpace(bool by_address) : by_address_(by_address) {}
  std::string name() const override { return "counting"; }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    ++generated;
    return rule_space().generate(workload, std::move(target), threads, source, std::move(decisions));
  }
  bool draws_by_address() const override { return by_address_; }
  mutable int generated = 0;

 private:
  bool by_address_;
};

// The same points give the same candidates, whether or not those made before are known again, and far fewer are made.
TEST(KnownPoints, GiveTheSameCandidates) {
  const auto target = std::make_shared<const Target>(detect_host(2));
  for (const auto& workload :
       {testing::matmul_workload(19, 37, 11, false, false, true, true), testing::conv_workload({.ic = 5, .oc = 20})}) {
    CountingSpace plain(false), known(true);
    auto model = make_prediction_only();
    Workbench a(plain, workload, target, 2, *model, nullptr), b(known, workload, target, 2, *model, nullptr);
    std::vector<DecisionMap> met;
    for (uint64_t key = 0; key < 200; ++key) {
      DecisionMap asked;
      if (key % 3 == 0 && !met.empty()) asked = met[key % met.size()];
      if (key % 2 == 0 && !asked.empty()) asked.erase(std::next(asked.begin(), static_cast<int>(key % asked.size())));
      const Candidate *x = a.make(asked, key), *y = b.make(asked, key);
      ASSERT_EQ(x == nullptr, y == nullptr) << key;
      if (!x) continue;
      EXPECT_EQ(x->number, y->number) << key;
      EXPECT_EQ(x->decisions, y->decisions);
      met.push_back(x->decisions);
    }
    EXPECT_EQ(a.points(), b.points());
    EXPECT_EQ(a.size(), b.size());
    EXPECT_LT(known.generated, plain.generated);
  }
}

TEST(KnownPoints, ForgottenCandidatesAreNotMadeAgain) {
  const auto target = std::make_shared<const Target>(detect_host(2));
  auto model = make_prediction_only();
  Workbench bench(rule_space(), testing::matmul_workload(19, 37, 11, false, false, true, false), target, 2, *model,
                  nullptr);
  const Candidate* made = bench.make({}, 1);
  ASSERT_NE(made, nullptr);
  const DecisionMap decisions = made->decisions;
  bench.forget(made);
  EXPECT_EQ(bench.make(decisions, 2), nullptr);
}

// Sketches without that knowledge.
class Forgetful : public Space {
 public:
  std::string name() const override { return "forgetful"; }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    ++generated;
    return sketches->generate(workload, std::move(target), threads, source, std::move(decisions));
  }
  std::optional<uint64_t> seed_of_first_drawing(uint64_t seed) const override {
    return knows ? sketches->seed_of_first_drawing(seed) : std::nullopt;
  }
  std::unique_ptr<Space> sketches = make_sketch_space();
  mutable int generated = 0;
  bool knows = false;
};

// Points of sketches whose first drawing is refused are drawn anew; those that are not are known again.
TEST(KnownPoints, OfSketchesGiveTheSameCandidates) {
  const auto target = std::make_shared<const Target>(detect_host(2));
  const Func workload = testing::matmul_workload(8, 12, 6, false, false, true, true);
  Forgetful plain, known;
  known.knows = true;
  auto model = make_prediction_only();
  Workbench a(plain, workload, target, 2, *model, nullptr), b(known, workload, target, 2, *model, nullptr);
  std::vector<DecisionMap> met;
  for (uint64_t key = 0; key < 400; ++key) {
    DecisionMap asked;
    if (key % 4 != 0 && !met.empty()) {
      asked = met[key % met.size()];
      asked.erase(std::next(asked.begin(), static_cast<int>(key % asked.size())));
    }
    const Candidate *x = a.make(asked, key), *y = b.make(asked, key);
    ASSERT_EQ(x == nullptr, y == nullptr) << key;
    if (!x) continue;
    ASSERT_EQ(x->number, y->number) << key;
    ASSERT_EQ(x->decisions, y->decisions) << key;
    met.push_back(x->decisions);
  }
  EXPECT_EQ(a.size(), b.size());
  EXPECT_LT(known.generated, plain.generated);
}

TEST(KnownPoints, KnowsNothingAtFirst) {
  KnownPoints points;
  EXPECT_FALSE(points.find(std::make_shared<const DecisionMap>(), 1));
}

}  // namespace
}  // namespace fettle
