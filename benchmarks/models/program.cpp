#include "models/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <string_view>

#include "runtime/npy.h"

extern char** environ;

namespace fettle::bench {

namespace fs = std::filesystem;

Result<double> run_fettle(std::vector<std::string> args, const std::string& home, bool quiet) {
  std::error_code error;
  args.insert(args.begin(), (fs::read_symlink("/proc/self/exe", error).parent_path() / "fettle").string());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  std::vector<std::string> settings{"XDG_DATA_HOME=" + home, "XDG_CACHE_HOME=" + home};
  for (char** e = environ; *e; ++e)
    if (!std::string_view(*e).starts_with("XDG_")) settings.emplace_back(*e);
  std::vector<char*> env;
  for (std::string& setting : settings) env.push_back(setting.data());
  env.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  if (quiet) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const auto begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, args[0].c_str(), &actions, nullptr, argv.data(), env.data()) == 0) waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) return fail(ErrorCode::E401, "fettle " + args[1] + " failed");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<std::string> shape_arguments(const std::map<std::string, std::vector<int64_t>>& shapes) {
  std::vector<std::string> arguments;
  for (const auto& [name, shape] : shapes) {
    arguments.emplace_back("--shape");
    arguments.push_back(fmt::format("{}={}", name, fmt::join(shape, ",")));
  }
  return arguments;
}

Result<double> seconds_to_first_output(const std::string& model, const std::vector<NamedTensor>& inputs, int threads,
                                       const std::string& folder, bool quiet) {
  std::vector<std::string> args{
      "run", model, "--output-dir", folder + "/outputs", "--threads", std::to_string(threads)};
  for (const NamedTensor& input : inputs) {
    const std::string file = fmt::format("{}/first{}.npy", folder, args.size());
    FETTLE_TRY_VOID(write_npy(file, input.tensor));
    args.emplace_back("--input");
    args.push_back(input.name + "=" + file);
  }
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {  // each with caches of its own, so each cold
    FETTLE_TRY(const double seconds, run_fettle(args, fmt::format("{}/cold{}", folder, i), quiet));
    fastest = std::min(fastest, seconds);
  }
  return fastest;
}

}  // namespace fettle::bench
