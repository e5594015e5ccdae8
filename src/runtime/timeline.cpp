#include "runtime/timeline.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "rt/sys.h"
#include "rt/team.h"

namespace fettle {
namespace {

using rt::now_ns;

/// Iterations of one region that follow each other on a thread, and lie no further apart, are one part.
constexpr int64_t kLongestGapNs = 20'000;

/// Whose body the thread is running, and where its parts go.
struct Here {
  uint64_t team = 0;  // by number, since memory is used again
  size_t track = 0;
  bool in_body = false;
};
thread_local Here here;

/// A team of rt that notes which thread runs which iterations.
class RecordingTeam {
 public:
  RecordingTeam(const FettleTeamOptions& options, int64_t most_parts)
      : team_(fettle_team_create(&options)), most_parts_(most_parts) {
    static std::atomic<uint64_t> teams{0};
    number_ = ++teams;
    tracks_.resize(static_cast<size_t>(fettle_team_size(team_)));
    here = {number_, 0, false};
    n_tracks_ = 1;
    host_.struct_bytes = sizeof host_;
    host_.user = this;
    host_.size = [](void* self) { return fettle_team_size(static_cast<RecordingTeam*>(self)->team_); };
    host_.parallel_for = parallel_for;
  }
  RecordingTeam(const RecordingTeam&) = delete;
  RecordingTeam& operator=(const RecordingTeam&) = delete;
  ~RecordingTeam() { fettle_team_destroy(team_); }

  bool is_made() const { return team_ != nullptr; }
  const FettleHostTeam* host() const { return &host_; }

  void clear() {
    regions_.clear();
    for (Track& track : tracks_) track = {};
  }
  /// Once.
  void hand_over(Timeline& timeline) {
    timeline.regions = std::move(regions_);
    for (Track& track : tracks_) {
      timeline.parts.push_back(std::move(track.parts));
      timeline.parts_left_out += track.left_out;
    }
  }

 private:
  struct alignas(64) Track {
    std::vector<Timeline::Part> parts;
    int64_t left_out = 0, left_region = -1, left_next = 0;  // parts, and where the last of them goes on

    void add(int64_t region, int64_t i, int64_t begin_ns, int64_t end_ns, int64_t most_parts) {
      if (!parts.empty()) {
        Timeline::Part& last = parts.back();
        if (last.region == region && last.first + last.count == i && begin_ns - last.end_ns <= kLongestGapNs) {
          last.end_ns = end_ns;
          ++last.count;
          return;
        }
      }
      if (std::ssize(parts) < most_parts) {
        parts.push_back({{begin_ns, end_ns}, region, i, 1});
        return;
      }
      if (left_region != region || left_next != i) ++left_out;
      left_region = region;
      left_next = i + 1;
    }
  };
  struct Recorded {
    RecordingTeam* team;
    int64_t region;
    FettleBody body;
    void* closure;
  };

  static void parallel_for(void* user, int64_t n, FettleBody body, void* closure) {
    auto* self = static_cast<RecordingTeam*>(user);
    if (here.in_body) return fettle_parallel_for(nullptr, n, body, closure);  // a part of a part
    Recorded recorded{self, std::ssize(self->regions_), body, closure};
    self->regions_.push_back({{now_ns(), 0}, n});
    fettle_parallel_for(self->team_, n, run_one, &recorded);
    self->regions_.back().end_ns = now_ns();
  }

  static void run_one(void* closure, int64_t i) {
    const auto& recorded = *static_cast<const Recorded*>(closure);
    RecordingTeam& self = *recorded.team;
    if (here.team != self.number_) here = {self.number_, self.n_tracks_.fetch_add(1), false};
    here.in_body = true;
    const int64_t begin = now_ns();
    recorded.body(recorded.closure, i);
    const int64_t end = now_ns();
    here.in_body = false;
    self.tracks_[here.track].add(recorded.region, i, begin, end, self.most_parts_);
  }

  FettleTeam* team_;
  FettleHostTeam host_{};
  uint64_t number_ = 0;
  int64_t most_parts_;
  std::vector<Timeline::Region> regions_;
  std::vector<Track> tracks_;
  std::atomic<size_t> n_tracks_{0};
};

/// Notes what a context tells, from its making to its end.
class ContextRecorder {
 public:
  ContextRecorder(ModelContext& context, Timeline& timeline) : context_(context) {
    tracer_.struct_bytes = sizeof tracer_;
    tracer_.user = &timeline;
    tracer_.on_step = [](void* to, int32_t step, int32_t event, int64_t ns) {
      static_cast<Timeline*>(to)->steps.push_back({step, static_cast<FettleStepEvent>(event), ns});
    };
    tracer_.on_memory = [](void* to, int64_t bytes, int64_t ns) {
      static_cast<Timeline*>(to)->memory.push_back({bytes, ns});
    };
    const auto on_kernel = [](void* to, int32_t kernel, int64_t begin, int64_t end) {
      static_cast<Timeline*>(to)->kernels.push_back({{begin, end}, kernel});
    };
    context.set_kernel_hook(on_kernel, &timeline);
    context.set_tracer(&tracer_);
  }
  ContextRecorder(const ContextRecorder&) = delete;
  ContextRecorder& operator=(const ContextRecorder&) = delete;
  ~ContextRecorder() {
    context_.set_kernel_hook(nullptr, nullptr);
    context_.set_tracer(nullptr);
  }

 private:
  ModelContext& context_;
  FettleTracer tracer_{};
};

}  // namespace

Result<Timeline> record_timeline(const Model& model, std::span<const NamedTensor> inputs,
                                 const TimelineOptions& options) {
  const int32_t usable = fettle_usable_cpus(), wanted = model.info().default_threads;
  FettleTeamOptions team_options{};
  team_options.threads = options.threads > 0 ? options.threads : wanted > 0 ? std::min(wanted, usable) : usable;
  team_options.pin = options.pin ? 1 : 0;
  RecordingTeam team(team_options, options.most_parts);
  if (!team.is_made()) return fail(ErrorCode::E710, "there is no memory for a team of threads");
  FETTLE_TRY(const Model recorded, model.on_team(*team.host()));
  FETTLE_TRY(ModelContext context, recorded.make_context());
  FETTLE_TRY(std::vector<NamedTensor> outputs, context.make_outputs(inputs));
  for (int i = 0; i < options.warm_up; ++i) FETTLE_TRY_VOID(context.run_into(inputs, outputs));
  team.clear();
  Timeline timeline;
  const ContextRecorder recorder(context, timeline);
  for (int i = 0; i < options.runs; ++i) {
    const int64_t begin = now_ns();
    FETTLE_TRY_VOID(context.run_into(inputs, outputs));
    timeline.calls.push_back({begin, now_ns()});
  }
  team.hand_over(timeline);
  return timeline;
}

std::vector<std::vector<ThreadSlice>> slices_of_threads(const Timeline& timeline) {
  // Of each region its kernel: both run on the thread that calls.
  std::vector<int32_t> kernel_of(timeline.regions.size(), -1);
  std::vector<std::vector<ThreadSlice>> threads(std::max<size_t>(timeline.parts.size(), 1));
  std::vector<std::vector<ThreadSlice>> alone(timeline.regions.size() + 1);  // before each region, and at the end
  const auto add_alone = [](std::vector<ThreadSlice>& to, int32_t kernel, int64_t begin_ns, int64_t end_ns) {
    if (begin_ns < end_ns) to.push_back({{begin_ns, end_ns}, ThreadSlice::Kind::kAlone, kernel});
  };
  size_t r = 0;
  for (const Timeline::Kernel& kernel : timeline.kernels) {
    int64_t from = kernel.begin_ns;
    for (; r < timeline.regions.size() && timeline.regions[r].begin_ns < kernel.end_ns; ++r) {
      kernel_of[r] = kernel.kernel;
      add_alone(alone[r], kernel.kernel, from, timeline.regions[r].begin_ns);
      from = timeline.regions[r].end_ns;
    }
    add_alone(alone[r], kernel.kernel, from, kernel.end_ns);
  }
  for (size_t t = 0; t < timeline.parts.size(); ++t) {
    const std::vector<Timeline::Part>& parts = timeline.parts[t];
    std::vector<ThreadSlice>& slices = threads[t];
    const auto take_alone = [&](size_t before) {
      if (t == 0) slices.insert(slices.end(), alone[before].begin(), alone[before].end());
    };
    size_t next = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto region = static_cast<size_t>(parts[p].region);
      for (; next <= region; ++next) take_alone(next);
      slices.push_back({{parts[p].begin_ns, parts[p].end_ns},
                        ThreadSlice::Kind::kPart,
                        kernel_of[region],
                        parts[p].first,
                        parts[p].count,
                        timeline.regions[region].iterations});
      const bool is_last = p + 1 == parts.size() || parts[p + 1].region != parts[p].region;
      if (is_last && parts[p].end_ns < timeline.regions[region].end_ns)
        slices.push_back(
            {{parts[p].end_ns, timeline.regions[region].end_ns}, ThreadSlice::Kind::kWait, kernel_of[region]});
    }
    for (; next < alone.size(); ++next) take_alone(next);
  }
  if (timeline.parts.empty())
    for (const auto& some : alone) threads[0].insert(threads[0].end(), some.begin(), some.end());
  return threads;
}

std::span<const FettleKernelWork> kernel_work(const FettleModelInfo& info) {
  const bool has = info.struct_bytes >= offsetof(FettleModelInfo, kernel_work) + sizeof info.kernel_work;
  if (!has || info.kernel_work == nullptr) return {};
  return {info.kernel_work, static_cast<size_t>(info.n_kernels)};
}

}  // namespace fettle
