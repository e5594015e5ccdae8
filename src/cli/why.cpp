// `fettle explain MODEL --why NODE`, for people and as JSON.

#include "driver/why.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"

namespace fettle::cli {
namespace {

/// "Conv conv1 and 3 more", at most `most` of them.
std::string list_of(const std::vector<std::string>& names, size_t most) {
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<long>(std::min(most, names.size())));
  const std::string text = fmt::format("{}", fmt::join(first, ", "));
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

/// The file's nodes that a node of the graph does the work of, where its own name does not say it.
std::string origins_text(const WhyNode& node) {
  constexpr size_t kTold = 3;
  if (node.origins.empty() || (node.origins.size() == 1 && node.origins[0].to_string() == node.node)) return "";
  return " (of " + to_text(node.origins, kTold) + ")";
}

std::string costs_text(const FusionCost& costs) {
  return fmt::format("{}: {:.1f} us; apart {:.1f} us, and {:.1f} us for what they hand over",
                     costs.is_worth_it ? "one kernel takes plainly less" : "one kernel does not take plainly less",
                     costs.together_s * 1e6, costs.apart_s * 1e6, costs.intermediate_s * 1e6);
}

std::string_view kind_name(PlannedGroup::Kind kind) {
  switch (kind) {
    case PlannedGroup::Kind::kKernel:
      return "kernel";
    case PlannedGroup::Kind::kView:
      return "view";
    case PlannedGroup::Kind::kConcatenation:
      return "concatenation";
    case PlannedGroup::Kind::kAppended:
      return "appended";
    case PlannedGroup::Kind::kControl:
      return "control";
    case PlannedGroup::Kind::kSizes:
      return "sizes";
    case PlannedGroup::Kind::kHost:
      return "host";
  }
  return "";
}

std::string heading(const WhyGroup& group) {
  switch (group.kind) {
    case PlannedGroup::Kind::kKernel:
      return "Kernel " + group.call;
    case PlannedGroup::Kind::kView:
      return "No kernel: it renames memory";
    case PlannedGroup::Kind::kConcatenation:
      return "No kernel: parts are made where they belong in its result, or copied there";
    case PlannedGroup::Kind::kAppended:
      return "No kernel: what the loop's value grows by is written behind it";
    case PlannedGroup::Kind::kControl:
      return "No kernel: it runs others, as control flow";
    case PlannedGroup::Kind::kSizes:
      return "No kernel: it tells sizes";
    case PlannedGroup::Kind::kHost:
      return "No kernel: a function of the run-time system";
  }
  return "";
}

void add_line(std::string& text, const std::string& line) { text += wrapped(line, 6) + "\n"; }

void add_group(std::string& text, const WhyGroup& group) {
  text += "\n" + wrapped(heading(group), 2) + "\n";
  for (const WhyNode& node : group.members) {
    const std::string reason = node.reason.empty() ? "begins it" : node.reason;
    add_line(text, fmt::format("  {}{}: {}", node.node, origins_text(node), reason));
    if (node.costs) add_line(text, "      " + costs_text(*node.costs));
  }
  if (!group.before.empty()) text += "It does not go on with what it reads:\n";
  for (const WhyNode& node : group.before) {
    const std::string in = node.call.empty() || group.call == node.call ? "" : fmt::format(" [{}]", node.call);
    add_line(text, fmt::format("  {}{}{}: {}", node.node, origins_text(node), in, node.reason));
    if (node.costs) add_line(text, "      " + costs_text(*node.costs));
  }
  if (!group.behind.empty()) text += "Nothing more joins it:\n";
  for (const WhyNode& node : group.behind) {
    add_line(text, node.node.empty() ? "  " + node.reason
                                     : fmt::format("  {}{}: {}", node.node, origins_text(node), node.reason));
    if (node.costs) add_line(text, "      " + costs_text(*node.costs));
  }
}

nlohmann::json describe(const WhyNode& node) {
  nlohmann::json made = {{"node", node.node}, {"origins", provenance_json(node.origins)}, {"reason", node.reason}};
  if (!node.call.empty()) made["kernel"] = node.call;
  if (node.costs)
    made["costs"] = {{"together_us", node.costs->together_s * 1e6},
                     {"apart_us", node.costs->apart_s * 1e6},
                     {"handed_over_us", node.costs->intermediate_s * 1e6},
                     {"worth_it", node.costs->is_worth_it}};
  return made;
}

}  // namespace

Result<Report> explain_why(const ModelFile& model, const std::string& node, const OpenOptions& options) {
  if (is_library_path(model.path))
    return fail(ErrorCode::E709, "a compiled model does not say why; give the model's file", "--why");
  FETTLE_TRY(const Why why, explain_node(model, node, options));
  constexpr size_t kTold = 3;
  Report report;
  report.text = why.node.to_string() + "\n";
  for (size_t i = 0; i < why.passes.size(); ++i) {
    const WhyPass& pass = why.passes[i];
    const std::string now = pass.nodes.empty() ? "nothing is left of it" : list_of(pass.nodes, kTold);
    const bool is_itself = i == 0 && pass.nodes == std::vector{why.node.to_string()};
    if (i > 0)
      add_line(report.text, fmt::format("  {} ({}): {}", pass.pass, pass.what, now));
    else if (!is_itself)
      add_line(report.text, fmt::format("  imported as {}", now));
  }
  if (why.groups.empty()) report.text += "No kernel does any work of it.\n";
  for (const WhyGroup& group : why.groups) add_group(report.text, group);
  report.json = {{"node", {{"op", why.node.op}, {"name", why.node.name}}},
                 {"passes", json_list(why.passes,
                                      [](const WhyPass& pass) -> nlohmann::json {
                                        return {{"pass", pass.pass}, {"what", pass.what}, {"nodes", pass.nodes}};
                                      })},
                 {"groups", json_list(why.groups, [](const WhyGroup& group) -> nlohmann::json {
                    return {{"kind", kind_name(group.kind)},
                            {"kernel", group.call},
                            {"members", json_list(group.members, describe)},
                            {"before", json_list(group.before, describe)},
                            {"behind", json_list(group.behind, describe)}};
                  })}};
  return report;
}

}  // namespace fettle::cli
