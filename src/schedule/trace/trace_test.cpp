#include "schedule/trace/trace.h"

#include <cmath>

#include "schedule/primitives/annotate.h"
#include "schedule/primitives/get_child_blocks.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

const std::string kMatmul = testing::matmul_program(32, 32, 16);

testing::TestSchedule tiled() {
  auto s = schedule_from(kMatmul, 11);
  s.set_address_prefix("tile/anchor");
  const BlockRef block = s.block("C");
  const auto loops = *get_loops(s, {block});
  const auto vi = *sample_perfect_tile(s, {loops[0], 2, 16, "i"});
  const auto vj = *sample_perfect_tile(s, {loops[1], 2, 16, "j"});
  const auto unused = sample_categorical(s, {{1, 2}, {0.5, 0.5}, "unused"});
  EXPECT_OK(unused);
  const auto i = *split(s, {loops[0], {vi[0], vi[1]}});
  const auto j = *split(s, {loops[1], {kInfer, vj[1]}, Tail::kPartition});
  const auto k = *split(s, {loops[2], {kInfer, 2 * IntRef(vj[1])}, Tail::kGuard});
  EXPECT_OK(reorder(s, {{i[0], j[0], k[0], k[1], i[1], j[1]}}));
  EXPECT_OK(annotate(s, {i[0], "weight", 3.0}));
  EXPECT_OK(parallel(s, {i[0]}));
  EXPECT_OK(vectorize(s, {j[1]}));
  return s;
}

TEST(Trace, TextIsReadable) {
  auto s = tiled();
  EXPECT_GOLDEN(s.trace());
}

TEST(Trace, JsonIsStable) {
  auto s = tiled();
  EXPECT_GOLDEN(to_json(s.trace()) + "\n");
}

TEST(Trace, Replays) {
  auto s = tiled();
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Trace, ReplaysBehindOtherSteps) {
  auto s = tiled();
  auto t = schedule_from(kMatmul);
  ASSERT_OK(get_child_blocks(t, {t.block("root")}));
  ASSERT_OK(replay(t, as_parsed(s.trace())));
  EXPECT_TRUE(structural_equal(t.func(), s.func()));
}

TEST(Trace, ReplayOfTextWithoutDecisionsDraws) {
  const auto trace = parse_trace(R"(
    # a comment
    b0 = get_block(name="C")
    l1, l2, l3 = get_loops(block=b0)

    v4, v5 = sample_perfect_tile(loop=l1, n=2, max_innermost=16, name="i")   # drawn
    l6, l7 = split(loop=l1, factors=[v4, v5])
)");
  EXPECT_ERROR(trace, E224);  // behind a sampling step a comment is its decision
  const auto silent = parse_trace(R"(
    b0 = get_block(name="C")
    l1, l2, l3 = get_loops(block=b0)
    v4, v5 = sample_perfect_tile(loop=l1, n=2, max_innermost=16, name="i")
    l6, l7 = split(loop=l1, factors=[v4, v5])
)");
  ASSERT_OK(silent);
  std::map<int64_t, int> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto s = schedule_from(kMatmul, seed);
    ASSERT_OK(replay(s, *silent));
    ++seen[s.decisions().at("i").list()[1]];
  }
  EXPECT_GT(seen.size(), 1u);
}

TEST(Trace, SimplifyLeavesOutWhatNothingUses) {
  auto s = tiled();
  ASSERT_OK(get_child_blocks(s, {s.block("root")}));
  const ParsedTrace whole = as_parsed(s.trace());
  const ParsedTrace simple = simplify(whole);
  EXPECT_EQ(simple.steps.size() + 3, whole.steps.size());  // a sampling, get_block of the root, its children
  auto t = schedule_from(kMatmul);
  ASSERT_OK(replay(t, simple));
  EXPECT_TRUE(structural_equal(t.func(), s.func()));
  EXPECT_EQ(simplify(as_parsed(t.trace())).steps.size(), simple.steps.size());
  EXPECT_REPLAYS(t);
}

TEST(Trace, SimplifyKeepsAddresses) {
  auto s = schedule_from(kMatmul);
  const SampleCategoricalArgs args{{2, 4}, {1.0, 1.0}, "x"};
  ASSERT_OK(sample_categorical(s, args));
  auto used = sample_categorical(s, args);
  ASSERT_OK(split(s, {s.loop("i"), {kInfer, *used}}));
  auto t = schedule_from(kMatmul);
  ASSERT_OK(replay(t, simplify(as_parsed(s.trace()))));
  EXPECT_EQ(t.decisions().size(), 1u);
  EXPECT_EQ(t.decisions().begin()->first, "x#2");
}

TEST(Trace, FailedReplayNamesTheStepAndChangesNothing) {
  auto s = schedule_from(kMatmul);
  const auto trace = parse_trace(R"(
    b0 = get_block(name="C")
    l1, l2, l3 = get_loops(block=b0)
    l4, l5 = split(loop=l1, factors=[5, 5], tail="guard"))");
  ASSERT_OK(trace);
  const auto done = replay(s, *trace);
  EXPECT_ERROR(done, E204);
  EXPECT_EQ(done.error().where, "step 2, split");
  EXPECT_EQ(s.func(), s.original);
  EXPECT_EQ(s.trace().size(), 0u);
}

TEST(Trace, ResultsThatTheTextNamesMustBeThere) {
  const auto trace = parse_trace("b0 = get_block(name=\"C\")\nl1, l2 = get_loops(block=b0)");
  ASSERT_OK(trace);
  auto s = schedule_from(kMatmul);
  EXPECT_ERROR(replay(s, *trace), E224);  // there are three loops
}

TEST(Trace, EveryKindOfAnnotationValueSurvives) {
  for (const Attribute& value :
       std::vector<Attribute>{int64_t{-7}, 0.1, 1e300, -0.0, HUGE_VAL, 2.0, std::string("a\"b\\c\n\tü"), std::string(),
                              std::vector<int64_t>{}, std::vector<int64_t>{INT64_MIN, INT64_MAX}}) {
    auto s = schedule_from("for i in 4: B[i] = A[i]");
    ASSERT_OK(annotate(s, {s.loop("i"), "key", value}));
    for (const auto& parsed : {trace_from_json(to_json(s.trace())), parse_trace(to_text(s.trace()))}) {
      ASSERT_OK(parsed);
      EXPECT_EQ(static_cast<const AnnotateArgs*>(parsed->steps.back().args.get())->value, value) << to_text(s.trace());
    }
  }
}

TEST(TraceText, ErrorsNameTheLine) {
  struct Case {
    const char* text;
    ErrorCode code;
  };
  for (const Case& c : {
           Case{"b0 = get_block(name=\"C\")\nl1 = get_lops(block=b0)", ErrorCode::E224},  // no such primitive
           Case{"\nb0 = get_block(nam=\"C\")", ErrorCode::E224},                          // no such argument
           Case{"\nb0 = get_block(name=\"C\", name=\"B\")", ErrorCode::E224},             // twice
           Case{"\nb0 = get_block(name=3)", ErrorCode::E224},                             // of another type
           Case{"\nb0 = get_block(name=\"C\"", ErrorCode::E224},                          // no end
           Case{"\nb0 = get_block(name=\"C)", ErrorCode::E224},                           // no end of the text
           Case{"\nb0 = get_block(name=\"C\") junk", ErrorCode::E224},                    // more behind
           Case{"\nb0 get_block(name=\"C\")", ErrorCode::E224},                           // no =
           Case{"\nb0, = get_block(name=\"C\")", ErrorCode::E224},                        // no name
           Case{"\n= get_block(name=\"C\")", ErrorCode::E224},
           Case{"\nx0 = get_block(name=\"C\")", ErrorCode::E224},                                   // x is no kind
           Case{"\nb0, b0 = get_block(name=\"C\")", ErrorCode::E224},                               // twice
           Case{"\nb0 = get_block@2(name=\"C\")", ErrorCode::E224},                                 // another version
           Case{"\nsplit(factors=[1, 99999999999999999999])", ErrorCode::E224},                     // too large
           Case{"\nsplit(factors=[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]])", ErrorCode::E224},  // too deep
           Case{"\nl1 = get_loops(block=b0)", ErrorCode::E225},
           Case{"b0 = get_block(name=\"C\")\nl1 = split(loop=b0, factors=[2*v1])", ErrorCode::E225},
       }) {
    const auto trace = parse_trace(c.text);
    ASSERT_TRUE(testing::fails_with(trace, c.code)) << c.text;
    EXPECT_EQ(trace.error().where, "line 2") << c.text;
  }
}

TEST(TraceJson, ErrorsNameTheStep) {
  struct Case {
    const char* step;
    ErrorCode code;
  };
  for (const Case& c : {
           Case{R"(7)", ErrorCode::E224},
           Case{R"({})", ErrorCode::E224},
           Case{R"({"do": "get_lops"})", ErrorCode::E224},
           Case{R"({"do": "get_block", "version": 2})", ErrorCode::E224},
           Case{R"({"do": "get_block", "args": []})", ErrorCode::E224},
           Case{R"({"do": "get_block", "args": {"name": 3}})", ErrorCode::E224},
           Case{R"({"do": "get_loops", "args": {"block": {"ref": [0]}}})", ErrorCode::E224},
           Case{R"({"do": "get_loops", "args": {"block": {"ref": [0, -1]}}})", ErrorCode::E224},
           Case{R"({"do": "get_loops", "args": {"block": {"ref": [1, 0]}}})", ErrorCode::E225},  // itself
           Case{R"({"do": "split", "args": {"factors": [18446744073709551615]}})", ErrorCode::E224},
           Case{R"({"do": "split", "args": {"factors": [{"mul": 2}]}})", ErrorCode::E224},
           Case{R"({"do": "split", "args": {"factors": [{"mul": 2, "by": [[3, 0]]}]}})", ErrorCode::E225},
           Case{R"({"do": "sample_categorical", "address": 3})", ErrorCode::E224},
           Case{R"({"do": "sample_categorical", "decision": [0.5]})", ErrorCode::E224},
           Case{R"({"do": "sample_categorical", "decision": 4})", ErrorCode::E224},
           Case{R"({"do": "sample_categorical", "decision": "two words"})", ErrorCode::E224},
       }) {
    const auto trace = trace_from_json(R"({"fettle_trace": 1, "steps": [{"do": "get_block", "args": {"name": "C"}}, )" +
                                       std::string(c.step) + "]}");
    ASSERT_TRUE(testing::fails_with(trace, c.code)) << c.step;
    EXPECT_EQ(trace.error().where, "step 1") << c.step;
  }
  for (const char* text :
       {"", "{", "[]", "{\"steps\": []}", "{\"fettle_trace\": 2, \"steps\": []}", "{\"fettle_trace\": 1}"})
    EXPECT_ERROR(trace_from_json(text), E224);
  EXPECT_ERROR(trace_from_json(std::string(100000, '[')), E224);
}

}  // namespace
}  // namespace fettle
