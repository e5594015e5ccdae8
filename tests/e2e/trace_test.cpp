// `fettle trace`: what a file of trace events holds, of a model and of the library that it becomes.

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/npy.h"
#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

class Trace : public Misuse {
 protected:
  json trace(const std::string& model, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"trace", model, "-o", path("trace.json"), "--threads", "2", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    said_ = json::parse(outcome.out, nullptr, false);
    const json all = json::parse(read("trace.json"), nullptr, false);
    EXPECT_TRUE(all.is_object());
    return all.is_object() ? all.at("traceEvents") : json::array();
  }

  json said_;  // on standard output
};

/// Nanoseconds of each kernel, and how often it ran.
std::map<std::string, std::pair<int64_t, int64_t>> kernels_of(const json& events) {
  std::map<std::string, std::pair<int64_t, int64_t>> kernels;
  for (const json& event : events) {
    if (event.value("cat", "") != "kernel") continue;
    auto& [ns, calls] = kernels[event.at("name")];
    ns += std::llround(event.at("dur").get<double>() * 1e3);
    ++calls;
  }
  return kernels;
}

TEST_F(Trace, OfAModelAndItsLibraryAreAlike) {
  write_model("model.onnx");
  write_array("x.npy", {2, 3});
  ASSERT_EQ(fettle({"compile", path("model.onnx"), "-o", path("model.so")}).status, 0);
  for (const char* model : {"model.onnx", "model.so"}) {
    const json events = trace(path(model), {"--runs", "4", "--input", "x=" + path("x.npy")});
    EXPECT_EQ(said_.at("runs"), 4);
    EXPECT_EQ(said_.at("parts_left_out"), 0);
    const auto kernels = kernels_of(events);
    ASSERT_EQ(kernels.size(), said_.at("kernels").size());
    for (const json& kernel : said_.at("kernels")) {
      const auto& [ns, calls] = kernels.at(kernel.at("kernel"));
      EXPECT_EQ(calls, kernel.at("calls"));
      EXPECT_EQ(calls, 4);
      EXPECT_EQ(ns, kernel.at("total_ns"));
    }
    bool works = false;
    for (const json& event : events)
      if (event.value("cat", "") == "kernel") works |= event.at("args").value("flops", 0.0) == 2.0 * 2 * 3 * 4;
    EXPECT_TRUE(works) << "the product's operations";
  }
}

TEST_F(Trace, ShowsBranchesAndLoops) {
  const std::string folder = std::string(FETTLE_SOURCE_DIR) + "/tests/cases/";
  const auto categories = [&](const json& events) {
    std::map<std::string, int> found;
    for (const json& event : events) ++found[event.value("cat", "")];
    return found;
  };
  const json branches = trace(folder + "if_nested_outer_scope/model.onnx", {"--runs", "1", "--shape", "x=2,4"});
  EXPECT_GE(categories(branches)["step"], 1) << branches;
  // A recurrence that no kernel does alone: a loop over its steps.
  const json recurrence =
      trace(folder + "gru_ocr_linear_before_reset/model.onnx", {"--runs", "2", "--shape", "img=1,1,4,8"});
  auto found = categories(recurrence);
  // Two directions and a second layer, of eight steps each.
  EXPECT_EQ(found["loop"], 2 * 3);
  EXPECT_EQ(found["iteration"], 2 * 3 * 8);
  for (const json& event : recurrence)
    EXPECT_TRUE(event.value("cat", "") != "loop" || event.at("name").get<std::string>().starts_with("GRU")) << event;
}

TEST_F(Trace, RefusesWhatItCannotRun) {
  write_model("model.onnx");
  write_array("y.npy", {2, 3});
  expect_refused({"trace", path("none.onnx"), "-o", path("t.json")}, "E601");
  expect_refused({"trace", path("model.onnx"), "-o", path("no/folder/t.json")}, "E702");
  expect_refused({"trace", path("model.onnx"), "-o", path("t.json"), "--input", "y=" + path("y.npy")}, "E704");
  EXPECT_EQ(fettle({"trace", path("model.onnx"), "-o", path("t.json"), "--runs", "0"}).status, 2);
}

}  // namespace
}  // namespace fettle::testing_support
