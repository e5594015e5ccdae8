#include "driver/streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

/// One stream: its context, outputs, and what its runs took.
struct Caller {
  ModelContext context;
  std::vector<NamedTensor> outputs;
  std::vector<double> times_ms;
  std::optional<Diagnostic> error;

  Result<> run(const std::vector<NamedTensor>& inputs) { return context.run_into(inputs, outputs); }
};

}  // namespace

double quantile(const std::vector<double>& sorted, double part) {
  const double rank = std::ceil(part * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::clamp(rank - 1, 0.0, static_cast<double>(sorted.size() - 1)))];
}

Result<StreamTimes> time_streams(const Model& model, const std::vector<NamedTensor>& inputs, int streams,
                                 double seconds) {
  if (streams < 1 || !(seconds > 0))
    return fail(ErrorCode::E709, "there is a stream at least, which runs for some time");
  std::vector<Caller> all;
  for (int i = 0; i < streams; ++i) {
    FETTLE_TRY(ModelContext context, model.make_context());
    FETTLE_TRY(std::vector<NamedTensor> outputs, context.make_outputs(inputs));
    all.push_back({std::move(context), std::move(outputs), {}, {}});
    FETTLE_TRY_VOID(all.back().run(inputs));
  }
  enum Gate : int { kClosed, kOpen, kGivenUp };
  std::atomic<int> gate{kClosed};
  std::atomic<bool> failed{false};
  Clock::time_point begin, end;
  const auto work = [&](Caller& stream) {
    gate.wait(kClosed);
    if (gate.load() == kGivenUp) return;
    for (Clock::time_point now = Clock::now(); now < end && !failed.load(std::memory_order_relaxed);) {
      if (auto ran = stream.run(inputs); !ran) {
        stream.error = std::move(ran.error());
        failed.store(true, std::memory_order_relaxed);
        return;
      }
      const Clock::time_point done = Clock::now();
      stream.times_ms.push_back(std::chrono::duration<double, std::milli>(done - now).count());
      now = done;
    }
  };
  std::vector<std::thread> threads;
  const auto open = [&](Gate how) {
    begin = Clock::now();
    end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    gate.store(how);
    gate.notify_all();
  };
  try {
    for (Caller& stream : all) threads.emplace_back(work, std::ref(stream));
    open(kOpen);
  } catch (const std::system_error& error) {
    open(kGivenUp);
    for (std::thread& thread : threads) thread.join();
    return fail(ErrorCode::E710, fmt::format("the system refuses thread {}: {}", threads.size() + 1, error.what()));
  }
  for (std::thread& thread : threads) thread.join();
  const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<double> times;
  for (Caller& stream : all) {
    if (stream.error) return fail(std::move(*stream.error));
    times.insert(times.end(), stream.times_ms.begin(), stream.times_ms.end());
  }
  std::ranges::sort(times);
  return StreamTimes{.runs = std::ssize(times),
                     .runs_per_second = static_cast<double>(times.size()) / spent,
                     .median_ms = quantile(times, 0.5),
                     .p90_ms = quantile(times, 0.9),
                     .p99_ms = quantile(times, 0.99),
                     .max_ms = times.back()};
}

}  // namespace fettle
