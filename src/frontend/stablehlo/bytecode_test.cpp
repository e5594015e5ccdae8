#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "frontend/stablehlo/read.h"

namespace fettle::stablehlo {
namespace {

namespace fs = std::filesystem;

fs::path fixtures() { return fs::path(FETTLE_SOURCE_DIR) / "src/frontend/stablehlo/fixtures"; }

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Result<Module> read_bytes(const std::string& bytes, const Limits& limits = {}) {
  return read_module(std::as_bytes(std::span(bytes)), "file", limits);
}

std::string text_of(const fs::path& path) {
  const auto module = read_bytes(content(path));
  EXPECT_TRUE(module) << path << (module ? "" : module.error().to_string());
  return module ? to_text(*module) : "";
}

std::set<std::string> names() {
  std::set<std::string> result;
  for (const auto& entry : fs::directory_iterator(fixtures()))
    if (entry.path().string().ends_with(".generic.mlir"))
      result.insert(entry.path().filename().string().substr(0, entry.path().filename().string().find('.')));
  return result;
}

// Judged by jaxlib, which printed the text and wrote the bytecode: fixtures/make.py.
TEST(StableHloFixtures, PrettyTextIsTheGenericText) {
  EXPECT_GE(names().size(), 5u);
  for (const std::string& name : names()) {
    const std::string generic = text_of(fixtures() / (name + ".generic.mlir"));
    EXPECT_EQ(text_of(fixtures() / (name + ".mlir")), generic) << name;
    EXPECT_NE(generic.find("stablehlo."), std::string::npos);
  }
}

TEST(StableHloFixtures, BytecodeOfEveryVersionIsTheText) {
  int n_files = 0;
  for (const auto& entry : fs::directory_iterator(fixtures())) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(".mlirbc")) continue;
    ++n_files;
    const size_t dot = file.find('.');
    EXPECT_EQ(text_of(entry.path()), text_of(fixtures() / (file.substr(0, dot) + ".generic.mlir"))) << file;
    const auto module = read_bytes(content(entry.path()));
    ASSERT_TRUE(module);
    EXPECT_EQ(module->version, file.substr(dot + 1, file.size() - dot - 1 - std::strlen(".mlirbc")));
  }
  EXPECT_GE(n_files, 25);
}

TEST(StableHloBytecode, EndsAnywhereWithoutHarm) {
  for (const char* file : {"control.1.13.0.mlirbc", "numbers.0.9.0.mlirbc"}) {
    const std::string bytes = content(fixtures() / file);
    ASSERT_GT(bytes.size(), 1000u);
    for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(read_bytes(bytes.substr(0, size))) << size;
  }
}

TEST(StableHloBytecode, OtherBytesAreRefusedOrRead) {
  const std::string bytes = content(fixtures() / "contraction.1.13.0.mlirbc");
  int n_refused = 0;
  for (size_t at = 4; at < bytes.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const auto module = read_bytes(changed);
      n_refused += !module;
      EXPECT_TRUE(!module || !to_text(*module).empty());
    }
  }
  EXPECT_GT(n_refused, 1000);
}

TEST(StableHloBytecode, ErrorsNameOperatorAndVersions) {
  std::string bytes = content(fixtures() / "contraction.1.13.0.mlirbc");
  const size_t at = bytes.find("dot_general_v2");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 14, "dot_general_v9");
  const auto unknown = read_bytes(bytes);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::E602);
  for (const char* part : {"vhlo.dot_general_v9", "StableHLO 1.13.0", "up to 1.20.0"})
    EXPECT_NE(unknown.error().message.find(part), std::string::npos) << unknown.error().message;
  bytes[4] = 0x0f;  // bytecode of version 7
  const auto newer = read_bytes(bytes);
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message.find("version 7"), std::string::npos);
}

TEST(StableHloBytecode, OtherVersionsAreRefused) {
  const std::string given = content(fixtures() / "contraction.1.13.0.mlirbc");
  const auto error_with = [&](std::string version) {
    std::string bytes = given;
    const size_t at = bytes.find("StableHLO_v1.13.0");
    EXPECT_NE(at, std::string::npos);
    bytes.replace(at, 17, "StableHLO_v" + version);
    const auto module = read_bytes(bytes);
    return module ? std::string() : module.error().to_string();
  };
  for (const char* known : {"1.20.0", "1.20.9", "0.9.00"}) EXPECT_EQ(error_with(known), "") << known;
  for (const char* other : {"1.21.0", "2.00.0", "0.8.99", "1.13.x", "1.1300"}) {
    EXPECT_THAT(error_with(other), testing::HasSubstr(std::string("StableHLO ") + other));
    EXPECT_THAT(error_with(other), testing::HasSubstr("0.9.0 to 1.20.0 are read")) << other;
  }
}

TEST(StableHloBytecode, LimitsHold) {
  Limits limits;
  limits.nodes = 3;
  const auto refused = read_bytes(content(fixtures() / "contraction.1.13.0.mlirbc"), limits);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E608);
  limits = {};
  limits.nesting = 0;
  EXPECT_EQ(read_bytes(content(fixtures() / "control.1.13.0.mlirbc"), limits).error().code, ErrorCode::E608);
}

}  // namespace
}  // namespace fettle::stablehlo
