#include <signal.h>
#include <sys/resource.h>

#include "onnx-ml.pb.h"
#include "support/support.h"

namespace fettle::testing_support {
namespace {

/// Files that this process and its children write end here, as on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : signal_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit small{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, signal_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  sighandler_t signal_;
  rlimit before_{};
};

}  // namespace

TEST_F(Misuse, NoSpaceForTheLibrary) {
  write_model("model.onnx");
  write("out.so", "an older one");
  const SmallDisk disk(6000);
  expect_refused({"compile", path("model.onnx"), "-o", path("out.so")}, "E702");
  EXPECT_EQ(read("out.so"), "an older one");
}

TEST_F(Misuse, NoSpaceForResults) {
  write_model("model.onnx", [](onnx::ModelProto& model) {
    for (auto* value : {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)})
      value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(5000);
  });
  write_array("x.npy", {5000, 3});
  std::filesystem::create_directory(path("results"));
  write("results/y.npy", "older ones");
  const SmallDisk disk(6000);
  expect_refused({"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")}, "E702",
                 {"File too large", "y.npy"});
  EXPECT_EQ(read("results/y.npy"), "older ones");
}

}  // namespace fettle::testing_support
