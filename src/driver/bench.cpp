#include "driver/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "runtime/npy.h"

namespace fettle {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class T>
void fill_uniform(Tensor& tensor, RandomStream& stream) {
  for (T& x : tensor.elems<T>()) x = static_cast<T>(2 * stream.uniform() - 1);
}

template <class T>
double difference(const Tensor& a, const Tensor& b) {
  double largest = 0, scale = 0;
  const auto x = a.elems<T>(), y = b.elems<T>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
    scale = std::max(scale, std::abs(static_cast<double>(y[i])));
  }
  return largest == 0 ? 0 : largest / scale;
}

}  // namespace

Result<std::vector<NamedTensor>> random_inputs(const Model& model, uint64_t seed, const InputShapes& shapes) {
  for (const auto& [name, shape] : shapes)
    if (std::ranges::none_of(model.inputs(), [&](const FettleTensor& input) { return name == input.name; }))
      return fail(ErrorCode::E704, fmt::format("the model has no input '{}'", name));
  std::vector<NamedTensor> inputs;
  for (const FettleTensor& described : model.inputs()) {
    std::vector<int64_t> extents(described.shape, described.shape + described.rank);
    if (const auto given = shapes.find(described.name); given != shapes.end()) {
      const std::vector<int64_t>& shape = given->second;
      bool fits = shape.size() == extents.size();
      for (size_t d = 0; fits && d < extents.size(); ++d)
        fits = extents[d] < 0 ? shape[d] >= 0 : shape[d] == extents[d];
      if (!fits)
        return fail(ErrorCode::E705, fmt::format("input '{}' is {}, and the shape given is {}", described.name,
                                                 tensor_type_to_string(described), shape_to_string(shape)));
      extents = shape;
    }
    if (std::ranges::count(extents, -1) > 0)
      return fail(ErrorCode::E604, fmt::format("input '{}' is {}", described.name, tensor_type_to_string(described)));
    FETTLE_TRY(Tensor tensor, Tensor::make(static_cast<FettleDtype>(described.dtype), std::move(extents)));
    RandomStream stream{seed, inputs.size()};
    if (described.dtype == FETTLE_F32) fill_uniform<float>(tensor, stream);
    if (described.dtype == FETTLE_F64) fill_uniform<double>(tensor, stream);
    inputs.push_back({described.name, std::move(tensor)});
  }
  return inputs;
}

TimedWork timed_model(std::string name, ModelContext& context, const std::vector<NamedTensor>& inputs) {
  const auto time = [&context, &inputs](int runs) -> Result<std::vector<double>> {
    FETTLE_TRY(std::vector<NamedTensor> outputs, context.make_outputs(inputs));
    std::vector<double> times;
    for (int i = 0; i <= runs; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      FETTLE_TRY_VOID(context.run_into(inputs, outputs));
      const auto end = std::chrono::steady_clock::now();
      if (i > 0) times.push_back(std::chrono::duration<double, std::nano>(end - begin).count());
    }
    return times;
  };
  return {std::move(name), time};
}

TimedWork timed_peer(bench::ModelPeer& peer) {
  return {peer.name(), [&peer](int runs) -> Result<std::vector<double>> {
            FETTLE_TRY(bench::PeerTimes times, peer.time(runs));
            return std::move(times.times_ns);
          }};
}

Result<std::vector<Latency>> time_interleaved(const std::vector<TimedWork>& works, const BenchOptions& options) {
  std::vector<std::vector<double>> times(works.size());
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0;; ++round) {
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (round >= options.min_rounds && spent >= options.seconds) break;
    if (round > 0 && spent >= (options.max_seconds > 0 ? options.max_seconds : 5 * options.seconds)) break;
    for (size_t k = 0; k < works.size(); ++k) {
      const size_t i = (k + static_cast<size_t>(round)) % works.size();
      FETTLE_TRY(const std::vector<double> more, works[i].time(options.runs_a_round));
      times[i].insert(times[i].end(), more.begin(), more.end());
    }
  }
  std::vector<Latency> result;
  for (size_t i = 0; i < works.size(); ++i) {
    const double fastest = times[i].empty() ? std::numeric_limits<double>::quiet_NaN()
                                            : *std::min_element(times[i].begin(), times[i].end());
    result.push_back({works[i].name, fastest * 1e-6, median_of(times[i]) * 1e-6, static_cast<int>(times[i].size())});
  }
  return result;
}

Result<std::vector<KernelTime>> profile_model(ModelContext& context, const std::vector<NamedTensor>& inputs, int runs,
                                              std::string* table) {
  FETTLE_TRY(std::vector<NamedTensor> outputs, context.make_outputs(inputs));
  FETTLE_TRY_VOID(context.run_into(inputs, outputs));
  Profiler profiler(context);
  for (int i = 0; i < runs; ++i) FETTLE_TRY_VOID(context.run_into(inputs, outputs));
  if (table) *table = profiler.to_string();
  return profiler.times();
}

namespace {

/// The files that the inputs are written to.
Result<std::map<std::string, std::string>> write_inputs(const std::vector<NamedTensor>& inputs,
                                                        const std::string& folder) {
  std::map<std::string, std::string> files;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = folder + "/input" + std::to_string(i) + ".npy";
    FETTLE_TRY_VOID(write_npy(path, inputs[i].tensor));
    files[inputs[i].name] = path;
  }
  return files;
}

}  // namespace

Result<bench::ModelPeer> start_peer(const std::string& peer, const std::string& file, int threads,
                                    const std::vector<NamedTensor>& inputs, const std::string& folder,
                                    bool keeps_open) {
  FETTLE_TRY(bench::ModelPeer started, bench::ModelPeer::start(peer));
  bench::PeerModel model{.file = file, .threads = threads, .shapes = {}, .inputs = {}, .keeps_open = keeps_open};
  FETTLE_TRY(model.inputs, write_inputs(inputs, folder));
  for (const NamedTensor& input : inputs) model.shapes[input.name] = input.tensor.shape();
  FETTLE_TRY_VOID(started.load(model));
  return started;
}

Result<> give_inputs(bench::ModelPeer& peer, const std::vector<NamedTensor>& inputs, const std::string& folder) {
  FETTLE_TRY(const auto files, write_inputs(inputs, folder));
  return peer.give(files);
}

double difference_of_scale(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && a.shape() == b.shape()) {
    if (a.dtype() == FETTLE_F32) return difference<float>(a, b);
    if (a.dtype() == FETTLE_F64) return difference<double>(a, b);
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace fettle
