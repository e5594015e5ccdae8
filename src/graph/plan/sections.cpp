#include "graph/plan/sections.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace fettle {
namespace {

constexpr size_t kMostSteps = 48;          // of which some are looked at together
constexpr double kWorthSections = 0.9;     // of the time one after the other
constexpr int64_t kUnknownIterations = 8;  // of a loop whose limit a run tells
constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a step reads and writes: where in which storage.
struct Uses {
  std::set<int> reads;
  std::map<int, std::vector<Dim>> writes;  // where in it, in bytes
  bool stays = false;                      // it cannot be in a section
};

/// Steps of one list that depend on one another, directly or not, have one root.
class Parts {
 public:
  explicit Parts(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t root(size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  /// Returns whether they were two.
  bool join(size_t i, size_t j) {
    i = root(i);
    j = root(j);
    parent_[std::max(i, j)] = std::min(i, j);
    return i != j;
  }

 private:
  std::vector<size_t> parent_;
};

/// Steps [first, end) as sections: which step is in which.
struct Cut {
  size_t first = 0;
  double seconds = 0;
  std::vector<std::vector<size_t>> sections;  // empty: a step by itself
};

class Sections {
 public:
  Sections(Plan& plan, const SectionOptions& options) : plan_(plan), options_(options) {}

  void run() {
    divide(plan_.steps);
    number_calls();
  }

 private:
  const PlannedCall& call_of(const PlanStep& step) const { return plan_.calls[static_cast<size_t>(step.call)]; }

  bool is_known(const Dim& dim) const { return stage_of(plan_, dim) == 0; }

  /// Where in its whole storage an operand begins, in a loop's first iteration.
  Dim begin_of(const Operand& operand) const {
    Dim at = operand.offset_bytes;
    for (int s = operand.storage; plan_.storages[static_cast<size_t>(s)].kind == Storage::Kind::kWindow;
         s = plan_.storages[static_cast<size_t>(s)].base)
      at = at + plan_.storages[static_cast<size_t>(s)].offset_bytes;
    return at;
  }

  void add(const Operand& operand, bool is_written, Uses& uses) const {
    if (operand.storage < 0) return;
    const Storage& storage = plan_.storages[static_cast<size_t>(operand.storage)];
    if (storage.kind == Storage::Kind::kConstant || storage.kind == Storage::Kind::kCounter) return;
    const int whole = whole_of(plan_, operand.storage);
    uses.stays = uses.stays || !is_known(storage.size_bytes) || !is_known(operand.offset_bytes) ||
                 !is_known(plan_.storages[static_cast<size_t>(whole)].size_bytes);
    if (is_written)
      uses.writes[whole].push_back(begin_of(operand));
    else
      uses.reads.insert(whole);
  }

  void add(const PlanStep& step, Uses& uses) const {
    if (step.kind == PlanStep::Kind::kCall) {
      const PlannedCall& call = call_of(step);
      const std::vector<Param>& params = plan_.workloads[static_cast<size_t>(call.workload)].func->params;
      for (size_t i = 0; i < call.operands.size(); ++i)
        add(call.operands[i], i < params.size() && params[i].kind == ParamKind::kOutput, uses);
      for (const Dim& size : call.sizes) uses.stays = uses.stays || !size.is_number();
      return;
    }
    if (step.kind == PlanStep::Kind::kHost || step.kind == PlanStep::Kind::kBranch ||
        step.kind == PlanStep::Kind::kSizes) {
      uses.stays = true;
      return;
    }
    add(step.condition, false, uses);
    add(step.limit_at, false, uses);
    if (step.limit) uses.stays = uses.stays || !is_known(*step.limit);
    for (const PlanStep& inner : step.body) add(inner, uses);
  }

  /// Whether the later of two steps must wait for the earlier one. Two that only write, from different places on, write
  /// two parts of a value: each element is written once, but for what a loop carries, which begins at one place.
  bool depend(const Uses& earlier, const Uses& later) const {
    const auto is_arena = [&](int storage) {
      const Storage::Kind kind = plan_.storages[static_cast<size_t>(storage)].kind;
      return kind == Storage::Kind::kArena || kind == Storage::Kind::kOutput;
    };
    for (const auto& [storage, places] : earlier.writes) {
      if (later.reads.contains(storage)) return true;
      const auto written = later.writes.find(storage);
      if (written == later.writes.end()) continue;
      if (!is_arena(storage)) return true;
      for (const Dim& place : places)
        for (const Dim& other : written->second)
          if (place == other || !place.is_number() || !other.is_number()) return true;
    }
    return std::ranges::any_of(earlier.reads, [&](int storage) { return later.writes.contains(storage); });
  }

  static double iterations(const PlanStep& loop) {
    return static_cast<double>(loop.limit ? loop.limit->typical() : kUnknownIterations);
  }

  CallSeconds seconds_of(const PlanStep& step) {
    CallSeconds sum;
    if (step.kind == PlanStep::Kind::kCall) {
      if (copies_to_itself(plan_, call_of(step))) return sum;
      return options_.seconds(step.call);
    }
    for (const PlanStep& inner : step.body) {
      const CallSeconds seconds = seconds_of(inner);
      sum.on_all =
          step.kind == PlanStep::Kind::kSections ? std::max(sum.on_all, seconds.on_one) : sum.on_all + seconds.on_all;
      sum.on_one += seconds.on_one;
    }
    if (step.kind == PlanStep::Kind::kSections) sum.on_all += options_.fork_join_s;
    if (step.kind == PlanStep::Kind::kLoop) {
      sum.on_all *= iterations(step);
      sum.on_one *= iterations(step);
    }
    return sum;
  }

  /// The parts, longest first, each to the thread that has least to do.
  Cut cut(const std::vector<PlanStep>& steps, size_t first, size_t end, const Parts& parts) {
    std::map<size_t, std::pair<double, std::vector<size_t>>> by_root;
    for (size_t i = first; i < end; ++i) {
      auto& [seconds, members] = by_root[parts.root(i)];
      seconds += seconds_of(steps[i]).on_one;
      members.push_back(i);
    }
    std::vector<std::pair<double, std::vector<size_t>>> longest_first;
    for (auto& [root, part] : by_root) longest_first.push_back(std::move(part));
    std::ranges::stable_sort(longest_first, std::ranges::greater(), [](const auto& part) { return part.first; });
    Cut made{.first = first};
    std::vector<double> loads(std::min<size_t>(longest_first.size(), static_cast<size_t>(options_.threads)), 0);
    made.sections.resize(loads.size());
    for (const auto& [seconds, members] : longest_first) {
      const auto least = static_cast<size_t>(std::ranges::min_element(loads) - loads.begin());
      loads[least] += seconds;
      made.sections[least].insert(made.sections[least].end(), members.begin(), members.end());
    }
    for (std::vector<size_t>& section : made.sections) std::ranges::sort(section);
    made.seconds = std::ranges::max(loads) + options_.fork_join_s;
    return made;
  }

  /// carries: of the loop whose body it is, the copies at its end. These, and what makes what they copy, stay where
  /// assign_memory looks for them: most copies are none in the end.
  void divide(std::vector<PlanStep>& steps, const std::vector<int>& carries = {}) {
    for (PlanStep& step : steps) {
      divide(step.body, step.carries);
      divide(step.otherwise);
    }
    std::vector<Uses> uses(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      add(steps[i], uses[i]);
      for (const int copy : carries) {
        const int carried = whole_of(plan_, plan_.calls[static_cast<size_t>(copy)].operands[0].storage);
        uses[i].stays = uses[i].stays || steps[i].call == copy || uses[i].writes.contains(carried);
      }
    }
    // The least time of the first i steps, and how the last of them are cut.
    std::vector<double> least(steps.size() + 1, kNever);
    std::vector<Cut> cuts(steps.size() + 1);
    least[0] = 0;
    bool has_sections = false;
    for (size_t first = 0; first < steps.size(); ++first) {
      // One after the other; what nothing could run beside is never asked for its time.
      take(least, cuts, first, first + 1, {.first = first, .seconds = 0});
      Parts parts(steps.size());
      size_t n_parts = 0, summed = first;
      double one_by_one = 0;
      for (size_t i = first; i < std::min(steps.size(), first + kMostSteps) && !uses[i].stays; ++i) {
        ++n_parts;
        for (size_t j = first; j < i; ++j)
          if (parts.root(j) != parts.root(i) && depend(uses[j], uses[i]) && parts.join(i, j)) --n_parts;
        if (n_parts < 2) continue;
        for (; summed <= i; ++summed) one_by_one += seconds_of(steps[summed]).on_all;
        Cut made = cut(steps, first, i + 1, parts);
        if (made.seconds >= kWorthSections * one_by_one) continue;
        made.seconds -= one_by_one;  // what is gained
        has_sections = true;
        take(least, cuts, first, i + 1, std::move(made));
      }
    }
    if (has_sections) rebuild(steps, cuts);
  }

  /// Times are counted from what all steps take one after the other.
  static void take(std::vector<double>& least, std::vector<Cut>& cuts, size_t first, size_t end, Cut made) {
    const double seconds = least[first] + made.seconds;
    if (seconds >= least[end]) return;
    least[end] = seconds;
    cuts[end] = std::move(made);
  }

  static void rebuild(std::vector<PlanStep>& steps, const std::vector<Cut>& cuts) {
    std::vector<PlanStep> backwards;
    for (size_t end = steps.size(); end > 0; end = cuts[end].first) {
      const Cut& cut = cuts[end];
      if (cut.sections.empty()) {
        backwards.push_back(std::move(steps[end - 1]));
        continue;
      }
      PlanStep all{.kind = PlanStep::Kind::kSections};
      for (const std::vector<size_t>& members : cut.sections) {
        PlanStep section{.kind = PlanStep::Kind::kSection};
        for (const size_t i : members) section.body.push_back(std::move(steps[i]));
        all.body.push_back(std::move(section));
      }
      backwards.push_back(std::move(all));
    }
    steps.assign(std::make_move_iterator(backwards.rbegin()), std::make_move_iterator(backwards.rend()));
  }

  /// Calls in the order in which steps mention them now.
  void number_calls() {
    std::vector<int> order;
    const auto visit = [&](auto&& self, const std::vector<PlanStep>& steps) -> void {
      for (const PlanStep& step : steps) {
        if (step.kind == PlanStep::Kind::kCall) order.push_back(step.call);
        self(self, step.body);
        self(self, step.otherwise);
      }
    };
    visit(visit, plan_.steps);
    std::vector<int> number(plan_.calls.size());
    std::vector<PlannedCall> calls;
    for (const int call : order) {
      number[static_cast<size_t>(call)] = static_cast<int>(calls.size());
      calls.push_back(std::move(plan_.calls[static_cast<size_t>(call)]));
    }
    plan_.calls = std::move(calls);
    const auto renumber = [&](auto&& self, std::vector<PlanStep>& steps) -> void {
      for (PlanStep& step : steps) {
        if (step.kind == PlanStep::Kind::kCall) step.call = number[static_cast<size_t>(step.call)];
        for (int& call : step.carries) call = number[static_cast<size_t>(call)];
        self(self, step.body);
        self(self, step.otherwise);
      }
    };
    renumber(renumber, plan_.steps);
  }

  Plan& plan_;
  const SectionOptions& options_;
};

}  // namespace

void run_in_sections(Plan& plan, const SectionOptions& options) {
  if (options.threads > 1) Sections(plan, options).run();
}

}  // namespace fettle
