// The JSON form of traces:
//   {"fettle_trace": 1, "steps": [
//     {"do": "get_block", "args": {"name": "C"}},
//     {"do": "sample_tile", "args": {…}, "address": "tile/anchor/i", "decision": [32, 16]},
//     {"do": "sample_categorical", "args": {…}, "address": "rule/anchor/tile", "decision": "14x2"},
//     {"do": "split", "args": {"loop": {"ref": [1, 0]}, "factors": [{"mul": 4, "by": [[2, 0]]}, 8], "tail": "guard"}}]}
// A reference is [step, output]. "version" is given where a primitive's is not 1. Floats that JSON has no literal
// for are {"float": "nan"}.

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "schedule/trace/trace.h"

namespace fettle {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;
constexpr int kMaxListDepth = 16;

Json ref_json(const StepRef& ref) { return Json::array({ref.step, ref.output}); }

Json arg_json(const ArgValue& arg) {
  struct Writer {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool x) const { return x; }
    Json operator()(int64_t x) const { return x; }
    Json operator()(double x) const {
      if (std::isfinite(x)) return x;
      return Json{{"float", std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"}};
    }
    Json operator()(const std::string& x) const { return x; }
    Json operator()(const StepRef& x) const { return Json{{"ref", ref_json(x)}}; }
    Json operator()(const ArgValue::Product& x) const {
      Json by = Json::array();
      for (const StepRef& factor : x.factors) by.push_back(ref_json(factor));
      return Json{{"mul", x.literal}, {"by", std::move(by)}};
    }
    Json operator()(const std::vector<ArgValue>& x) const {
      Json list = Json::array();
      for (const ArgValue& item : x) list.push_back(arg_json(item));
      return list;
    }
  };
  return std::visit(Writer{}, arg.value);
}

bool ref_from_json(const Json& json, StepRef& ref) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_number_integer() || !json[1].is_number_integer())
    return false;
  const auto step = json[0].get<int64_t>(), output = json[1].get<int64_t>();
  if (step < 0 || step > INT32_MAX || output < 0 || output > INT32_MAX) return false;
  ref = {static_cast<int32_t>(step), static_cast<int32_t>(output)};
  return true;
}

bool fits_int64(const Json& json) {
  return json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX);
}

// `last_step` becomes the highest step that is referred to.
bool arg_from_json(const Json& json, ArgValue& arg, int& last_step, int depth = 0) {
  if (depth > kMaxListDepth) return false;
  if (json.is_null())
    arg.value = std::monostate{};
  else if (json.is_boolean())
    arg.value = json.get<bool>();
  else if (json.is_number_float())
    arg.value = json.get<double>();
  else if (json.is_number()) {
    if (!fits_int64(json)) return false;
    arg.value = json.get<int64_t>();
  } else if (json.is_string())
    arg.value = json.get<std::string>();
  else if (json.is_array()) {
    std::vector<ArgValue> list(json.size());
    for (size_t i = 0; i < list.size(); ++i)
      if (!arg_from_json(json[i], list[i], last_step, depth + 1)) return false;
    arg.value = std::move(list);
  } else if (json.contains("ref")) {
    StepRef ref;
    if (!ref_from_json(json["ref"], ref)) return false;
    last_step = std::max(last_step, ref.step);
    arg.value = ref;
  } else if (json.contains("mul")) {
    ArgValue::Product product;
    if (!fits_int64(json["mul"]) || !json.contains("by") || !json["by"].is_array()) return false;
    product.literal = json["mul"].get<int64_t>();
    for (const Json& factor : json["by"]) {
      if (!ref_from_json(factor, product.factors.emplace_back())) return false;
      last_step = std::max(last_step, product.factors.back().step);
    }
    arg.value = std::move(product);
  } else if (json.contains("float") && json["float"].is_string()) {
    const auto name = json["float"].get<std::string>();
    if (name != "nan" && name != "inf" && name != "-inf") return false;
    arg.value = name == "nan" ? std::nan("") : name == "inf" ? HUGE_VAL : -HUGE_VAL;
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string to_json(const Trace& trace) {
  Json steps = Json::array();
  for (const auto& step : trace.steps) {
    Json json = {{"do", step->def->name}};
    if (step->def->version != 1) json["version"] = step->def->version;
    Json args = Json::object();
    for (const NamedArg& arg : step->def->to_args(step->args.get())) args[std::string(arg.name)] = arg_json(arg.value);
    json["args"] = std::move(args);
    if (step->def->samples) {
      json["address"] = step->address;
      if (step->decision.value().empty())
        json["decision"] = step->decision.list();
      else
        json["decision"] = step->decision.value();
    }
    steps.push_back(std::move(json));
  }
  return Json{{"fettle_trace", kFormatVersion}, {"steps", std::move(steps)}}.dump(-1, ' ', false,
                                                                                  Json::error_handler_t::replace);
}

Result<ParsedTrace> trace_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return fail(ErrorCode::E224, "the text is not JSON");
  if (!json.is_object() || !json.contains("fettle_trace") || !json.contains("steps") || !json["steps"].is_array())
    return fail(ErrorCode::E224, "the JSON is no trace");
  if (!json["fettle_trace"].is_number_integer() || json["fettle_trace"] != kFormatVersion)
    return fail(ErrorCode::E224, "the trace is of another format version");

  ParsedTrace trace;
  for (const Json& item : json["steps"]) {
    const size_t number = trace.steps.size();
    const auto refuse = [&](ErrorCode code, std::string message) {
      return fail(code, std::move(message), "step " + std::to_string(number));
    };
    if (!item.is_object() || !item.contains("do") || !item["do"].is_string())
      return refuse(ErrorCode::E224, "it does not say which primitive");
    ParsedStep& step = trace.steps.emplace_back();
    const auto name = item["do"].get<std::string>();
    step.def = find_primitive(name);
    if (!step.def) return refuse(ErrorCode::E224, "there is no primitive named " + name);
    const Json version = item.contains("version") ? item["version"] : Json(1);
    if (!version.is_number_integer() || version != step.def->version)
      return refuse(ErrorCode::E224, fmt::format("{} is of version {}, this Fettle has version {}", name,
                                                 version.dump(), step.def->version));
    std::vector<NamedArg> args;
    int last_step = -1;
    if (item.contains("args")) {
      if (!item["args"].is_object()) return refuse(ErrorCode::E224, "its arguments are no object");
      for (const auto& [key, value] : item["args"].items()) {
        NamedArg& arg = args.emplace_back(NamedArg{key, {}});
        if (!arg_from_json(value, arg.value, last_step))
          return refuse(ErrorCode::E224, "the value of argument \"" + key + "\" cannot be read");
      }
    }
    if (last_step >= static_cast<int>(number))
      return refuse(ErrorCode::E225, "it refers to step " + std::to_string(last_step));
    auto typed = step.def->from_args(args);
    if (!typed) return refuse(typed.error().code, name + ": " + typed.error().message);
    step.args = std::move(*typed);
    if (!step.def->samples) continue;
    if (item.contains("address")) {
      if (!item["address"].is_string()) return refuse(ErrorCode::E224, "its address is no text");
      step.address = item["address"].get<std::string>();
    }
    if (item.contains("decision")) {
      ArgValue decision;
      Decision::List list;
      std::string value;
      const bool is_read = arg_from_json(item["decision"], decision, last_step);
      if (is_read && from_arg(decision, list))
        step.decision = std::move(list);
      else if (is_read && from_arg(decision, value) && is_value_name(value))
        step.decision = std::move(value);
      else
        return refuse(ErrorCode::E224, "its decision is neither a list of integers nor the name of a value");
    }
  }
  return trace;
}

}  // namespace fettle
