#include "support/support.h"

namespace fettle::testing_support {

/// Both kinds of model must refuse alike.
class WrongInputs : public Misuse, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    write_model("model.onnx");
    if (std::string(GetParam()) == "model.so") {
      const Outcome compiled = fettle({"compile", path("model.onnx"), "-o", path("model.so")});
      ASSERT_EQ(compiled.status, 0) << compiled.err;
    }
    write_array("x.npy", {2, 3});
  }
  std::vector<std::string> run_with(std::vector<std::string> inputs) const {
    std::vector<std::string> args{"run", path(GetParam()), "--output-dir", path("results")};
    for (const std::string& input : inputs) args.insert(args.end(), {"--input", input});
    return args;
  }
};

TEST_P(WrongInputs, NameIsUnknown) { expect_refused(run_with({"z=" + path("x.npy")}), "E704", {"z"}); }

TEST_P(WrongInputs, OneIsMissing) { expect_refused(run_with({}), "E704", {"x"}); }

TEST_P(WrongInputs, GivenTwice) {
  expect_refused(run_with({"x=" + path("x.npy"), "x=" + path("x.npy")}), "E704", {"twice"});
}

TEST_P(WrongInputs, ShapeIsWrong) {
  write_array("wide.npy", {2, 4});
  expect_refused(run_with({"x=" + path("wide.npy")}), "E705", {"x", "[2, 3]", "[2, 4]"});
}

TEST_P(WrongInputs, DtypeIsWrong) {
  std::string bytes = read("x.npy");
  bytes.replace(bytes.find("<f4"), 3, "<i4");
  write("integers.npy", bytes);
  expect_refused(run_with({"x=" + path("integers.npy")}), "E705", {"x", "f32", "i32"});
}

TEST_P(WrongInputs, FileIsMissing) { expect_refused(run_with({"x=" + path("none.npy")}), "E701", {"none.npy"}); }

TEST_P(WrongInputs, FileIsNoArray) {
  write("letter.npy", "Dear friend");
  expect_refused(run_with({"x=" + path("letter.npy")}), "E703", {"letter.npy"});
}

INSTANTIATE_TEST_SUITE_P(Of, WrongInputs, testing::Values("model.onnx", "model.so"),
                         [](const auto& info) { return std::string(info.param) == "model.so" ? "Library" : "Onnx"; });

}  // namespace fettle::testing_support
