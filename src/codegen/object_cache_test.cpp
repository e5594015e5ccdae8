#include "codegen/object_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "codegen/test_util.h"

namespace fettle {
namespace {

using testing::TempFolder;

std::filesystem::path only_file(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  EXPECT_EQ(files.size(), 1u);
  return files.empty() ? std::filesystem::path() : files.front();
}

TEST(ProgramIdentity, IsTheBuildId) {
  const std::string id = program_identity();
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(file)), {});
  std::string note("GNU", 4);
  for (size_t i = 0; i + 1 < id.size(); i += 2) note += static_cast<char>(std::stoi(id.substr(i, 2), nullptr, 16));
  EXPECT_GE(id.size(), 16u);
  EXPECT_NE(program.find(note), std::string::npos);
}

TEST(ObjectCache, OutlivesTheProcess) {
  TempFolder folder;
  {
    ObjectCache cache(folder.path);
    EXPECT_EQ(cache.find("key"), nullptr);
    cache.put("key", {1, 2, 3});
    EXPECT_EQ(*cache.find("key"), (std::vector<uint8_t>{1, 2, 3}));
  }
  ObjectCache cache(folder.path);
  ASSERT_NE(cache.find("key"), nullptr);
  EXPECT_EQ(*cache.find("key"), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(cache.find("other"), nullptr);
  EXPECT_EQ(cache.hits(), 2);
  EXPECT_EQ(cache.misses(), 1);
}

TEST(ObjectCache, WhatOthersMayWriteIsNotRead) {
  namespace fs = std::filesystem;
  TempFolder around;
  const fs::path folder = around.path / "objects";
  ObjectCache(folder).put("key", {1, 2, 3});
  const fs::path inner = only_file(folder).parent_path();
  for (const fs::path& part : {folder, inner}) {
    EXPECT_EQ(fs::status(part).permissions(), fs::perms::owner_all) << part;
    fs::permissions(part, fs::perms::group_write, fs::perm_options::add);
    ObjectCache cache(folder);
    EXPECT_EQ(cache.find("key"), nullptr) << part;
    fs::permissions(part, fs::perms::owner_all);
  }
  EXPECT_NE(ObjectCache(folder).find("key"), nullptr);
}

TEST(ObjectCache, ADamagedFileIsNoHit) {
  for (const bool cut : {true, false}) {
    TempFolder folder;
    ObjectCache(folder.path).put("key", std::vector<uint8_t>(1000, 7));
    const auto file = only_file(folder.path);
    if (cut) {
      std::filesystem::resize_file(file, 500);
    } else {
      std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
      stream.seekp(600);
      stream.put(8);
    }
    EXPECT_EQ(ObjectCache(folder.path).find("key"), nullptr);
  }
}

TEST(ObjectCache, DropsTheOldestBeyondItsSize) {
  TempFolder folder;
  {
    ObjectCache cache(folder.path);
    for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
      cache.put(key, std::vector<uint8_t>(10 << 20, 7));
      ::usleep(2000);
    }
  }
  ObjectCache(folder.path).put("h", {1});
  ObjectCache later(folder.path);
  EXPECT_EQ(later.find("a"), nullptr);
  EXPECT_NE(later.find("g"), nullptr);
  EXPECT_NE(later.find("h"), nullptr);
}

TEST(ObjectCache, AFolderThatCannotBeWrittenIsAsNone) {
  TempFolder folder;
  std::ofstream(folder.path / "file") << "x";
  ObjectCache cache(folder.path / "file");
  cache.put("key", {1});
  EXPECT_NE(cache.find("key"), nullptr);
}

}  // namespace
}  // namespace fettle
