#include "dae/experiment.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "target/accelerator.h"

namespace fettle::bench {
namespace {

const DaeCase kCases[] = {
    {{"C2", 56, 64, 64, 3, 1}, {2, 14, 28, 4, false}, {2, 8, 28, 2, false}},
    {{"C3", 56, 64, 64, 1, 1}, {4, 2, 56, 4, false}, {4, 2, 56, 2, true}},
    {{"C4", 56, 64, 128, 3, 2}, {4, 7, 28, 2, false}, {4, 4, 28, 1, false}},
    {{"C5", 56, 64, 128, 1, 2}, {8, 2, 28, 4, false}, {8, 1, 28, 4, true}},
    {{"C6", 28, 128, 128, 3, 1}, {2, 14, 28, 4, false}, {4, 4, 28, 1, false}},
    {{"C7", 28, 128, 256, 3, 2}, {4, 14, 14, 2, false}, {4, 7, 14, 1, false}},
    {{"C8", 28, 128, 256, 1, 2}, {16, 7, 7, 8, false}, {8, 2, 14, 8, false}},
    {{"C9", 14, 256, 256, 3, 1}, {4, 14, 14, 2, false}, {2, 14, 14, 1, false}},
    {{"C10", 14, 256, 512, 3, 2}, {8, 7, 7, 1, false}, {4, 7, 7, 1, false}},
    {{"C11", 14, 256, 512, 1, 2}, {16, 7, 7, 8, false}, {8, 7, 7, 4, false}},
    {{"C12", 7, 512, 512, 3, 1}, {8, 7, 7, 1, false}, {4, 7, 7, 1, false}},
};

Result<dae::Timing> timing(const DaeLayer& layer, const DaeTiles& tiles, int64_t threads, bool bound) {
  FETTLE_TRY(const dae::Program program, compile_dae_conv(layer, tiles, threads, bound));
  return dae::count_cycles(program, *accelerator_target().accelerator);
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) result.push_back(d);
  return result;
}

std::string tiles_text(const DaeTiles& t) {
  return fmt::format("{}x{}x{}, {}{}", t.out * 16, t.rows, t.columns, t.in * 16, t.threads_in_rows ? " r" : "");
}

}  // namespace

std::span<const DaeCase> dae_cases() { return kCases; }

Result<DaeFigures> measure_dae_case(const DaeCase& c) {
  DaeFigures figures;
  FETTLE_TRY(figures.one, timing(c.layer, c.one, 1, false));
  FETTLE_TRY(figures.unbound, timing(c.layer, c.two, 2, false));
  FETTLE_TRY(figures.two, timing(c.layer, c.two, 2, true));
  return figures;
}

Result<DaeTiles> search_dae_tiles(const DaeLayer& layer, int64_t threads) {
  const Target target = accelerator_target();
  const int64_t size = layer.out_size();
  const auto capacity = [&](const char* scope) { return target.find_scope(scope)->capacity_bytes / threads; };
  struct Candidate {
    DaeTiles tiles;
    double estimate = 0;
  };
  std::vector<Candidate> candidates;
  for (const int64_t out : divisors(layer.out / 16))
    for (const int64_t rows : divisors(size))
      for (const int64_t columns : divisors(size))
        for (const int64_t in : divisors(layer.in / 16))
          for (const bool in_rows : {false, true}) {
            if (in_rows ? threads == 1 || size / rows % threads != 0 : layer.out / 16 / out % threads != 0) continue;
            const auto input = [&](int64_t n) { return (n - 1) * layer.stride + layer.kernel; };
            const int64_t inp = in * input(rows) * input(columns) * 16,
                          wgt = out * in * layer.kernel * layer.kernel * 256;
            if (inp > capacity("inp") || wgt > capacity("wgt") || int64_t{128} * out * rows * columns > capacity("acc"))
              continue;
            // Cycles for each product, roughly, by which the rest is sorted out: products and transfers of one step,
            // one after the other or at once, and what is done with the sums after all steps.
            const auto vectors = static_cast<double>(out * rows * columns);
            const int64_t turns = layer.in / 16 / in;
            const auto steps = static_cast<double>(turns);
            const double products = vectors * static_cast<double>(in * layer.kernel * layer.kernel);
            const double gemm = products + 8, transfer = static_cast<double>(inp + wgt) / 8 + 2 * 64;
            const double step = threads == 1 ? gemm + transfer : std::max(gemm, transfer);
            const double estimate = (steps * step + 7 * vectors) / (steps * products);
            candidates.push_back({{out, rows, columns, in, in_rows}, estimate});
          }
  std::ranges::stable_sort(candidates, {}, &Candidate::estimate);
  if (candidates.size() > 24) candidates.resize(24);
  std::optional<DaeTiles> best;
  int64_t cycles = 0;
  for (const Candidate& c : candidates) {
    FETTLE_TRY(const dae::Timing t, timing(layer, c.tiles, threads, true));
    if (best && t.cycles >= cycles) continue;
    best = c.tiles;
    cycles = t.cycles;
  }
  if (!best) return fail(ErrorCode::E230, "no tile of " + layer.name + " fits the scratchpads");
  return *best;
}

Result<std::string> dae_table() {
  const AcceleratorUnits units = *accelerator_target().accelerator;
  constexpr const char* kRow = "{:<6} {:>6}   {:<14} {:>8} {:>6} {:>6}   {:<16} {:>8} {:>6} {:>6} {:>8} {:>6} {:>7}\n";
  std::string text = fmt::format(kRow, "layer", "MMAC", "one thread", "ops/byte", "busy", "use", "two threads",
                                 "ops/byte", "roof", "plain", "threads", "busy", "speed");
  const auto percent = [](double x) { return fmt::format("{:.0f} %", 100 * x); };
  const auto busy = [](const dae::Timing& t) {
    return static_cast<double>(t.units[static_cast<size_t>(dae::Unit::kCompute)].busy) / static_cast<double>(t.cycles);
  };
  dae::Timing one, unbound, two;  // sums
  const auto add = [](dae::Timing& sum, const dae::Timing& t) {
    sum.cycles += t.cycles;
    sum.macs += t.macs;
    for (size_t u = 0; u < dae::kUnits; ++u) sum.units[u].busy += t.units[u].busy;
  };
  for (const DaeCase& c : dae_cases()) {
    FETTLE_TRY(const DaeFigures f, measure_dae_case(c));
    const double peak = 2.0 * static_cast<double>(units.macs_per_cycle());
    const double roof = std::min(1.0, f.two.intensity() * static_cast<double>(units.memory_bytes_per_cycle) / peak);
    text += fmt::format(kRow, c.layer.name, fmt::format("{:.1f}", static_cast<double>(f.two.macs) * 1e-6),
                        tiles_text(c.one), fmt::format("{:.0f}", f.one.intensity()), percent(busy(f.one)),
                        percent(f.one.utilisation(units)), tiles_text(c.two), fmt::format("{:.0f}", f.two.intensity()),
                        percent(roof), percent(f.unbound.utilisation(units)), percent(f.two.utilisation(units)),
                        percent(busy(f.two)),
                        fmt::format("{:.2f}x", static_cast<double>(f.one.cycles) / static_cast<double>(f.two.cycles)));
    add(one, f.one);
    add(unbound, f.unbound);
    add(two, f.two);
  }
  text += fmt::format(kRow, "all", fmt::format("{:.1f}", static_cast<double>(two.macs) * 1e-6), "", "",
                      percent(busy(one)), percent(one.utilisation(units)), "", "", "",
                      percent(unbound.utilisation(units)), percent(two.utilisation(units)), percent(busy(two)),
                      fmt::format("{:.2f}x", static_cast<double>(one.cycles) / static_cast<double>(two.cycles)));
  return text;
}

}  // namespace fettle::bench
