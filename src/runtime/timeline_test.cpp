#include "runtime/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>

#include "rt/float_mode.h"
#include "rt/model.h"

namespace fettle {
namespace {

using nlohmann::json;

// A model by hand: a loop of three iterations, in which one kernel shares its work and another one does not.
constexpr int64_t kIterations = 40;
std::atomic<int64_t> iterations_run{0};
std::atomic<rt::FloatMode> mode_of_call{0};
void* host_of_call = nullptr;  // whose functions the call may use

int32_t shared_work(FettleContext* context, void**, const int64_t*) {
  const auto body = [](void*, int64_t) {
    for (int i = 0; i < 2000; ++i) iterations_run.fetch_add(i == 0, std::memory_order_relaxed);
  };
  fettle_parallel_for(context->team, kIterations, body, nullptr);
  return FETTLE_OK;
}
int32_t nested_work(FettleContext* context, void**, const int64_t*) {
  const auto body = [](void* closure, int64_t) {
    const auto inner = [](void*, int64_t) { iterations_run.fetch_add(1, std::memory_order_relaxed); };
    fettle_parallel_for(static_cast<FettleContext*>(closure)->team, 3, inner, nullptr);
  };
  fettle_parallel_for(context->team, 2, body, context);
  return FETTLE_OK;
}

int32_t program(FettleContext* context, void** buffers, const int64_t* ints) {
  mode_of_call = rt::read_float_mode() & ~rt::kHappened;
  host_of_call = context->host_calls == nullptr ? nullptr : context->host_calls->user;
  fettle_mark_step(context, 0, FETTLE_STEP_BEGIN);
  for (int i = 0; i < 3; ++i) {
    fettle_mark_step(context, 0, FETTLE_STEP_NEXT);
    fettle_call_kernel(context, 0, shared_work, buffers, ints);
    fettle_mark_step(context, 1, FETTLE_STEP_BEGIN);
    fettle_call_kernel(context, 1, nested_work, buffers, ints);
    fettle_mark_step(context, 1, FETTLE_STEP_END);
  }
  fettle_mark_step(context, 0, FETTLE_STEP_END);
  return FETTLE_OK;
}

Model looping(const FettleOptions& options = {}) {
  static const char* const names[] = {"shared", "nested"};
  static const char* const origins[] = {"Conv c1\nRelu r1", ""};
  static const char* const steps[] = {"Loop outer", "If \"inner\": then"};
  static const FettleKernelWork work[] = {{8000, 64, 4096}, {-1, -1, -1}};
  static constexpr int64_t kOne[] = {1};
  static FettleTensor output{};
  output.struct_bytes = sizeof output;
  output.name = "y";
  output.dtype = FETTLE_F32;
  output.rank = 1;
  output.shape = kOne;
  auto info = std::make_shared<FettleModelInfo>();
  info->magic = FETTLE_MAGIC;
  info->abi_version = FETTLE_ABI_VERSION;
  info->struct_bytes = sizeof *info;
  info->name = "looping";
  info->compiler = "by hand";
  info->target_features = "";
  info->outputs = &output;
  info->n_outputs = 1;
  info->kernel_names = names;
  info->kernel_origins = origins;
  info->n_kernels = 2;
  info->default_threads = 2;
  info->arena_bytes = 8192;
  info->entry = program;
  info->functions = &fettle_rt_functions;
  info->kernel_work = work;
  info->step_names = steps;
  info->n_steps = 2;
  auto model = Model::make(info, options);
  EXPECT_TRUE(model) << model.error().to_string();
  return std::move(*model);
}

Timeline record(const Model& model, const TimelineOptions& options = {}) {
  auto timeline = record_timeline(model, {}, options);
  EXPECT_TRUE(timeline) << timeline.error().to_string();
  return timeline ? std::move(*timeline) : Timeline();
}

TEST(Timeline, HasAllThatRan) {
  const Model model = looping();
  iterations_run = 0;
  const Timeline timeline = record(model, {.runs = 2, .warm_up = 1, .threads = 2});
  EXPECT_EQ(iterations_run, 3 * 3 * (kIterations + 6));
  EXPECT_EQ(timeline.calls.size(), 2u);
  EXPECT_EQ(timeline.kernels.size(), 2u * 3 * 2);
  EXPECT_EQ(timeline.steps.size(), 2u * (2 + 3 * 3));
  EXPECT_EQ(timeline.regions.size(), 2u * 3 * 2) << "what a part shares is a part of it";
  EXPECT_EQ(timeline.memory.size(), 2u);
  EXPECT_GE(timeline.memory[0].bytes, 8192);
  ASSERT_EQ(timeline.parts.size(), 2u);
  // Each iteration of each region once.
  std::vector<std::vector<int>> seen;
  for (const Timeline::Region& region : timeline.regions) seen.emplace_back(static_cast<size_t>(region.iterations));
  for (const auto& parts : timeline.parts)
    for (const Timeline::Part& part : parts)
      for (int64_t i = part.first; i < part.first + part.count; ++i)
        ++seen[static_cast<size_t>(part.region)][static_cast<size_t>(i)];
  for (const std::vector<int>& region : seen)
    EXPECT_EQ(std::ranges::count(region, 1), std::ssize(region)) << "iterations run once";
}

TEST(Timeline, IsOfTheModelAsItWasOpened) {
  FettleHostCalls calls{};
  calls.struct_bytes = sizeof calls;
  calls.user = &calls;
  calls.call = [](void*, const FettleHostCall*) { return int32_t{FETTLE_OK}; };
  for (const rt::FloatMode mode : {rt::kFlushesDenormals, rt::kKeepsDenormals}) {
    FettleOptions options{};
    options.keep_denormals = mode == rt::kKeepsDenormals ? 1 : 0;
    options.host_calls = &calls;
    host_of_call = nullptr;
    record(looping(options), {.runs = 1, .warm_up = 0});
    EXPECT_EQ(mode_of_call, mode);
    EXPECT_EQ(host_of_call, &calls);
  }
}

TEST(Timeline, SlicesOfAThreadDoNotOverlap) {
  const Timeline timeline = record(looping(), {.runs = 5, .threads = 3});
  const auto threads = slices_of_threads(timeline);
  ASSERT_EQ(threads.size(), 3u);
  for (const std::vector<ThreadSlice>& slices : threads)
    for (size_t i = 0; i < slices.size(); ++i) {
      EXPECT_LE(slices[i].begin_ns, slices[i].end_ns);
      if (i > 0) {
        EXPECT_GE(slices[i].begin_ns, slices[i - 1].end_ns);
      }
    }
  // Of the thread that calls, they fill its kernels but for what sharing takes, and reach beyond none.
  for (const ThreadSlice& slice : threads[0])
    EXPECT_TRUE(std::ranges::any_of(timeline.kernels, [&](const Timeline::Kernel& kernel) {
      return kernel.kernel == slice.kernel && kernel.begin_ns <= slice.begin_ns && slice.end_ns <= kernel.end_ns;
    }));
}

TEST(Timeline, SaysWhatItLeavesOut) {
  const Timeline alone = record(looping(), {.runs = 2, .threads = 1, .most_parts = 1});
  EXPECT_EQ(alone.parts_left_out, std::ssize(alone.regions) - 1) << "one part a region";
  const Timeline shared = record(looping(), {.runs = 4, .threads = 2, .most_parts = 1});
  EXPECT_GT(shared.parts_left_out, 0);
  EXPECT_EQ(json::parse(to_trace_events(shared, looping().info())).at("otherData").at("parts_left_out"),
            shared.parts_left_out);
}

TEST(Timeline, TraceEventsNest) {
  const Model model = looping();
  const Timeline timeline = record(model, {.runs = 2, .threads = 2});
  const json all = json::parse(to_trace_events(timeline, model.info()));
  std::map<std::string, int> count;
  std::map<int, std::vector<std::pair<double, double>>> slices;  // of each track
  for (const json& event : all.at("traceEvents")) {
    const std::string phase = event.at("ph");
    ++count[phase == "X" ? event.at("cat").get<std::string>() : phase + event.at("name").get<std::string>()];
    if (phase != "X") continue;
    const double begin = event.at("ts"), duration = event.at("dur");
    slices[event.at("tid")].emplace_back(begin, begin + duration);
    if (event.at("cat") == "kernel" && event.at("name") == "shared") {
      EXPECT_EQ(event.at("args").at("nodes"), json({"Conv c1", "Relu r1"}));
      EXPECT_EQ(event.at("args").at("flops"), 8000);
      EXPECT_EQ(event.at("args").at("bytes"), 64);
    }
    if (event.at("cat") == "kernel" && event.at("name") == "nested") {
      EXPECT_FALSE(event.at("args").contains("flops"));
    }
    if (event.at("cat") == "loop") {
      EXPECT_EQ(event.at("args").at("iterations"), 3);
    }
  }
  EXPECT_EQ(count["run"], 2);
  EXPECT_EQ(count["loop"], 2);
  EXPECT_EQ(count["step"], 6);
  EXPECT_EQ(count["iteration"], 6);
  EXPECT_EQ(count["kernel"], 12);
  EXPECT_EQ(count["Ccontext"], 2);
  EXPECT_EQ(count["Carena in use"], 6 + 2);
  EXPECT_EQ(count["Mthread_name"], 3);
  constexpr double kRounding = 1e-6;
  for (auto& [track, list] : slices) {
    // Two slices of one track are apart, or one lies in the other.
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const auto &a = list[i], &b = list[j];
        const bool apart = a.second <= b.first + kRounding || b.second <= a.first + kRounding;
        const bool inside = (a.first + kRounding >= b.first && a.second <= b.second + kRounding) ||
                            (b.first + kRounding >= a.first && b.second <= a.second + kRounding);
        EXPECT_TRUE(apart || inside) << "track " << track;
        EXPECT_TRUE(apart || track == 0) << "track " << track;
      }
  }
}

TEST(Timeline, OfAModelOfAnOlderCompiler) {
  static FettleFunctions older = fettle_rt_functions;
  older.struct_bytes = offsetof(FettleFunctions, trace);
  older.trace = nullptr;
  FettleModelInfo info = looping().info();
  info.struct_bytes = offsetof(FettleModelInfo, kernel_work);
  info.functions = &older;
  auto model = Model::make(std::make_shared<FettleModelInfo>(info));
  ASSERT_TRUE(model) << model.error().to_string();
  const Timeline timeline = record(*model, {.runs = 1, .threads = 2});
  EXPECT_TRUE(timeline.steps.empty());
  EXPECT_EQ(timeline.kernels.size(), 6u);
  const json all = json::parse(to_trace_events(timeline, model->info()));
  EXPECT_TRUE(std::ranges::none_of(all.at("traceEvents"), [](const json& event) { return event.at("ph") == "C"; }));
}

}  // namespace
}  // namespace fettle
