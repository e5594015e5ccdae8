#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tune/search/search_strategy.h"
#include "tune/search/test_search.h"

namespace fettle {
namespace {

using testing::Outcome;
using testing::run;
using testing::Toy;
using testing::toy_describe;
using testing::toy_programs;
using testing::toy_workload;

TEST(Workbench, DecisionsMakeTheProgramAgain) {
  Toy toy;
  const Candidate* first = toy.bench.make({}, 7);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->decisions.size(), 4u);
  EXPECT_EQ(toy.bench.make(first->decisions, 8), first);
  EXPECT_EQ(toy.bench.size(), 1u);
  EXPECT_EQ(toy.bench.points(), 2);
}

TEST(Workbench, EqualProgramsAreOneCandidate) {
  Toy toy;
  const Candidate* first = toy.bench.make({{"unroll/B/nothing", "0"}}, 7);
  DecisionMap other = first->decisions;
  other["unroll/B/nothing"] = "1";
  EXPECT_EQ(toy.bench.make(other, 0), first);
  other["unroll/B/unroll"] = first->decisions.at("unroll/B/unroll") == Decision("1") ? "0" : "1";
  EXPECT_NE(toy.bench.make(other, 0), first);
}

TEST(Workbench, ProgramsThatRunTheSameCodeAreOneCandidate) {
  // What is timed has no unrolling here.
  Toy toy([](const Schedule& schedule) -> Result<Description> {
    Description description = toy_describe()(schedule).value();
    description.timed = toy_workload(static_cast<int64_t>(testing::toy_shape(schedule.func()).rows));
    return description;
  });
  const Candidate* first = toy.bench.make({{"tile/B/i", "4"}}, 1);
  EXPECT_EQ(toy.bench.make({{"tile/B/i", "4"}}, 2), first);
  EXPECT_NE(toy.bench.make({{"tile/B/i", "6"}}, 2), first);
}

TEST(Workbench, ProgramsWithoutLoweringAreNoCandidates) {
  int asked = 0;
  Toy toy([&](const Schedule& schedule) -> Result<Description> {
    ++asked;
    if (testing::toy_shape(schedule.func()).rows == 8) return fail(ErrorCode::E301, "of this height");
    return toy_describe()(schedule);
  });
  EXPECT_EQ(toy.bench.make({{"tile/B/i", "8"}}, 1), nullptr);
  EXPECT_EQ(toy.bench.make({{"tile/B/i", "8"}}, 1), nullptr);
  EXPECT_EQ(asked, 1);
  EXPECT_NE(toy.bench.make({{"tile/B/i", "6"}}, 1), nullptr);
}

TEST(Workbench, KnowsTheChoices) {
  Toy toy;
  toy.bench.make({}, 7);
  EXPECT_EQ(toy.bench.decisions_at("tile/B/i").size(), testing::toy_tiles().size());
  EXPECT_EQ(toy.bench.decisions_at("unroll/B/unroll"), (std::set<Decision>{"0", "1"}));
  EXPECT_TRUE(toy.bench.decisions_at("nowhere").empty());
}

TEST(RandomSearch, ProposesEveryProgramOnce) {
  Toy toy;
  const auto search = make_random_search(toy.bench, {.seed = 1, .attempts = 3000});
  const Outcome all = run(toy, *search, 1000);
  EXPECT_EQ(all.traces.size(), toy_programs());
  EXPECT_EQ(std::set<std::string>(all.traces.begin(), all.traces.end()).size(), toy_programs());
}

TEST(EvolutionarySearch, TheFirstBatchBeginsWithTheBestPredicted) {
  Toy toy;
  const auto search = make_evolutionary_search(toy.bench, {.seed = 1, .random_points = 100});
  const auto batch = search->propose(5);
  ASSERT_EQ(batch.size(), 5u);
  const double best = toy.bench.predict(batch).front();
  for (size_t i = 0; i < toy.bench.size(); ++i) {
    const Candidate* c = &toy.bench.candidate(static_cast<int64_t>(i));
    EXPECT_GE(toy.bench.predict(std::span(&c, 1)).front(), best);
  }
  // The rest differs from it, as long as that does not cost more than a prediction may miss.
  for (const double predicted : toy.bench.predict(batch)) EXPECT_LE(predicted, 2 * best);
}

TEST(EvolutionarySearch, FindsTheBestSoonerThanChance) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    Toy toy, other;
    const auto search = make_evolutionary_search(toy.bench, {.seed = seed, .random_points = 40});
    const auto random = make_random_search(other.bench, {.seed = seed});
    const Outcome found = run(toy, *search, 56), drawn = run(other, *random, 56);
    EXPECT_NEAR(found.best.back(), 1e-3, 1e-9) << seed;
    EXPECT_LE(found.best.back(), drawn.best.back()) << seed;
    EXPECT_EQ(std::set<std::string>(found.traces.begin(), found.traces.end()).size(), found.traces.size());
  }
}

TEST(EvolutionarySearch, SameSeedSameSequence) {
  const auto traces = [](uint64_t seed) {
    Toy toy;
    const auto search = make_evolutionary_search(toy.bench, {.seed = seed, .random_points = 40});
    return run(toy, *search, 48).traces;
  };
  EXPECT_EQ(traces(3), traces(3));
  EXPECT_NE(traces(3), traces(4));
}

TEST(EvolutionarySearch, EndsWhenThereIsNothingLeft) {
  Toy toy;
  const auto search = make_evolutionary_search(toy.bench, {.seed = 1, .random_points = 500});
  const Outcome all = run(toy, *search, 1000);
  EXPECT_EQ(std::set<std::string>(all.traces.begin(), all.traces.end()).size(), all.traces.size());
  EXPECT_GE(all.traces.size(), toy_programs() * 9 / 10);
  EXPECT_LE(all.traces.size(), toy_programs());
  EXPECT_NEAR(all.best.back(), 1e-3, 1e-9);
}

TEST(EvolutionarySearch, FailuresAreNoParents) {
  Toy toy;
  const auto search = make_evolutionary_search(toy.bench, {.seed = 1, .random_points = 20});
  std::set<int64_t> failed;
  for (int b = 0; b < 4; ++b) {
    std::vector<Observation> observations;
    for (const Candidate* c : search->propose(4)) {
      EXPECT_TRUE(failed.insert(c->number).second);
      observations.push_back({c, INFINITY});
    }
    EXPECT_FALSE(observations.empty());
    search->observe(observations);
  }
}

TEST(EvolutionarySearch, WhatIsObservedIsNotProposed) {
  Toy toy;
  std::vector<Observation> known;
  for (uint64_t i = 0; i < 10; ++i) {
    const Candidate* c = toy.bench.make({}, i);
    known.push_back({c, toy.seconds(*c)});
  }
  const auto search = make_evolutionary_search(toy.bench, {.seed = 1, .random_points = 60});
  search->observe(known);
  for (int b = 0; b < 5; ++b)
    for (const Candidate* c : search->propose(8))
      for (const Observation& o : known) EXPECT_NE(c, o.candidate);
}

TEST(EvolutionarySearch, NeedsFewTrials) {
  // The prediction is wrong by a factor of two in both tiles, and blind to unrolling.
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    Toy toy;
    const auto search = make_evolutionary_search(toy.bench, {.seed = seed});
    const Outcome found = run(toy, *search, 64);
    EXPECT_NEAR(found.best.back(), 1e-3, 0.02e-3) << seed;
  }
}

}  // namespace
}  // namespace fettle
