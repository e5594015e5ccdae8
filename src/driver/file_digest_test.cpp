#include "driver/file_digest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <vector>

#include "base/large_digest.h"
#include "base/testing.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

TEST(DigestLarge, TellsAnyByteAndLengthApart) {
  std::set<Digest> seen;
  std::vector<std::byte> bytes(200);
  for (size_t size = 0; size <= bytes.size(); ++size)
    EXPECT_TRUE(seen.insert(digest_large(std::span(bytes).first(size))).second) << size;
  for (size_t i = 0; i < bytes.size(); ++i)
    for (const int value : {1, 128}) {
      bytes[i] = static_cast<std::byte>(value);
      EXPECT_TRUE(seen.insert(digest_large(bytes)).second) << i;
      bytes[i] = {};
    }
  EXPECT_EQ(digest_large(bytes), digest_large(std::vector<std::byte>(200)));
}

class Digests : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "notes"); }

  fs::path write(const std::string& text) {
    std::ofstream(folder_ / "file") << text;
    return folder_ / "file";
  }
  /// As if it had been so for long: its times are in a note only then.
  static void age(const fs::path& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  FileDigests::Known digest(const fs::path& path) {
    const auto known = FileDigests(folder_ / "notes").of_file(path, [&](std::span<const std::byte>) {
      ++read_;
      return Result<std::vector<std::string>>(std::vector<std::string>{"a", "b c"});
    });
    EXPECT_TRUE(known) << known.error().to_string();
    return known ? *known : FileDigests::Known{};
  }

  fettle::testing::TempFolder temporary_;
  fs::path folder_ = temporary_.path;
  int read_ = 0;
};

TEST_F(Digests, AreNotRememberedOfWhatChangedJustNow) {
  const fs::path file = write("first");
  const auto first = digest(file);
  age(file);  // its inode changed now, whatever the file says
  digest(file);
  EXPECT_EQ(read_, 2);
  EXPECT_TRUE(fs::is_empty(folder_ / "notes"));
  write("other");
  EXPECT_NE(digest(file).digest, first.digest);
  EXPECT_EQ(first.parts, (std::vector<std::string>{"a", "b c"}));
}

TEST_F(Digests, OfNoFile) {
  for (const fs::path& path : {folder_ / "none", folder_}) {
    const auto known = FileDigests(folder_ / "notes").of_file(path);
    ASSERT_FALSE(known) << path;
    EXPECT_EQ(known.error().code, ErrorCode::E601);
  }
}

}  // namespace
}  // namespace fettle
