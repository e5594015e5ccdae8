#include "remote/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/hash.h"
#include "measure/protocol.h"

namespace fettle {
namespace {

constexpr double kMaxSeconds = 1e7;
constexpr int64_t kMaxFlushBytes = int64_t{1} << 30;

bool is_time(double x) { return std::isfinite(x) && x >= 0 && x <= kMaxSeconds; }

tl::unexpected<Diagnostic> malformed(const std::string& what) { return fail(ErrorCode::E803, what); }

}  // namespace

wire::Outcome to_wire(const MeasureResult& r) {
  wire::Outcome o;
  o.set_code(std::string(error_info(r.error).name));
  o.set_signal(r.signal);
  o.set_message(r.message.substr(0, TrackerLimits().message_bytes));
  o.set_median_s(r.median_s);
  o.set_min_s(r.min_s);
  o.set_half_width(r.half_width);
  o.set_repeats(r.repeats);
  o.set_lost_worker(r.lost_worker);
  o.set_raced_out(r.raced_out);
  o.set_checked(r.checked);
  o.set_beside(r.beside);
  o.set_pace(r.pace);
  o.set_build_s(r.build_s);
  o.set_run_s(r.run_s);
  return o;
}

MeasureResult from_wire(const wire::Outcome& o) {
  MeasureResult r;
  if (!o.code().empty()) {
    const ErrorInfo* info = find_error(o.code());
    r.error = info ? info->code : ErrorCode::E406;
  }
  r.signal = o.signal();
  r.message = o.message();
  r.median_s = o.median_s();
  r.min_s = o.min_s();
  r.half_width = o.half_width();
  r.repeats = o.repeats();
  r.lost_worker = o.lost_worker();
  r.raced_out = o.raced_out();
  r.checked = o.checked();
  r.beside = o.beside();
  r.pace = o.pace() > 0 ? o.pace() : 1;
  r.build_s = o.build_s();
  r.run_s = o.run_s();
  return r;
}

wire::Measure to_wire(const MeasureRequest& request) {
  wire::Measure m;
  m.set_incumbent_s(request.incumbent_s);
  m.set_beside_trace(request.beside_trace);
  m.set_beside_s(request.beside_s);
  m.set_all_to_the_end(!request.race);
  m.set_check(request.check);
  m.set_confirm_best(request.confirm_best);
  m.set_target_half_width(request.timing.target_half_width);
  m.set_batch_s(request.timing.batch_s);
  m.set_min_samples(request.timing.min_samples);
  m.set_max_samples(request.timing.max_samples);
  m.set_max_seconds_each(request.timing.max_seconds);
  m.set_flush_bytes(request.timing.flush_bytes);
  if (request.max_seconds < kMaxSeconds) m.set_max_seconds(std::max(request.max_seconds, 1e-3));
  return m;
}

MeasureRequest from_wire(const wire::Measure& m) {
  MeasureRequest request;
  request.incumbent_s = m.incumbent_s();
  request.beside_trace = m.beside_trace();
  request.beside_s = m.beside_s();
  request.race = !m.all_to_the_end();
  request.check = m.check();
  request.confirm_best = m.confirm_best();
  request.timing.target_half_width = m.target_half_width();
  request.timing.batch_s = m.batch_s();
  request.timing.min_samples = m.min_samples();
  request.timing.max_samples = m.max_samples();
  request.timing.max_seconds = m.max_seconds_each();
  request.timing.flush_bytes = m.flush_bytes();
  if (m.max_seconds() > 0) request.max_seconds = m.max_seconds();
  return request;
}

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
           c == '-' || c == '+';
  });
}

std::string draw_name() {
  std::random_device random;  // the system's, not a seeded one: a session's name is what its results are guarded by
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

bool is_drawn_name(std::string_view text) {
  return text.size() == 32 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string workload_name(const wire::Workload& workload) {
  std::string text = fmt::format("{}\n{}\n", workload.seed(), workload.reference_trace().size());
  for (const int64_t value : workload.ints()) text += fmt::format("{} ", value);
  return digest_bytes(text + "\n" + workload.reference_trace() + workload.func()).hex();
}

Result<> check(const wire::Machine& machine, const TrackerLimits& limits) {
  if (machine.target().size() > limits.machine_bytes || machine.versions().size() > limits.name_bytes)
    return malformed("the description of a machine is too large");
  if (machine.threads() < 1 || machine.threads() > 1024)
    return malformed("a machine's number of threads makes no sense");
  if (static_cast<size_t>(machine.micro_kernels_size()) > limits.micro_kernels)
    return malformed("a micro-kernel table is too large");
  if (const auto read = target_from_json(machine.target()); !read) return malformed(read.error().message);
  return {};
}

Result<> check(const wire::Measure& m, const TrackerLimits& limits) {
  if (m.beside_trace().size() > limits.trace_bytes) return malformed("a trace is too large");
  for (const double s :
       {m.incumbent_s(), m.beside_s(), m.target_half_width(), m.batch_s(), m.max_seconds_each(), m.max_seconds()})
    if (!is_time(s)) return malformed("a time or ratio of a request makes no sense");
  if (m.min_samples() < 0 || m.max_samples() < 1 || m.max_samples() > 1'000'000 || m.min_samples() > m.max_samples())
    return malformed("a request's number of samples makes no sense");
  if (m.flush_bytes() < 0 || m.flush_bytes() > kMaxFlushBytes)
    return malformed("a request's memory to write between calls makes no sense");
  return {};
}

Result<> check(const wire::Workload& workload, const TrackerLimits& limits) {
  if (workload.func().size() > limits.workload_bytes || workload.reference_trace().size() > limits.trace_bytes)
    return malformed("a workload is too large");
  if (workload.func().empty() || workload.ints_size() > 64) return malformed("a workload makes no sense");
  return {};
}

Result<> check(const wire::Job& job, const TrackerLimits& limits) {
  if (job.trace().size() > limits.trace_bytes) return malformed("a trace is too large");
  return {};
}

Result<> check(const wire::Outcome& o) {
  for (const double s : {o.median_s(), o.min_s(), o.half_width(), o.pace(), o.build_s(), o.run_s()})
    if (!is_time(s)) return malformed("a time of a result makes no sense");
  if (o.code().size() > 8 || !is_drawn_name(o.session()) || o.repeats() < 0)
    return malformed("a result makes no sense");
  if (o.code().empty() && o.median_s() <= 0) return malformed("a result without a time");
  return {};
}

}  // namespace fettle
