// docs/latency-hiding.md shows what the compiler and the simulator really do. FETTLE_UPDATE_GOLDEN=1 rewrites its
// dumps.

#include "codegen/dae/dae_codegen.h"
#include "codegen/dae/testing.h"
#include "dae/experiment.h"
#include "lower/decoupled.h"
#include "page_check.h"

namespace fettle::bench {
namespace {

constexpr const char* kPage = "docs/latency-hiding.md";
const Target kTarget = accelerator_target();

TEST(LatencyHiding, PageShowsTheSteps) {
  const dae::MatmulTiles tiles = {.rows = 8, .columns = 1, .steps = 1, .threads = 2};
  const auto s = dae::scheduled_matmul(8, 2, 2, tiles);
  docs::check_dump(kPage, "scheduled", to_text(s.func()));
  const auto lowered = lower_decoupled(s.func(), kTarget);
  ASSERT_OK(lowered);
  docs::check_dump(kPage, "lowered", to_text(*lowered));
  const auto stream = dae::emit_stream(*lowered, kTarget);
  ASSERT_OK(stream);
  docs::check_dump(kPage, "stream", dae::to_text(*stream));
  const auto plain = dae::scheduled_matmul(8, 2, 2, {.rows = 8, .columns = 1, .steps = 1, .threads = 1});
  const auto other = dae::compile(plain.func(), kTarget);
  ASSERT_OK(other);
  docs::check_dump(kPage, "plain", dae::to_text(*other));
}

TEST(LatencyHiding, PageShowsTheExperiment) {
  const auto table = dae_table();
  ASSERT_OK(table);
  docs::check_dump(kPage, "table", *table);
}

// Deterministic, so bounds of the experiment may stand in a test.
TEST(LatencyHiding, ThreadsRaiseUtilisation) {
  const AcceleratorUnits units = *kTarget.accelerator;
  const auto compute_busy = [](const dae::Timing& t) { return t.units[static_cast<size_t>(dae::Unit::kCompute)].busy; };
  dae::Timing one, unbound, two;
  int64_t one_busy = 0, two_busy = 0;
  for (const DaeCase& c : dae_cases()) {
    SCOPED_TRACE(c.layer.name);
    const auto f = measure_dae_case(c);
    ASSERT_OK(f);
    for (const dae::Timing* t : {&f->one, &f->unbound, &f->two}) EXPECT_EQ(t->macs, c.layer.macs());
    EXPECT_EQ(f->two.memory_bytes, f->unbound.memory_bytes);
    // Where the compute unit is busy anyway, with the sums, threads bring nothing; nor do they cost.
    EXPECT_LE(f->two.cycles, f->unbound.cycles * 101 / 100);
    EXPECT_LE(f->two.cycles, f->one.cycles * 101 / 100);
    one.cycles += f->one.cycles;
    unbound.cycles += f->unbound.cycles;
    two.cycles += f->two.cycles;
    two.macs += f->two.macs;
    one_busy += compute_busy(f->one);
    two_busy += compute_busy(f->two);
  }
  one.macs = unbound.macs = two.macs;
  EXPECT_GE(two.utilisation(units), 0.84);
  EXPECT_GE(two.utilisation(units), 1.25 * one.utilisation(units));
  EXPECT_GE(two.utilisation(units), 1.3 * unbound.utilisation(units));
  EXPECT_GE(two_busy * 100, two.cycles * 98);
  EXPECT_LE(one_busy * 100, one.cycles * 80);
}

// Small layers whole, bit by bit against the interpreter, in several orders of the units.
TEST(LatencyHiding, ConvolutionsComputeWhatTheyMean) {
  const DaeLayer plain{"", 4, 32, 64, 3, 1}, strided{"", 8, 32, 64, 3, 2}, pointwise{"", 8, 32, 64, 1, 2};
  for (const DaeLayer& layer : {plain, strided, pointwise})
    for (const bool in_rows : {false, true}) {
      const DaeTiles tiles{.out = 2, .rows = 2, .columns = 4, .in = 1, .threads_in_rows = in_rows};
      const auto program = compile_dae_conv(layer, tiles, 2);
      ASSERT_OK(program);
      EXPECT_OK(dae::check_hazards(*program));
      EXPECT_TRUE(dae::computes(*program, dae_conv(layer)));
      EXPECT_EQ(program->macs(), layer.macs());
    }
}

// Whole layers against loops in C++.
TEST(LatencyHiding, RealLayersComputeWhatTheyMean) {
  const DaeCase c = dae_cases()[9];  // C11: strided
  const int64_t ci = c.layer.in / 16, co = c.layer.out / 16, h = c.layer.out_size(), s = c.layer.stride;
  const int64_t hp = (h - 1) * s + c.layer.kernel;
  auto data = dae::some_data(dae_conv(c.layer));
  const auto at = [&](size_t which, int64_t i) {
    return int32_t{static_cast<int8_t>(data[which][static_cast<size_t>(i)])};
  };
  std::vector<uint8_t> expected(data[2].size());
  for (int64_t o = 0; o < co * 16; ++o)
    for (int64_t y = 0; y < h; ++y)
      for (int64_t x = 0; x < h; ++x) {
        int32_t sum = 0;
        for (int64_t i = 0; i < ci * 16; ++i)
          sum += at(0, ((i / 16 * hp + y * s) * hp + x * s) * 16 + i % 16) *
                 at(1, ((o / 16 * ci + i / 16) * 16 + o % 16) * 16 + i % 16);
        expected[static_cast<size_t>(((o / 16 * h + y) * h + x) * 16 + o % 16)] =
            static_cast<uint8_t>(std::min(std::max(sum >> 8, -128), 127));
      }
  const auto program = compile_dae_conv(c.layer, c.two, 2);
  ASSERT_OK(program);
  for (const dae::Order order : {dae::Order::kEagerLoads, dae::Order::kLateLoads}) {
    auto own = data;
    const auto args = dae::views(own);
    ASSERT_OK(dae::run(*program, args, order));
    EXPECT_EQ(own[2], expected);
  }
}

// Streams of real layers have no hazard.
TEST(LatencyHiding, RealLayersHaveNoHazard) {
  for (const DaeCase& c : {dae_cases()[0], dae_cases()[10]})
    for (const int64_t threads : {1, 2}) {
      const auto program = compile_dae_conv(c.layer, threads == 1 ? c.one : c.two, threads);
      ASSERT_OK(program);
      EXPECT_OK(dae::check_hazards(*program));
    }
}

}  // namespace
}  // namespace fettle::bench
