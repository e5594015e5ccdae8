#include "cli/tune_display.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

namespace fettle::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTableEvery = std::chrono::milliseconds(200);
constexpr auto kLineEvery = std::chrono::seconds(5);

std::string time_text(double seconds) {
  if (seconds <= 0) return "-";
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.3f} ms", seconds * 1e3);
}

}  // namespace

std::string progress_line(const TuneProgress& progress) {
  std::string text = fmt::format("{:>5.0f} s  {} trials, {} failed", progress.elapsed_s, progress.trials, progress.failed);
  if (progress.estimated_s > 0)
    text += fmt::format("; estimated latency {} (untuned {})", time_text(progress.estimated_s), time_text(progress.default_s));
  if (progress.current >= 0) text += "; now " + progress.tasks[static_cast<size_t>(progress.current)].label;
  if (progress.left_s >= 0) text += fmt::format("; {:.0f} s left", progress.left_s);
  return text;
}

std::string progress_table(const TuneProgress& progress, size_t rows) {
  std::vector<size_t> order(progress.tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return progress.tasks[a].share > progress.tasks[b].share; });
  std::string text =
      fmt::format("  {:<40} {:>5} {:>7} {:>11} {:>11} {:>7}\n", "task", "calls", "trials", "untuned", "best", "share");
  for (size_t k = 0; k < std::min(rows, order.size()); ++k) {
    const TuneProgress::Task& task = progress.tasks[order[k]];
    const bool now = progress.current == static_cast<int>(order[k]);
    text += fmt::format("{} {:<40} {:>5.0f} {:>7} {:>11} {:>11} {:>6.1f}%\n", now ? '>' : ' ', task.label.substr(0, 40),
                        task.weight, task.trials, time_text(task.default_s), time_text(task.best_s), 100 * task.share);
  }
  if (order.size() > rows) text += fmt::format("  and {} more\n", order.size() - rows);
  return text + progress_line(progress) + "\n";
}

void TuneDisplay::erase() {
  if (lines_ > 0) fmt::print(stderr, "\x1b[{}A\x1b[J", lines_);
  lines_ = 0;
}

void TuneDisplay::show(const TuneProgress& progress) {
  latest_ = progress;
  const auto now = Clock::now();
  if (now - last_ < (live_ ? Clock::duration(kTableEvery) : Clock::duration(kLineEvery))) return;
  last_ = now;
  if (!live_) {
    fmt::print(stderr, "{}\n", progress_line(progress));
    return;
  }
  const std::string table = progress_table(progress, 15);
  erase();
  fmt::print(stderr, "{}", table);
  std::fflush(stderr);
  lines_ = static_cast<int>(std::count(table.begin(), table.end(), '\n'));
}

void TuneDisplay::say(const std::string& line) {
  erase();
  fmt::print(stderr, "{}\n", line);
}

void TuneDisplay::finish() {
  if (latest_.tasks.empty()) return;
  last_ = {};
  if (live_) show(latest_);
  else fmt::print(stderr, "{}\n", progress_line(latest_));
  lines_ = 0;
}

}  // namespace fettle::cli
