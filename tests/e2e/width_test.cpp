// What the command prints fits into 80 columns, and has no colours.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "support/support.h"

namespace fettle::testing_support {
namespace {

constexpr size_t kColumns = 80;

class Width : public Misuse {
 protected:
  void expect_fits(const std::vector<std::string>& args) {
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, 0) << args[0] << ": " << outcome.err;
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << args[0];
    EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos) << args[0];
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
      EXPECT_LE(columns, kColumns) << args[0] << ": " << line;
    }
  }
};

/// The subcommands: the words that begin the lines below "Subcommands:" in the help.
std::vector<std::string> commands() {
  std::istringstream help(fettle({"--help"}).out);
  std::vector<std::string> found;
  bool listed = false;
  for (std::string line; std::getline(help, line);) {
    if (line.empty()) listed = false;
    if (listed && line.starts_with("  ") && line.size() > 2 && line[2] != ' ')
      found.push_back(line.substr(2, line.find(' ', 2) - 2));
    if (line == "Subcommands:") listed = true;
  }
  EXPECT_GE(found.size(), 19u);
  return found;
}

TEST_F(Width, OfEveryHelp) {
  expect_fits({"--help"});
  for (const std::string& command : commands()) expect_fits({command, "--help"});
  for (const char* command : {"ls", "show", "check", "export", "import"}) expect_fits({"db", command, "--help"});
  for (const char* command : {"path", "ls", "clear"}) expect_fits({"cache", command, "--help"});
}

TEST_F(Width, OfResults) {
  ::setenv("NO_COLOR", "1", 1);
  write_model("model.onnx");
  write_array("x.npy", {2, 3});
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path("."));
  expect_fits({"explain"});
  for (const char* code : {"E201", "E401", "E604"}) expect_fits({"explain", code});
  expect_fits({"explain", "model.onnx", "--why", "y"});
  expect_fits({"trace", "model.onnx", "-o", "trace.json", "--runs", "2"});
  expect_fits({"check", "model.onnx"});
  expect_fits({"bench", "model.onnx", "--time", "0.02", "--profile"});
  expect_fits({"inspect", "model.onnx"});
  expect_fits({"inspect", "model.onnx", "--tasks"});
  expect_fits({"inspect", "model.onnx", "--candidates"});
  expect_fits({"run", "model.onnx", "--input", "x=x.npy", "--verify"});
  expect_fits({"quantize", "model.onnx", "-o", "bytes_of_the_model.onnx", "--calibrate", "x.npy", "--table"});
  expect_fits({"convert", "model.onnx", "-o", "model.fettle"});
  expect_fits({"tune", "model.onnx", "--trials", "2", "--db", "records_of_the_model.db"});
  for (const char* command : {"ls", "check"}) expect_fits({"db", command, "records_of_the_model.db"});
  expect_fits({"top", "--db", "records_of_the_model.db", "--once"});
  for (const char* library : {"a.so", "b.so"}) expect_fits({"compile", "model.onnx", "-o", library});
  expect_fits({"inspect", "a.so"});
  expect_fits({"bench", "a.so", "--time", "0.02", "--streams", "2"});
  EXPECT_EQ(fettle({"compile", "model.onnx", "-o", "several.so", "--target", "x86-64-v3,native"}).status, 0);
  expect_fits({"inspect", "several.so"});
  expect_fits({"report", "b.so", "--compare", "a.so"});
  ::unsetenv("NO_COLOR");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace fettle::testing_support
