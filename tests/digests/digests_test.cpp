#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/text.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/primitives/split.h"
#include "tests/digests/against.h"
#include "tests/digests/steps.h"
#include "tests/digests/tables.h"

namespace fettle::digests {
namespace {
namespace fs = std::filesystem;

Func workload() { return parse_func(search_subjects().front().workload).value(); }

/// Two cuts of a product's rows, decided under these names and by this source.
PointMaker cuts(std::string prefix, std::vector<int64_t> candidates, bool by_number = true) {
  return {.space = "cuts", .make = [=](uint64_t point) -> Result<Schedule> {
            Schedule s(workload(), by_number ? DecisionSource::by_number(point) : DecisionSource(point));
            FETTLE_TRY(const BlockRef block, get_block(s, {.name = "C"}));
            FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = block}));
            s.set_address_prefix(prefix);
            for (const size_t i : {0, 1}) {
              FETTLE_TRY(const ValueRef tile,
                         sample_categorical(s, {.candidates = candidates,
                                                .probabilities = std::vector<double>(candidates.size(), 1.0),
                                                .name = prefix + std::to_string(i)}));
              FETTLE_TRY(const int64_t chosen, s.value(tile));
              if (chosen == 0) return fail(ErrorCode::E235, "none");
              FETTLE_TRY_VOID(split(s, {.loop = loops[i], .factors = {kInfer, tile}, .tail = Tail::kGuard}));
            }
            return s;
          }};
}

Row row_of(const PointMaker& maker, bool quick = false) {
  return make_row(maker, "product", *parse_target("x86-64-avx512"), "avx512", 20, quick);
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("digests-" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "a");
    fs::create_directories(folder_ / "b");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  fs::path folder_;
};

TEST(Digests, DoNotHangOnTheNamesOfAddresses) {
  const Row row = row_of(cuts("tile", {2, 4, 8, 16})), renamed = row_of(cuts("other", {2, 4, 8, 16}));
  EXPECT_EQ(to_line(row), to_line(renamed));
  EXPECT_NE(to_line(row_of(cuts("tile", {2, 4, 8, 16}, false))), to_line(row_of(cuts("other", {2, 4, 8, 16}, false))));
}

TEST(Digests, ShowADifferenceAndItsPoint) {
  const Row row = row_of(cuts("tile", {2, 4, 8, 16})), other = row_of(cuts("tile", {2, 4, 8, 32}));
  EXPECT_TRUE(differences(row, row).empty());
  ASSERT_FALSE(differences(row, other).empty());
  const Row refused = row_of(cuts("tile", {2, 4, 0, 16}));
  EXPECT_GT(refused.refused, 0);
  EXPECT_LT(refused.refused, refused.points);
  EXPECT_NE(refused.programs, row.programs);
}

TEST(Digests, AQuickRowHasTheFirstPointsOfACompleteOne) {
  const PointMaker maker = cuts("tile", {2, 4, 8, 16});
  const Row complete = row_of(maker), quick = row_of(maker, true);
  EXPECT_EQ(quick.first, complete.first);
  EXPECT_EQ(quick.lowered, complete.lowered);
  EXPECT_TRUE(differences(complete, quick).empty());
  Row changed = complete;
  changed.first[1] = "0000";
  EXPECT_EQ(differences(changed, quick), std::vector<std::string>{"point 1 is another program"});
  changed = complete;
  changed.lowered = "0";
  EXPECT_EQ(differences(changed, quick), std::vector<std::string>{"the same program lowers to other code"});
}

TEST(Digests, ALineIsReadAsItWasWritten) {
  const Row row = row_of(cuts("tile", {2, 4, 0, 16}));
  const auto read = parse_row(to_line(row));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_line(*read), to_line(row));
  EXPECT_EQ(read->key(), row.key());
  EXPECT_TRUE(differences(row, *read).empty());
  EXPECT_FALSE(parse_row("# a comment"));
  EXPECT_FALSE(parse_row("avx512 rules 100"));
}

TEST(Digests, StepsTellWhatWasDoneAndNotHowItWasDecided) {
  const auto made = cuts("tile", {4}).make(0);
  ASSERT_TRUE(made);
  EXPECT_EQ(steps_text(made->trace()),
            "split(loop=i, factors=[-1, 4], tail=\"guard\") -> i_0, i_1\n"
            "split(loop=j, factors=[-1, 4], tail=\"guard\") -> j_0, j_1\n");
}

TEST_F(Folder, TheFirstStepThatDiffersIsShown) {
  write("a/000.steps", "one\n");
  write("b/000.steps", "one\n");
  EXPECT_EQ(first_difference(folder_ / "a", folder_ / "b"), "");
  write("a/001.steps", "one\ntwo\n");
  write("b/001.steps", "one\nthree\n");
  EXPECT_EQ(first_difference(folder_ / "a", folder_ / "b"), "point 1, step 2\n    here:  two\n    there: three");
  write("b/001.steps", "one\ntwo\n");
  write("a/001.lowered", "x = 1\n");
  EXPECT_EQ(first_difference(folder_ / "a", folder_ / "b"),
            "point 1, the same program; line of the lowered code 1\n    here:  x = 1\n    there: (nothing)");
}

TEST_F(Folder, OnlySelectedRowsAreUpdatedAndCompared) {
  Row row = row_of(cuts("tile", {2, 4, 8, 16})), other = row;
  other.space = "others/x";
  ASSERT_TRUE(update_tables(folder_, {}, {row, other}));
  auto table = read_tables(folder_);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), 2u);
  EXPECT_TRUE(compare(*table, {}, {row, other}).empty());
  // What is no more made, what was not recorded, and what is outside of the selection.
  EXPECT_EQ(compare(*table, {}, {row}).size(), 1u);
  EXPECT_TRUE(compare(*table, {.space = "cuts"}, {row}).empty());
  Row more = row;
  more.subject = "another";
  EXPECT_EQ(compare(*table, {.space = "cuts"}, {row, more}).size(), 1u);
  row.programs = "changed";
  ASSERT_TRUE(update_tables(folder_, {.space = "cuts"}, {row}));
  table = read_tables(folder_);
  EXPECT_EQ(table->at(row.key()).programs, "changed");
  EXPECT_EQ(table->at(other.key()).programs, other.programs);
}

}  // namespace
}  // namespace fettle::digests
