#include "tune/search/decision_effects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/random.h"

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Made {
  std::deque<Candidate> candidates;
  std::vector<const Candidate*> pool;

  const Candidate* add(DecisionMap decisions, double predicted_s, std::vector<float> values = {}) {
    Candidate c{.number = static_cast<int64_t>(candidates.size()), .decisions = std::move(decisions)};
    c.features.predicted_seconds = predicted_s;
    c.features.values = std::move(values);
    candidates.push_back(std::move(c));
    pool.push_back(&candidates.back());
    return pool.back();
  }
};

TEST(DecisionEffects, BeginWithThePredictionAndWithWhatDiffers) {
  Made made;
  const Candidate* best = made.add({{"tile", {8}}, {"order", {0}}}, 1.00, {1, 0});
  made.add({{"tile", {8}}, {"order", {0}}}, 1.001, {1, 0});  // as good as the same program
  const Candidate* other = made.add({{"tile", {4}}, {"order", {1}}}, 1.02, {9, 9});
  made.add({{"tile", {4}}, {"order", {2}}}, 9.00, {9, 0});  // nothing can be missed by that much
  DecisionEffects effects;
  EXPECT_EQ(effects.choose({}, made.pool, 2), (std::vector<const Candidate*>{best, other}));
}

TEST(DecisionEffects, WhatADecisionDidCountsForAllThatShareIt) {
  // 6 x 6 x 6 programs that are predicted alike; one of the decisions costs more than is predicted, but for one choice.
  Made made;
  RandomStream stream{5};
  const auto seconds = [](const Candidate* c) {
    const auto number = [&](const char* address) { return c->decisions.at(address).list()[0]; };
    return 1 + (number("order") == 4 ? 0 : 0.08) + 0.002 * static_cast<double>(number("tile"));
  };
  for (int64_t order = 0; order < 6; ++order)
    for (int64_t tile = 0; tile < 6; ++tile)
      for (int64_t lanes = 0; lanes < 6; ++lanes)
        made.add({{"order", {order}}, {"tile", {tile}}, {"lanes", {lanes}}}, 1 + 0.001 * stream.uniform());
  DecisionEffects effects;
  std::vector<Observation> measured;
  std::vector<const Candidate*> batch;
  for (int n = 0; n < 3; ++n) {
    batch = effects.choose(measured, made.pool, 8);
    ASSERT_EQ(batch.size(), 8u);
    for (const Candidate* c : batch) {
      measured.push_back({c, seconds(c)});
      std::erase(made.pool, c);
    }
  }
  // Of the first batch one in six; of the third, most.
  EXPECT_GE(std::ranges::count_if(batch, [](const Candidate* c) { return c->decisions.at("order").list()[0] == 4; }),
            6);
}

TEST(DecisionEffects, LooksAlikeCountsWhereDecisionsSayNothing) {
  Made made;
  const Candidate* slow = made.add({{"a", {0}}}, 1, {0, 0});
  const Candidate* like_it = made.add({{"a", {1}}}, 1, {1, 0});
  const Candidate* unlike = made.add({{"a", {2}}}, 1, {30, 30});
  const Observation measured[] = {{slow, 1.3}, {made.add({{"a", {3}}}, 1, {31, 30}), 1.0}};
  DecisionEffects effects;
  const std::vector<const Candidate*> open = {like_it, unlike};
  EXPECT_EQ(effects.choose(measured, open, 2), (std::vector<const Candidate*>{unlike, like_it}));
}

TEST(DecisionEffects, FailuresTeachNothingAndPoolsEnd) {
  Made made;
  const Candidate* a = made.add({{"a", {0}}}, 2);
  const Candidate* b = made.add({{"a", {1}}}, 1);
  const Candidate* failed = made.add({{"a", {2}}}, 1);
  const Observation measured[] = {{failed, kInfinity}};
  DecisionEffects effects;
  const std::vector<const Candidate*> open = {a, b};
  EXPECT_EQ(effects.choose(measured, open, 5), (std::vector<const Candidate*>{b, a}));
  EXPECT_TRUE(effects.choose(measured, {}, 5).empty());
  // Without a prediction what was measured is all there is.
  Made plain;
  const Candidate* fast = plain.add({{"a", {0}}, {"b", {0}}}, 0);
  const Candidate* far = plain.add({{"a", {1}}, {"b", {1}}}, 0);
  const Candidate* near = plain.add({{"a", {0}}, {"b", {1}}}, 0);
  const Candidate* slow = plain.add({{"a", {1}}, {"b", {0}}}, 0);
  const Observation known[] = {{fast, 1}, {slow, 1.2}};
  DecisionEffects others;
  const std::vector<const Candidate*> rest = {far, near};
  EXPECT_EQ(others.choose(known, rest, 1).front(), near);
}

}  // namespace
}  // namespace fettle
