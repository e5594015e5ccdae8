#include "database/record.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

namespace fettle {
namespace {

using Json = nlohmann::json;

// Raised when a field changes its meaning; a field more does not need it.
constexpr int kFormat = 1;

// Reads fields one by one and remembers the first that is missing or of another type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <class T>
  T get(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return wrong<T>(name, "is missing");
    return convert<T>(*found, name);
  }
  template <class T>
  T get_or(const char* name, T otherwise) {
    const auto found = object_.find(name);
    return found == object_.end() ? otherwise : convert<T>(*found, name);
  }
  const std::string& problem() const { return problem_; }

 private:
  template <class T>
  T wrong(const char* name, const char* what) {
    if (problem_.empty()) problem_ = fmt::format("field {} {}", name, what);
    return T{};
  }
  template <class T>
  T convert(const Json& value, const char* name) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!value.is_string()) return wrong<T>(name, "is no string");
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) return wrong<T>(name, "is no boolean");
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!value.is_number() || !std::isfinite(value.get<double>())) return wrong<T>(name, "is no number");
    } else {
      if (!value.is_number_integer()) return wrong<T>(name, "is no integer");
    }
    return value.get<T>();
  }

  const Json& object_;
  std::string problem_;
};

Result<Digest> parse_digest(const std::string& hex) {
  const auto half = [&](size_t at) { return std::strtoull(hex.substr(at, 16).c_str(), nullptr, 16); };
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos)
    return fail(ErrorCode::E506, "the fingerprint is not made of 32 hexadecimal digits");
  return Digest{half(0), half(16)};
}

bool read_decisions(const Json& object, DecisionMap& decisions) {
  if (!object.is_object()) return false;
  for (const auto& [address, decision] : object.items()) {
    if (decision.is_string()) {
      decisions[address] = decision.get<std::string>();
      if (!is_value_name(decisions[address].value())) return false;
      continue;
    }
    if (!decision.is_array()) return false;
    for (const Json& part : decision)
      if (!part.is_number_integer()) return false;
    decisions[address] = decision.get<Decision::List>();
  }
  return true;
}

Json decisions_json(const DecisionMap& decisions) {
  Json json = Json::object();
  for (const auto& [address, decision] : decisions)
    json[address] = decision.value().empty() ? Json(decision.list()) : Json(decision.value());
  return json;
}

// Messages may quote anything; what is not UTF-8 is replaced.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string decisions_to_json(const DecisionMap& decisions) { return dump(decisions_json(decisions)); }

Result<DecisionMap> decisions_from_json(std::string_view json) {
  DecisionMap decisions;
  const Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded() || !read_decisions(parsed, decisions))
    return fail(ErrorCode::E506, "decisions are no map of addresses to lists of integers and names of values");
  return decisions;
}

std::string to_json_line(const Record& r) {
  Json json{{"format", kFormat},
            {"workload", r.task.workload.text},
            {"target_features", r.task.target_features},
            {"fingerprint", r.task.fingerprint.hex()},
            {"threads", r.task.threads},
            {"versions", r.task.versions},
            {"trace", r.trace},
            {"decisions", decisions_json(r.decisions)},
            {"error", std::string(r.ok() ? "" : error_info(r.error).name)},
            {"median_s", r.median_s},
            {"min_s", r.min_s},
            {"half_width", r.half_width},
            {"repeats", r.repeats},
            {"raced_out", r.raced_out},
            {"checked", r.checked},
            {"machine", r.machine},
            {"created_ns", r.created_ns},
            {"seed", r.seed},
            {"generation", r.generation},
            {"candidate", r.candidate}};
  if (r.signal != 0) json["signal"] = r.signal;
  if (!r.message.empty()) json["message"] = r.message;
  if (r.lost_worker) json["lost_worker"] = true;
  if (r.pace != 1) json["pace"] = r.pace;
  if (r.run != 0) json["run_id"] = r.run, json["elapsed_s"] = r.elapsed_s;
  return dump(json);
}

Result<Record> record_from_json(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return fail(ErrorCode::E506, "no JSON object");
  Fields fields(json);
  const auto format = fields.get<int64_t>("format");
  if (fields.problem().empty() && format != kFormat)
    return fail(ErrorCode::E506, fmt::format("format {} is not known here", format));

  Record r;
  const auto text = fields.get<std::string>("workload");
  r.task.target_features = fields.get<std::string>("target_features");
  const auto fingerprint = fields.get<std::string>("fingerprint");
  r.task.threads = fields.get<int>("threads");
  r.task.versions = fields.get<std::string>("versions");
  r.trace = fields.get<std::string>("trace");
  const auto error = fields.get<std::string>("error");
  r.signal = fields.get_or<int>("signal", 0);
  r.message = fields.get_or<std::string>("message", "");
  r.median_s = fields.get<double>("median_s");
  r.min_s = fields.get<double>("min_s");
  r.half_width = fields.get<double>("half_width");
  r.repeats = fields.get<int64_t>("repeats");
  r.raced_out = fields.get<bool>("raced_out");
  r.checked = fields.get_or<bool>("checked", false);
  r.lost_worker = fields.get_or<bool>("lost_worker", false);
  r.pace = fields.get_or<double>("pace", 1);
  r.run = fields.get_or<uint64_t>("run_id", 0);
  r.elapsed_s = fields.get_or<double>("elapsed_s", 0);
  r.machine = fields.get<std::string>("machine");
  r.created_ns = fields.get<int64_t>("created_ns");
  r.seed = fields.get<uint64_t>("seed");
  r.generation = fields.get<int64_t>("generation");
  r.candidate = fields.get<int64_t>("candidate");
  if (!fields.problem().empty()) return fail(ErrorCode::E506, fields.problem());

  const auto decisions = json.find("decisions");
  if (decisions == json.end() || !read_decisions(*decisions, r.decisions))
    return fail(ErrorCode::E506, "decisions are no map of addresses to lists of integers and names of values");
  if (!error.empty()) {
    const ErrorInfo* info = find_error(error);
    if (!info) return fail(ErrorCode::E506, "there is no error code " + error);
    r.error = info->code;
  }
  if (r.ok() && !(r.median_s > 0)) return fail(ErrorCode::E506, "a measured time is not positive");
  if (!(r.pace > 0)) return fail(ErrorCode::E506, "the machine's pace is not positive");
  if (r.task.threads < 1) return fail(ErrorCode::E506, "the number of threads is less than one");
  FETTLE_TRY(r.task.fingerprint, parse_digest(fingerprint));
  auto workload = parse_workload(text);
  if (!workload) return fail(ErrorCode::E506, "the workload is no program: " + workload.error().message);
  r.task.workload = std::move(*workload);
  return r;
}

}  // namespace fettle
