// A timeline as JSON of trace events: Google, "Trace Event Format"; Perfetto and chrome://tracing open it.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "runtime/origins.h"
#include "runtime/timeline.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr int kModelTrack = 0;  // thread t has track t + 1

class Writer {
 public:
  Writer(const Timeline& timeline, const FettleModelInfo& info) : timeline_(timeline), info_(info) {
    if (!timeline.calls.empty()) zero_ns_ = timeline.calls.front().begin_ns;
  }

  std::string write() {
    name_tracks();
    add_calls();
    add_threads();
    add_memory();
    json all = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events_)}};
    all["otherData"] = {{"model", info_.name}, {"compiler", info_.compiler}};
    if (timeline_.parts_left_out > 0) all["otherData"]["parts_left_out"] = timeline_.parts_left_out;
    return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }

 private:
  double us(int64_t ns) const { return static_cast<double>(ns - zero_ns_) / 1e3; }

  void add(json event) {
    event["pid"] = 1;
    events_.push_back(std::move(event));
  }
  void add_slice(int track, std::string_view name, std::string_view category, int64_t begin_ns, int64_t end_ns,
                 json arguments) {
    json event = {{"ph", "X"}, {"name", name}, {"cat", category}, {"tid", track}, {"ts", us(begin_ns)}};
    event["dur"] = static_cast<double>(end_ns - begin_ns) / 1e3;
    if (!arguments.empty()) event["args"] = std::move(arguments);
    add(std::move(event));
  }
  void add_counter(std::string_view name, int64_t at_ns, int64_t bytes) {
    add({{"ph", "C"}, {"name", name}, {"tid", kModelTrack}, {"ts", us(at_ns)}, {"args", {{"bytes", bytes}}}});
  }

  void name_track(int track, const std::string& name) {
    add({{"ph", "M"}, {"name", "thread_name"}, {"tid", track}, {"args", {{"name", name}}}});
    add({{"ph", "M"}, {"name", "thread_sort_index"}, {"tid", track}, {"args", {{"sort_index", track}}}});
  }
  void name_tracks() {
    add({{"ph", "M"}, {"name", "process_name"}, {"tid", kModelTrack}, {"args", {{"name", info_.name}}}});
    name_track(kModelTrack, "model");
    for (size_t t = 0; t < std::max<size_t>(timeline_.parts.size(), 1); ++t)
      name_track(static_cast<int>(t) + 1, t == 0 ? "thread 0 (the caller)" : fmt::format("thread {}", t));
  }

  const char* kernel_name(int32_t kernel) const {
    return kernel >= 0 && kernel < info_.n_kernels ? info_.kernel_names[kernel] : "?";
  }
  std::string step_name(int32_t step) const {
    const bool has = info_.struct_bytes >= offsetof(FettleModelInfo, n_steps) + sizeof info_.n_steps;
    return has && step >= 0 && step < info_.n_steps ? info_.step_names[step] : fmt::format("step {}", step);
  }

  json describe(const Timeline::Kernel& kernel) const {
    json arguments = {{"kernel", kernel.kernel}};
    if (kernel.kernel >= info_.n_kernels) return arguments;
    json& nodes = arguments["nodes"] = json::array();
    for (const KernelOrigin& origin : split_origins(info_.kernel_origins[kernel.kernel]))
      nodes.push_back(origin.op + " " + origin.name);
    const auto works = kernel_work(info_);
    if (works.empty()) return arguments;
    const FettleKernelWork& work = works[static_cast<size_t>(kernel.kernel)];
    const auto ns = static_cast<double>(std::max<int64_t>(kernel.duration_ns(), 1));
    if (work.flops >= 0) {
      arguments["flops"] = work.flops;
      arguments["gflops_per_s"] = work.flops / ns;
    }
    if (work.bytes >= 0) {
      arguments["bytes"] = work.bytes;
      arguments["gbytes_per_s"] = work.bytes / ns;
    }
    if (work.arena_bytes >= 0) arguments["arena_bytes"] = work.arena_bytes;
    return arguments;
  }

  /// Calls, and in them loops, branches, iterations and kernels.
  void add_calls() {
    size_t step = 0, kernel = 0;
    for (size_t c = 0; c < timeline_.calls.size(); ++c) {
      const Timeline::Span& call = timeline_.calls[c];
      add_slice(kModelTrack, fmt::format("run {}", c), "run", call.begin_ns, call.end_ns, {});
      open_.clear();
      for (; step < timeline_.steps.size() && timeline_.steps[step].at_ns <= call.end_ns; ++step)
        take(timeline_.steps[step]);
      while (!open_.empty()) close(call.end_ns);  // of a run that gave up
      for (; kernel < timeline_.kernels.size() && timeline_.kernels[kernel].end_ns <= call.end_ns; ++kernel) {
        const Timeline::Kernel& k = timeline_.kernels[kernel];
        add_slice(kModelTrack, kernel_name(k.kernel), "kernel", k.begin_ns, k.end_ns, describe(k));
      }
    }
  }

  struct Open {
    int32_t step = 0;
    int64_t begin_ns = 0, iteration = -1, iteration_begin_ns = 0;
  };
  void take(const Timeline::Step& event) {
    if (event.event != FETTLE_STEP_BEGIN && open_.empty()) return;
    if (event.event == FETTLE_STEP_BEGIN) {
      open_.push_back({event.step, event.at_ns});
    } else if (event.event == FETTLE_STEP_END) {
      close(event.at_ns);
    } else {
      end_iteration(event.at_ns);
      ++open_.back().iteration;
      open_.back().iteration_begin_ns = event.at_ns;
    }
  }
  void end_iteration(int64_t at_ns) {
    const Open& loop = open_.back();
    if (loop.iteration >= 0)
      add_slice(kModelTrack, fmt::format("iteration {}", loop.iteration), "iteration", loop.iteration_begin_ns, at_ns,
                {});
  }
  void close(int64_t at_ns) {
    const Open step = open_.back();
    end_iteration(at_ns);
    open_.pop_back();
    json arguments = json::object();
    if (step.iteration >= 0) arguments["iterations"] = step.iteration + 1;
    add_slice(kModelTrack, step_name(step.step), step.iteration >= 0 ? "loop" : "step", step.begin_ns, at_ns,
              std::move(arguments));
  }

  void add_threads() {
    const auto threads = slices_of_threads(timeline_);
    for (size_t t = 0; t < threads.size(); ++t) {
      for (const ThreadSlice& slice : threads[t]) {
        const int track = static_cast<int>(t) + 1;
        const char* kernel = kernel_name(slice.kernel);
        if (slice.kind == ThreadSlice::Kind::kWait) {
          add_slice(track, "waits", "wait", slice.begin_ns, slice.end_ns, {{"kernel", kernel}});
        } else if (slice.kind == ThreadSlice::Kind::kAlone) {
          add_slice(track, kernel, "alone", slice.begin_ns, slice.end_ns, {});
        } else {
          add_slice(track, kernel, "part", slice.begin_ns, slice.end_ns,
                    {{"first", slice.first}, {"count", slice.count}, {"of", slice.iterations}});
        }
      }
    }
  }

  void add_memory() {
    for (const Timeline::Memory& memory : timeline_.memory) add_counter("context", memory.at_ns, memory.bytes);
    const auto works = kernel_work(info_);
    if (works.empty()) return;
    for (const Timeline::Kernel& kernel : timeline_.kernels) {
      const int64_t bytes = works[static_cast<size_t>(kernel.kernel)].arena_bytes;
      if (bytes >= 0) add_counter("arena in use", kernel.begin_ns, bytes);
    }
    for (const Timeline::Span& call : timeline_.calls) add_counter("arena in use", call.end_ns, 0);
  }

  const Timeline& timeline_;
  const FettleModelInfo& info_;
  int64_t zero_ns_ = 0;
  json events_ = json::array();
  std::vector<Open> open_;
};

}  // namespace

std::string to_trace_events(const Timeline& timeline, const FettleModelInfo& info) {
  return Writer(timeline, info).write();
}

}  // namespace fettle
