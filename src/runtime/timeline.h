#pragma once
// What a model does when: its kernels, loops and memory, and which thread runs which part of a kernel.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/model.h"

namespace fettle {

/// What was told while a model ran. Times are monotonic nanoseconds; all lists are in order of time.
struct Timeline {
  struct Span {
    int64_t begin_ns = 0, end_ns = 0;
    int64_t duration_ns() const { return end_ns - begin_ns; }
  };
  struct Kernel : Span {
    int32_t kernel = 0;  // its index in the model's kernel_names
  };
  struct Step {
    int32_t step = 0;  // its index in the model's step_names
    FettleStepEvent event = FETTLE_STEP_BEGIN;
    int64_t at_ns = 0;
  };
  struct Memory {
    int64_t bytes = 0;  // that the context holds from now on
    int64_t at_ns = 0;
  };
  /// A parallel region: iterations that the team shares.
  struct Region : Span {
    int64_t iterations = 0;
  };
  /// Iterations that one thread ran one after the other.
  struct Part : Span {
    int64_t region = 0;  // its index in `regions`
    int64_t first = 0, count = 0;
  };

  std::vector<Span> calls;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
  std::vector<Memory> memory;
  std::vector<Region> regions;
  std::vector<std::vector<Part>> parts;  // of each thread of the team; the first is the one that calls
  int64_t parts_left_out = 0;            // for which `most_parts` had no room
};

struct TimelineOptions {
  int runs = 3;     // that are recorded
  int warm_up = 1;  // runs before them
  int threads = 0;  // 0: what the model was compiled for, within what the machine has
  bool pin = false;
  int64_t most_parts = 1 << 20;  // of each thread
};

/// Runs the model on a team that notes what each of its threads does. Errors: those of Model::make and of runs.
Result<Timeline> record_timeline(const Model& model, std::span<const NamedTensor> inputs,
                                 const TimelineOptions& options = {});

/// What one thread does, without gaps that it sleeps through. No two overlap.
struct ThreadSlice : Timeline::Span {
  enum class Kind : uint8_t {
    kAlone,  // work of a kernel that no other thread takes part in
    kPart,   // iterations of a parallel region
    kWait,   // it has none left, and others have not ended theirs
  };
  Kind kind = Kind::kAlone;
  int32_t kernel = 0;
  int64_t first = 0, count = 0, iterations = 0;  // kPart: which of how many
};
std::vector<std::vector<ThreadSlice>> slices_of_threads(const Timeline& timeline);

/// The timeline as Perfetto and chrome://tracing read it (the JSON of trace events). A track has the model's calls,
/// in them loops and branches, their iterations, and kernels with nodes, operations and bytes; a track a thread has
/// what it runs and waits for; counters have memory.
std::string to_trace_events(const Timeline& timeline, const FettleModelInfo& info);

/// Of each kernel, or nothing, where the model comes from an older compiler.
std::span<const FettleKernelWork> kernel_work(const FettleModelInfo& info);

}  // namespace fettle
