#include "measure/worker/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "measure/compare.h"
#include "measure/json.h"
#include "measure/sampled.h"
#include "schedule/reformulation.h"
#include "schedule/schedule.h"
#include "schedule/trace/trace.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

/// Block instances of the plain program, which runs some 3e8 of them a second: up to the first number, it is the
/// reference as a whole; beyond, a sample of so many; where there can be none, as a whole up to the last.
constexpr double kPlainInstances = 1e8, kSampledInstances = 2e7, kMaxPlainInstances = 1e9;
/// What stands for elements that the sample left out.
constexpr double kUnknown[] = {1000, -700};
constexpr size_t kKeptReferenceBytes = size_t{128} << 20;
constexpr double kReferenceSeconds = 120;
constexpr double kDeviceBatchSeconds = 1e-3;

}  // namespace

int Session::serve() {
  for (;;) {
    auto text = channel_.receive();
    if (!text) return text.error().message.empty() ? 0 : 2;
    const Json message = Json::parse(*text, nullptr, false);
    Json reply;
    // The JSON library reports a missing or mistyped field by throwing: this worker and its tuner differ then.
    try {
      auto answered = answer(message);
      if (answered) {
        reply = std::move(*answered);
        reply["ok"] = true;
      } else {
        const Diagnostic& diagnostic = answered.error();
        reply = {{"ok", false},
                 {"code", std::string(error_info(diagnostic.code).name)},
                 {"message", diagnostic.message},
                 {"where", diagnostic.where},
                 {"signal", signal_}};
      }
      if (message.contains("id")) reply["id"] = message.at("id");
    } catch (const Json::exception& error) {
      fmt::print(stderr, "a message that makes no sense: {}\n", error.what());
      return 2;
    }
    if (!channel_.send(reply.dump(-1, ' ', false, Json::error_handler_t::replace))) return 0;
  }
}

Result<Json> Session::answer(const Json& message) {
  signal_ = 0;
  const std::string what = message.at("do");
  if (what == "hello") return Json{{"protocol", kProtocolVersion}, {"pid", ::getpid()}};
  if (what == "workload") return on_workload(message);
  if (what == "build") return on_build(message);
  if (what == "measure") return on_measure(message);
  return fail(ErrorCode::E406, "the worker does not know the request " + what);
}

Result<Json> Session::on_workload(const Json& message) {
  candidates_.clear();
  beside_.reset();
  store_.reset();
  workload_ = Func();
  FETTLE_TRY(target_, target_from_json(message.at("target").dump()));
  const std::string folder = message.at("cache");
  FETTLE_TRY(const DeviceDef* const device, device_of(target_));
  if (device != device_) device_process_.reset();
  device_ = device;
  if (!device_->shares_host_memory()) {
    if (!device_process_) device_process_ = std::make_unique<DeviceProcess>(*device_, channel_.fd());
    FETTLE_TRY_VOID(device_process_->start());
  }
  if (!cache_) cache_ = std::make_shared<ObjectCache>(std::filesystem::path(folder));
  FETTLE_TRY(workload_, parse_func(message.at("func").get<std::string>()));
  reference_trace_ = message.at("reference_trace");
  key_ = digest_bytes(message.dump());
  ints_ = message.at("ints").get<std::vector<int64_t>>();

  if (ints_.empty())
    for (const IntParam& param : workload_->int_params) ints_.push_back(typical_of(param));
  bindings_ = {};
  if (ints_.size() != workload_->int_params.size())
    return fail(ErrorCode::E709, fmt::format("the workload has {} integer parameters, {} values are given",
                                             workload_->int_params.size(), ints_.size()));
  for (size_t i = 0; i < ints_.size(); ++i) bindings_.push(workload_->int_params[i].var.get(), ints_[i]);
  store_ = std::make_unique<BufferStore>(message.at("seed").get<uint64_t>());
  return Json::object();
}

Misbehaviour Session::planned(int64_t number, int64_t id) const {
  if (plan_.every > 0) return planned_by_id(plan_.every, id);
  return number == plan_.at ? plan_.what : Misbehaviour::kNone;
}

Result<Func> Session::schedule(const std::string& trace) const {
  FETTLE_TRY(const ParsedTrace parsed, parse_trace(trace));
  Schedule schedule(workload_);
  schedule.set_target(std::make_shared<const Target>(target_));
  FETTLE_TRY_VOID(replay(schedule, parsed));
  return schedule.func();
}

Result<std::shared_ptr<LoadedKernel>> Session::build(const Func& scheduled, bool plain) {
  // The plain program runs here, whatever the device.
  const bool here = plain || device_->shares_host_memory();
  const Target& target = here && !device_->shares_host_memory() ? host_ : target_;
  FETTLE_TRY(BuiltKernel built,
             build_kernel(scheduled, target, *cache_, {.plain = plain, .ints = bindings_, .portable = false}));
  FETTLE_TRY(LoadedKernel loaded,
             here ? LoadedKernel::load(std::move(built)) : LoadedKernel::load_prologue(std::move(built)));
  return std::make_shared<LoadedKernel>(std::move(loaded));
}

Result<Json> Session::on_build(const Json& message) {
  if (!workload_) return fail(ErrorCode::E406, "no workload was given");
  const auto start = std::chrono::steady_clock::now();
  // The tuner waits so long, then ends this process; should the tuner have gone, it ends by itself.
  ::alarm(static_cast<unsigned>(message.at("limit_s").get<double>() + 5));
  const Misbehaviour misbehaviour = planned(n_built_++, message.at("id"));
  if (misbehaviour == Misbehaviour::kBuildCrash) std::abort();
  while (misbehaviour == Misbehaviour::kBuildHang) ::pause();
  const auto built = [&]() -> Result<std::shared_ptr<LoadedKernel>> {
    FETTLE_TRY(const Func scheduled, schedule(message.at("trace").get<std::string>()));
    return build(scheduled, false);
  }();
  ::alarm(0);
  if (!built) return fail(ErrorCode::E401, built.error().to_string());
  // What was left of earlier batches was not reached.
  candidates_.erase(candidates_.begin(), candidates_.lower_bound(message.at("first_id").get<int64_t>()));
  candidates_[message.at("id").get<int64_t>()] = *built;
  return Json{{"build_s", seconds_since(start)}};
}

Result<Outputs> Session::outputs_of(const LoadedKernel& candidate, const BufferStore::Arguments& arguments) {
  Outputs outputs;
  shapes_.clear();
  for (size_t i = 0; i < workload_->params.size(); ++i) {
    if (candidate.built.info.params[i].kind != ParamKind::kOutput) continue;
    const BufferStore::Slot& slot = *arguments.slots[i];
    std::vector<char>& values = outputs.emplace_back(static_cast<size_t>(slot.layout.logical_bytes()));
    slot.layout.to_logical(slot.memory->data(), values.data());
    shapes_.push_back(slot.layout.logical_shape());
  }
  return outputs;
}

Result<Timing> Session::run(const LoadedKernel& kernel, BufferStore::Arguments& arguments, const RunRequest& request,
                            bool fetch) {
  const size_t n_params = workload_->params.size();
  if (kernel.runs_here()) return run_candidate(kernel, arguments, n_params, ints_, request, &signal_);
  FETTLE_TRY_VOID(run_prologue(kernel, arguments, ints_, request, &signal_));
  if (request.beside)
    FETTLE_TRY_VOID(run_prologue(*request.beside->kernel, request.beside->arguments, ints_, request, &signal_));
  return device_process_->run({&kernel, &arguments}, n_params, ints_, request, fetch, &signal_);
}

// What `scheduled` computes, which has the workload's parameters.
Result<Outputs> Session::computed_by(const Func& scheduled, bool plain) {
  FETTLE_TRY(const std::shared_ptr<LoadedKernel> kernel, build(scheduled, plain));
  FETTLE_TRY(BufferStore::Arguments arguments, store_->arguments(kernel->built, workload_->params.size()));
  RunRequest request;
  request.limits.timeout_s = kReferenceSeconds;
  request.give_up_fd = channel_.fd();
  FETTLE_TRY([[maybe_unused]] const Timing timing, run(*kernel, arguments, request, true));
  return outputs_of(*kernel, arguments);
}

// Results that the plain program computes of a large workload.
Result<Reference> Session::sample() {
  Outputs computed[2];
  for (int i = 0; i < 2; ++i) {
    FETTLE_TRY(const Func sampled, sampled_program(workload_, kSampledInstances, kUnknown[i]));
    FETTLE_TRY(computed[i], computed_by(sampled, true));
  }
  Reference reference{std::move(computed[0]), {}};
  size_t o = 0;
  for (const Param& param : workload_->params) {
    if (param.kind != ParamKind::kOutput) continue;
    reference.known.push_back(equal_elements(reference.outputs[o], computed[1][o], param.buffer->dtype));
    const auto& known = reference.known[o++];
    if (std::find(known.begin(), known.end(), true) == known.end())
      return fail(ErrorCode::E301, "a sample tells nothing about " + param.buffer->name);
  }
  return reference;
}

Result<Reference> Session::make_reference() {
  const double work = count_instances(workload_);
  Reference reference;
  if (work > kPlainInstances) {
    if (auto sampled = sample()) {
      // All that the trusted trace computes, once it agrees with the sample.
      if (const auto scheduled = schedule(reference_trace_))
        if (auto whole = computed_by(*scheduled, false);
            whole && !difference(*whole, *sampled, error_bound_of(*scheduled)))
          return Reference{std::move(*whole), {}};
      return sampled;
    }
    if (work > kMaxPlainInstances) {
      if (reference_trace_.empty())
        return fail(ErrorCode::E406, "the workload is too large for the plain program to check against");
      FETTLE_TRY(const Func scheduled, schedule(reference_trace_));
      FETTLE_TRY(reference.outputs, computed_by(scheduled, false));
      return reference;
    }
  }
  FETTLE_TRY(reference.outputs, computed_by(workload_, true));
  return reference;
}

// A tuner comes back to its tasks: their references are kept, as far as there is room.
Result<> Session::keep_reference() {
  if (references_.contains(key_)) return {};
  FETTLE_TRY(Reference reference, make_reference());
  size_t bytes = 0;
  for (const auto& [key, kept] : references_)
    for (const auto& output : kept.outputs) bytes += output.size();
  if (bytes > kKeptReferenceBytes) references_.clear();
  references_[key_] = std::move(reference);
  return {};
}

std::optional<std::string> Session::difference(const Outputs& outputs, const Reference& reference,
                                               double error_bound) const {
  size_t o = 0;
  for (const Param& param : workload_->params) {
    if (param.kind != ParamKind::kOutput) continue;
    const std::vector<bool> all;
    const auto wrong =
        find_difference(param.buffer->name, shapes_[o], param.buffer->dtype, outputs[o].data(),
                        reference.outputs[o].data(), tolerance_of_scale(workload_, param.buffer->dtype, error_bound),
                        reference.known.empty() ? all : reference.known[o]);
    if (wrong) return wrong;
    ++o;
  }
  return std::nullopt;
}

// It is the same for all candidates of a task, so it is kept, with what its prologue packed.
Result<Beside*> Session::beside(const std::string& trace) {
  if (trace.empty()) return nullptr;
  if (beside_ && beside_->trace == trace) return &*beside_;
  beside_.reset();
  auto made = [&]() -> Result<Beside> {
    FETTLE_TRY(const Func scheduled, schedule(trace));
    FETTLE_TRY(std::shared_ptr<LoadedKernel> kernel, build(scheduled, false));
    FETTLE_TRY(BufferStore::Arguments arguments, store_->arguments(kernel->built, workload_->params.size()));
    return Beside{trace, std::move(kernel), std::move(arguments)};
  }();
  if (!made) return fail(ErrorCode::E406, "what it is timed beside was not built: " + made.error().to_string());
  beside_ = std::move(*made);
  return &*beside_;
}

Result<Json> Session::on_measure(const Json& message) {
  const auto start = std::chrono::steady_clock::now();
  const auto found = candidates_.find(message.at("id").get<int64_t>());
  if (found == candidates_.end()) return fail(ErrorCode::E406, "the candidate was not built here");
  const std::shared_ptr<LoadedKernel> candidate = found->second;
  if (!message.at("keep").get<bool>()) candidates_.erase(found);
  const size_t n_params = workload_->params.size();

  const bool check = message.at("check");
  if (check) {
    if (auto made = keep_reference(); !made)
      return fail(ErrorCode::E406, "no reference to check against: " + made.error().to_string());
  }
  auto arguments = store_->arguments(candidate->built, n_params);
  if (!arguments) return fail(ErrorCode::E401, arguments.error().to_string());
  if (check) {
    for (size_t i = 0; i < n_params; ++i)
      if (candidate->built.info.params[i].kind == ParamKind::kOutput) BufferStore::poison(*arguments->slots[i]);
  }

  RunRequest request;
  request.threads = message.at("threads");
  request.streams = target_.streams;
  if (!message.at("time").is_null()) request.timing = message.at("time").get<TimingOptions>();
  FETTLE_TRY(request.beside, beside(message.at("beside")));
  request.limits.timeout_s = message.at("timeout_s");
  request.prologue_s = message.at("prologue_s");
  request.limits.memory_bytes = message.at("memory_bytes");
  request.give_up_fd = channel_.fd();
  request.misbehaviour = planned(n_run_++, message.at("id"));
  // A device's clock does not see calls that are too short one by one.
  if (request.timing && !device_->shares_host_memory())
    request.timing->batch_s = std::max(request.timing->batch_s, kDeviceBatchSeconds);
  FETTLE_TRY(const Timing timing, run(*candidate, *arguments, request, check));
  if (check) {
    FETTLE_TRY(const Outputs outputs, outputs_of(*candidate, *arguments));
    if (const auto wrong = difference(outputs, references_.at(key_), candidate->built.info.error_bound))
      return fail(ErrorCode::E405, *wrong);
  }
  return Json{{"median_s", timing.median_s}, {"min_s", timing.min_s},         {"half_width", timing.half_width},
              {"repeats", timing.samples},   {"raced_out", timing.raced_out}, {"checked", check},
              {"beside", timing.beside},     {"pace", timing.pace},           {"run_s", seconds_since(start)}};
}

}  // namespace fettle
