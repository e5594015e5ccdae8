#pragma once
// A search of the toy space (tune/testing.h): for tests only.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tune/search/search_strategy.h"
#include "tune/testing.h"

namespace fettle::testing {

struct Toy {
  ToySpace space;
  CountingModel model;
  std::shared_ptr<const Target> target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  Func workload = toy_workload();
  Workbench bench;

  explicit Toy(DescribeFn describe = toy_describe()) : bench(space, workload, target, 1, model, std::move(describe)) {}

  double seconds(const Candidate& candidate) const {
    const auto s = space.generate(workload, target, 1, 0, std::make_shared<const DecisionMap>(candidate.decisions));
    EXPECT_TRUE(s);
    EXPECT_EQ(to_text(s->trace()), bench.trace(candidate));
    return toy_seconds(s->func());
  }
};

/// Proposals and results until n are measured; the traces in order, and the best time after each batch.
struct Outcome {
  std::vector<std::string> traces;
  std::vector<double> best;
};
inline Outcome run(Toy& toy, SearchStrategy& search, size_t n, size_t batch = 8) {
  Outcome result;
  double best = 1;
  while (result.traces.size() < n) {
    const auto proposed = search.propose(batch);
    EXPECT_LE(proposed.size(), batch);
    if (proposed.empty()) break;
    std::vector<Observation> observations;
    for (const Candidate* c : proposed) {
      observations.push_back({c, toy.seconds(*c)});
      best = std::min(best, observations.back().seconds);
      result.traces.push_back(toy.bench.trace(*c));
    }
    search.observe(observations);
    result.best.push_back(best);
  }
  return result;
}

}  // namespace fettle::testing
