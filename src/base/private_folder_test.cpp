#include "base/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/testing.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

TEST(PrivateFolder, IsMadeForOneUserWhateverTheMaskIs) {
  const testing::TempFolder around;
  const mode_t mask = ::umask(0002);
  const auto made = make_private_folder(around.path / "cache" / "models");
  ::umask(mask);
  ASSERT_TRUE(made) << made.error().to_string();
  for (const fs::path& folder : {around.path / "cache", around.path / "cache" / "models"})
    EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all) << folder;
  EXPECT_TRUE(make_private_folder(around.path / "cache" / "models")) << "it is there";
}

TEST(PrivateFolder, OthersMayNotWriteThere) {
  const testing::TempFolder around;
  ASSERT_TRUE(check_private_folder(around.path));
  fs::permissions(around.path, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(check_private_folder(around.path).error().code, ErrorCode::E702);
  fs::permissions(around.path, fs::perms::owner_all);
  std::ofstream(around.path / "file") << "x";
  EXPECT_FALSE(make_private_folder(around.path / "file"));
  fs::create_directory_symlink("/usr", around.path / "link");
  EXPECT_FALSE(check_private_folder(around.path / "link"));
}

}  // namespace
}  // namespace fettle
