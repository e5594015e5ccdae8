#include "rt/targets.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "rt/float_mode.h"
#include "rt/testing.h"

namespace fettle::rt {
namespace {

/// FETTLE_TARGET until the end of the scope.
class Wish {
 public:
  explicit Wish(const char* value) { ::setenv("FETTLE_TARGET", value, 1); }
  Wish(const Wish&) = delete;
  Wish& operator=(const Wish&) = delete;
  ~Wish() { ::unsetenv("FETTLE_TARGET"); }
};

/// "best" needs what no machine has, "good" and "plain" what every one has.
struct Three {
  FettleModelInfo infos[3];
  const FettleModelInfo* list[3];

  Three() {
    const char* const names[] = {"best", "good", "plain"};
    for (int i = 0; i < 3; ++i) {
      infos[i] = describe("m", nullptr, 0, nullptr, 0, nullptr);
      infos[i].target = names[i];
      infos[i].target_cpu = "cpu";
      infos[i].target_features = i == 0 ? "sse2,avx9000" : i == 1 ? "sse2,sse3" : "";
      infos[i].targets = list;
      infos[i].n_targets = 3;
      list[i] = &infos[i];
    }
  }
  const FettleModelInfo* pick(const char* wanted = nullptr) {
    why.assign(200, '?');
    const FettleModelInfo* picked = fettle_pick_target(&infos[0], wanted, why.data(), 200);
    why.resize(why.find('\0') == std::string::npos ? why.size() : why.find('\0'));
    return picked;
  }
  std::string why;
};

TEST(PickTarget, TheFirstThatRuns) {
  Three model;
  EXPECT_EQ(model.pick(), &model.infos[1]);
  EXPECT_EQ(model.pick(""), &model.infos[1]);
  EXPECT_EQ(model.pick("plain"), &model.infos[2]);
  model.infos[1].target_features = "avx9001";
  EXPECT_EQ(model.pick(), &model.infos[2]);
  model.infos[2].target_features = "sse2,avx9002";
  EXPECT_EQ(model.pick(), nullptr);
  EXPECT_EQ(model.why,
            "this machine lacks avx9000, which best needs; avx9001, which good needs; avx9002, which plain needs");
}

TEST(PickTarget, WhatCannotBeTakenIsNamed) {
  Three model;
  EXPECT_EQ(model.pick("best"), nullptr);
  EXPECT_EQ(model.why, "this machine lacks avx9000, which best needs");
  EXPECT_EQ(model.pick("other"), nullptr);
  EXPECT_EQ(model.why, "the model has no target 'other'; it has best, good, plain");
  char cut[8];
  EXPECT_EQ(fettle_pick_target(&model.infos[0], "best", cut, sizeof cut), nullptr);
  EXPECT_STREQ(cut, "this ma");
  EXPECT_EQ(fettle_pick_target(&model.infos[0], "best", nullptr, 0), nullptr);
}

TEST(PickTarget, TheEnvironmentAsks) {
  Three model;
  {
    const Wish wish("plain");
    EXPECT_EQ(model.pick(), &model.infos[2]);
    EXPECT_EQ(model.pick("good"), &model.infos[1]) << "who calls decides";
  }
  {
    const Wish wish("");
    EXPECT_EQ(model.pick(), &model.infos[1]);
  }
  for (const std::string& hostile :
       {std::string("plain,good"), std::string("PLAIN"), std::string("%s%n"), std::string(100'000, 'x')}) {
    const Wish wish(hostile.c_str());
    EXPECT_EQ(model.pick(), nullptr);
    EXPECT_TRUE(model.why.starts_with(("the model has no target '" + hostile).substr(0, 150))) << model.why;
  }
  const Wish wish("other");
  EXPECT_EQ(model.pick(), nullptr);
  EXPECT_EQ(model.why, "the model has no target 'other', which FETTLE_TARGET asks for; it has best, good, plain");
}

TEST(PickTarget, AModelOfOneTarget) {
  FettleModelInfo info = describe("m", nullptr, 0, nullptr, 0, nullptr);
  info.target_cpu = "x86-64-v3";
  char why[100];
  const Wish wish("plain");  // which is meant for others
  EXPECT_EQ(fettle_pick_target(&info, nullptr, why, sizeof why), &info);
  EXPECT_EQ(fettle_pick_target(&info, "x86-64-v3", why, sizeof why), &info);
  EXPECT_EQ(fettle_pick_target(&info, "x86-64-v4", why, sizeof why), nullptr);
  EXPECT_STREQ(why, "the model has no target 'x86-64-v4'; it has x86-64-v3");
  info.target_features = "avx9000";
  EXPECT_EQ(fettle_pick_target(&info, nullptr, why, sizeof why), nullptr);
  EXPECT_STREQ(why, "this machine lacks avx9000, which x86-64-v3 needs");
  // What is behind a shorter description is not read.
  Three model;
  model.infos[1].struct_bytes = offsetof(FettleModelInfo, targets);
  EXPECT_EQ(fettle_pick_target(&model.infos[1], nullptr, why, sizeof why), &model.infos[1]);
  EXPECT_EQ(fettle_count_targets(&model.infos[1]), 0);
  EXPECT_STREQ(fettle_target_name(&model.infos[1]), "cpu");
}

// --- constants that are packed when a model is opened

const int64_t kFour[] = {4};
const float kRaw[] = {1, 2, 3, 4};

/// to[i] = 10 from[i]
int32_t times_ten(FettleContext* context, void** buffers, const int64_t*) {
  for (int i = 0; i < 4; ++i) {
    const float value = static_cast<const float*>(buffers[0])[i];
    if (static_cast<float*>(buffers[1])[i] != 0) return FETTLE_KERNEL_FAILED;  // it begins zeroed
    static_cast<float*>(buffers[1])[i] = 10 * value;
  }
  return context->team == nullptr ? FETTLE_OK : FETTLE_KERNEL_FAILED;
}

int32_t half_of_the_least(FettleContext*, void** buffers, const int64_t*) {
  volatile float least = 1.17549435e-38F;
  static_cast<float*>(buffers[0])[0] = least * 0.5F;
  return FETTLE_OK;
}

int32_t fails(FettleContext*, void**, const int64_t*) { return FETTLE_KERNEL_FAILED; }

/// y = x + packed; fails where the tiny one was lost
int32_t add_packed(FettleContext*, void** buffers, const int64_t*) {
  const auto* x = static_cast<const float*>(buffers[0]);
  const auto* packed = static_cast<const float*>(buffers[4]);
  for (int i = 0; i < 4; ++i) static_cast<float*>(buffers[1])[i] = x[i] + packed[i];
  uint32_t bits;
  __builtin_memcpy(&bits, buffers[5], 4);
  if (bits == 0 || reinterpret_cast<uintptr_t>(buffers[5]) % 64 != 0) return FETTLE_KERNEL_FAILED;
  return FETTLE_OK;
}

struct PackedLate {
  FettleTensor x = tensor("x", FETTLE_F32, kFour, 1), y = tensor("y", FETTLE_F32, kFour, 1);
  FettleTensor constants[3] = {tensor("raw", FETTLE_F32, kFour, 1, kRaw), tensor("packed", FETTLE_F32, kFour, 1),
                               tensor("tiny", FETTLE_F32, kFour, 1)};
  int32_t first[2] = {0, 1}, second[1] = {2};
  FettlePacking packings[2] = {{times_ten, first, 2}, {half_of_the_least, second, 1}};
  FettleModelInfo info = describe("late", &x, 1, &y, 1, add_packed);

  PackedLate() {
    info.constants = constants;
    info.n_constants = 3;
    info.packings = packings;
    info.n_packings = 2;
    info.arena_bytes = 64;
  }
};

TEST(PackConstants, WhenAModelIsOpened) {
  PackedLate late;
  for (const int threads : {1, 3}) {
    const FloatMode before = read_float_mode();
    write_float_mode(kFlushesDenormals);  // a caller's way to compute loses no weights, and stays
    {
      const Running running(late.info, threads);
      EXPECT_EQ(read_float_mode() & ~kHappened, kFlushesDenormals);
      FettleTensor x = late.x, y = late.y;
      float given[] = {1, 1, 1, 1};
      x.data = given;
      y = {};
      y.struct_bytes = sizeof y;
      EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
      EXPECT_EQ(floats(y), (std::vector<float>{11, 21, 31, 41}));
    }
    write_float_mode(before);
  }
}

TEST(PackConstants, AFailureRefusesTheModel) {
  PackedLate late;
  late.packings[1].run = fails;
  const FettleOptions options = make_options(1);
  EXPECT_EQ(fettle_rt_open(&late.info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_STREQ(fettle_rt_error(nullptr), "cannot open 'late': packing its constants failed with -5");
  const int64_t huge[] = {int64_t{1} << 50};
  late.packings[1].run = half_of_the_least;
  late.constants[2].shape = huge;
  EXPECT_EQ(fettle_rt_open(&late.info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("memory ran out: its packed constants take "),
            std::string::npos);
}

}  // namespace
}  // namespace fettle::rt
