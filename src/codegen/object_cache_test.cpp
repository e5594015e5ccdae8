#include "codegen/object_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <thread>

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

/// What `cache` has under `key`, or null.
ObjectBytes found(ObjectCache& cache, const std::string& key) {
  const auto object = cache.get(key, [] { return fail(ErrorCode::E302, "there is none"); });
  return object ? *object : nullptr;
}

void put(ObjectCache& cache, const std::string& key, const std::vector<uint8_t>& bytes) {
  EXPECT_TRUE(cache.get(key, [&] { return Result<std::vector<uint8_t>>(bytes); }));
}

ObjectBytes found(const std::filesystem::path& folder, const std::string& key) {
  ObjectCache cache(folder);
  return found(cache, key);
}

void put(const std::filesystem::path& folder, const std::string& key, const std::vector<uint8_t>& bytes) {
  ObjectCache cache(folder);
  put(cache, key, bytes);
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
    EXPECT_EQ(found(cache, "key"), nullptr);
    put(cache, "key", {1, 2, 3});
    EXPECT_EQ(*found(cache, "key"), (std::vector<uint8_t>{1, 2, 3}));
  }
  ObjectCache cache(folder.path);
  ASSERT_NE(found(cache, "key"), nullptr);
  EXPECT_EQ(*found(cache, "key"), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(found(cache, "other"), nullptr);
  EXPECT_EQ(cache.hits(), 2);
  EXPECT_EQ(cache.misses(), 1);
}

TEST(ObjectCache, WhatOthersMayWriteIsNotRead) {
  namespace fs = std::filesystem;
  TempFolder around;
  const fs::path folder = around.path / "objects";
  put(folder, "key", {1, 2, 3});
  const fs::path inner = only_file(folder).parent_path();
  for (const fs::path& part : {folder, inner}) {
    EXPECT_EQ(fs::status(part).permissions(), fs::perms::owner_all) << part;
    fs::permissions(part, fs::perms::group_write, fs::perm_options::add);
    EXPECT_EQ(found(folder, "key"), nullptr) << part;
    fs::permissions(part, fs::perms::owner_all);
  }
  EXPECT_NE(found(folder, "key"), nullptr);
}

TEST(ObjectCache, ADamagedFileIsNoHit) {
  for (const bool cut : {true, false}) {
    TempFolder folder;
    put(folder.path, "key", std::vector<uint8_t>(1000, 7));
    const auto file = only_file(folder.path);
    if (cut) {
      std::filesystem::resize_file(file, 500);
    } else {
      std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
      stream.seekp(600);
      stream.put(8);
    }
    EXPECT_EQ(found(folder.path, "key"), nullptr);
  }
}

TEST(ObjectCache, DropsTheOldestBeyondItsSize) {
  TempFolder folder;
  {
    ObjectCache cache(folder.path);
    for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
      put(cache, key, std::vector<uint8_t>(10 << 20, 7));
      ::usleep(2000);
    }
  }
  put(folder.path, "h", {1});
  ObjectCache later(folder.path);
  EXPECT_EQ(found(later, "a"), nullptr);
  EXPECT_NE(found(later, "g"), nullptr);
  EXPECT_NE(found(later, "h"), nullptr);
}

TEST(ObjectCache, AFolderThatCannotBeWrittenIsAsNone) {
  TempFolder folder;
  std::ofstream(folder.path / "file") << "x";
  ObjectCache cache(folder.path / "file");
  put(cache, "key", {1});
  EXPECT_NE(found(cache, "key"), nullptr);
}

TEST(ObjectCache, WhatThreadsAskForAtOnceIsMadeOnce) {
  ObjectCache cache;
  std::promise<void> begun, go_on;
  std::thread maker([&] {
    const auto made = cache.get("key", [&] {
      begun.set_value();
      go_on.get_future().wait();
      return Result<std::vector<uint8_t>>({1, 2, 3});
    });
    EXPECT_TRUE(made && (*made)->size() == 3);
  });
  begun.get_future().wait();
  const auto never = [] { return fail(ErrorCode::E302, "it was asked for a second time"); };
  const auto skipped = cache.get("key", never, ObjectCache::IfBusy::kSkip);
  ASSERT_TRUE(skipped);
  EXPECT_EQ(*skipped, nullptr);
  std::thread other([&] {
    const auto waited_for = cache.get("key", never);
    EXPECT_TRUE(waited_for && *waited_for && (*waited_for)->size() == 3);
  });
  go_on.set_value();
  maker.join();
  other.join();
  EXPECT_EQ(cache.misses(), 1);
}

TEST(ObjectCache, WhatCouldNotBeMadeIsMadeByTheNextWhoAsks) {
  ObjectCache cache;
  EXPECT_EQ(found(cache, "key"), nullptr);
  put(cache, "key", {1});
  EXPECT_NE(found(cache, "key"), nullptr);
}

}  // namespace
}  // namespace fettle
