#include "driver/model_peers.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fettle::bench {
namespace {

namespace fs = std::filesystem;

class ModelPeerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("fettle_model_peers_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// A stand-in for the server: a shell script.
  PeerPaths shell(const std::string& script) {
    const auto path = folder_ / "peer.sh";
    std::ofstream(path) << script;
    return {.python = "sh", .script = path.string()};
  }

  /// A model of one matrix product with an open batch size, made by the Python environment; empty without one.
  std::string model() {
    const auto paths = find_peer_paths();
    if (!paths) return {};
    const auto path = folder_ / "model.onnx";
    std::ofstream(folder_ / "make.py") << R"(
import sys, numpy as np, onnx
from onnx import helper, numpy_helper, TensorProto as T
w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
    [helper.make_tensor_value_info("x", T.FLOAT, ["n", 3])], [helper.make_tensor_value_info("y", T.FLOAT, ["n", 4])], [w])
onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), sys.argv[1])
np.save(sys.argv[2], np.ones((2, 3), np.float32))
np.save(sys.argv[2][:-4] + "_of_5.npy", np.ones((5, 3), np.float32))
)";
    const std::string command = paths->python + " " + (folder_ / "make.py").string() + " " + path.string() + " " +
                                (folder_ / "x.npy").string() + " 2>/dev/null";
    return std::system(command.c_str()) == 0 ? path.string() : std::string();
  }

  fs::path folder_;
};

const char kGreeting[] = "echo '{\"ok\": true, \"protocol\": 1, \"version\": \"9\"}'\n";

void expect_refused(const Diagnostic& error, const std::string& part) {
  EXPECT_EQ(error.code, ErrorCode::E708);
  EXPECT_NE(error.to_string().find(part), std::string::npos) << error.to_string();
}

TEST_F(ModelPeerTest, MissingPythonIsAnError) {
  const auto peer = ModelPeer::start("openvino", {.python = (folder_ / "no-python").string(), .script = "x"});
  ASSERT_FALSE(peer);
  expect_refused(peer.error(), "no-python");
  EXPECT_NE(peer.error().to_string().find("make setup"), std::string::npos);
}

TEST_F(ModelPeerTest, MissingPackageIsAnError) {
  const auto paths = find_peer_paths();
  ASSERT_TRUE(paths) << paths.error().to_string();
  // An empty folder in place of the packages: -S leaves the environment's own out.
  std::ofstream(folder_ / "python.sh") << "exec '" << paths->python << "' -S -E \"$1\" \"$2\"\n";
  std::ofstream(folder_ / "peer.sh") << "exec sh '" << (folder_ / "python.sh").string() << "' '" << paths->script
                                     << "' \"$1\"\n";
  const auto peer = ModelPeer::start("openvino", {.python = "sh", .script = (folder_ / "peer.sh").string()});
  ASSERT_FALSE(peer);
  expect_refused(peer.error(), "package openvino cannot be imported");
}

TEST_F(ModelPeerTest, DeathIsAnErrorWithItsLastWords) {
  const auto peer = ModelPeer::start("openvino", shell("echo first >&2; echo 'out of luck' >&2; exit 3"));
  ASSERT_FALSE(peer);
  expect_refused(peer.error(), "status 3: out of luck");
}

TEST_F(ModelPeerTest, DeathBySignalIsToldAndLaterCallsFail) {
  auto peer = ModelPeer::start("openvino", shell(std::string(kGreeting) + "read line; kill -SEGV $$"));
  ASSERT_TRUE(peer) << peer.error().to_string();
  EXPECT_EQ(peer->version(), "9");
  auto times = peer->time(1);
  ASSERT_FALSE(times);
  expect_refused(times.error(), "signal 11");
  times = peer->time(1);
  ASSERT_FALSE(times);
  expect_refused(times.error(), "has ended");
}

TEST_F(ModelPeerTest, SilenceEndsTheProcess) {
  const auto peer = ModelPeer::start("openvino", shell("exec sleep 1000"), 0.05);
  ASSERT_FALSE(peer);
  expect_refused(peer.error(), "no answer within 0.05 s");
}

TEST_F(ModelPeerTest, NonsenseIsAnError) {
  const char* const nonsense[] = {"echo hello",
                                  "echo '[1]'",
                                  "echo '{\"ok\": 1}'",
                                  "echo '{\"ok\": true, \"protocol\": 7}'",
                                  "echo '{\"ok\": true, \"protocol\": 1}'",
                                  "echo '{\"ok\": false}'"};
  for (const char* script : nonsense) {
    const auto peer = ModelPeer::start("openvino", shell(script));
    ASSERT_FALSE(peer) << script;
    EXPECT_EQ(peer.error().code, ErrorCode::E708);
  }
  auto peer = ModelPeer::start(
      "openvino", shell(std::string(kGreeting) + "read line; echo '{\"ok\": true, \"times_ns\": \"soon\"}'"));
  ASSERT_TRUE(peer);
  const auto times = peer->time(1);
  ASSERT_FALSE(times);
  expect_refused(times.error(), "protocol");
}

TEST_F(ModelPeerTest, UnknownPeerIsAnError) {
  const auto peer = ModelPeer::start("fortune");
  ASSERT_FALSE(peer);
  expect_refused(peer.error(), "usage");
}

class EveryPeer : public ModelPeerTest, public testing::WithParamInterface<const char*> {};

TEST_P(EveryPeer, LoadsTimesAndWritesOutputs) {
  const std::string file = model();
  if (file.empty()) GTEST_SKIP() << "no Python environment: make setup";
  auto peer = ModelPeer::start(GetParam());
  if (!peer) GTEST_SKIP() << peer.error().to_string();
  const auto x = (folder_ / "x.npy").string();

  EXPECT_FALSE(peer->time(1));  // nothing is loaded
  auto refused = peer->load({.file = (folder_ / "none.onnx").string()});
  ASSERT_FALSE(refused);
  expect_refused(refused.error(), "none.onnx");
  refused = peer->load({.file = file});
  ASSERT_FALSE(refused);
  expect_refused(refused.error(), "unknown dimensions");
  refused = peer->load({.file = file, .shapes = {{"z", {1, 3}}}});
  ASSERT_FALSE(refused);
  expect_refused(refused.error(), "no input z");
  refused = peer->load({.file = file, .shapes = {{"x", {5, 3}}}, .inputs = {{"x", x}}});
  ASSERT_FALSE(refused);
  expect_refused(refused.error(), "[5, 3]");

  const auto loaded = peer->load({.file = file, .threads = 2, .inputs = {{"x", x}}});
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  ASSERT_EQ(loaded->inputs.size(), 1U);
  EXPECT_EQ(loaded->inputs[0].shape, (std::vector<std::int64_t>{2, 3}));
  ASSERT_EQ(loaded->outputs.size(), 1U);
  EXPECT_EQ(loaded->outputs[0].name, "y");
  EXPECT_EQ(loaded->outputs[0].dtype, "float32");

  const auto times = peer->time(7);
  ASSERT_TRUE(times) << times.error().to_string();
  EXPECT_EQ(times->times_ns.size(), 7U);
  const auto mean = peer->mean_time_ns(3);
  ASSERT_TRUE(mean);
  EXPECT_GT(*mean, 0);

  EXPECT_FALSE(peer->outputs((folder_ / "none").string()));
  const auto outputs = peer->outputs(folder_.string());
  ASSERT_TRUE(outputs) << outputs.error().to_string();
  ASSERT_EQ(outputs->size(), 1U);
  // .npy: a header, then the values. Ones times arange(12) by 3x4: column sums.
  std::ifstream npy((*outputs)[0].file, std::ios::binary);
  npy.seekg(-static_cast<std::streamoff>(8 * sizeof(float)), std::ios::end);
  float values[8] = {};
  npy.read(reinterpret_cast<char*>(values), sizeof values);
  const float expected[8] = {12, 15, 18, 21, 12, 15, 18, 21};
  EXPECT_TRUE(std::equal(values, values + 8, expected));

  const auto memory = peer->memory();
  ASSERT_TRUE(memory);
  EXPECT_GT(memory->peak_rss_bytes, 0);
}

TEST_P(EveryPeer, TakesOtherSizesWhereTheyWereKeptOpen) {
  const std::string file = model();
  if (file.empty()) GTEST_SKIP() << "no Python environment: make setup";
  const std::map<std::string, std::string> of_2 = {{"x", (folder_ / "x.npy").string()}},
                                           of_5 = {{"x", (folder_ / "x_of_5.npy").string()}};
  for (const bool keeps_open : {true, false}) {
    auto peer = ModelPeer::start(GetParam());
    if (!peer) GTEST_SKIP() << peer.error().to_string();
    EXPECT_FALSE(peer->give(of_2));  // nothing is loaded
    const auto loaded = peer->load({.file = file, .inputs = of_2, .keeps_open = keeps_open});
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    EXPECT_EQ(loaded->outputs[0].shape, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(peer->give(of_5).has_value(), keeps_open);
    if (!keeps_open) continue;
    const auto outputs = peer->outputs(folder_.string());
    ASSERT_TRUE(outputs) << outputs.error().to_string();
    EXPECT_EQ((*outputs)[0].shape, (std::vector<std::int64_t>{5, 4}));
    EXPECT_TRUE(peer->time(2));
    EXPECT_TRUE(peer->give(of_2));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPeer, testing::Values("onnxruntime", "openvino"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fettle::bench
