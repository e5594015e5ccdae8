// What a search remembers, and what it reads instead of working it out, changes nothing: candidates are those of the
// slow way, number for number.

#include <thread>

#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "arith/analyzer.h"
#include "base/random.h"
#include "cost/predict/predict.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "ir/canonical.h"
#include "ir/compare.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/passes/passes.h"
#include "tune/describe.h"
#include "tune/search/moves.h"
#include "tune/search/workbench.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using testing::NamedWorkload;

std::vector<NamedWorkload> workloads() {
  using namespace testing;
  return {{"matmul", matmul_workload(64, 96, 48, false, false, true, false)},
          {"odd matmul + epilogue", matmul_workload(37, 77, 120, false, true, false, true)},
          {"conv", conv_workload({.h = 14, .w = 14, .ic = 16, .oc = 16, .epilogue = true})},
          {"odd conv", conv_workload({.h = 9, .w = 11, .ic = 5, .oc = 7, .stride = 2})},
          {"softmax", softmax_workload(24, 40)},
          {"pool", pool_workload(14, 14, 16, false, true)}};
}

std::shared_ptr<const Target> some_target() { return std::make_shared<const Target>(*parse_target("x86-64-avx512")); }

/// Points as a search asks for them; calls fn(decisions, candidate) for each that has one.
template <class Fn>
void search(Workbench& bench, uint64_t seed, int points, const Fn& fn) {
  RandomStream stream{seed};
  std::vector<const Candidate*> known;
  for (int i = 0; i < points; ++i) {
    DecisionMap decisions;
    if (known.size() > 8 && stream.uniform() < 0.75)
      decisions = mutated(bench, known[stream.below(known.size())]->decisions, stream);
    const Candidate* candidate = bench.make(decisions, stream.next());
    if (!candidate) continue;
    known.push_back(candidate);
    fn(candidate);
  }
}

TEST(ExactCandidates, MadeFromNothingTheyAreTheSame) {
  const auto target = some_target();
  const auto sketches = make_sketch_space();
  int compared = 0;
  for (const NamedWorkload& workload : workloads())
    for (const Space* space : {&rule_space(), static_cast<const Space*>(sketches.get())})
      for (const uint64_t seed : {1, 2, 3}) {
        const auto model = make_prediction_only();
        Workbench bench(*space, workload.func, target, 2, *model, describe_by_lowering(target, 2));
        std::vector<const Candidate*> met;
        search(bench, seed, space == sketches.get() ? 24 : 10, [&](const Candidate* candidate) {
          SCOPED_TRACE(workload.name + " of " + space->name() + ", candidate " + std::to_string(candidate->number));
          ++compared;
          const auto again = space->clone()->generate(workload.func, target, 2, 99,
                                                      std::make_shared<const DecisionMap>(candidate->decisions));
          ASSERT_TRUE(again.has_value());
          EXPECT_EQ(again->decisions(), candidate->decisions);
          EXPECT_EQ(again->trace().size(), candidate->steps);
          EXPECT_TRUE(verify(again->func(), *target).has_value());
          const auto kernel = lower(again->func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false});
          ASSERT_TRUE(kernel.has_value());
          const Func& timed = kernel->kernel.funcs.at(kernel->kernel.entry);
          EXPECT_EQ(canonical_bytes(timed), candidate->canonical);
          EXPECT_EQ(canonical_hash(timed), candidate->program);
          const CandidateFeatures features = extract_features(*kernel, *target, 2, nullptr);
          EXPECT_EQ(features.values, candidate->features.values);
          EXPECT_EQ(features.predicted_seconds, candidate->features.predicted_seconds);
        });
      }
  EXPECT_GT(compared, 400);
}

// What a thread remembers of earlier candidates (steps, calls of micro-kernels) changes nothing: one that knows nothing
// makes the same.
TEST(ExactCandidates, MadeByThreadsThatRememberNothingTheyAreTheSame) {
  const auto sketches = make_sketch_space();
  int compared = 0;
  for (const NamedWorkload& workload : workloads()) {
    const auto model = make_prediction_only();
    Workbench bench(*sketches, workload.func, some_target(), 2, *model, describe_by_lowering(some_target(), 2));
    std::vector<const Candidate*> met;
    search(bench, 5, 60, [&](const Candidate* candidate) { met.push_back(candidate); });
    const std::string text = to_text(workload.func);
    for (size_t i = met.size() > 12 ? met.size() - 12 : 0; i < met.size(); ++i) {
      std::string trace, canonical;
      CandidateFeatures features;
      std::jthread([&] {
        const auto func = parse_func(text);
        const auto target = some_target();
        const auto s =
            make_sketch_space()->generate(*func, target, 2, 99, std::make_shared<const DecisionMap>(met[i]->decisions));
        if (!s) return;
        const auto described = describe_by_lowering(target, 2)(*s);
        if (!described) return;
        trace = to_text(s->trace());
        canonical = canonical_bytes(described->timed);
        features = described->features;
      }).join();
      SCOPED_TRACE(workload.name + ", candidate " + std::to_string(met[i]->number));
      ++compared;
      EXPECT_EQ(trace, bench.trace(*met[i]));
      EXPECT_EQ(canonical, met[i]->canonical);
      EXPECT_EQ(features.values, met[i]->features.values);
      EXPECT_EQ(features.predicted_seconds, met[i]->features.predicted_seconds);
    }
  }
  EXPECT_GT(compared, 40);
}

// Of equal bytes are equal programs, and only these.
TEST(ExactCandidates, BytesAreEqualWhereProgramsAre) {
  const auto target = some_target();
  const auto sketches = make_sketch_space();
  const Func workload = testing::conv_workload({.h = 6, .w = 6, .ic = 4, .oc = 4, .epilogue = true});
  std::vector<Func> programs;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto s = sketches->generate(workload, target, 2, seed, nullptr);
    if (!s) continue;
    const auto kernel = lower(s->func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false});
    ASSERT_TRUE(kernel.has_value());
    programs.push_back(kernel->kernel.funcs.at(kernel->kernel.entry));
    programs.push_back(s->func());
    const auto again = sketches->generate(workload, target, 2, seed, nullptr);
    programs.push_back(again->func());
  }
  int equal = 0;
  for (size_t i = 0; i < programs.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const bool same = structural_equal(programs[i], programs[j]);
      equal += same;
      ASSERT_EQ(canonical_bytes(programs[i]) == canonical_bytes(programs[j]), same) << i << " and " << j;
    }
  EXPECT_GT(equal, 50);
}

// Offsets whose every part is simplified by itself before the whole is.
class PartByPart : public Mutator {
 public:
  explicit PartByPart(const Func& func) { analyzer_.bind_params(func); }
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* source = e.as<LoadNode>()) offset(source->buffer, source->indices);
    if (e && e.dtype() == kI64 && e.kind() == ExprKind::kBinary) return analyzer_.simplify(Mutator::rewrite(e));
    return Mutator::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* loop = s ? s.as<ForNode>() : nullptr) analyzer_.bind(loop->var, loop->min, loop->extent);
    if (const auto* target = s ? s.as<StoreNode>() : nullptr) offset(target->buffer, target->indices);
    return Mutator::rewrite(s);
  }
  std::vector<Expr> offsets;

 private:
  void offset(const Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<Expr> simple;
    for (const Expr& index : indices) simple.push_back(rewrite(index));
    offsets.push_back(analyzer_.simplify(flat_index(*buffer, simple)));
  }
  Analyzer analyzer_;
};

class Offsets : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (const auto* source = e ? e.as<LoadNode>() : nullptr) offsets.push_back(source->indices[0]);
    Visitor::visit(e);
  }
  void visit(const Stmt& s) override {
    if (const auto* target = s ? s.as<StoreNode>() : nullptr) offsets.push_back(target->indices[0]);
    Visitor::visit(s);
  }
  std::vector<Expr> offsets;
};

TEST(ExactCandidates, OffsetsAreThoseOfSimplifyingPartByPart) {
  const auto target = some_target();
  const auto sketches = make_sketch_space();
  size_t compared = 0;
  for (const NamedWorkload& workload : workloads())
    for (uint64_t seed = 0; seed < 24; ++seed) {
      const auto s = sketches->generate(workload.func, target, 2, seed, nullptr);
      if (!s) continue;
      const Func before = compact_buffers(flatten_blocks(note_carried_buffers(s->func())));
      PartByPart slow(before);
      (void)slow.rewrite(before->body);
      Offsets quick;
      quick.visit(flatten_accesses(before)->body);
      ASSERT_EQ(slow.offsets.size(), quick.offsets.size());
      for (size_t i = 0; i < slow.offsets.size(); ++i, ++compared)
        ASSERT_TRUE(structural_equal(slow.offsets[i], quick.offsets[i])) << workload.name << ", seed " << seed;
    }
  EXPECT_GT(compared, 500U);
}

}  // namespace
}  // namespace fettle
