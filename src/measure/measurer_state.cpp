#include "measure/measurer_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "measure/child.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr double kWorkloadSeconds = 20;
/// For a request whose worker is lost.
constexpr int kAttempts = 2;

}  // namespace

ErrorCode code_in(const Json& reply) {
  const ErrorInfo* info = find_error(reply.value("code", ""));
  return info ? info->code : ErrorCode::E406;
}

std::string message_in(const Json& reply) {
  const std::string where = reply.value("where", ""), message = reply.value("message", "");
  return where.empty() ? message : fmt::format("{} ({})", message, where);
}

Result<> MeasurerState::start(Worker& worker) {
  const bool again = std::exchange(worker.started, true);
  if (again) ++restarts;
  worker = Worker{.started = true};
  const bool plain = again && !options.worker_args_always;
  FETTLE_TRY(worker.process,
             WorkerProcess::start(options.worker_path, plain ? std::vector<std::string>() : options.worker_args));
  return {};
}

Result<Json> MeasurerState::ask(Worker& worker, const Json& request, double timeout_s) {
  FETTLE_TRY_VOID(send(worker, request));
  return receive(worker, in_seconds(timeout_s), timeout_s);
}

Result<> MeasurerState::send(Worker& worker, const Json& request) {
  auto sent = worker.process.channel().send(request.dump(), in_seconds(kWorkloadSeconds));
  if (!sent) return lost(worker, "");
  return {};
}

Result<Json> MeasurerState::receive(Worker& worker, Deadline deadline, double timeout_s) {
  auto text = worker.process.channel().receive(deadline);
  if (!text) {
    const bool late = text.error().message == "late";
    return lost(worker, late ? fmt::format("no answer within {:.3g} s", timeout_s) : text.error().message);
  }
  Json reply = Json::parse(*text, nullptr, false);
  if (!reply.is_object() || !reply.contains("ok")) return lost(worker, "it sent what is no message");
  return reply;
}

tl::unexpected<Diagnostic> MeasurerState::lost(Worker& worker, const std::string& why) {
  const std::string how = worker.process.end(why.empty() ? 0.5 : 0);
  return fail(ErrorCode::E406, fmt::format("the worker was lost: {}", why.empty() ? how : why));
}

Result<> MeasurerState::ready(Worker& worker) {
  for (int attempt = 1;; ++attempt) {
    if (!worker.process.is_running()) FETTLE_TRY_VOID(start(worker));
    if (worker.workload == workload) return {};
    auto reply = ask(worker, workload_message, kWorkloadSeconds);
    if (!reply && attempt < kAttempts) continue;
    if (!reply) return fail(std::move(reply.error()));
    if (!reply->value("ok", false)) return fail(code_in(*reply), message_in(*reply));
    worker.workload = workload;
    return {};
  }
}

Result<> MeasurerState::recycle() {
  for (Worker& worker : workers) {
    // The buffers that it shares with its children are bounded by themselves.
    const bool much =
        worker.process.is_running() && memory_of(worker.process.pid()).private_bytes > options.recycle_bytes;
    if (much || worker.candidates >= options.recycle_after) FETTLE_TRY_VOID(start(worker));
  }
  return {};
}

double MeasurerState::timeout_s(double incumbent_s) const {
  if (incumbent_s <= 0) return options.first_timeout_s;
  return std::max(options.min_timeout_s, options.timeout_factor * incumbent_s);
}

}  // namespace fettle
