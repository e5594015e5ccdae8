#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "base/testing.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_ / name; }
  std::string content(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) found.insert(entry.path().filename().string());
    return found;
  }
  mode_t mode(const std::string& name) const {
    struct stat info{};
    EXPECT_EQ(::stat(at(name).c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  static void expect_refused(const fs::path& path, const std::string& word) {
    const auto written = write_file(path, "x");
    ASSERT_FALSE(written) << path;
    EXPECT_EQ(written.error().code, ErrorCode::E702);
    EXPECT_NE(written.error().to_string().find(word), std::string::npos) << written.error().to_string();
  }

  const testing::TempFolder temporary_;
  const fs::path folder_ = temporary_.path;
};

TEST_F(OutputFiles, AppearWholeOrNotAtAll) {
  const std::string large(1 << 20, 'y');
  {
    auto file = OutputFile::create(at("a"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("x"));
    ASSERT_TRUE(file->write(large));
    ASSERT_TRUE(file->write("z"));
    EXPECT_FALSE(fs::exists(at("a")));
    ASSERT_TRUE(file->close());
    EXPECT_FALSE(fs::exists(at("a")));
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(content("a"), "x" + large + "z");
  {
    auto given_up = OutputFile::create(at("a"));
    ASSERT_TRUE(given_up && given_up->write("other"));
  }
  EXPECT_EQ(content("a"), "x" + large + "z");
  {
    auto given_up = OutputFile::create(at("b"));
    ASSERT_TRUE(given_up && given_up->write("other"));
    OutputFile moved = std::move(*given_up);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"a"}));
}

TEST_F(OutputFiles, SeveralOfOneNameAtOnce) {
  auto first = OutputFile::create(at("a")), second = OutputFile::create(at("a"));
  ASSERT_TRUE(first && second && first->write("1") && second->write("2"));
  ASSERT_TRUE(second->commit());
  EXPECT_EQ(content("a"), "2");
  ASSERT_TRUE(first->commit());
  EXPECT_EQ(content("a"), "1");
  EXPECT_EQ(names(), (std::set<std::string>{"a"}));
}

TEST_F(OutputFiles, TheLongestName) {
  const std::string name(255, 'n');
  ASSERT_TRUE(write_file(at(name), "x"));
  EXPECT_EQ(content(name), "x");
  expect_refused(at(name + "n"), "File name too long");
}

TEST_F(OutputFiles, ModesAreKept) {
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write_file(at("new"), "x"));
  auto program = OutputFile::create(at("program"), {.mode = 0777});
  ASSERT_TRUE(program && program->commit());
  ::umask(before);
  EXPECT_EQ(mode("new"), 0640u);
  EXPECT_EQ(mode("program"), 0750u);
  ASSERT_EQ(::chmod(at("new").c_str(), 0600), 0);
  ASSERT_TRUE(write_file(at("new"), "y"));
  EXPECT_EQ(mode("new"), 0600u);
  EXPECT_EQ(content("new"), "y");
}

TEST_F(OutputFiles, OfALinkTheTargetIsReplaced) {
  fs::create_directories(at("below"));
  std::ofstream(at("below/target")) << "old";
  fs::create_symlink("below/target", at("link"));
  fs::create_symlink(at("link"), at("link to it"));
  ASSERT_TRUE(write_file(at("link to it"), "new"));
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_TRUE(fs::is_symlink(at("link to it")));
  EXPECT_EQ(content("below/target"), "new");
  fs::create_symlink("below/made", at("to nothing"));
  ASSERT_TRUE(write_file(at("to nothing"), "made"));
  EXPECT_EQ(content("below/made"), "made");
  EXPECT_EQ(names(), (std::set<std::string>{"below", "link", "link to it", "made", "target", "to nothing"}));
  fs::create_symlink("b", at("a"));
  fs::create_symlink("a", at("b"));
  expect_refused(at("a"), "symbolic links");
  fs::create_symlink("below", at("folder"));
  expect_refused(at("folder"), "Is a directory");
}

TEST_F(OutputFiles, DevicesAndPipesAreWrittenToAsTheyAre) {
  ASSERT_TRUE(write_file("/dev/null", "x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  fs::create_symlink("/dev/null", at("link"));
  ASSERT_TRUE(write_file(at("link"), "x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_symlink(at("link")));

  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  expect_refused(at("pipe"), "nobody reads");
  const int reader = ::open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(write_file(at("pipe"), "through it"));
  char got[32] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 10);
  EXPECT_STREQ(got, "through it");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(at("pipe")));

  // As a shell hands over a pipe: by a link that leads to no path.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_TRUE(write_file("/proc/self/fd/" + std::to_string(ends[1]), "and so"));
  EXPECT_EQ(::read(ends[0], got, sizeof got), 6);
  ::close(ends[0]);
  ::close(ends[1]);

  for (const char* name : {"/dev/null", "pipe"}) {
    const auto refused = OutputFile::create(folder_ / name, {.regular_only = true});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::E702);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"link", "pipe"}));
}

TEST_F(OutputFiles, WhatCannotBeWritten) {
  expect_refused("", "empty");
  expect_refused(folder_, "Is a directory");
  expect_refused(at("no/such/folder/a"), "No such file or directory");
  expect_refused(at("missing/"), "directory");
  std::ofstream(at("file")) << "x";
  expect_refused(at("file/below"), "Not a directory");
  expect_refused("/sys/fettle-output", "");  // whoever runs this
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, at("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_refused(at("socket"), "it is a socket");
  ::close(socket);
  if (::geteuid() != 0) {
    fs::permissions(at("file"), fs::perms::owner_read);
    expect_refused(at("file"), "Permission denied");
  }
  EXPECT_EQ(content("file"), "x");
  EXPECT_EQ(names(), (std::set<std::string>{"file", "socket"}));
}

TEST_F(OutputFiles, ASignalLeavesNothing) {
  ASSERT_TRUE(write_file(at("a"), "old"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, [](int signal) {
      remove_temporary_files();
      ::_exit(signal);
    });
    auto file = OutputFile::create(at("a"));
    auto committed = OutputFile::create(at("b"));
    if (file && file->write(std::string(1 << 20, 'x')) && committed && committed->commit()) ::raise(SIGTERM);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), SIGTERM);
  EXPECT_EQ(content("a"), "old");
  EXPECT_EQ(names(), (std::set<std::string>{"a", "b"}));
}

TEST_F(OutputFiles, AFullDiskLeavesWhatWasThere) {
  expect_refused("/dev/full", "No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));

  ASSERT_TRUE(write_file(at("a"), "old"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto signal_before = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto at_once = write_file(at("a"), std::string(1 << 20, 'x'));   // written in part, then refused
  const auto when_closed = write_file(at("a"), std::string(1001, 'x'));  // held until then
  const auto fits = write_file(at("b"), std::string(1000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, signal_before);
  for (const auto& written : {at_once, when_closed}) {
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::E702);
    EXPECT_NE(written.error().message.find("File too large"), std::string::npos) << written.error().message;
  }
  EXPECT_TRUE(fits);
  EXPECT_EQ(content("a"), "old");
  EXPECT_EQ(names(), (std::set<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace fettle
