#include "support/support.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "onnx-ml.pb.h"
#include "runtime/npy.h"

extern char** environ;

namespace fettle::testing_support {
namespace fs = std::filesystem;
namespace {

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) files.insert(entry.path().string());
  return files;
}

}  // namespace

Outcome fettle(const std::vector<std::string>& args, const std::function<bool(const std::string& err)>& interrupt,
               int signal) {
  const std::string program = std::string(FETTLE_BINARY_DIR) + "/bin/fettle";
  std::string base = (fs::temp_directory_path() / "fettle-run-XXXXXX").string();
  if (!mkdtemp(base.data())) return {};
  const std::string out = base + "/out", err = base + "/err";
  std::vector<std::string> words{program};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string data_home = "XDG_DATA_HOME=" + base, cache_home = "XDG_CACHE_HOME=" + base;
  std::vector<std::string> settings{data_home, cache_home};
  for (char** e = environ; *e; ++e)
    if (!std::string(*e).starts_with("XDG_")) settings.emplace_back(*e);
  std::vector<char*> env;
  for (std::string& setting : settings) env.push_back(setting.data());
  env.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  Outcome outcome;
  if (posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), env.data()) == 0) {
    int status = 0;
    if (interrupt) {
      while (waitpid(child, &status, WNOHANG) == 0) {
        if (interrupt(content(err))) {
          kill(child, signal);
          waitpid(child, &status, 0);
          break;
        }
        usleep(20'000);
      }
    } else {
      waitpid(child, &status, 0);
    }
    outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    outcome.out = content(out);
    outcome.err = content(err);
  }
  posix_spawn_file_actions_destroy(&actions);
  fs::remove_all(base);
  return outcome;
}

void Misuse::SetUp() {
  std::string base = (fs::temp_directory_path() / "fettle-misuse-XXXXXX").string();
  ASSERT_TRUE(mkdtemp(base.data()));
  folder_ = base;
}

void Misuse::TearDown() {
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    if (fs::is_directory(entry.symlink_status())) fs::permissions(entry.path(), fs::perms::owner_all);
  fs::remove_all(folder_);
}

void Misuse::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(folder_ / name, std::ios::binary) << bytes;
}

std::string Misuse::read(const std::string& name) const { return content(folder_ / name); }

void Misuse::write_model(const std::string& name, const std::function<void(onnx::ModelProto&)>& edit) const {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& graph = *model.mutable_graph();
  graph.set_name("small");
  const auto describe = [](onnx::ValueInfoProto* value, const std::string& called, std::vector<int64_t> shape) {
    value->set_name(called);
    auto* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (int64_t extent : shape) type->mutable_shape()->add_dim()->set_dim_value(extent);
  };
  describe(graph.add_input(), "x", {2, 3});
  describe(graph.add_output(), "y", {2, 4});
  auto* w = graph.add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_dims(3);
  w->add_dims(4);
  for (int i = 0; i < 12; ++i) w->add_float_data(static_cast<float>(i) * 0.25f - 1);
  const auto node = [&](const std::string& op, std::vector<std::string> inputs, const std::string& output) {
    auto* made = graph.add_node();
    made->set_op_type(op);
    made->set_name(op + "_node");
    for (const std::string& input : inputs) made->add_input(input);
    made->add_output(output);
  };
  node("MatMul", {"x", "w"}, "xw");
  node("Relu", {"xw"}, "y");
  if (edit) edit(model);
  write(name, model.SerializeAsString());
}

void Misuse::write_array(const std::string& name, const std::vector<int64_t>& shape) const {
  auto tensor = Tensor::make(FETTLE_F32, shape);
  ASSERT_TRUE(tensor.has_value());
  for (float& x : tensor->elems<float>()) x = 1;
  ASSERT_TRUE(write_npy(folder_ / name, *tensor).has_value());
}

void Misuse::expect_refused(const std::vector<std::string>& args, const std::string& code,
                            const std::vector<std::string>& words) const {
  const std::set<std::string> before = files_in(folder_);
  const Outcome outcome = fettle(args);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("fettle: " + code + ": ")) << outcome.err;
  for (const std::string& word : words)
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
  EXPECT_EQ(files_in(folder_), before);
}

}  // namespace fettle::testing_support
