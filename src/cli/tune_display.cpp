#include "cli/tune_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

namespace fettle::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTableEvery = std::chrono::milliseconds(200);
constexpr auto kLineEvery = std::chrono::seconds(5);
constexpr size_t kMostRows = 15, kLongestName = 40, kShortestName = 18;
/// Beside the tasks: the heading, "and 3 more", some lines of progress, and where the cursor stands.
constexpr size_t kOtherLines = 6;

std::string time_text(double seconds) {
  if (seconds <= 0) return "-";
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.3f} ms", seconds * 1e3);
}

std::vector<std::string> progress_parts(const TuneProgress& progress) {
  std::vector<std::string> parts = {
      fmt::format("{:>5.0f} s  {} trials, {} failed", progress.elapsed_s, progress.trials, progress.failed)};
  if (progress.estimated_s > 0)
    parts.push_back(fmt::format("estimated latency {} (untuned {})", time_text(progress.estimated_s),
                                time_text(progress.default_s)));
  if (progress.current >= 0) parts.push_back("now " + progress.tasks[static_cast<size_t>(progress.current)].label);
  if (progress.left_s >= 0) parts.push_back(fmt::format("{:.0f} s left", progress.left_s));
  return parts;
}

struct Screen {
  size_t columns = 80, rows = 24;
};

Screen screen() {
  winsize size{};
  Screen found;
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    found.columns = size.ws_col;
    if (size.ws_row > 0) found.rows = size.ws_row;
  }
  return found;
}

/// The last column stays free: some terminals go on to the next line once it is written.
size_t usable(size_t columns) { return columns > 1 ? columns - 1 : 1; }

}  // namespace

std::string progress_line(const TuneProgress& progress) {
  return fmt::format("{}", fmt::join(progress_parts(progress), "; "));
}

std::string progress_table(const TuneProgress& progress, size_t rows, size_t columns) {
  std::vector<size_t> order(progress.tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return progress.tasks[a].share > progress.tasks[b].share; });
  // What is least told first, where there is no room.
  constexpr size_t kCounts = 14, kUntuned = 12, kBest = 12, kShare = 9, kMark = 2;
  const bool counts = columns >= kMark + kShortestName + kCounts + kUntuned + kBest + kShare;
  const bool untuned = columns >= kMark + kShortestName + kUntuned + kBest + kShare;
  const size_t others = kMark + (counts ? kCounts : 0) + (untuned ? kUntuned : 0) + kBest + kShare;
  const size_t name = columns > others ? std::min(kLongestName, columns - others) : 0;

  std::string text;
  const auto add = [&](const std::string& line) { text += line.substr(0, columns) + "\n"; };
  const auto row = [&](char mark, const std::string& task, const std::string& calls, const std::string& trials,
                       const std::string& before, const std::string& best, const std::string& share) {
    std::string line = fmt::format("{} {:<{}}", mark, task.substr(0, name), name);
    if (counts) line += fmt::format(" {:>5} {:>7}", calls, trials);
    if (untuned) line += fmt::format(" {:>11}", before);
    add(line + fmt::format(" {:>11} {:>8}", best, share));
  };
  row(' ', "task", "calls", "trials", "untuned", "best", "share");
  for (size_t k = 0; k < std::min(rows, order.size()); ++k) {
    const TuneProgress::Task& task = progress.tasks[order[k]];
    const bool now = progress.current == static_cast<int>(order[k]);
    row(now ? '>' : ' ', task.label, fmt::format("{:.0f}", task.weight), fmt::format("{}", task.trials),
        time_text(task.default_s), time_text(task.best_s), fmt::format("{:.1f}%", 100 * task.share));
  }
  if (order.size() > rows) add(fmt::format("  and {} more", order.size() - rows));
  // As many parts a line as fit.
  std::string line;
  for (const std::string& part : progress_parts(progress)) {
    const bool fits = line.empty() || line.size() + 2 + part.size() <= columns;
    if (!fits) add(std::exchange(line, "       ").append(";"));
    line += (line.empty() || line.back() == ' ' ? "" : "; ") + part;
  }
  add(line);
  return text;
}

int lines_on_screen(const std::string& text, size_t columns) {
  size_t lines = 0, begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines += std::max<size_t>(1, (end - begin + columns - 1) / columns);
    begin = end + 1;
  }
  return static_cast<int>(lines);
}

void TuneDisplay::erase() {
  if (!drawn_.empty()) fmt::print(stderr, "\x1b[{}A\x1b[J", lines_on_screen(drawn_, screen().columns));
  drawn_.clear();
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
  const Screen size = screen();
  const size_t rows = std::clamp<size_t>(size.rows > kOtherLines ? size.rows - kOtherLines : 1, 1, kMostRows);
  std::string table = progress_table(progress, rows, usable(size.columns));
  erase();
  fmt::print(stderr, "{}", table);
  std::fflush(stderr);
  drawn_ = std::move(table);
}

void TuneDisplay::say(const std::string& line) {
  erase();
  fmt::print(stderr, "{}\n", line);
}

void TuneDisplay::finish() {
  if (latest_.tasks.empty()) return;
  last_ = {};
  if (live_)
    show(latest_);
  else
    fmt::print(stderr, "{}\n", progress_line(latest_));
  drawn_.clear();
}

}  // namespace fettle::cli
