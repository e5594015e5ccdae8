#include "driver/call_graph.h"

#include <map>
#include <set>

namespace fettle {
namespace {

class CallGraph {
 public:
  explicit CallGraph(const Plan& plan) : plan_(plan) { go(plan.steps); }

  std::vector<GraphCall> take() { return std::move(nodes_); }

 private:
  void go(const std::vector<PlanStep>& steps) {
    for (const PlanStep& step : steps) {
      if (step.kind == PlanStep::Kind::kCall) {
        const PlannedCall& call = plan_.calls[static_cast<size_t>(step.call)];
        if (copies_to_itself(plan_, call)) continue;
        const PlannedWorkload& workload = plan_.workloads[static_cast<size_t>(call.workload)];
        const std::vector<Param>& params = workload.func->params;
        add(call.name, workload.hash.hex(), call.operands,
            [&](size_t i) { return i < params.size() && params[i].kind == ParamKind::kOutput; });
      } else if (step.kind == PlanStep::Kind::kHost) {
        const PlannedHostCall& call = plan_.host_calls[static_cast<size_t>(step.call)];
        add(call.name, "", call.operands, [&](size_t i) { return i >= call.n_inputs; });
      }
      go(step.body);
      go(step.otherwise);
    }
  }

  template <class Writes>
  void add(const std::string& name, std::string task, const std::vector<Operand>& operands, const Writes& writes) {
    std::set<int> from;
    const auto number = static_cast<int>(nodes_.size());
    for (size_t i = 0; i < operands.size(); ++i)
      if (!writes(i)) from.insert(writers_[place_of(operands[i])].begin(), writers_[place_of(operands[i])].end());
    for (size_t i = 0; i < operands.size(); ++i)
      if (writes(i)) writers_[place_of(operands[i])].push_back(number);
    nodes_.push_back({name, std::move(task), {from.begin(), from.end()}});
  }

  int place_of(const Operand& operand) const {
    int storage = whole_of(plan_, operand.storage);
    while (plan_.storages[static_cast<size_t>(storage)].in_place_of >= 0)
      storage = plan_.storages[static_cast<size_t>(storage)].in_place_of;
    return storage;
  }

  const Plan& plan_;
  std::vector<GraphCall> nodes_;
  std::map<int, std::vector<int>> writers_;  // of each storage, so far; parts of a whole have several
};

}  // namespace

std::vector<GraphCall> call_graph(const Plan& plan) { return CallGraph(plan).take(); }

}  // namespace fettle
