#pragma once
// Fields as members of JSON objects. This header brings in the JSON library.

#include <cmath>
#include <nlohmann/json.hpp>

#include "database/fields.h"

namespace fettle {

using Json = nlohmann::json;

/// Messages may quote anything; what is not UTF-8 is replaced.
inline std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json to_json(const DecisionMap& decisions);
/// E506.
Result<DecisionMap> read_decisions(const Json& object);

/// The line's object, if its format is known. E506.
Result<Json> parse_line(std::string_view line);
/// The workload whose text is the field of this name. E506.
Result<Workload> read_workload(const Json& object);

/// Makes members of fields.
struct JsonWriter {
  Json& object;

  template <class T>
  void operator()(FieldName name, const T& field) const {
    if constexpr (std::is_same_v<T, Digest>)
      object[name.json] = field.hex();
    else if constexpr (std::is_same_v<T, ErrorCode>)
      object[name.json] = std::string(error_name(field));
    else if constexpr (std::is_same_v<T, DecisionMap>)
      object[name.json] = to_json(field);
    else
      object[name.json] = field;
  }
  template <class T>
  void operator()(FieldName name, const T& field, const T& otherwise) const {
    if (field != otherwise) (*this)(name, field);
  }
};

/// Reads fields one by one and remembers the first that is missing or of another type.
class JsonReader {
 public:
  explicit JsonReader(const Json& object) : object_(object) {}

  template <class T>
  void operator()(FieldName name, T& field) {
    const auto found = object_.find(name.json);
    if (found == object_.end())
      wrong(name, "is missing");
    else
      read(name, *found, field);
  }
  template <class T>
  void operator()(FieldName name, T& field, const T& otherwise) {
    const auto found = object_.find(name.json);
    if (found == object_.end())
      field = otherwise;
    else
      read(name, *found, field);
  }
  /// E506 for the first that was wrong.
  Result<> status() const {
    if (problem_.empty()) return {};
    return fail(ErrorCode::E506, problem_);
  }

 private:
  void wrong(FieldName name, const std::string& what) {
    if (problem_.empty()) problem_ = std::string("field ") + name.json + " " + what;
  }
  template <class T>
  void take(FieldName name, Result<T> value, T& field) {
    if (value)
      field = std::move(*value);
    else
      wrong(name, "is wrong: " + value.error().message);
  }
  template <class T>
  void read(FieldName name, const Json& value, T& field) {
    if constexpr (std::is_same_v<T, DecisionMap>) {
      take(name, read_decisions(value), field);
    } else if constexpr (std::is_same_v<T, Digest> || std::is_same_v<T, ErrorCode>) {
      std::string text;
      read(name, value, text);
      if constexpr (std::is_same_v<T, Digest>)
        take(name, digest_from_hex(text), field);
      else
        take(name, error_from_name(text), field);
    } else if (const char* kind = other_kind<T>(value)) {
      wrong(name, kind);
    } else {
      value.get_to(field);
    }
  }
  /// What the value is not, or null.
  template <class T>
  static const char* other_kind(const Json& value) {
    if constexpr (std::is_same_v<T, std::string>) return value.is_string() ? nullptr : "is no string";
    if constexpr (std::is_same_v<T, bool>) return value.is_boolean() ? nullptr : "is no boolean";
    if constexpr (std::is_floating_point_v<T>)
      return value.is_number() && std::isfinite(value.get<double>()) ? nullptr : "is no number";
    return value.is_number_integer() ? nullptr : "is no integer";
  }

  const Json& object_;
  std::string problem_;
};

}  // namespace fettle
