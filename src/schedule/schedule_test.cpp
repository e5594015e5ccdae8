#include "schedule/schedule.h"

#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCopy = "for i in 100: B[i] = A[i]";

TEST(Schedule, CopiesAreIndependent) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  Schedule fork = s;
  ASSERT_OK(split(fork, {i, {kInfer, 4}}));
  EXPECT_EQ(s.func(), s.original);
  EXPECT_OK(s.loop(i));
  EXPECT_EQ(fork.trace().size(), s.trace().size() + 1);
}

TEST(Schedule, ReferencesStayGoodWhereOthersChange) {
  auto s = schedule_from("for i in 8: for j in 8: B[i, j] = A[i, j]");
  const LoopRef i = s.loop("i"), j = s.loop("j");
  ASSERT_OK(split(s, {i, {2, 4}}));
  EXPECT_EQ(s.loop(j)->as<ForNode>()->var, s.loop_var(j).value());
  EXPECT_ERROR(s.loop(i), E206);
  EXPECT_OK(s.loop_var(i));  // its name is still known
}

TEST(Schedule, E225NoSuchResult) {
  auto s = schedule_from(kCopy);
  const BlockRef block = s.block("B");  // step 0
  EXPECT_ERROR(s.loop(LoopRef(StepRef{-1, 0})), E225);
  EXPECT_ERROR(s.loop(LoopRef(StepRef{5, 0})), E225);
  EXPECT_ERROR(s.loop(LoopRef(StepRef{0, 1})), E225);
  EXPECT_ERROR(s.loop(LoopRef(block)), E225);  // a block is no loop
  EXPECT_ERROR(s.value(IntRef(ValueRef(block))), E225);
}

TEST(Schedule, ValuesAreProducts) {
  auto s = schedule_from(kCopy);
  auto v = sample_categorical(s, {{6}, {1.0}, "v"});
  ASSERT_OK(v);
  EXPECT_EQ(*s.value(5), 5);
  EXPECT_EQ(*s.value(*v), 6);
  EXPECT_EQ(*s.value(IntRef(*v) * 3 * IntRef(*v)), 108);
  EXPECT_ERROR(s.value(IntRef(INT64_MAX) * IntRef(*v)), E224);
}

TEST(Schedule, AddressesHavePrefixAndNumber) {
  auto s = schedule_from(kCopy);
  const SampleCategoricalArgs args{{1, 2}, {1.0, 1.0}, "x"};
  ASSERT_OK(sample_categorical(s, args));
  s.set_address_prefix("rule/anchor");
  ASSERT_OK(sample_categorical(s, args));
  ASSERT_OK(sample_categorical(s, args));
  ASSERT_OK(sample_categorical(s, args));
  std::vector<std::string> addresses;
  for (const auto& step : s.trace().steps) addresses.push_back(step->address);
  EXPECT_EQ(addresses, (std::vector<std::string>{"x", "rule/anchor/x", "rule/anchor/x#2", "rule/anchor/x#3"}));
  EXPECT_EQ(s.decisions().size(), 4u);
  EXPECT_REPLAYS(s);  // the prefix is not part of the trace, the addresses are
}

TEST(Schedule, DecisionMapsCarryDecisionsOver) {
  const std::vector<int64_t> many = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto run = [&](Schedule& s) {
    for (const char* name : {"x", "y", "z"})
      ASSERT_OK(sample_categorical(s, {many, std::vector<double>(10, 1.0), name}));
  };
  const Func func = schedule_from(kCopy).func();
  Schedule first(func, 1);
  run(first);
  Schedule second(func, 2, std::make_shared<DecisionMap>(first.decisions()));
  run(second);
  EXPECT_EQ(first.decisions(), second.decisions());
}

TEST(Schedule, DecisionsDrawnByNumberDoNotHangOnAddresses) {
  const auto drawn = [](DecisionSource source, std::initializer_list<const char*> names) {
    Schedule s(schedule_from(kCopy).original, source);
    std::vector<int64_t> values;
    for (const char* name : names) {
      const auto value = sample_categorical(
          s, {.candidates = {1, 2, 3, 4, 5, 6, 7, 8}, .probabilities = std::vector<double>(8, 1.0), .name = name});
      values.push_back(s.value(*value).value());
    }
    return values;
  };
  bool differ_by_address = false, differ_by_point = false, differ_by_number = false;
  for (uint64_t point = 0; point < 20; ++point) {
    const auto by_number = drawn(DecisionSource::by_number(point), {"a", "b", "c"});
    EXPECT_EQ(by_number, drawn(DecisionSource::by_number(point), {"x", "x", "y"}));
    differ_by_number |= by_number[0] != by_number[1];
    differ_by_point |= by_number != drawn(DecisionSource::by_number(point).another(1), {"a", "b", "c"});
    differ_by_address |= drawn(point, {"a", "b"}) != drawn(point, {"x", "y"});
    EXPECT_EQ(drawn(point, {"a", "b"})[1], drawn(point, {"b"})[0]);
  }
  EXPECT_TRUE(differ_by_number && differ_by_point && differ_by_address);
}

TEST(Schedule, ErrorsNameThePrimitiveAndMarkThePlace) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  ASSERT_OK(parallel(s, {i}));
  const auto refused = split(s, {i, {kInfer, 4}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "split");
  const std::string text = explain(refused.error());
  EXPECT_NE(text.find("E201"), std::string::npos) << text;
  EXPECT_NE(text.find("loop i is not serial"), std::string::npos) << text;
  EXPECT_NE(text.find("for i in 100 parallel"), std::string::npos) << text;
  EXPECT_NE(text.find("^^^"), std::string::npos) << text;
}

TEST(Primitives, TableIsCompleteAndSorted) {
  const auto defs = primitive_defs();
  ASSERT_GE(defs.size(), 20u);
  for (size_t n = 1; n < defs.size(); ++n) EXPECT_LT(defs[n - 1]->name, defs[n]->name);
  for (const PrimitiveDef* def : defs) EXPECT_EQ(find_primitive(def->name), def);
  EXPECT_EQ(find_primitive("no_such_primitive"), nullptr);
}

TEST(Primitives, DefaultArgumentsSurviveTheirList) {
  for (const PrimitiveDef* def : primitive_defs()) {
    auto defaults = def->from_args({});
    ASSERT_OK(defaults);
    const std::vector<NamedArg> list = def->to_args(defaults->get());
    auto again = def->from_args(list);
    ASSERT_TRUE(testing::is_ok(again)) << def->name;
    const std::vector<NamedArg> list_again = def->to_args(again->get());
    ASSERT_EQ(list.size(), list_again.size());
    for (size_t i = 0; i < list.size(); ++i)
      EXPECT_EQ(list[i].value, list_again[i].value) << def->name << " " << list[i].name;
  }
}

TEST(Arguments, IndexMapsAreText) {
  const Var i = make_var("i"), j = make_var("i");  // of one name, but two variables
  const IndexMap map{{i, j}, {floordiv(i, 16), j, floormod(i, 16)}};
  const ArgValue arg = to_arg(map);
  EXPECT_EQ(std::get<std::string>(arg.value), "(i, i_1) -> (i // 16, i_1, i % 16)");
  IndexMap back;
  ASSERT_TRUE(from_arg(arg, back));
  EXPECT_EQ(to_arg(back), arg);
  for (const char* wrong : {"", "(i)", "(i) -> (j)", "(i, i) -> (i)", "(i -> (i)", "(2) -> (2)", "(i) -> (i +)",
                            "(i) -> (X[i])", "(i) -> (select(X[i] < 1.0, i, 0))", "(i) -> (0.5)"}) {
    IndexMap unread;
    EXPECT_FALSE(from_arg(ArgValue{std::string(wrong)}, unread)) << wrong;
  }
}

}  // namespace
}  // namespace fettle
