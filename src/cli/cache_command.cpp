#include <fmt/format.h>

#include <ctime>
#include <memory>

#include "cli/command.h"
#include "driver/cache.h"

namespace fettle::cli {
namespace {

struct Options {
  bool json = false;
};

/// Errors: E702 the cache is not to be trusted.
Result<std::filesystem::path> folder_of_cache() {
  const std::filesystem::path folder = model_cache_folder();
  if (folder.empty())
    return fail(ErrorCode::E709, "no models are kept: FETTLE_CACHE is \"off\", or neither it nor HOME is set");
  FETTLE_TRY_VOID(check_cache_folder(folder));
  return folder;
}

Result<Report> list_models() {
  FETTLE_TRY(const std::filesystem::path folder, folder_of_cache());
  Report report;
  report.json = {{"folder", folder.string()}, {"models", nlohmann::json::array()}};
  report.text = fmt::format("{:>10}  {:<16}  file\n", "MB", "last used");
  int64_t total = 0;
  for (const CachedModel& model : cached_models(folder)) {
    const auto used = static_cast<std::time_t>(model.used_s);
    char when[32] = {};
    std::tm local{};
    if (::localtime_r(&used, &local) != nullptr) (void)std::strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    report.json["models"].push_back({{"file", model.file.string()}, {"bytes", model.bytes}, {"used_s", model.used_s}});
    report.text += fmt::format("{:>10.1f}  {:<16}  {}\n", static_cast<double>(model.bytes) * 1e-6, when,
                               model.file.filename().string());
    total += model.bytes;
  }
  report.json["bytes"] = total;
  report.text += fmt::format("{:>10.1f}  in {}\n", static_cast<double>(total) * 1e-6, folder.string());
  return report;
}

Result<Report> clear() {
  FETTLE_TRY(const std::filesystem::path folder, folder_of_cache());
  const int64_t bytes = clear_model_cache(folder);
  Report report;
  report.json = {{"folder", folder.string()}, {"bytes", bytes}};
  report.text = fmt::format("{:.1f} MB removed from {}\n", static_cast<double>(bytes) * 1e-6, folder.string());
  return report;
}

Result<Report> show_path() {
  FETTLE_TRY(const std::filesystem::path folder, folder_of_cache());
  Report report;
  report.json = {{"folder", folder.string()}};
  report.text = folder.string() + "\n";
  return report;
}

}  // namespace

std::vector<Command> add_cache_commands(App& app) {
  App* cache = app.add_subcommand("cache", "See and clear the compiled models that are kept");
  cache->require_subcommand(1);
  cache->footer("Example:\n  fettle cache ls");
  std::vector<Command> commands;
  const auto add = [&](const char* name, const char* what, Result<Report> (*run)()) {
    auto options = std::make_shared<Options>();
    App* made = add_subcommand(*cache, name, what, fmt::format("fettle cache {}", name), &options->json);
    commands.push_back({made, [options, run] { return run(); }, &options->json});
  };
  add("ls", "List the models, the last used first", list_models);
  add("clear", "Remove them all", clear);
  add("path", "Print the folder that they lie in", show_path);
  return commands;
}

}  // namespace fettle::cli
