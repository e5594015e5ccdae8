#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "rt/cpu.h"
#include "target/cpu.h"
#include "target/target_def.h"

namespace fettle {
namespace {

TEST(Target, ParsesNamesAndRefusesOthers) {
  const auto avx512 = parse_target("x86-64-avx512");
  ASSERT_TRUE(avx512);
  EXPECT_EQ(avx512->vector_lanes(4), 16);
  EXPECT_EQ(avx512->vector_registers, 32);
  EXPECT_TRUE(avx512->has_feature("avx512bw"));
  EXPECT_FALSE(avx512->has_feature("avx512"));  // no prefix of a name is a name
  EXPECT_FALSE(avx512->has_feature("avx512vnni"));
  const auto avx2 = parse_target("x86-64-avx2");
  ASSERT_TRUE(avx2);
  EXPECT_EQ(avx2->vector_lanes(4), 8);
  EXPECT_EQ(avx2->vector_lanes(1), 32);
  const auto wrong = parse_target("x86-64-avx1024");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::E709);
}

TEST(Target, EveryMachineIsFoundAndNamedToWhoAsksForAnother) {
  const auto wrong = parse_target("abacus");
  ASSERT_FALSE(wrong);
  for (const TargetDef* def : target_defs()) {
    EXPECT_TRUE(parse_target(def->name)) << def->name;
    EXPECT_NE(wrong.error().message.find(def->name), std::string::npos) << def->name;
    if (def->also.empty()) continue;
    ASSERT_TRUE(parse_target(def->also)) << def->also;
    EXPECT_EQ(parse_target(def->also)->fingerprint(), parse_target(def->name)->fingerprint());
  }
}

TEST(Target, HostIsConsistent) {
  const Target host = detect_host();
  // What is claimed is there, by the check that artefacts make when they are loaded.
  char missing[32] = "";
  EXPECT_EQ(fettle_cpu_check(host.features.c_str(), missing, sizeof missing), 0) << missing;
  EXPECT_EQ(host.threads, available_threads());
  EXPECT_EQ(detect_host(1).threads, 1);
  ASSERT_FALSE(host.caches.empty());
  for (size_t i = 1; i < host.caches.size(); ++i) EXPECT_GT(host.caches[i].size_bytes, host.caches[i - 1].size_bytes);
  EXPECT_GE(host.caches[0].size_bytes, 8 << 10);
  EXPECT_GT(host.frequency_ghz, 0.1);
  EXPECT_EQ(host.fingerprint(), parse_target("host")->fingerprint());
}

TEST(Target, ScopesOfACpu) {
  const Target target = *parse_target("x86-64-avx512");
  ASSERT_NE(target.find_scope("global"), nullptr);
  const MemoryScope* registers = target.find_scope("register");
  ASSERT_NE(registers, nullptr);
  EXPECT_EQ(registers->capacity_bytes, 32 * 64);
  EXPECT_EQ(registers->parent, "global");
  EXPECT_EQ(target.find_scope("tile"), nullptr);
  const Target amx = *parse_target("x86-64-amx");
  ASSERT_NE(amx.find_scope("tile"), nullptr);
  EXPECT_EQ(amx.find_scope("tile")->capacity_bytes, 8 * 1024);
  EXPECT_EQ(target.find_scope("shared"), nullptr);
}

TEST(Target, GpusDeclareThreadsAndScopes) {
  const auto opencl = parse_target("opencl"), cuda = parse_target("cuda"), sm90 = parse_target("cuda -arch sm_90");
  ASSERT_TRUE(opencl);
  ASSERT_TRUE(cuda);
  ASSERT_TRUE(sm90);
  EXPECT_EQ(opencl->find_scope("shared")->capacity_bytes, 32 << 10);
  EXPECT_EQ(opencl->find_scope("shared")->shared_by, "block");
  EXPECT_EQ(opencl->find_scope("local")->shared_by, "thread");
  EXPECT_EQ(opencl->find_scope("register")->parent, "local");
  EXPECT_EQ(opencl->find_thread_axis("threadIdx.z")->max_extent, 64);
  EXPECT_EQ(opencl->find_thread_axis("vthread"), nullptr);
  EXPECT_EQ(cuda->cpu, "sm_80");
  EXPECT_EQ(parse_target("cuda -arch=sm_80")->feature_key(), cuda->feature_key());
  EXPECT_NE(sm90->feature_key(), cuda->feature_key());
  EXPECT_GT(sm90->find_scope("shared")->capacity_bytes, cuda->find_scope("shared")->capacity_bytes);
  for (const char* wrong : {"cuda -arch sm_1", "cuda sm_80", "cuda -arch", "cuda -archsm_80", "opencl x", "cuda "}) {
    const auto refused = parse_target(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::E709);
  }
  EXPECT_EQ(describe(*cuda), "cuda sm_80, 1024 threads a block, 163 KiB of shared memory");
}

TEST(Target, KeysTellCodeFromTimings) {
  const Target a = *parse_target("x86-64-avx512");
  Target b = a;
  b.caches[1].size_bytes *= 2;
  EXPECT_EQ(a.feature_key(), b.feature_key());  // the same code
  EXPECT_NE(a.fingerprint(), b.fingerprint());  // other timings
  b = a;
  b.threads = 7;
  b.frequency_ghz = 1;
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  b.features += ",+avx512vnni";
  EXPECT_NE(a.feature_key(), b.feature_key());
  EXPECT_NE(a.feature_key(), parse_target("x86-64-avx2")->feature_key());
}

TEST(Target, DescribesItselfInOneLine) {
  Target target = *parse_target("x86-64-avx512");
  target.threads = 2;
  EXPECT_EQ(describe(target), "x86-64 AVX-512, 32 registers, L1 32 KiB, L2 1 MiB, L3 32 MiB, 2 threads");
}

TEST(Cpu, ReadsSizesAndLists) {
  EXPECT_EQ(parse_cache_size("48K"), 48 << 10);
  EXPECT_EQ(parse_cache_size("32M"), 32 << 20);
  EXPECT_EQ(parse_cache_size("512"), 512);
  EXPECT_EQ(parse_cache_size(""), 0);
  EXPECT_EQ(parse_cache_size("12X"), 0);
  EXPECT_EQ(count_cpu_list("0-3,8,10-11"), 7);
  EXPECT_EQ(count_cpu_list("5"), 1);
  EXPECT_EQ(count_cpu_list(""), 0);
  EXPECT_EQ(count_cpu_list("x"), 0);
}

TEST(Cpu, ReadsCachesFromAFolder) {
  char folder[] = "/tmp/fettle_caches_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::filesystem::path root(folder);
  const auto add = [&](int index, std::vector<std::pair<const char*, const char*>> files) {
    const auto one = root / ("index" + std::to_string(index));
    std::filesystem::create_directory(one);
    for (const auto& [name, text] : files) std::ofstream(one / name) << text << '\n';
  };
  add(0, {{"level", "1"}, {"type", "Instruction"}, {"size", "64K"}});
  add(1, {{"level", "2"},
          {"type", "Unified"},
          {"size", "2048K"},
          {"ways_of_associativity", "16"},
          {"shared_cpu_list", "0-1"}});
  add(2, {{"level", "1"}, {"type", "Data"}, {"size", "48K"}, {"coherency_line_size", "128"}, {"shared_cpu_list", "0"}});
  const auto caches = read_caches(root, 1);
  std::filesystem::remove_all(root);
  ASSERT_EQ(caches.size(), 2u);
  EXPECT_EQ(caches[0].size_bytes, 48 << 10);
  EXPECT_EQ(caches[0].line_bytes, 128);
  EXPECT_EQ(caches[1].size_bytes, 2 << 20);
  EXPECT_EQ(caches[1].ways, 16);
  EXPECT_EQ(caches[1].shared_by_threads, 1);  // two share it, but this process may use one
  EXPECT_TRUE(read_caches("/nonexistent", 1).empty());
}

}  // namespace
}  // namespace fettle
