#include "database/record.h"

#include <fmt/format.h>

#include <chrono>

#include "database/json_fields.h"

namespace fettle {
namespace {

// Raised when a field changes its meaning; a field more does not need it.
constexpr int kFormat = 1;

tl::unexpected<Diagnostic> no_decisions() {
  return fail(ErrorCode::E506, "decisions are no map of addresses to lists of integers and names of values");
}

}  // namespace

Result<Digest> digest_from_hex(std::string_view hex) {
  const auto half = [&](size_t at) { return std::strtoull(std::string(hex.substr(at, 16)).c_str(), nullptr, 16); };
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return fail(ErrorCode::E506, "it is not made of 32 hexadecimal digits");
  return Digest{half(0), half(16)};
}

Result<ErrorCode> error_from_name(const std::string& name) {
  if (name.empty()) return ErrorCode::kNone;
  if (const ErrorInfo* info = find_error(name)) return info->code;
  return fail(ErrorCode::E506, "there is no error code " + name);
}

Json to_json(const DecisionMap& decisions) {
  Json json = Json::object();
  for (const auto& [address, decision] : decisions)
    json[address] = decision.value().empty() ? Json(decision.list()) : Json(decision.value());
  return json;
}

Result<DecisionMap> read_decisions(const Json& object) {
  if (!object.is_object()) return no_decisions();
  DecisionMap decisions;
  for (const auto& [address, decision] : object.items()) {
    if (decision.is_string()) {
      decisions[address] = decision.get<std::string>();
      if (!is_value_name(decisions[address].value())) return no_decisions();
      continue;
    }
    if (!decision.is_array()) return no_decisions();
    for (const Json& part : decision)
      if (!part.is_number_integer()) return no_decisions();
    decisions[address] = decision.get<Decision::List>();
  }
  return decisions;
}

Result<Json> parse_line(std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return fail(ErrorCode::E506, "no JSON object");
  int64_t format = 0;
  JsonReader reader(json);
  reader("format", format);
  FETTLE_TRY_VOID(reader.status());
  if (format != kFormat) return fail(ErrorCode::E506, fmt::format("format {} is not known here", format));
  return json;
}

Result<Workload> read_workload(const Json& object) {
  std::string text;
  JsonReader reader(object);
  reader("workload", text);
  FETTLE_TRY_VOID(reader.status());
  auto workload = parse_workload(text);
  if (!workload) return fail(ErrorCode::E506, "the workload is no program: " + workload.error().message);
  return workload;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string decisions_to_json(const DecisionMap& decisions) { return dump(to_json(decisions)); }

Result<DecisionMap> decisions_from_json(std::string_view json) {
  return read_decisions(Json::parse(json, nullptr, false));
}

std::string to_json_line(const Record& r) {
  Json json{{"format", kFormat}, {"workload", r.task.workload.text}};
  for_each_field(r, JsonWriter{json});
  return dump(json);
}

Result<Record> record_from_json(std::string_view line) {
  FETTLE_TRY(const Json json, parse_line(line));
  Record r;
  JsonReader reader(json);
  for_each_field(r, reader);
  FETTLE_TRY_VOID(reader.status());
  if (r.ok() && !(r.median_s > 0)) return fail(ErrorCode::E506, "a measured time is not positive");
  if (!(r.pace > 0)) return fail(ErrorCode::E506, "the machine's pace is not positive");
  if (r.task.threads < 1) return fail(ErrorCode::E506, "the number of threads is less than one");
  FETTLE_TRY(r.task.workload, read_workload(json));
  return r;
}

}  // namespace fettle
