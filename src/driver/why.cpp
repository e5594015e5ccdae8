#include "driver/why.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "driver/kernel_costs.h"
#include "driver/prepare.h"

namespace fettle {
namespace {

std::string label_of(const Node& node) { return fmt::format("{} {}", node.op->name, node.name); }

bool stands_for(const Node& node, const Origin& origin) {
  return std::ranges::find(node.provenance, origin) != node.provenance.end();
}

/// Labels of the nodes that do the work of the origin, in bodies, too.
std::vector<std::string> carriers(const Graph& graph, const Origin& origin) {
  std::vector<std::string> labels;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node* node : g.nodes())
      if (!node->erased && stands_for(*node, origin)) labels.push_back(label_of(*node));
  });
  return labels;
}

/// Insertions, deletions and changes that make one text the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// The origin that is called so. E709
Result<Origin> find_origin(const Graph& graph, const std::string& name) {
  std::optional<Origin> found;
  std::set<std::string> names;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node* node : g.nodes())
      for (const Origin& origin : node->provenance) {
        names.insert(origin.name);
        if (!found && (origin.name == name || origin.to_string() == name)) found = origin;
      }
    const Value* value = found ? nullptr : g.find_value(name);
    if (value && value->producer && !value->producer->provenance.empty()) found = value->producer->provenance[0];
  });
  if (found) return *found;
  // A part of a name is nearer than a name that is spelt alike.
  constexpr size_t kTold = 3;
  std::vector<std::pair<size_t, std::string>> nearest;
  for (const std::string& known : names) {
    const size_t distance = edit_distance(name, known);
    nearest.emplace_back(!name.empty() && known.find(name) != std::string::npos ? distance / 8 : distance, known);
  }
  std::ranges::sort(nearest);
  std::vector<std::string> told;
  for (size_t i = 0; i < std::min(kTold, nearest.size()); ++i) told.push_back("\"" + nearest[i].second + "\"");
  if (told.empty()) return fail(ErrorCode::E709, "the model has no nodes", "--why");
  return fail(ErrorCode::E709, fmt::format("no node is called \"{}\"; the nearest are {}", name, fmt::join(told, ", ")),
              "--why");
}

class Explainer {
 public:
  Explainer(const Plan& plan, const std::vector<FusionCost>& costs) : plan_(plan), costs_(costs) {
    for (const PlannedGroup& group : plan.groups)
      for (const Node* node : group.group.nodes) group_of_[node] = &group;
  }

  std::vector<WhyGroup> groups_of(const Origin& origin) const {
    std::vector<WhyGroup> found;
    for (const PlannedGroup& planned : plan_.groups)
      if (std::ranges::any_of(planned.group.nodes, [&](const Node* node) { return stands_for(*node, origin); }))
        found.push_back(explain(planned));
    return found;
  }

 private:
  WhyNode describe(const Node* node, std::string_view reason) const {
    WhyNode made;
    made.reason = reason;
    if (!node) return made;
    made.node = label_of(*node);
    made.origins = node->provenance;
    if (const auto found = group_of_.find(node); found != group_of_.end()) made.call = found->second->call;
    if (const auto cost = std::ranges::find(costs_, node, &FusionCost::node); cost != costs_.end()) made.costs = *cost;
    return made;
  }

  WhyGroup explain(const PlannedGroup& planned) const {
    const Group& group = planned.group;
    WhyGroup made{planned.kind, planned.call, {}, {}, {}};
    for (const Node* node : group.nodes) {
      // The first note that has it join: later ones are of the group that joined as a whole.
      const auto note =
          std::ranges::find_if(group.notes, [&](const GroupNote& n) { return n.joins && n.node == node; });
      made.members.push_back(describe(node, note == group.notes.end() ? "" : note->reason));
      if (note == group.notes.end()) made.members.back().costs.reset();
    }
    for (const GroupNote& note : group.notes)
      if (!note.joins) made.behind.push_back(describe(note.node, note.reason));
    for (const Value* input : group.inputs) add_before(group, *input, made.before);
    return made;
  }

  /// Why the group does not go on with the one that makes its input.
  void add_before(const Group& group, const Value& input, std::vector<WhyNode>& before) const {
    const auto maker = input.producer ? group_of_.find(input.producer) : group_of_.end();
    if (maker == group_of_.end()) return;
    const Group& other = maker->second->group;
    const Node* last = other.nodes.back();
    const std::string label = label_of(*last);
    if (std::ranges::find(before, label, &WhyNode::node) != before.end()) return;
    const auto is_of = [&](const GroupNote& note) {
      return !note.joins && note.node && std::ranges::find(group.nodes, note.node) != group.nodes.end();
    };
    auto note = std::ranges::find_if(other.notes, is_of);
    if (note == other.notes.end())
      note = std::ranges::find_if(other.notes, [](const GroupNote& n) { return !n.joins; });
    if (note == other.notes.end()) return;
    before.push_back(describe(last, note->reason));
    before.back().costs.reset();
    if (note->node)
      if (const auto cost = std::ranges::find(costs_, note->node, &FusionCost::node); cost != costs_.end())
        before.back().costs = *cost;
  }

  const Plan& plan_;
  const std::vector<FusionCost>& costs_;
  std::unordered_map<const Node*, const PlannedGroup*> group_of_;
};

}  // namespace

Result<Why> explain_node(const ModelFile& file, const std::string& name, const OpenOptions& options) {
  FETTLE_TRY(Graph graph, import_model(file.path, {names_of(options.shapes), options.limits, file.function}));
  note_function(file, graph, options.warn);
  Why why;
  FETTLE_TRY(why.node, find_origin(graph, name));
  why.passes.push_back({"", "", carriers(graph, why.node)});
  const auto note = [&](std::string_view pass, const Graph& left) {
    std::vector<std::string> now = carriers(left, why.node);
    if (now == why.passes.back().nodes) return;
    const auto def = std::ranges::find(graph_passes(), pass, &GraphPass::name);
    const std::string what(def == graph_passes().end() ? std::string_view() : def->what);
    why.passes.push_back({std::string(pass), what, std::move(now)});
  };
  FETTLE_TRY_VOID(prepare_graph(graph, options.shapes, options.sizes, options.states, note, passes_left_out(options),
                                options.limits));
  FETTLE_TRY(const PlannedModel planned, plan_graph(std::move(graph), model_name(file), options));
  std::vector<FusionCost> costs;
  KnownKernelCosts known(planned.options.target, nullptr, nullptr, planned.options.max_error_bound);
  FETTLE_TRY_VOID(choose_fused(*planned.graph, planned.plan.layout, planned.options.threads, known, &costs));
  why.groups = Explainer(planned.plan, costs).groups_of(why.node);
  // The graph ends here.
  for (WhyGroup& group : why.groups)
    for (auto* nodes : {&group.members, &group.before, &group.behind})
      for (WhyNode& node : *nodes)
        if (node.costs) node.costs->node = nullptr;
  return why;
}

}  // namespace fettle
