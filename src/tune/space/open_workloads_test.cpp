// The constructed defaults of programs whose sizes are known when they run: compiled once, run for many sizes, against
// the interpreter on the programs as they are written.
#include <gtest/gtest.h>

#include <cstring>

#include "analysis/verify.h"
#include "codegen/build.h"
#include "lower/lower.h"
#include "measure/guarded_buffer.h"
#include "measure/loaded_kernel.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"
#include "tune/space/open_list.h"
#include "tune/space/open_testing.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

using testing::agrees;
using testing::OpenWorkload;
using testing::print;
using testing::size;
using testing::Sizes;
using testing::values_of;
using testing::with_identities;
using Ints = std::vector<IntParam>;

// A kernel that is compiled once, on memory whose ends nobody may pass.
class Compiled {
 public:
  static Result<Compiled> make(const Func& scheduled, const Target& target, int threads, bool plain) {
    Compiled made;
    made.scheduled_ = scheduled;
    FETTLE_TRY(made.device_, device_of(target));
    BuildOptions options{.plain = plain};
    for (const IntParam& param : scheduled->int_params) options.ints.push(param.var.get(), param.max);
    ObjectCache cache;
    FETTLE_TRY(BuiltKernel built, build_kernel(scheduled, target, cache, options));
    FETTLE_TRY(made.loaded_, LoadedKernel::load(std::move(built)));
    FETTLE_TRY(made.stream_, made.device_->open_stream(threads));
    return made;
  }

  Result<> run(std::span<const BufferArg> args, std::span<const int64_t> ints) const {
    const BuiltKernel& built = loaded_.built;
    std::vector<std::shared_ptr<GuardedBuffer>> memory;
    std::vector<void*> buffers;
    for (size_t p = 0; p < built.info.params.size(); ++p) {
      const bool given = p < args.size();
      const int64_t bytes = given ? args[p].size_bytes : built.info.params[p].layout.physical_bytes();
      // As near to the end as alignment lets it be.
      FETTLE_TRY(auto block, GuardedBuffer::make(bytes, (4096 - bytes % 4096) / 64 * 64 % 4096, Sharing::kPrivate));
      if (given && bytes > 0) std::memcpy(block->data(), args[p].data, static_cast<size_t>(bytes));
      memory.push_back(block);
      buffers.push_back(block->data());
    }
    if (loaded_.prologue.function) {
      std::vector<void*> of_prologue;
      for (const int p : built.prologue_params) of_prologue.push_back(buffers[static_cast<size_t>(p)]);
      FETTLE_TRY_VOID(device_->launch(stream_, loaded_.prologue, of_prologue, ints));
    }
    FETTLE_TRY_VOID(device_->launch(stream_, loaded_.kernel, buffers, ints));
    for (size_t p = 0; p < args.size(); ++p)
      if (args[p].size_bytes > 0) std::memcpy(args[p].data, buffers[p], static_cast<size_t>(args[p].size_bytes));
    return {};
  }

 private:
  Func scheduled_;
  const DeviceDef* device_ = nullptr;
  LoadedKernel loaded_;
  DeviceStream stream_;
};

class OpenDefaults : public ::testing::TestWithParam<OpenWorkload> {};

// Both tiles of Winograd's, over the whole image and in strips: on one thread and on two.
TEST(OpenWinograd, AgreesWithTheInterpreter) {
  const OpenWorkload workload = {.name = "winograd",
                                 .sizes = {size("n", 0, 2), size("h", 1, 17), size("w", 1, 17)},
                                 .make =
                                     [](const Sizes& s, const Ints& ints) {
                                       return testing::open_conv({.n = s[0], .h = s[1], .w = s[2], .ic = 16, .oc = 18},
                                                                 ints);
                                     },
                                 .tolerance = 1e-4};
  const Func func = workload.open(), written = with_identities(func);
  const auto target = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  for (const char* outputs : {"2", "4"})
    for (const char* strip : {"0", "1"}) {
      const DecisionMap decisions = {{"winograd/O/outputs", outputs}, {"winograd/O/strip", strip}};
      const int threads = *strip == '1' ? 2 : 1;
      const auto s =
          rule_space().generate(func, target, threads, uint64_t{3}, std::make_shared<const DecisionMap>(decisions));
      ASSERT_OK(s);
      EXPECT_GT(error_bound_of(s->func()), 200);  // it is Winograd's
      const auto kernel = Compiled::make(s->func(), *target, threads, false);
      ASSERT_OK(kernel) << to_text(s->func());
      for (const std::vector<int64_t>& values : values_of(workload))
        ASSERT_TRUE(
            agrees(workload, written, s->func(), values, [&](auto args, auto ints) { return kernel->run(args, ints); }))
            << outputs << ", " << strip << ": " << print(values);
    }
}

TEST(OpenWinograd, IsTheDefaultWhereItPays) {
  const std::vector<IntParam> sizes = {size("h", 1, 256, 1, 56), size("w", 1, 256, 1, 56)};
  const Func func = testing::open_conv({.h = sizes[0].var, .w = sizes[1].var, .ic = 64, .oc = 64}, sizes);
  const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  const auto any = default_schedule(func, target, 1), exact = default_schedule(func, target, 1, nullptr, 0);
  ASSERT_OK(any);
  ASSERT_OK(exact);
  EXPECT_GT(error_bound_of(any->func()), 200);
  EXPECT_EQ(error_bound_of(exact->func()), 0);
}

TEST_P(OpenDefaults, AgreeWithTheInterpreter) {
  const OpenWorkload& workload = GetParam();
  const Func func = workload.open(), written = with_identities(func);
  for (const char* name : {"x86-64-avx512", "x86-64-avx2"}) {
    const auto parsed = parse_target(name);
    ASSERT_OK(parsed);
    const auto target = std::make_shared<const Target>(*parsed);
    const int threads = target->has_feature("avx512f") ? 1 : 2;
    const auto s = default_schedule(func, target, threads);
    ASSERT_OK(s);
    EXPECT_OK(verify(s->func(), *target));
    EXPECT_NE(to_text(s->func()).find("vectorized"), std::string::npos) << to_text(s->func());
    const bool one_pass = to_text(s->trace()).find("online_reduction") != std::string::npos;
    EXPECT_EQ(one_pass, workload.name.starts_with("attention")) << to_text(s->trace());
    const auto kernel = Compiled::make(s->func(), *target, threads, false);
    ASSERT_OK(kernel) << to_text(s->func());
    if (target->has_feature("avx512f") && !detect_host().has_feature("avx512f")) continue;  // it compiles
    for (const std::vector<int64_t>& values : values_of(workload)) {
      ASSERT_TRUE(
          agrees(workload, written, s->func(), values, [&](auto args, auto ints) { return kernel->run(args, ints); }))
          << name << ": " << print(values) << to_text(lower(s->func(), *target)->kernel);
    }
    if (threads == 1) continue;  // once is enough
    const auto plain = Compiled::make(s->func(), *target, threads, true);
    ASSERT_OK(plain);
    for (const std::vector<int64_t>& values : values_of(workload))
      ASSERT_TRUE(
          agrees(workload, written, s->func(), values, [&](auto args, auto ints) { return plain->run(args, ints); }))
          << "plain: " << print(values);
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, OpenDefaults, ::testing::ValuesIn(testing::open_workloads()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fettle
