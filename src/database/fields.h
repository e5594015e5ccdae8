#pragma once
// The fields of records and runs, named once: for lines of JSON and for the tables of SQLite. Workloads, and the tasks
// of a run, are kept apart.

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "database/record.h"
#include "database/run.h"

namespace fettle {

/// A field's name as a column, and in JSON.
struct FieldName {
  FieldName(const char* both) : column(both), json(both) {}
  FieldName(const char* in_tables, const char* in_json) : column(in_tables), json(in_json) {}
  const char *column, *json;
};

template <class R>
concept RecordFields = std::same_as<std::remove_const_t<R>, Record>;
template <class R>
concept RunFields = std::same_as<std::remove_const_t<R>, TuningRun>;

/// visit(name, field) of each; visit(name, field, otherwise) of those that lines lack where they are `otherwise`.
template <RecordFields R, class Visit>
void for_each_field(R& r, Visit&& visit) {
  visit({"features", "target_features"}, r.task.target_features);
  visit("fingerprint", r.task.fingerprint);
  visit("threads", r.task.threads);
  visit("versions", r.task.versions);
  visit("trace", r.trace);
  visit("decisions", r.decisions);
  visit("error", r.error);
  visit("signal", r.signal, 0);
  visit("message", r.message, std::string());
  visit("median_s", r.median_s);
  visit("min_s", r.min_s);
  visit("half_width", r.half_width);
  visit("repeats", r.repeats);
  visit("raced_out", r.raced_out);
  visit("pace", r.pace, 1.0);
  visit("checked", r.checked, false);
  visit("lost_worker", r.lost_worker, false);
  visit("machine", r.machine);
  visit("created_ns", r.created_ns);
  visit({"run", "run_id"}, r.run, uint64_t{0});
  visit("elapsed_s", r.elapsed_s, 0.0);
  visit("seed", r.seed);
  visit("generation", r.generation);
  visit("candidate", r.candidate);
}
template <RunFields R, class Visit>
void for_each_field(R& r, Visit&& visit) {
  visit("id", r.id);
  visit("model", r.model);
  visit({"features", "target_features"}, r.target_features);
  visit("fingerprint", r.fingerprint);
  visit("threads", r.threads);
  visit("versions", r.versions);
  visit("machine", r.machine);
  visit("created_ns", r.created_ns);
  visit("seed", r.seed);
  visit("seconds", r.seconds);
  visit("untuned_ms", r.untuned_ms);
  visit("tuned_ms", r.tuned_ms);
  visit("kept_untuned", r.kept_untuned);
  visit("stopped", r.stopped);
}

/// 32 hexadecimal digits. E506.
Result<Digest> digest_from_hex(std::string_view hex);
/// "E401", or nothing for kNone, and back. E506.
inline std::string_view error_name(ErrorCode error) {
  return error == ErrorCode::kNone ? std::string_view() : error_info(error).name;
}
Result<ErrorCode> error_from_name(const std::string& name);

}  // namespace fettle
