#include "tests/digests/against.h"

#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fstream>
#include <set>
#include <sstream>
#include <vector>

extern char** environ;

namespace fettle::digests {
namespace {
namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Where two files part; empty where they are the same.
std::string first_difference_of_files(const fs::path& here, const fs::path& there, const std::string& unit) {
  const std::vector<std::string> a = lines_of(here), b = lines_of(there);
  const auto line = [](const std::vector<std::string>& lines, size_t i) {
    return i < lines.size() ? lines[i] : std::string("(nothing)");
  };
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
    if (line(a, i) != line(b, i))
      return fmt::format("{} {}\n    here:  {}\n    there: {}", unit, i + 1, line(a, i), line(b, i));
  return "";
}

Result<> run(const std::vector<std::string>& words) {
  std::vector<std::string> own = words;
  std::vector<char*> argv;
  for (std::string& word : own) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, own[0].c_str(), nullptr, nullptr, argv.data(), environ) == 0) waitpid(child, &status, 0);
  if (status != 0) return fail(ErrorCode::E708, "it failed", own[0]);
  return {};
}

/// A folder that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "fettle-digests-XXXXXX").string();
    if (mkdtemp(name.data())) path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

std::string first_difference(const fs::path& here, const fs::path& there) {
  std::set<std::string> points;
  std::error_code ignored;
  for (const fs::path& folder : {here, there})
    for (const auto& entry : fs::directory_iterator(folder, ignored)) points.insert(entry.path().stem());
  for (const std::string& point : points) {
    for (const auto& [extension, unit] : {std::pair{".steps", "step"},
                                          {".program", "the same steps; line of the program"},
                                          {".lowered", "the same program; line of the lowered code"}})
      if (const std::string found =
              first_difference_of_files(here / (point + extension), there / (point + extension), unit);
          !found.empty())
        return fmt::format("point {}, {}", std::stoi(point), found);
  }
  return "";
}

Result<std::string> show_against(const Row& row, const fs::path& other) {
  const TemporaryFolder folder;
  const fs::path here = folder.path() / "here", there = folder.path() / "there";
  const Selection selection{.models = row.of_model(), .space = row.space, .target = row.target, .task = row.subject};
  FETTLE_TRY_VOID(write_points(selection, here, 1));
  std::vector<std::string> words = {other.string(), "--write",  there.string(), "--space",  row.space,
                                    "--target",     row.target, "--task",       row.subject};
  if (row.of_model()) words.emplace_back("--all");
  FETTLE_TRY_VOID(run(words));
  const fs::path below = folder_of(row.space, row.target, row.subject);
  return first_difference(here / below, there / below);
}

}  // namespace fettle::digests
