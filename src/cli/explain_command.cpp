#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <span>

#include "cli/command.h"
#include "cli/explanations.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string code;
  bool json = false;
};

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

nlohmann::json to_json(const ErrorInfo& info) {
  const Explanation& more = explanation_of(info.code);
  return {{"code", info.name},
          {"meaning", info.meaning},
          {"cause", more.cause},
          {"example", more.example},
          {"remedy", info.remedy}};
}

/// The number in "E201", or -1.
int number_of(std::string_view name) {
  if (name.starts_with('E')) name.remove_prefix(1);
  int number = 0;
  const auto [next, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && next == name.data() + name.size() ? number : -1;
}

Diagnostic unknown_code(const std::string& given, std::span<const ErrorInfo> table) {
  const int number = number_of(upper(given));
  if (number < 0) return {ErrorCode::E709, "'" + given + "' is no code such as E201; `fettle explain` lists them all", "CODE"};
  const auto distance = [&](const ErrorInfo& info) { return std::abs(number_of(info.name) - number); };
  const ErrorInfo& nearest = *std::min_element(
      table.begin(), table.end(), [&](const ErrorInfo& a, const ErrorInfo& b) { return distance(a) < distance(b); });
  return {ErrorCode::E709, fmt::format("no error has the code '{}'; the nearest is {}: {}", given, nearest.name, nearest.meaning),
          "CODE"};
}

Result<Report> explain(const Options& options) {
  size_t count = 0;
  const ErrorInfo* first = error_table(&count);
  const std::span<const ErrorInfo> table(first, count);
  Report report;
  if (options.code.empty()) {
    report.json["errors"] = nlohmann::json::array();
    for (const ErrorInfo& info : table) {
      report.json["errors"].push_back(to_json(info));
      report.text += fmt::format("{}  {}\n", info.name, info.meaning);
    }
    return report;
  }
  const ErrorInfo* info = find_error(upper(options.code));
  if (!info || info->code == ErrorCode::kNone) return fail(unknown_code(options.code, table));
  report.json = to_json(*info);
  const Explanation& more = explanation_of(info->code);
  report.text = fmt::format("{}: {}\n\n{}\n\nExample: {}\n\nWhat to do: {}.\n", info->name, info->meaning, more.cause,
                            more.example, info->remedy);
  return report;
}

}  // namespace

Command add_explain_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* made = add_subcommand(app, "explain", "Say what an error code means and what to do about it",
                                  "fettle explain E201", &options->json);
  made->add_option("code", options->code, "as an error begins; without one, all are listed")->type_name("CODE");
  return {made, [options] { return explain(*options); }, &options->json};
}

}  // namespace fettle::cli
