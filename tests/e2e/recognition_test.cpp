// The recognition model, from the file to the library: right, small, and of use to a program in C.

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "driver/bench.h"
#include "driver/open.h"
#include "runtime/npy.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

const std::string kModel = std::string(FETTLE_SOURCE_DIR) + "/build/models/ppocrv4_rec.onnx";
const InputShapes kShapes = {{"x", {1, 3, 48, 320}}};

/// The output of a command; empty if it failed.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  std::array<char, 4096> piece{};
  while (const size_t n = fread(piece.data(), 1, piece.size(), pipe)) text.append(piece.data(), n);
  return pclose(pipe) == 0 ? text : std::string();
}

class Recognition : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kModel)) GTEST_SKIP() << "the model is not here; `make models` fetches it";
    std::string base = (fs::temp_directory_path() / "fettle-e2e-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(base.data()));
    folder_ = base;
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_;
};

TEST_F(Recognition, BecomesALibraryThatAProgramInCUses) {
  const auto compiled = compile_source(kModel, {.threads = 2, .shapes = kShapes, .database = {}, .warn = {}});
  ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
  ASSERT_TRUE(compiled->write(path("model.so")).has_value());
  auto model = compiled->instantiate();
  ASSERT_TRUE(model.has_value());
  const auto inputs = random_inputs(*model, 2);
  const auto outputs = model->run(*inputs);
  ASSERT_TRUE(outputs.has_value());

  // It needs libc alone.
  const std::string needed = output_of("readelf -d " + path("model.so") + " | grep NEEDED");
  EXPECT_NE(needed.find("libc.so.6"), std::string::npos);
  EXPECT_EQ(std::count(needed.begin(), needed.end(), '\n'), 1) << needed;

  // examples/c/run_model.c, as its head says.
  const std::string example = std::string(FETTLE_SOURCE_DIR) + "/examples/c/run_model.c";
  ASSERT_EQ(std::system(("cc -I " + path("") + " " + example + " " + path("model.so") + " -Wl,-rpath,'$ORIGIN' -o " +
                         path("run_model"))
                            .c_str()),
            0);
  const Tensor& x = (*inputs)[0].tensor;
  std::ofstream(path("x.raw"), std::ios::binary)
      .write(static_cast<const char*>(x.data()), static_cast<std::streamsize>(x.n_bytes()));
  const std::string bytes = output_of(path("run_model") + " " + path("x.raw"));
  const Tensor& y = (*outputs)[0].tensor;
  ASSERT_EQ(bytes.size(), static_cast<size_t>(y.n_bytes()));
  auto read = Tensor::make(FETTLE_F32, y.shape());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(read->data()));
  EXPECT_EQ(difference_of_scale(*read, y), 0);
}

/// Private anonymous memory that a process holds, in bytes.
int64_t anonymous_bytes() {
  std::ifstream lines("/proc/self/smaps_rollup");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("Anonymous:")) return std::atoll(line.substr(10).c_str()) * 1024;
  return -1;
}

TEST_F(Recognition, TakesNoMemoryBeyondItsPlan) {
  int64_t arena = 0;
  {
    const auto compiled = compile_source(kModel, {.threads = 2, .shapes = kShapes, .database = {}, .warn = {}});
    ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
    ASSERT_TRUE(compiled->write(path("model.so")).has_value());
    arena = compiled->arena_bytes();
  }
  auto first = Model::load(path("model.so"));  // whatever loading touches for the first time
  ASSERT_TRUE(first.has_value()) << first.error().to_string();
  const auto inputs = random_inputs(*first, 2);
  auto outputs = first->make_context()->make_outputs(*inputs);
  const int64_t before = anonymous_bytes();
  auto model = Model::load(path("model.so"));
  auto context = model->make_context();
  ASSERT_TRUE(context->run_into(*inputs, *outputs).has_value());
  EXPECT_LE(anonymous_bytes() - before, arena + (8 << 20));
}

TEST_F(Recognition, OneLibraryServesAllWidths) {
  const auto compiled = compile_source(kModel, {.threads = 2, .shapes = {}, .database = {}, .warn = {}});
  ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
  const auto model = compiled->instantiate();
  ASSERT_TRUE(model.has_value());
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 3, 48, 97}, {2, 3, 48, 320}}) {
    const auto fixed = open_model(kModel, {.threads = 2, .shapes = {{"x", shape}}, .database = {}, .warn = {}});
    ASSERT_TRUE(fixed.has_value()) << fixed.error().to_string();
    const auto inputs = random_inputs(*fixed, 3);
    const auto open = model->run(*inputs), wanted = fixed->run(*inputs);
    ASSERT_TRUE(open.has_value()) << open.error().to_string();
    ASSERT_EQ((*open)[0].tensor.shape(), (*wanted)[0].tensor.shape());
    const auto got = (*open)[0].tensor.elems<float>(), want = (*wanted)[0].tensor.elems<float>();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
  }
}

}  // namespace
}  // namespace fettle
