#include "database/run.h"

#include <unistd.h>

#include <random>

#include "database/json_fields.h"

namespace fettle {
namespace {

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
  JsonReader reader(json);
  for_each_field(run, reader);
  FETTLE_TRY_VOID(reader.status());
  for (const Json& task : json.at("tasks")) {
    FETTLE_TRY(Workload workload, read_workload(task));
    run.tasks.push_back({std::move(workload), task.at("label").get<std::string>(), task.at("weight").get<double>(),
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
  Json json{{"tasks", std::move(tasks)}};
  for_each_field(run, JsonWriter{json});
  return dump({{"format", 1}, {"run", std::move(json)}});
}

bool is_run_line(std::string_view line) {
  // A record's line may have the word in its texts; keys are sorted, so a run's line has it first.
  return line.find("\"run\":{") < line.find("\"workload\":");
}

Result<TuningRun> run_from_json(std::string_view line) {
  FETTLE_TRY(const Json json, parse_line(line));
  try {
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
