#include "cli/report/report_page.h"

#include <fmt/format.h>

#include <map>

#include "base/output_file.h"
#include "base/version.h"
#include "cli/command.h"
#include "report_page_html.h"
#include "report_script_js.h"
#include "report_style_css.h"
#include "runtime/origins.h"

namespace fettle::cli {
namespace {

using nlohmann::json;

json calls_json(const std::vector<RunCall>& calls) {
  return json_list(calls, [](const RunCall& call) -> json {
    const auto node = [](const KernelOrigin& origin) { return json{origin.op, origin.name}; };
    return {{"name", call.name}, {"nodes", json_list(split_origins(call.origins), node)}};
  });
}

json task_json(const ReportedTask& task) {
  return {{"hash", task.task.workload.hash.hex()},
          {"label", task.task.label},
          {"weight", task.task.weight},
          {"calls", calls_json(task.task.calls)},
          {"default_s", task.default_s},
          {"best_s", task.best_s},
          {"in_model_s", task.in_model_s},
          {"trials", task.trials},
          {"failed", task.failed},
          {"flops", task.flops},
          {"bytes", task.bytes},
          {"limit_s", task.limit.seconds},
          {"limit", task.limit.by},
          {"workload", task.task.workload.text},
          {"program", task.scheduled},
          {"trace", task.trace}};
}

json point_json(const LatencyPoint& point) { return {point.elapsed_s, point.estimated_s, point.trials, point.failed}; }

json failure_json(const ReportedFailure& failure) {
  const ErrorInfo& info = error_info(failure.error);
  return {{"code", info.name},      {"meaning", info.meaning},   {"signal", failure.signal},
          {"count", failure.count}, {"tasks", failure.tasks},    {"task", failure.task},
          {"trace", failure.trace}, {"message", failure.message}};
}

json run_json(const RunReport& report) {
  const TuningRun& run = report.run;
  return {{"model", run.model},
          {"machine", run.machine},
          {"threads", run.threads},
          {"created_ms", run.created_ns / 1000000},
          {"seed", run.seed},
          {"seconds", run.seconds},
          {"untuned_ms", run.untuned_ms},
          {"tuned_ms", run.tuned_ms},
          {"kept_untuned", run.kept_untuned},
          {"stopped", run.stopped},
          {"trials", report.trials},
          {"failed", report.failed},
          {"default_s", report.default_s},
          {"estimated_s", report.estimated_s},
          {"tasks", json_list(report.tasks, task_json)},
          {"calls", json_list(report.calls,
                              [](const ReportedCall& made) -> json {
                                return {{"name", made.call.name},
                                        {"hash", made.call.task},
                                        {"from", made.call.from},
                                        {"seconds", made.seconds}};
                              })},
          {"points", json_list(report.points, point_json)},
          {"failures", json_list(report.failures, failure_json)}};
}

/// The peaks on as many threads as the run used.
json limits_json(const MachinePeaks& peaks, int threads) {
  const bool all = threads > 1;
  if (peaks.memory.empty()) return nullptr;
  const auto copied = [&](const MemoryRates& rates) -> json {
    return {{"level", rates.level == 0 ? "memory" : fmt::format("L{}", rates.level)},
            {"bytes_per_second", all ? rates.copied.all_threads : rates.copied.one_thread}};
  };
  return {{"flops", all ? peaks.fp32.all_threads : peaks.fp32.one_thread},
          {"threads", threads},
          {"copies", json_list(peaks.memory, copied)}};
}

std::string escaped(std::string_view text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      default:
        made += c;
    }
  }
  return made;
}

/// Replaces {{name}} by its part, once: what is put in is not looked at again.
std::string filled(std::string_view text, const std::map<std::string_view, std::string_view>& parts) {
  std::string made;
  while (!text.empty()) {
    const size_t open = text.find("{{"), close = text.find("}}", open);
    if (close == std::string_view::npos) break;
    made += text.substr(0, open);
    made += parts.at(text.substr(open + 2, close - open - 2));
    text.remove_prefix(close + 2);
  }
  return made += text;
}

json compared_json(const Comparison& compared) {
  return {{"before_s", compared.before_s},
          {"after_s", compared.after_s},
          {"only_before", compared.only_before},
          {"only_after", compared.only_after},
          {"tasks", json_list(compared.tasks, [](const ComparedTask& task) -> json {
             return {{"hash", task.hash.hex()}, {"saved_s", task.saved_s}, {"share", task.share}};
           })}};
}

}  // namespace

json report_json(const ReportContent& content) {
  json made = {{"made_by", name_and_version()},
               {"names", {content.name, content.before_name}},
               {"is_compiled", content.is_compiled},
               {"run", run_json(content.run)},
               {"before", nullptr},
               {"limits", nullptr}};
  if (content.before) {
    made["before"] = run_json(*content.before);
    made["compared"] = compared_json(compare(*content.before, content.run));
  }
  if (content.peaks) made["limits"] = limits_json(*content.peaks, content.run.run.threads);
  return made;
}

std::string json_in_script(const json& json) {
  std::string made;
  for (const char c : json.dump(-1, ' ', false, json::error_handler_t::replace)) {
    // Outside of strings JSON has none of these.
    if (c == '<')
      made += "\\u003c";
    else if (c == '>')
      made += "\\u003e";
    else if (c == '&')
      made += "\\u0026";
    else
      made += c;
  }
  return made;
}

std::string report_page(const ReportContent& content) {
  const std::string data = json_in_script(report_json(content)), title = escaped(content.run.run.model) + " · Fettle";
  return filled(report_page_html,
                {{"title", title}, {"style", report_style_css}, {"script", report_script_js}, {"data", data}});
}

Result<> write_report_page(const ReportContent& content, const std::filesystem::path& out) {
  return write_file(out, report_page(content));
}

}  // namespace fettle::cli
