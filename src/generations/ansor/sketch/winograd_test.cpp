#include "generations/ansor/sketch/winograd.h"

#include <cmath>
#include <map>
#include <set>

#include "codegen/device/testing.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "generations/ansor/sketch/test_programs.h"
#include "generations/metaschedule/presets.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

std::shared_ptr<const Target> target(const char* name) {
  return std::make_shared<const Target>(parse_target(name).value());
}

std::vector<std::unique_ptr<Space>> spaces() {
  std::vector<std::unique_ptr<Space>> result;
  result.push_back(make_sketch_space());
  result.push_back(make_metaschedule_space());
  return result;
}

bool is_winograd(const Func& func) { return numerics_of(func) == Numerics::kApproximate; }

const ForNode* nest_of(const Func& func, const std::string& block) {
  return loops_around(func, find_block(func->body, block)).front();
}

bool is_parallel(const Func& func, const std::string& block) {
  return std::ranges::any_of(loops_around(func, find_block(func->body, block)),
                             [](const ForNode* loop) { return loop->loop_kind == ForKind::kParallel; });
}

// What a point computes, and how: "" as it is written, "6 points, strips", …
std::string kind_of(const Func& func, const std::string& last) {
  if (!is_winograd(func)) return "";
  const Expr points = find_block(func->body, "O_tiles")->iters.back().extent;
  return std::to_string(*as_int(points)) + " points" +
         (nest_of(func, "O_product") == nest_of(func, last) ? ", strips" : "");
}

// The largest difference between outputs, as a share of the largest output.
double relative_error(const Func& before, const Func& after) {
  const Func funcs[2] = {before, after};
  std::vector<testing::TestTensor> tensors[2];
  for (int f = 0; f < 2; ++f) {
    std::vector<BufferArg> args;
    for (const Param& param : funcs[f]->params) {
      testing::TestTensor& tensor = tensors[f].emplace_back(param.buffer, testing::Env{});
      RandomStream stream{7, tensors[f].size()};
      tensor.fill(0);
      if (param.kind != ParamKind::kOutput)
        testing::for_each_index(tensor.logical_shape(), [&](const std::vector<int64_t>& index) {
          tensor.set(index, static_cast<int64_t>(stream.below(7)) - 3);
        });
    }
    for (testing::TestTensor& tensor : tensors[f]) args.push_back(tensor.arg());
    const Result<> done = interpret(funcs[f], args, {});
    EXPECT_OK(done) << to_text(funcs[f]);
    if (!done) return INFINITY;
  }
  double largest = 0, worst = 0;
  const size_t out = before->params.size() - 1;
  testing::for_each_index(tensors[0][out].logical_shape(), [&](const std::vector<int64_t>& index) {
    float x, y;
    std::memcpy(&x, tensors[0][out].at(index), sizeof x);
    std::memcpy(&y, tensors[1][out].at(index), sizeof y);
    largest = std::max(largest, std::abs(static_cast<double>(x)));
    worst = std::max(worst, std::isnan(y) ? INFINITY : std::abs(static_cast<double>(x) - y));
  });
  return worst / largest;
}

TEST(WinogradSketches, SpacesHaveItWholeAndInStrips) {
  const testing::ConvSpec specs[] = {{.h = 9, .w = 10, .ic = 16, .oc = 20, .epilogue = true},
                                     {.n = 2, .h = 16, .w = 8, .ic = 20, .oc = 16},
                                     {.h = 7, .w = 12, .ic = 17, .oc = 33, .padding = 0, .epilogue = true}};
  for (const auto& space : spaces()) {
    std::map<std::string, int> kinds;
    for (const testing::ConvSpec& spec : specs) {
      const Func func = testing::conv_workload(spec);
      for (uint64_t seed = 0; seed < 40; ++seed) {
        const int threads = 1 + static_cast<int>(seed % 2);
        const auto point = space->generate(func, target("x86-64-avx512"), threads, seed, nullptr);
        ASSERT_OK(point);
        // Of each kind two are worked out.
        if (kinds[kind_of(point->func(), spec.epilogue ? "Y" : "O")]++ % 20 < 2) {
          EXPECT_LT(relative_error(func, point->func()), 1e-5) << to_text(point->trace());
          EXPECT_OK(lower(point->func(), *target("x86-64-avx512"))) << to_text(point->trace());
        }
        const auto again = space->generate(func, target("x86-64-avx512"), threads, seed + 1000,
                                           std::make_shared<const DecisionMap>(point->decisions()));
        ASSERT_OK(again);
        EXPECT_EQ(to_text(again->trace()), to_text(point->trace()));
      }
    }
    // Each of the five is drawn about as often.
    EXPECT_EQ(kinds.size(), 5u) << space->name();
    for (const auto& [kind, count] : kinds) EXPECT_GE(count, 5) << space->name() << ": " << kind;
  }
}

// The transforms work on one tile of a vector of channels in registers, unrolled; the product is tiled; the weights are
// transformed, and brought into the order of the tiles, when the program is compiled.
TEST(WinogradSketches, TransformsAreUnrolledWhereTheyAreRead) {
  const Func func = testing::conv_workload({.h = 12, .w = 12, .ic = 32, .oc = 32, .epilogue = true});
  for (const auto& space : spaces()) {
    int packed = 0, seen = 0;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const auto point = space->generate(func, target("x86-64-avx512"), 2, seed, nullptr);
      ASSERT_OK(point);
      const Func made = point->func();
      if (!is_winograd(made)) continue;
      ++seen;
      for (const auto& [name, reader] : {std::pair{"O_rows", "O_tiles"}, std::pair{"O_columns", "Y"}}) {
        const auto loops = loops_around(made, find_block(made->body, name));
        const auto around = loops_around(made, find_block(made->body, reader));
        ASSERT_GE(loops.size(), 4u);
        EXPECT_EQ(loops[loops.size() - 4], around[around.size() - 4]) << name << " is not where it is read";
        EXPECT_EQ(loops.back()->loop_kind, ForKind::kVectorized);
        EXPECT_EQ(around.back()->loop_kind, ForKind::kVectorized);
        for (size_t i = 2; i <= 3; ++i) {
          EXPECT_EQ(loops[loops.size() - i]->loop_kind, ForKind::kUnrolled);
          EXPECT_EQ(around[around.size() - i]->loop_kind, ForKind::kUnrolled);
        }
      }
      EXPECT_TRUE(is_parallel(made, "Y")) << to_text(made);
      EXPECT_TRUE(is_parallel(made, "O_tiles")) << to_text(made);
      // A copy of a tile that is narrower than a vector is masked, and looks as if it reached into the next tile.
      const BlockNode* copy = find_block(made->body, "O_product_global");
      EXPECT_TRUE(is_parallel(made, "O_product") || (copy && copy->predicate)) << to_text(made);
      const auto product = loops_around(made, find_block(made->body, "O_product"));
      EXPECT_GT(product.size(), 12u) << "the product is not tiled";
      packed += find_block(made->body, "O_weights")->writes[0].buffer->layout ? 1 : 0;
      const auto lowered = lower(made, *target("x86-64-avx512"));
      ASSERT_OK(lowered);
      EXPECT_FALSE(lowered->prologue.entry.empty());
    }
    EXPECT_GE(seen, 6);
    EXPECT_GE(packed, seen / 2);
  }
}

TEST(WinogradSketches, IsOfferedForNothingElse) {
  const testing::ConvSpec fits = {.h = 8, .w = 8, .ic = 16, .oc = 16};
  std::vector<testing::ConvSpec> specs(5, fits);
  specs[0].stride = 2;
  specs[1].dilation = 2;
  specs[2].groups = 2;
  specs[3].kernel = 5;
  specs[4].ic = 8;
  const auto offers = [&](const testing::ConvSpec& spec, const char* on) {
    Schedule s(testing::conv_workload(spec));
    s.set_target(target(on));
    return winograd_schedules(s, 2).size();
  };
  EXPECT_EQ(offers(fits, "x86-64-avx512"), 4u);
  EXPECT_EQ(offers(fits, "x86-64-avx2"), 4u);
  EXPECT_EQ(offers(fits, "opencl"), 2u);  // no strips
  for (const testing::ConvSpec& spec : specs) EXPECT_EQ(offers(spec, "x86-64-avx512"), 0u);
}

TEST(WinogradSketches, MayBeRefusedByItsBound) {
  const Func func = testing::conv_workload({.h = 8, .w = 8, .ic = 16, .oc = 16});
  for (const auto& space : spaces()) {
    const auto bounded = within_error_bound(*space, 100);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto point = bounded->generate(func, target("x86-64-avx512"), 1, seed, nullptr);
      ASSERT_OK(point);
      EXPECT_LE(error_bound_of(point->func()), 100);
    }
  }
}

// Simplified, and in its special compute location: the tile that a thread transforms stays with the thread.
TEST(WinogradSketches, RunsOnThreads) {
  const Func func = testing::conv_workload({.h = 4, .w = 5, .ic = 16, .oc = 16, .epilogue = true});
  for (const auto& space : spaces()) {
    int seen = 0;
    bool run = false;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto point = space->generate(func, target("opencl"), 1, seed, nullptr);
      ASSERT_OK(point);
      const Func made = point->func();
      if (!is_winograd(made)) continue;
      ++seen;
      for (const auto& [name, reader] : {std::pair{"O_rows", "O_tiles"}, std::pair{"O_columns", "Y"}}) {
        const BlockNode* block = find_block(made->body, name);
        EXPECT_EQ(block->writes[0].buffer->scope, "local");
        const auto loops = loops_around(made, block), around = loops_around(made, find_block(made->body, reader));
        EXPECT_EQ(loops.front()->thread_axis, "blockIdx.x");
        EXPECT_EQ(loops.front(), around.front());
        EXPECT_TRUE(std::ranges::any_of(loops, [](const ForNode* loop) { return loop->thread_axis == "threadIdx.x"; }));
        EXPECT_EQ(loops[loops.size() - 2]->loop_kind, ForKind::kUnrolled);
      }
      // F(2x2) is exact on these numbers.
      if (kind_of(made, "Y") == "4 points" && !run) {
        run = true;
        EXPECT_TRUE(testing::same_on_devices(func, made)) << to_text(point->trace());
      }
    }
    EXPECT_GE(seen, 2) << space->name();
    EXPECT_TRUE(run) << space->name();
  }
}

}  // namespace
}  // namespace fettle
