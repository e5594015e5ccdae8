#include "graph/plan/sections.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/evaluate.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"
#include "graph/testing.h"

namespace fettle {
namespace {

constexpr int64_t kWide = 12;

/// So many products after one another of one input, in each of so many towers; all next to one another.
Graph towers(int n, int height) {
  GraphMaker m;
  Value* x = m.input("x", {2, kWide});
  std::vector<Value*> tops;
  for (int t = 0; t < n; ++t) {
    Value* top = x;
    for (int i = 0; i < height; ++i)
      top = m.node("Tanh", {m.node("MatMul", {top, m.weights("w", {kWide, kWide}, 3, static_cast<uint64_t>(t))})});
    tops.push_back(top);
  }
  Attrs axis;
  axis.set("axis", int64_t{1});
  m.graph.add_output("y", m.node("Concat", tops, axis));
  m.graph.sort();
  return std::move(m.graph);
}

/// A layer that reads its steps both ways.
Graph both_ways() {
  GraphMaker m;
  constexpr int64_t kSteps = 5, kHidden = 4;
  Value* x = m.input("x", {kSteps, 1, kWide});
  Value* w = m.weights("W", {2, 3 * kHidden, kWide}, 2, 1);
  Value* r = m.weights("R", {2, 3 * kHidden, kHidden}, 2, 2);
  Attrs attrs;
  attrs.set("hidden_size", kHidden);
  attrs.set("direction", std::string("bidirectional"));
  Node* layer = m.graph.add_node(find_op("GRU"), "layer", {x, w, r}, std::move(attrs), {}, 2);
  m.graph.add_output("y", layer->output(0));
  m.graph.add_output("h", layer->output(1));
  m.graph.sort();
  return std::move(m.graph);
}

/// Sections of the steps, those within bodies included.
std::vector<const PlanStep*> sections_of(const std::vector<PlanStep>& steps) {
  std::vector<const PlanStep*> found;
  for (const PlanStep& step : steps) {
    if (step.kind == PlanStep::Kind::kSection) found.push_back(&step);
    for (const PlanStep* inner : sections_of(step.body)) found.push_back(inner);
  }
  return found;
}

void add_calls(const std::vector<PlanStep>& steps, std::vector<int>& calls) {
  for (const PlanStep& step : steps) {
    if (step.kind == PlanStep::Kind::kCall) calls.push_back(step.call);
    add_calls(step.body, calls);
  }
}

/// The arena's bytes that the section writes.
std::vector<std::pair<int64_t, int64_t>> written_by(const Plan& plan, const PlanStep& section) {
  std::vector<int> calls;
  add_calls(section.body, calls);
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const int c : calls) {
    const PlannedCall& call = plan.calls[static_cast<size_t>(c)];
    const std::vector<Param>& params = plan.workloads[static_cast<size_t>(call.workload)].func->params;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const Storage& storage = plan.storages[static_cast<size_t>(whole_of(plan, call.operands[i].storage))];
      if (params[i].kind != ParamKind::kOutput || storage.kind != Storage::Kind::kArena || storage.in_place_of >= 0)
        continue;
      ranges.emplace_back(storage.offset_bytes.value(), storage.offset_bytes.value() + storage.size_bytes.value());
    }
  }
  return ranges;
}

void expect_apart(const Plan& plan, const std::vector<const PlanStep*>& sections) {
  for (size_t a = 0; a < sections.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      for (const auto& [begin, end] : written_by(plan, *sections[a]))
        for (const auto& [other_begin, other_end] : written_by(plan, *sections[b]))
          EXPECT_TRUE(end <= other_begin || other_end <= begin) << to_text(plan);
}

struct Cut {
  Graph graph;
  Plan plan;
  int asked = 0;  // calls whose time was asked for
};

/// Every call takes this.
void cut(Cut& made, CallSeconds each, int threads = 2) {
  ASSERT_TRUE(optimize(made.graph));
  auto plan = make_plan(made.graph);
  ASSERT_TRUE(plan) << plan.error().to_string();
  made.plan = std::move(*plan);
  run_in_sections(made.plan, {.threads = threads, .fork_join_s = 0.5, .seconds = [&](int) {
                                ++made.asked;
                                return each;
                              }});
  assign_memory(made.plan, [](int) { return true; });
}

/// Sections in the other order give what the graph gives node by node.
void expect_same(const Cut& made, std::vector<int64_t> shape) {
  TensorBuilder builder = *make_tensor(kF32, std::move(shape));
  RandomStream random{5, 0};
  for (float& x : builder.elems<float>()) x = static_cast<float>(2 * random.uniform() - 1);
  const std::map<std::string, ConstantTensor> inputs{{"x", std::move(builder).finish()}};
  const auto want = evaluate(made.graph, inputs, interpreter_executor());
  ASSERT_TRUE(want) << want.error().to_string();
  Plan reversed = made.plan;
  for (PlanStep& step : reversed.steps)
    if (step.kind == PlanStep::Kind::kSections) std::ranges::reverse(step.body);
  for (const auto& [name, got] : run_plan(made.graph, reversed, inputs)) {
    const auto elems = got.elems<float>(), wanted = want->at(name).elems<float>();
    ASSERT_EQ(elems.size(), wanted.size());
    for (size_t i = 0; i < elems.size(); ++i) EXPECT_NEAR(elems[i], wanted[i], 1e-5) << name;
  }
}

constexpr CallSeconds kSerial{.on_all = 1, .on_one = 1};

TEST(Sections, BranchesThatLeaveThreadsIdleRunAtOnce) {
  Cut made{.graph = towers(2, 3)};
  cut(made, kSerial);
  const std::vector<const PlanStep*> sections = sections_of(made.plan.steps);
  ASSERT_EQ(sections.size(), 2u) << to_text(made.plan);
  std::vector<int> first, second;
  add_calls(sections[0]->body, first);
  add_calls(sections[1]->body, second);
  EXPECT_EQ(first.size(), second.size());
  EXPECT_TRUE(std::ranges::is_sorted(first)) << "calls are numbered in the order of the steps";
  EXPECT_LT(first.back(), second.front());
  expect_apart(made.plan, sections);
  expect_same(made, {2, kWide});
}

TEST(Sections, ThereIsOneAThreadAtMost) {
  Cut made{.graph = towers(5, 2)};
  cut(made, kSerial, 3);
  EXPECT_EQ(sections_of(made.plan.steps).size(), 3u) << to_text(made.plan);
  expect_apart(made.plan, sections_of(made.plan.steps));
  expect_same(made, {2, kWide});
}

TEST(Sections, BranchesThatFillTheThreadsStayOneAfterTheOther) {
  Cut made{.graph = towers(2, 3)};
  cut(made, {.on_all = 0.5, .on_one = 1});
  EXPECT_TRUE(sections_of(made.plan.steps).empty()) << to_text(made.plan);
  EXPECT_GT(made.asked, 0);
}

TEST(Sections, WhatNothingCouldRunBesideIsNotAskedFor) {
  Cut made{.graph = towers(1, 4)};
  cut(made, kSerial);
  EXPECT_TRUE(sections_of(made.plan.steps).empty()) << to_text(made.plan);
  EXPECT_EQ(made.asked, 0);
}

TEST(Sections, OneThreadHasNone) {
  Cut made{.graph = towers(2, 3)};
  cut(made, kSerial, 1);
  EXPECT_TRUE(sections_of(made.plan.steps).empty()) << to_text(made.plan);
}

TEST(Sections, LoopsRunBesideOneAnother) {
  Cut made{.graph = both_ways()};
  cut(made, kSerial);
  size_t with_loop = 0;
  for (const PlanStep* section : sections_of(made.plan.steps))
    with_loop += std::ranges::any_of(section->body, [](const PlanStep& s) { return s.kind == PlanStep::Kind::kLoop; });
  EXPECT_EQ(with_loop, 2u) << to_text(made.plan);
  expect_apart(made.plan, sections_of(made.plan.steps));
  expect_same(made, {5, 1, kWide});
}

}  // namespace
}  // namespace fettle
