#pragma once
// For tests that drive the program: what it printed and how it ended, and small models to give it.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace fettle::testing_support {

struct Outcome {
  int status = -1;  // of exit; 128 + n where signal n ended it
  std::string out, err;
};

/// Runs bin/fettle with these arguments; its home has no records and no caches. interrupt: asked again
/// and again, with what is on standard error by then; once it says true, the program gets `signal`, by default SIGINT,
/// as from Ctrl-C.
Outcome fettle(const std::vector<std::string>& args, const std::function<bool(const std::string& err)>& interrupt = {},
               int signal = 2);

/// A folder for one test, removed afterwards.
class Misuse : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;

  /// y = Relu(x @ w), x: f32[2, 3], under that name. `edit` may spoil the model before it is written.
  void write_model(const std::string& name, const std::function<void(onnx::ModelProto&)>& edit = {}) const;
  /// An f32 array of this shape, all ones.
  void write_array(const std::string& name, const std::vector<int64_t>& shape) const;

  /// Runs it: the program must end with status 1, say one sentence that begins with the code and holds `words`, print
  /// nothing else, and leave no file in the folder that was not there.
  void expect_refused(const std::vector<std::string>& args, const std::string& code,
                      const std::vector<std::string>& words = {}) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace fettle::testing_support
