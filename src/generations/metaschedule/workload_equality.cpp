#include "generations/metaschedule/workload_equality.h"

#include <algorithm>

#include "generations/metaschedule/anchor_trace.h"
#include "generations/metaschedule/forwarding_database.h"
#include "ir/compare.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

class WithoutConstants : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (e && e.kind() == ExprKind::kFloatImm) return float_imm(0, e.dtype());
    return Mutator::rewrite(e);
  }
};

Func without_constants(const Func& func) {
  WithoutConstants rewriter;
  return with(rewriter.rewrite(func), [](FuncNode& f) {
    for (Param& param : f.params)
      if (param.kind == ParamKind::kConstant) param.kind = ParamKind::kInput;
  });
}

Func anchor_of(const Func& func) {
  const BlockNode* anchor = anchor_block(func);
  if (!anchor) return func;
  const auto loops = loops_around(func, anchor);
  const Stmt nest = loops.empty() ? Stmt(Ref<const StmtNode>(anchor)) : Stmt(Ref<const StmtNode>(loops.front()));
  if (blocks_under(nest).size() != 1) return func;
  return with(func, [&](FuncNode& f) {
    f.params.clear();
    const auto add = [&](const std::vector<Region>& regions, ParamKind kind) {
      for (const Region& region : regions)
        if (std::ranges::none_of(f.params, [&](const Param& p) { return p.buffer.get() == region.buffer.get(); }))
          f.params.push_back({.buffer = region.buffer, .kind = kind});
    };
    add(anchor->writes, ParamKind::kOutput);
    add(anchor->reads, ParamKind::kInput);
    std::stable_partition(f.params.begin(), f.params.end(), [](const Param& p) { return p.kind == ParamKind::kInput; });
    auto root = make_ref<BlockNode>(func.root());
    root->allocations.clear();
    root->body = nest;
    f.body = Stmt(root);
    f.name = "anchor";
  });
}

class EqualityDatabase : public ForwardingDatabase {
 public:
  EqualityDatabase(std::shared_ptr<Database> inner, WorkloadEquality mode)
      : ForwardingDatabase(std::move(inner)), mode_(mode) {}

  Result<std::vector<Record>> best(const TaskKey& task, int k) override {
    FETTLE_TRY(const std::vector<TaskKey> tasks, equal_tasks(task));
    std::vector<Record> all;
    for (const TaskKey& one : tasks) {
      FETTLE_TRY(std::vector<Record> records, inner_->best(one, k));
      for (Record& record : records)
        if (adapt(record, task)) all.push_back(std::move(record));
    }
    return k_best(std::move(all), k);
  }
  Result<std::vector<Record>> records(const TaskKey& task) override {
    FETTLE_TRY(const std::vector<TaskKey> tasks, equal_tasks(task));
    std::vector<Record> all;
    for (const TaskKey& one : tasks) {
      FETTLE_TRY(const std::vector<Record> records, inner_->records(one));
      all.insert(all.end(), records.begin(), records.end());
    }
    return all;
  }

 private:
  // Another workload's schedule is that of its anchor; false where it cannot be had here.
  bool adapt(Record& record, const TaskKey& task) const {
    if (mode_ != WorkloadEquality::kAnchorBlock || same_workload(record.task.workload, task.workload)) return true;
    const auto workload = parse_workload_func(task.workload), origin = parse_workload_func(record.task.workload);
    const auto trace = parse_trace(record.trace);
    if (!workload || !origin || !trace) return false;
    const auto carried = replay_anchor(*workload, *origin, *trace);
    if (!carried) return false;
    record.trace = to_text(carried->trace());
    const DecisionMap decisions = carried->decisions();
    record.decisions = {decisions.begin(), decisions.end()};
    return true;
  }

  // The task itself first.
  Result<std::vector<TaskKey>> equal_tasks(const TaskKey& task) {
    std::vector<TaskKey> tasks = {task};
    FETTLE_TRY(const auto wanted, parse_workload_func(task.workload));
    FETTLE_TRY(const std::vector<TaskSummary> known, summarize(*inner_));
    for (const TaskSummary& summary : known) {
      const TaskKey& other = summary.task;
      if (other.target_features != task.target_features || other.fingerprint != task.fingerprint ||
          other.threads != task.threads || other.versions != task.versions ||
          same_workload(other.workload, task.workload))
        continue;
      FETTLE_TRY(const auto func, parse_workload_func(other.workload));
      if (equal_workloads(wanted, func, mode_)) tasks.push_back(other);
    }
    return tasks;
  }
  static Result<Func> parse_workload_func(const Workload& workload) { return parse_func(workload.text); }

  WorkloadEquality mode_;
};

constexpr std::string_view kNames[] = {"structural", "ignore-constants", "anchor-block"};

}  // namespace

std::span<const std::string_view> workload_equality_names() { return kNames; }

std::optional<WorkloadEquality> find_workload_equality(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<WorkloadEquality>(found - std::begin(kNames));
}

Func compared_part(const Func& func, WorkloadEquality mode) {
  switch (mode) {
    case WorkloadEquality::kStructural:
      return func;
    case WorkloadEquality::kIgnoreConstants:
      return without_constants(func);
    case WorkloadEquality::kAnchorBlock:
      return anchor_of(func);
  }
  return func;
}

bool equal_workloads(const Func& a, const Func& b, WorkloadEquality mode) {
  const Func x = compared_part(a, mode), y = compared_part(b, mode);
  return canonical_hash(x) == canonical_hash(y) && structural_equal(x, y);
}

std::unique_ptr<Database> make_equality_database(std::shared_ptr<Database> database, WorkloadEquality mode) {
  return std::make_unique<EqualityDatabase>(std::move(database), mode);
}

}  // namespace fettle
