#include "database/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>

#include "database/record.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json to_json(const std::vector<RunCall>& calls) {
  Json json = Json::array();
  for (const RunCall& call : calls) json.push_back({{"name", call.name}, {"origins", call.origins}});
  return json;
}

std::vector<RunCall> read_calls(const Json& json) {
  std::vector<RunCall> calls;
  for (const Json& call : json)
    calls.push_back({call.at("name").get<std::string>(), call.at("origins").get<std::string>()});
  return calls;
}

// May throw Json::exception: what is missing or mistyped.
Result<TuningRun> read_run(const Json& json) {
  TuningRun run;
  run.id = json.at("id").get<uint64_t>();
  run.model = json.at("model").get<std::string>();
  run.target_features = json.at("target_features").get<std::string>();
  const auto fingerprint = json.at("fingerprint").get<std::string>();
  if (fingerprint.size() != 32 || fingerprint.find_first_not_of("0123456789abcdef") != std::string::npos)
    return fail(ErrorCode::E506, "the fingerprint is not made of 32 hexadecimal digits");
  run.fingerprint = {std::strtoull(fingerprint.substr(0, 16).c_str(), nullptr, 16),
                     std::strtoull(fingerprint.substr(16).c_str(), nullptr, 16)};
  run.threads = json.at("threads").get<int>();
  run.versions = json.at("versions").get<std::string>();
  run.machine = json.at("machine").get<std::string>();
  run.created_ns = json.at("created_ns").get<int64_t>();
  run.seed = json.at("seed").get<uint64_t>();
  run.seconds = json.at("seconds").get<double>();
  run.untuned_ms = json.at("untuned_ms").get<double>();
  run.tuned_ms = json.at("tuned_ms").get<double>();
  run.kept_untuned = json.at("kept_untuned").get<bool>();
  run.stopped = json.at("stopped").get<bool>();
  for (const Json& task : json.at("tasks")) {
    auto workload = parse_workload(task.at("workload").get<std::string>());
    if (!workload) return fail(ErrorCode::E506, "the workload is no program: " + workload.error().message);
    run.tasks.push_back({std::move(*workload), task.at("label").get<std::string>(), task.at("weight").get<double>(),
                         read_calls(task.at("calls"))});
  }
  return run;
}

}  // namespace

uint64_t draw_run_id() {
  std::random_device device;
  const uint64_t drawn = (static_cast<uint64_t>(device()) << 32) ^ device();
  return hash_combine(hash_combine(drawn, static_cast<uint64_t>(now_ns())), static_cast<uint64_t>(::getpid())) | 1;
}

std::string to_json_line(const TuningRun& run) {
  Json tasks = Json::array();
  for (const RunTask& task : run.tasks)
    tasks.push_back({{"workload", task.workload.text},
                     {"label", task.label},
                     {"weight", task.weight},
                     {"calls", to_json(task.calls)}});
  return dump({{"format", kFormat},
               {"run",
                {{"id", run.id},
                 {"model", run.model},
                 {"target_features", run.target_features},
                 {"fingerprint", run.fingerprint.hex()},
                 {"threads", run.threads},
                 {"versions", run.versions},
                 {"machine", run.machine},
                 {"created_ns", run.created_ns},
                 {"seed", run.seed},
                 {"seconds", run.seconds},
                 {"untuned_ms", run.untuned_ms},
                 {"tuned_ms", run.tuned_ms},
                 {"kept_untuned", run.kept_untuned},
                 {"stopped", run.stopped},
                 {"tasks", tasks}}}});
}

bool is_run_line(std::string_view line) {
  // A record's line may have the word in its texts; keys are sorted, so a run's line has it first.
  return line.find("\"run\":{") < line.find("\"workload\":");
}

Result<TuningRun> run_from_json(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return fail(ErrorCode::E506, "no JSON object");
  try {
    if (const int format = json.at("format").get<int>(); format != kFormat)
      return fail(ErrorCode::E506, fmt::format("format {} is not known here", format));
    return read_run(json.at("run"));
  } catch (const Json::exception& error) {
    return fail(ErrorCode::E506, error.what());
  }
}

std::string calls_to_json(const std::vector<RunCall>& calls) { return dump(to_json(calls)); }

Result<std::vector<RunCall>> calls_from_json(std::string_view json) {
  try {
    return read_calls(Json::parse(json));
  } catch (const Json::exception& error) {
    return fail(ErrorCode::E506, error.what());
  }
}

}  // namespace fettle
