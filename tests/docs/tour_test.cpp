// docs/tour.md shows what the compiler really does: every dump on the page is made anew here and compared.
// FETTLE_UPDATE_GOLDEN=1 rewrites the page, the timing included.

#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analysis/verify.h"
#include "codegen/llvm/llvm_codegen.h"
#include "graph/testing.h"
#include "harness/paired.h"
#include "ir/compare.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "page_check.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"
#include "tour_example.h"
#include "tune/space/space.h"

namespace fettle::docs {
namespace {

constexpr const char* kPage = "docs/tour.md";
constexpr const char* kExample = "tests/docs/tour_example.cpp";

// Dumps are made for a named target, so that the page is the same on every machine.
std::shared_ptr<const Target> page_target() {
  static const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  return target;
}

Schedule scheduled(const Func& program, std::shared_ptr<const Target> target = page_target(), int64_t rows = 4) {
  Schedule s(program);
  s.set_target(std::move(target));
  const Result<> done = tour_schedule(s, rows);
  EXPECT_TRUE(done) << explain(done.error());
  return s;
}

LoweredKernel lowered() { return lower(scheduled(tour_program()).func(), *page_target()).value(); }

// The micro-kernel of the larger tile.
Func micro_kernel_of(const IrModule& module) {
  Func largest;
  for (const auto& [name, func] : module.funcs)
    if (name != module.entry && (!largest || to_text(func).size() > to_text(largest).size())) largest = func;
  return largest;
}

// A node of a model, and what it means.
std::string node_as_program() {
  GraphMaker maker;
  Value* y = maker.node("MatMul", {maker.input("x", {197, 768}), maker.constant("w", {768, 768})});
  maker.graph.add_output("y", y);
  const Func meaning = node_func(*y->producer).value();
  EXPECT_EQ(canonical_hash(meaning), canonical_hash(tour_program()));
  return to_text(maker.graph) + "\n" + to_text(meaning);
}

std::string refusal() {
  Schedule s(tour_program());
  const BlockRef c = get_block(s, {.name = "C"}).value();
  const std::vector<LoopRef> loops = get_loops(s, {.block = c}).value();
  const Result<> refused = vectorize(s, {.loop = loops[2]});
  return refused ? "" : explain(refused.error());
}

std::string assembly_of_hot_loop() {
  const Func micro_kernel = micro_kernel_of(lowered().kernel);
  return hot_loop(emit_assembly({{{micro_kernel->name, micro_kernel}}, ""}, *page_target()).value());
}

TEST(Tour, TensorExpression) { check_dump(kPage, "te", source_region(kExample, "te")); }
TEST(Tour, Program) { check_dump(kPage, "program", to_text(tour_program())); }
TEST(Tour, Node) { check_dump(kPage, "node", node_as_program()); }
TEST(Tour, ScheduleByHand) { check_dump(kPage, "schedule", source_region(kExample, "schedule")); }
TEST(Tour, Trace) { check_dump(kPage, "trace", to_text(scheduled(tour_program()).trace())); }
TEST(Tour, ScheduledProgram) { check_dump(kPage, "scheduled", to_text(scheduled(tour_program()).func())); }
TEST(Tour, Refusal) { check_dump(kPage, "refusal", refusal()); }
TEST(Tour, Prologue) { check_dump(kPage, "prologue", to_text(lowered().prologue)); }
TEST(Tour, Entry) { check_dump(kPage, "entry", to_text(lowered().kernel.funcs.at(lowered().kernel.entry))); }
TEST(Tour, MicroKernel) { check_dump(kPage, "micro_kernel", to_text(micro_kernel_of(lowered().kernel))); }
TEST(Tour, HotLoop) { check_dump(kPage, "assembly", assembly_of_hot_loop()); }

TEST(Readme, ShowsTheSameProgram) {
  check_dump("README.md", "program", to_text(tour_program()));
  check_dump("README.md", "trace", to_text(scheduled(tour_program()).trace()));
}

// A step with lists of more than three entries cut after the second.
std::string shortened(std::string step) {
  static const std::regex long_list(R"(\[([^\[\],]*, [^\[\],]*)(, [^\[\],]*){2,}\])");
  return std::regex_replace(step, long_list, "[$1, …]");
}

// Where steps make decisions: their addresses, in order.
std::vector<std::string> addresses(const std::string& steps) {
  static const std::regex address(R"(   # (\S+): )");
  std::vector<std::string> found;
  for (std::sregex_iterator it(steps.begin(), steps.end(), address), end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

// Numbers that the rules choose are theirs to change: the page is given them when it is written. What is checked is
// that the schedule is right, and that its decisions have the addresses that the page shows.
TEST(Tour, ConstructedDefault) {
  const Schedule s = default_schedule(tour_program(), page_target(), 1).value();
  EXPECT_TRUE(verify(s.func(), *page_target()));
  std::string decisions, splits;
  std::stringstream steps(to_text(s.trace()));
  for (std::string step; std::getline(steps, step);) {
    if (step.find("   # ") != std::string::npos) decisions += shortened(step) + "\n";
    if (step.find(" split(") != std::string::npos) splits += step + "\n";
  }
  ASSERT_FALSE(splits.empty());
  Page page = read_page(kPage);
  if (update_wanted()) {
    rewrite_dump(page, "decision", decisions);
    rewrite_dump(page, "default", splits);
  }
  ASSERT_FALSE(addresses(decisions).empty());
  EXPECT_EQ(addresses(page.dumps["decision"]), addresses(decisions)) << "FETTLE_UPDATE_GOLDEN=1 rewrites the page";
}

// Every dump on the page is one that is checked above or below.
TEST(Tour, EveryDumpIsChecked) {
  const Page page = read_page(kPage);
  EXPECT_TRUE(page.problems.empty()) << page.problems.front();
  std::set<std::string> names;
  for (const auto& [name, dump] : page.dumps) names.insert(name);
  EXPECT_EQ(names,
            (std::set<std::string>{"te", "program", "node", "schedule", "trace", "scheduled", "refusal", "prologue",
                                   "decision", "entry", "micro_kernel", "assembly", "time", "default"}));
}

TEST(Tour, ScheduleKeepsTheMeaning) {
  for (const auto& [m, n, k] : {std::tuple{7, 64, 5}, std::tuple{13, 32, 1}, std::tuple{8, 96, 3}}) {
    const Func program = tour_program(m, n, k);
    EXPECT_TRUE(testing::same_result(program, scheduled(program).func()));
  }
}

TEST(Tour, TraceReplays) {
  const Schedule by_hand = scheduled(tour_program());
  Schedule replayed(tour_program());
  replayed.set_target(page_target());
  ASSERT_OK(replay(replayed, parse_trace(to_text(by_hand.trace())).value()));
  EXPECT_EQ(to_text(replayed.func()), to_text(by_hand.func()));
}

// Small integers: every sum is exact, whatever its order.
std::vector<float> small_integers(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  RandomStream stream{seed, 0};
  for (float& x : values) x = static_cast<float>(static_cast<int64_t>(stream.below(7)) - 3);
  return values;
}

TEST(Tour, KernelIsRight) {
  const auto host = std::make_shared<const Target>(detect_host(1));
  if (!host->has_feature("avx512f")) GTEST_SKIP() << "the example's vectors have 16 lanes";
  const Func program = tour_program();
  std::vector<LocalKernel> kernels;
  kernels.push_back(LocalKernel::build(program, *host, {.plain = true}).value());
  for (int64_t rows : {4, 14})
    kernels.push_back(LocalKernel::build(scheduled(program, host, rows).func(), *host).value());
  const std::vector<float> a = small_integers(197 * 768, 1), b = small_integers(768 * 768, 2);
  for (LocalKernel& kernel : kernels) {
    kernel.set_logical<float>(0, a);
    kernel.set_logical<float>(1, b);
    ASSERT_OK(kernel.run_prologue());
    ASSERT_OK(kernel.run());
    EXPECT_EQ(kernel.logical<float>(2), kernels.front().logical<float>(2));
  }

  // Times differ from run to run: they are taken when the page is written, and not compared.
  if (!update_wanted()) return;
  bench::PeakMeter peak(1);
  const std::vector<bench::Contender> contenders = {
      {"tile 4 x 32", [&] { kernels[1].call(); }, 2.0 * 197 * 768 * 768},
      {"tile 14 x 32", [&] { kernels[2].call(); }, 2.0 * 197 * 768 * 768},
  };
  const bench::PairedResult timed = bench::time_paired(contenders, peak).value();
  std::string text = describe(*host) + "\n";
  for (size_t i = 0; i < contenders.size(); ++i)
    text += fmt::format("{:<14}{:.3f} ms  {:.0f} GFLOP/s  {:.1f} % of the FMA peak\n", contenders[i].name,
                        timed.time_ns(i).median * 1e-6, timed.gflops(i), 100 * timed.of_peak(i).median);
  Page page = read_page(kPage);
  rewrite_dump(page, "time", text);
}

TEST(HotLoop, IsTheShortestLoopThatMultiplies) {
  EXPECT_EQ(hot_loop("f:\n\txor eax, eax\n.L1:\n.L2:\n\tvfmadd231ps zmm0, zmm1, zmm2 # note\n\tinc rax\n\t.p2align 4\n"
                     "\tjne .L2\n\tjne .L1\n.L3:\n\tdec rax\n\tjne\t.L3\n"),
            ".L2:\n  vfmadd231ps zmm0, zmm1, zmm2\n  inc rax\n  jne .L2\n");
  EXPECT_EQ(hot_loop("f:\n.L1:\n\tdec rax\n\tjne .L1\n"), "");
}

}  // namespace
}  // namespace fettle::docs
