// Every kind of hostile file is refused: with a code, soon, in little memory, and by no signal. The first variant of
// each by default; FETTLE_HOSTILE=all, as `make check-hostile` sets it, reads all of them.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "hostile/kinds.h"

namespace fettle::hostile {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kSeconds = 2;
constexpr rlim_t kBytes = rlim_t{1} << 30;

/// In a process of its own: what it said, and how it ended.
struct Ending {
  int status = 0;
  std::string said;
};

// Sanitizers reserve memory without end.
bool limits_memory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

[[noreturn]] void read_in_child(const Kind& kind, int variant, const fs::path& folder, int out) {
  const rlimit seconds{kSeconds, kSeconds + 1}, bytes{kBytes, kBytes};
  ::setrlimit(RLIMIT_CPU, &seconds);
  if (limits_memory()) ::setrlimit(RLIMIT_DATA, &bytes);
  ::alarm(5 * kSeconds);  // it waits without working; other work on the machine counts, too
  std::string said;
  int status = 1;
  try {
    const Result<> read = kind.read(variant, folder);
    said = read ? "it was taken" : read.error().to_string();
    if (!read && read.error().code != ErrorCode::kNone) status = 0;
  } catch (const std::exception& e) {
    said = e.what();
  }
  said = said.substr(0, 2000);
  if (::write(out, said.data(), said.size()) < 0) status = 2;
  ::_exit(status);
}

Ending read_apart(const Kind& kind, int variant) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("fettle_hostile_{}", ::getpid());
  fs::remove_all(folder);
  fs::create_directories(folder);
  int ends[2];
  if (::pipe(ends) != 0) return {-1, "no pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    read_in_child(kind, variant, folder, ends[1]);
  }
  ::close(ends[1]);
  Ending ending;
  char buffer[512];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) ending.said.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  ::waitpid(child, &ending.status, 0);
  fs::remove_all(folder);
  return ending;
}

void expect_refused(const std::vector<Kind>& kinds) {
  const char* chosen = std::getenv("FETTLE_HOSTILE");
  const bool all = chosen && std::string(chosen) == "all";
  for (const Kind& kind : kinds) {
    EXPECT_GE(kind.variants, 3) << kind.name;
    for (int variant = 0; variant < (all ? kind.variants : 1); ++variant) {
      const Ending ending = read_apart(kind, variant);
      const bool refused = WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == 0;
      EXPECT_TRUE(refused) << kind.name << ", variant " << variant << ": "
                           << (WIFSIGNALED(ending.status) ? fmt::format("signal {}", WTERMSIG(ending.status))
                                                          : ending.said);
      if (all && refused) fmt::print("{:50} {}  {}\n", kind.name, variant, ending.said.substr(0, 160));
    }
  }
}

TEST(Hostile, Models) { expect_refused(model_kinds()); }
TEST(Hostile, Nodes) { expect_refused(node_kinds()); }
TEST(Hostile, Sizes) { expect_refused(size_kinds()); }
TEST(Hostile, ExternalData) { expect_refused(external_kinds()); }
TEST(Hostile, Texts) { expect_refused(text_kinds()); }
TEST(Hostile, Records) { expect_refused(record_kinds()); }
TEST(Hostile, Arrays) { expect_refused(array_kinds()); }
TEST(Hostile, Commands) { expect_refused(command_kinds()); }

TEST(Hostile, HasAHundredKinds) {
  size_t n = 0;
  for (const auto& kinds : {model_kinds(), node_kinds(), size_kinds(), external_kinds(), text_kinds(), record_kinds(),
                            array_kinds(), command_kinds()})
    n += kinds.size();
  EXPECT_GE(n, 100u);
}

}  // namespace
}  // namespace fettle::hostile
