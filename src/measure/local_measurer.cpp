#include "measure/local_measurer.h"

#include <algorithm>

#include "codegen/object_cache.h"
#include "ir/text.h"
#include "measure/batch.h"
#include "measure/json.h"
#include "measure/measurer_state.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

std::filesystem::path default_worker_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "fettle-worker" : self.parent_path() / "fettle-worker";
}

}  // namespace

LocalMeasurer::LocalMeasurer(std::unique_ptr<MeasurerState> state) : state_(std::move(state)) {}
LocalMeasurer::~LocalMeasurer() = default;

Result<std::unique_ptr<LocalMeasurer>> LocalMeasurer::start(LocalMeasurerOptions options) {
  auto state = std::make_unique<MeasurerState>();
  if (options.worker_path.empty()) options.worker_path = default_worker_path();
  if (options.workers <= 0) options.workers = std::clamp(available_threads(), 1, 8);
  if (!options.cache_folder) {
    options.cache_folder = default_cache_folder();
    if (!options.cache_folder->empty()) *options.cache_folder /= "objects";
  }
  state->workers.resize(static_cast<size_t>(options.workers));
  state->options = std::move(options);
  for (MeasurerState::Worker& worker : state->workers) FETTLE_TRY_VOID(state->start(worker));
  return std::unique_ptr<LocalMeasurer>(new LocalMeasurer(std::move(state)));
}

Result<> LocalMeasurer::set_workload(const Func& workload, const WorkloadOptions& options) {
  MeasurerState& s = *state_;
  ++s.workload;
  s.workload_message = {{"do", "workload"},
                        {"func", to_text(workload)},
                        {"target", s.options.target},
                        {"cache", s.options.cache_folder->string()},
                        {"seed", options.seed},
                        {"ints", options.ints},
                        {"reference_trace", options.reference_trace}};
  return s.ready(s.workers.front());
}

Result<std::vector<MeasureResult>> LocalMeasurer::measure(std::span<const std::string> traces,
                                                          const MeasureRequest& request) {
  if (state_->workload_message.is_null()) return fail(ErrorCode::E406, "no workload was given");
  return measure_batch(*state_, traces, request);
}

const std::map<ErrorCode, int64_t>& LocalMeasurer::failures() const { return state_->failures; }

std::vector<int> LocalMeasurer::worker_pids() const {
  std::vector<int> pids;
  for (const MeasurerState::Worker& worker : state_->workers)
    if (worker.process.is_running()) pids.push_back(worker.process.pid());
  return pids;
}

int64_t LocalMeasurer::restarts() const { return state_->restarts; }

}  // namespace fettle
