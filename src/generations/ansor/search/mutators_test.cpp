#include "generations/ansor/search/mutators.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tune/testing.h"

namespace fettle {
namespace {

struct Toy {
  testing::ToySpace space;
  testing::CountingModel model;
  Func workload = testing::toy_workload();
  Workbench bench{space, workload, std::make_shared<const Target>(parse_target("x86-64-avx512").value()),
                  1,     model,    testing::toy_describe()};
};

TEST(Mutators, ATilesProductStays) {
  Toy toy;
  const DecisionMap before = {{"tile/C/i", {8, 4, 16}}, {"parallel/C", "1"}};
  std::set<Decision> seen;
  for (uint64_t i = 0; i < 50; ++i) {
    RandomStream stream{i};
    const auto after = mutate_tile_size.apply(toy.bench, before, stream);
    ASSERT_TRUE(after);
    const Decision::List& sizes = after->at("tile/C/i").list();
    EXPECT_NE(sizes, before.at("tile/C/i").list());
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()), 8 * 4 * 16);
    EXPECT_EQ(after->at("parallel/C"), "1");
    seen.insert(sizes);
  }
  EXPECT_GE(seen.size(), 10u);
  RandomStream stream{1};
  EXPECT_FALSE(mutate_tile_size.apply(toy.bench, {{"tile/C/i", {1, 1}}, {"parallel/C", "1"}}, stream));
}

TEST(Mutators, ChangeWhatTheyAreNamedAfter) {
  Toy toy;
  (void)toy.bench.make({}, 1);  // the choices of unroll/B/unroll become known
  const DecisionMap before = {{"unroll/B/unroll", "0"}, {"unroll/B/nothing", "1"}};
  RandomStream stream{1};
  // "nothing" is of the rule "unroll" as well; both are about it.
  const auto after = mutate_unroll.apply(toy.bench, before, stream);
  ASSERT_TRUE(after);
  EXPECT_NE(*after, before);
  EXPECT_FALSE(mutate_parallel.apply(toy.bench, before, stream));
  const WeightedMutator both[] = {{&mutate_parallel, 1}, {&mutate_unroll, 0.001}};
  EXPECT_TRUE(mutated_by(both, toy.bench, before, stream));  // the first has nothing to change
  const WeightedMutator none[] = {{&mutate_parallel, 1}};
  EXPECT_FALSE(mutated_by(none, toy.bench, before, stream));
}

TEST(Mutators, CrossoverKeepsTheDecisionsOfABlockTogether) {
  const DecisionMap mother = {{"sketch_space/sketch", "0"}, {"tile/C/i", "1"}, {"parallel/C", "1"}, {"tile/D/i", "1"}};
  DecisionMap father = mother;
  for (auto& [address, decision] : father) decision = "2";
  bool mixed = false;
  for (uint64_t i = 0; i < 20; ++i) {
    RandomStream stream{i};
    const DecisionMap child = crossed_by_node(mother, father, stream);
    EXPECT_EQ(child.at("sketch_space/sketch"), "0");
    EXPECT_EQ(child.at("tile/C/i"), child.at("parallel/C"));
    mixed |= child.at("tile/C/i") != child.at("tile/D/i");
  }
  EXPECT_TRUE(mixed);
}

}  // namespace
}  // namespace fettle
