#include "cli/cli.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/output_file.h"
#include "base/version.h"
#include "cli/command.h"

namespace fettle::cli {
namespace {

/// What cannot be printed is told at the end (all_printed).
void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// One line. Names come from model files, and may be no UTF-8.
void print_json(nlohmann::json object, const std::string& command) {
  object["command"] = command;
  print(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

void print_report(const Report& report, const Command& command) {
  if (*command.json)
    print_json(report.json, command.app->name());
  else if (!report.text.empty())
    print(report.text + (report.text.ends_with('\n') ? "" : "\n"));
}

void print_failure(const Diagnostic& diagnostic, const Command& command) {
  if (*command.json) {
    const ErrorInfo& info = error_info(diagnostic.code);
    const nlohmann::json error = {{"code", info.name},
                                  {"meaning", info.meaning},
                                  {"message", diagnostic.message},
                                  {"where", diagnostic.where},
                                  {"remedy", info.remedy}};
    print_json({{"error", error}}, command.app->name());
    std::fflush(stdout);
  }
  fmt::print(stderr, "fettle: {}\n", diagnostic.to_string());
}

/// Standard output may be a file, too.
bool all_printed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  const Diagnostic diagnostic(ErrorCode::E702, std::strerror(errno), "standard output");
  fmt::print(stderr, "fettle: {}\n", diagnostic.to_string());
  return false;
}

/// Ends the program as the signal does, and leaves no half file. Commands that end in order have an InterruptGuard.
void end_by(int signal) {
  remove_temporary_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

int run(int argc, char** argv) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, end_by) == SIG_IGN) std::signal(signal, SIG_IGN);  // as nohup wants it
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on files is an error of the file, not the end
  App app("Fettle compiles models to machine code that is tuned for this machine.", "fettle");
  app.set_version_flag("--version", name_and_version());
  app.require_subcommand(1);
  app.footer(
      "Example:\n  fettle compile model.onnx -o model.so && fettle bench model.so\n\n"
      "Exit status: 0 done, 1 could not, 2 wrong usage.");
  std::vector<Command> commands;
  for (const AddCommand add :
       {add_tune_command, add_compile_command, add_quantize_command, add_convert_command, add_run_command,
        add_trace_command, add_bench_command, add_check_command, add_inspect_command, add_report_command,
        add_doctor_command, add_explain_command, add_puzzle_command, add_top_command, add_completion_command,
        add_tracker_command, add_device_command})
    commands.push_back(add(app));
  for (Command& command : add_db_commands(app)) commands.push_back(std::move(command));
  for (Command& command : add_cache_commands(app)) commands.push_back(std::move(command));
  if (const auto status = app.parse(argc, argv)) return *status == 0 ? kDone : kWrongUsage;
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    try {
      const Result<Report> report = command.run();
      if (report) {
        print_report(*report, command);
        return all_printed() ? report->status : kCouldNot;
      }
      print_failure(report.error(), command);
      // Which flags go together is known only after parsing; that is wrong usage too.
      return report.error().code == ErrorCode::E709 ? kWrongUsage : kCouldNot;
    } catch (const std::bad_alloc&) {
      print_failure({ErrorCode::E710, "no memory is left"}, command);
      return kCouldNot;
    }
  }
  return kWrongUsage;
}

}  // namespace fettle::cli
