// Every strategy that a user can name, and the published ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "generations/ansor/search/population_search.h"
#include "generations/autotvm/search/tuners.h"
#include "generations/metaschedule/evolution.h"
#include "generations/registry.h"
#include "generations/tensor_comprehensions/genetic_search.h"
#include "tune/search/test_search.h"

namespace fettle {
namespace {

using testing::CountingModel;
using testing::Outcome;
using testing::run;
using testing::Toy;
using testing::toy_describe;
using testing::toy_programs;
using testing::toy_workload;

class Strategies : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<SearchStrategy> make(Toy& toy, uint64_t seed) const {
    // The published populations are larger than the toy space.
    PopulationOptions options;
    if (GetParam() == "ansor") options = ansor_evolution(seed);
    if (GetParam() == "metaschedule") options = metaschedule_evolution(seed);
    options.population = 24;
    options.seed = seed;
    if (!options.mutators.empty()) return make_population_search(toy.bench, options);
    return find_strategy(GetParam())->make(toy.bench, seed);
  }
};

TEST_P(Strategies, NeverProposeACandidateTwice) {
  Toy toy;
  const auto search = make(toy, 1);
  const Outcome all = run(toy, *search, 150);
  EXPECT_EQ(std::set<std::string>(all.traces.begin(), all.traces.end()).size(), all.traces.size());
}

TEST_P(Strategies, SameSeedSameSequence) {
  const auto traces = [&] {
    Toy toy;
    const auto search = make(toy, 3);
    return run(toy, *search, 60).traces;
  };
  const auto first = traces();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first, traces());
}

TEST_P(Strategies, WhatIsObservedIsNotProposed) {
  Toy toy;
  std::vector<Observation> known;
  for (uint64_t i = 0; i < 10; ++i) {
    const Candidate* c = toy.bench.make({}, 1000 + i);
    known.push_back({c, toy.seconds(*c)});
  }
  const auto search = make(toy, 1);
  search->observe(known);
  for (int b = 0; b < 5; ++b)
    for (const Candidate* c : search->propose(8))
      for (const Observation& o : known) EXPECT_NE(c, o.candidate);
}

TEST_P(Strategies, SurviveFailures) {
  Toy toy;
  const auto search = make(toy, 1);
  for (int b = 0; b < 12; ++b) {
    std::vector<Observation> observations;
    for (const Candidate* c : search->propose(8)) observations.push_back({c, INFINITY});
    search->observe(observations);
  }
}

TEST_P(Strategies, EndOfThemselves) {
  Toy toy;
  const auto search = make(toy, 5);
  const Outcome all = run(toy, *search, 100000);
  EXPECT_LE(all.traces.size(), toy_programs());
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyDef& def : strategies()) names.emplace_back(def.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Strategies, ::testing::ValuesIn(strategy_names()),
                         [](const auto& info) { return info.param; });

TEST(Strategies, AreFoundByName) {
  EXPECT_NE(find_strategy("genetic"), nullptr);
  EXPECT_EQ(find_strategy("nothing"), nullptr);
}

TEST(PopulationSearch, GetsNearTheBest) {
  for (const uint64_t seed : {1, 2, 3}) {
    Toy toy;
    const auto search = make_population_search(toy.bench, {.seed = seed, .population = 48});
    EXPECT_LT(run(toy, *search, 96).best.back(), 1.05e-3) << seed;
  }
}

TEST(RouletteSearch, GetsNearTheBest) {
  for (const uint64_t seed : {1, 2, 3}) {
    Toy toy;
    const auto search = make_roulette_search(toy.bench, {.seed = seed});
    EXPECT_LT(run(toy, *search, 96).best.back(), 1.05e-3) << seed;
  }
}

TEST(RouletteSearch, ChildrenHaveDecisionsOfTheirParents) {
  Toy toy;
  std::vector<Observation> parents;
  for (uint64_t i = 0; i < 4; ++i) {
    const Candidate* c = toy.bench.make({}, i);
    parents.push_back({c, toy.seconds(*c)});
  }
  const auto search = make_roulette_search(toy.bench, {.seed = 1, .mutation = 0});
  search->observe(parents);
  for (const Candidate* c : search->propose(2)) {
    if (c->number < 4) continue;
    for (const auto& [address, decision] : c->decisions)
      EXPECT_TRUE(std::ranges::any_of(parents, [&](const Observation& o) {
        const auto same = o.candidate->decisions.find(address);
        return same != o.candidate->decisions.end() && same->second == decision;
      })) << address;
  }
}

// What a user stops is not searched on.
TEST(Strategies, EndWhereNothingIsMadeAnyMore) {
  for (const StrategyDef& def : strategies()) {
    Toy toy;
    const auto search = def.make(toy.bench, 1);
    toy.bench.give_up_when([] { return true; });
    EXPECT_TRUE(search->propose(8).empty()) << def.name;
    EXPECT_EQ(toy.bench.made(), 0) << def.name;
  }
}

TEST(PopulationSearch, ParentsAreTheFast) {
  // Without random shares, what is proposed is the best predicted of all that was made.
  Toy toy;
  const auto search = make_population_search(toy.bench, {.seed = 1, .population = 64, .random_share = 0});
  const std::vector<double> predicted = toy.bench.predict(search->propose(8));
  EXPECT_TRUE(std::is_sorted(predicted.begin(), predicted.end()));
  EXPECT_LT(predicted.back(), 1.2e-3);
}

TEST(GridSearch, VisitsEveryProgramInOrder) {
  Toy toy;
  const auto search = make_grid_search(toy.bench);
  const Outcome all = run(toy, *search, 10000);
  EXPECT_EQ(all.traces.size(), toy_programs());
  // The last address runs fastest, and the first point has the first choice everywhere.
  const DecisionMap& first = toy.bench.candidate(0).decisions;
  for (const auto& [address, decision] : first)
    EXPECT_EQ(decision, address.starts_with("tile/") ? "1" : "0") << address;
  EXPECT_EQ(toy.bench.candidate(1).decisions.at("unroll/B/unroll"), "1");
  EXPECT_EQ(toy.bench.candidate(1).decisions.at("tile/B/j"), "1");
  EXPECT_EQ(toy.bench.candidate(2).decisions.at("tile/B/j"), "2");
}

// Two tiles; the second one's rows only where the first decision, whose address sorts last, is not 1.
class BranchingSpace : public Space {
 public:
  std::string name() const override { return "branching"; }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int, DecisionSource source,
                            std::shared_ptr<const DecisionMap> decisions) const override {
    Schedule s(workload, source, std::move(decisions));
    FETTLE_TRY(const std::vector<LoopRef> loops, testing::toy_loops(s, std::move(target)));
    const auto tile = [&](const char* name, LoopRef loop) -> Result<int64_t> {
      FETTLE_TRY(const ValueRef factor,
                 sample_categorical(s, {.candidates = {2, 4, 8}, .probabilities = {1, 1, 1}, .name = name}));
      FETTLE_TRY_VOID(split(s, {.loop = loop, .factors = {kInfer, IntRef(factor)}, .tail = Tail::kGuard}));
      return s.value(IntRef(factor));
    };
    FETTLE_TRY(const int64_t columns, tile("z", loops[1]));
    if (columns != 4) FETTLE_TRY_VOID(tile("a", loops[0]));
    return s;
  }
};

TEST(GridSearch, EndsWhereADecisionMakesOthersArise) {
  BranchingSpace space;
  CountingModel model;
  Workbench bench(space, toy_workload(), std::make_shared<const Target>(parse_target("x86-64-avx512").value()), 1,
                  model, toy_describe());
  const auto search = make_grid_search(bench);
  const auto all = search->propose(100);
  EXPECT_EQ(all.size(), 7u);  // 3 x 2 + 1
  EXPECT_TRUE(search->propose(100).empty());
}

TEST(GeneticSearch, IsRandomUntilThePopulationIsReached) {
  Toy toy, other;
  const auto search = make_genetic_search(toy.bench, {.seed = 1, .population = 24});
  const auto larger = make_genetic_search(other.bench, {.seed = 1, .population = 1000});
  const Outcome a = run(toy, *search, 40), b = run(other, *larger, 40);
  EXPECT_TRUE(std::equal(a.traces.begin(), a.traces.begin() + 24, b.traces.begin()));
  EXPECT_NE(a.traces, b.traces);
}

TEST(GeneticSearch, ChildrenHaveTheirParentsDecisions) {
  Toy toy;
  const auto search = make_genetic_search(toy.bench, {.seed = 1, .population = 8, .mutation = 0});
  std::vector<Observation> observations;
  for (const Candidate* c : search->propose(8)) observations.push_back({c, toy.seconds(*c)});
  search->observe(observations);
  const int64_t before = static_cast<int64_t>(toy.bench.size());
  const auto children = search->propose(8);
  ASSERT_FALSE(children.empty());
  for (const Candidate* child : children) {
    // Both tiles come from one parent, by rule.
    bool found = false;
    for (int64_t i = 0; i < static_cast<int64_t>(toy.bench.size()) && !found; ++i) {
      const DecisionMap& parent = toy.bench.candidate(i).decisions;
      found = i != child->number && parent.at("tile/B/i") == child->decisions.at("tile/B/i") &&
              parent.at("tile/B/j") == child->decisions.at("tile/B/j");
    }
    EXPECT_TRUE(found || child->number >= before);
  }
}

TEST(AnnealingSearch, ABatchIsGoodAndDiverse) {
  Toy greedy_toy, diverse_toy;
  const auto greedy = make_annealing_search(greedy_toy.bench, {.seed = 1, .random_share = 0, .diversity = 0});
  const auto diverse = make_annealing_search(diverse_toy.bench, {.seed = 1, .random_share = 0, .diversity = 1});
  const auto covered = [](const std::vector<const Candidate*>& batch) {
    std::set<std::pair<std::string, Decision>> result;
    for (const Candidate* c : batch) result.insert(c->decisions.begin(), c->decisions.end());
    return result.size();
  };
  const auto a = greedy->propose(8), b = diverse->propose(8);
  ASSERT_EQ(a.size(), 8u);
  ASSERT_EQ(b.size(), 8u);
  EXPECT_LT(covered(a), covered(b));
  const std::vector<double> predicted = greedy_toy.bench.predict(a);
  EXPECT_TRUE(std::is_sorted(predicted.begin(), predicted.end()));
  EXPECT_LT(predicted.back(), 1.3e-3);  // the walk found good ones
}

TEST(CoordinateDescent, WalksDownhillToTheBest) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    Toy toy;
    const auto search = make_coordinate_descent(toy.bench, {.seed = seed});
    const Outcome found = run(toy, *search, 1000);
    EXPECT_NEAR(found.best.back(), 1e-3, 1e-9) << seed;
    EXPECT_LT(found.traces.size(), 90u) << seed;
    EXPECT_TRUE(search->propose(8).empty());
  }
}

TEST(CoordinateDescent, StartsFromTheBestThatIsKnown) {
  Toy toy;
  const Candidate* start = toy.bench.make({{"tile/B/i", "8"}, {"tile/B/j", "16"}, {"unroll/B/unroll", "1"}}, 1);
  const auto search = make_coordinate_descent(toy.bench);
  const Observation known{start, toy.seconds(*start)};
  search->observe(std::span(&known, 1));
  for (const Candidate* c : search->propose(8)) {
    int differences = 0;
    for (const auto& [address, decision] : c->decisions)
      differences += address != "unroll/B/nothing" && decision != start->decisions.at(address) ? 1 : 0;
    EXPECT_EQ(differences, 1);
  }
}

}  // namespace
}  // namespace fettle
