#include "cli/report/comparison_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"

namespace fettle::cli {
namespace {

std::string percent(double fraction) { return fmt::format("{:.0f}%", 100 * fraction); }

std::string times(double before, double after) {
  return before > 0 && after > 0 ? fmt::format("{:.2f}x", before / after) : "-";
}

std::string us(double seconds) { return seconds > 0 ? fmt::format("{:.2f}", seconds * 1e6) : "-"; }

}  // namespace

std::string comparison_text(const Comparison& compared, const std::string& before, const std::string& after,
                            size_t most) {
  std::string text = fitting(fmt::format("before: {:.3f} ms  {}", compared.before_s * 1e3, before)) + "\n" +
                     fitting(fmt::format("after:  {:.3f} ms  {}", compared.after_s * 1e3, after)) + "\n" +
                     fmt::format("{} as fast\n\n", times(compared.before_s, compared.after_s));
  text += fmt::format("{:>11} {:>11} {:>8} {:>8} {:>12}  {}\n", "before us", "after us", "faster", "of gain",
                      "of limit", "task");
  for (size_t i = 0; i < std::min(most, compared.tasks.size()); ++i) {
    const ComparedTask& task = compared.tasks[i];
    const std::string limit = task.of_limit_before > 0 && task.of_limit_after > 0
                                  ? percent(task.of_limit_before) + " > " + percent(task.of_limit_after)
                                  : "-";
    text += fitting(fmt::format("{:>11} {:>11} {:>8} {:>8} {:>12}  {}", us(task.before_s), us(task.after_s),
                                times(task.before_s, task.after_s), task.share == 0 ? "-" : percent(task.share), limit,
                                task.label)) +
            "\n";
  }
  if (compared.tasks.size() > most) text += fmt::format("and {} more tasks\n", compared.tasks.size() - most);
  if (compared.only_before + compared.only_after > 0)
    text +=
        fmt::format("{} tasks are in the first alone, {} in the second\n", compared.only_before, compared.only_after);
  return text;
}

nlohmann::json comparison_json(const Comparison& compared) {
  return {{"before_ms", compared.before_s * 1e3},
          {"after_ms", compared.after_s * 1e3},
          {"only_before", compared.only_before},
          {"only_after", compared.only_after},
          {"tasks", json_list(compared.tasks, [](const ComparedTask& task) -> nlohmann::json {
             return {{"label", task.label},
                     {"before_us", task.before_s * 1e6},
                     {"after_us", task.after_s * 1e6},
                     {"saved_us", task.saved_s * 1e6},
                     {"share_of_gain", task.share},
                     {"of_limit_before", task.of_limit_before},
                     {"of_limit_after", task.of_limit_after}};
           })}};
}

}  // namespace fettle::cli
