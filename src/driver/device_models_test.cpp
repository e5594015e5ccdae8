// Whole models whose kernels run on a device, beside the same models on the CPU: by OpenCL, where there is one, in this
// process and as files. CUDA's are compiled where there is NVRTC.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "codegen/cuda/cuda_compile.h"
#include "codegen/device_def.h"
#include "driver/bench.h"
#include "driver/compile.h"
#include "driver/open.h"
#include "frontend/onnx/model_builder.h"
#include "graph/passes/pipeline.h"
#include "graph/strings.h"
#include "graph/testing.h"

namespace fettle {
namespace {

CompileOptions options_for(const std::string& target) {
  CompileOptions options;
  options.target = target.empty() ? detect_host(1) : parse_target(target).value();
  options.threads = 1;
  options.name = "test";
  return options;
}

/// Some file of this test's; it goes with this.
class TemporaryLibrary {
 public:
  TemporaryLibrary()
      : path_(std::filesystem::path(testing::TempDir()) /
              (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + std::to_string(getpid()) +
               ".so")) {}
  TemporaryLibrary(const TemporaryLibrary&) = delete;
  TemporaryLibrary& operator=(const TemporaryLibrary&) = delete;
  ~TemporaryLibrary() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
    std::filesystem::remove(std::filesystem::path(path_).replace_extension(".h"), ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void expect_close(const std::vector<NamedTensor>& expected, const std::vector<NamedTensor>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor &a = expected[i].tensor, &b = got[i].tensor;
    ASSERT_EQ(a.type_to_string(), b.type_to_string()) << got[i].name;
    if (a.dtype() == FETTLE_STRING) {
      EXPECT_EQ(a.strings(), b.strings()) << got[i].name;
      continue;
    }
    if (a.dtype() != FETTLE_F32) {
      EXPECT_TRUE(std::equal(static_cast<const char*>(a.data()), static_cast<const char*>(a.data()) + a.n_bytes(),
                             static_cast<const char*>(b.data())))
          << got[i].name;
      continue;
    }
    float scale = 0, largest = 0;
    for (size_t k = 0; k < a.elems<float>().size(); ++k) {
      scale = std::max(scale, std::abs(a.elems<float>()[k]));
      largest = std::max(largest, std::abs(a.elems<float>()[k] - b.elems<float>()[k]));
    }
    EXPECT_LE(largest, 1e-5F * scale) << got[i].name;
  }
}

class OnOpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("POCL_CACHE_DIR", FETTLE_BINARY_DIR "/pocl-cache", 0);
    if (const auto stream = opencl_device.open_stream(1); !stream) GTEST_SKIP() << stream.error().to_string();
  }

  using Inputs = std::vector<NamedTensor>;
  static void expect_same(const Model& cpu, const Model& device, const std::vector<Inputs>& calls) {
    auto a = cpu.make_context(), b = device.make_context();
    ASSERT_TRUE(a) << a.error().to_string();
    ASSERT_TRUE(b) << b.error().to_string();
    for (const Inputs& inputs : calls) {
      const auto expected = a->run(inputs), got = b->run(inputs);
      ASSERT_TRUE(expected) << expected.error().to_string();
      ASSERT_TRUE(got) << got.error().to_string();
      expect_close(*expected, *got);
    }
  }
  /// Compiled for the device, in this process and as a file, beside the model of the CPU.
  static void expect_same(const Model& cpu, const CompiledModel& compiled, const std::vector<Inputs>& calls) {
    const auto here = compiled.instantiate();
    ASSERT_TRUE(here) << here.error().to_string();
    EXPECT_EQ(here->info().device, FETTLE_OPENCL);
    expect_same(cpu, *here, calls);
    const TemporaryLibrary library;
    const auto written = compiled.write(library.path());
    ASSERT_TRUE(written) << written.error().to_string();
    const auto loaded = Model::load(library.path());
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    expect_same(cpu, *loaded, calls);
  }
  static void expect_same(const Graph& graph, const std::function<std::vector<Inputs>(const Model&)>& make_calls) {
    const auto for_cpu = compile_model(graph, options_for("")), compiled = compile_model(graph, options_for("opencl"));
    ASSERT_TRUE(for_cpu) << for_cpu.error().to_string();
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    const auto cpu = for_cpu->instantiate();
    ASSERT_TRUE(cpu) << cpu.error().to_string();
    expect_same(*cpu, *compiled, make_calls(*cpu));
  }
  static std::vector<Inputs> random_calls(const Model& model) {
    std::vector<Inputs> calls;
    for (const uint64_t seed : {3, 3, 4}) calls.push_back(random_inputs(model, seed).value());
    return calls;
  }
  static void expect_same(GraphMaker& m) {
    m.graph.sort();
    expect_same(m.graph, random_calls);
  }
  static void expect_same(const OnnxModel& source, OpenOptions options,
                          const std::function<std::vector<Inputs>(const Model&)>& make_calls) {
    options.threads = 1;
    const auto cpu = open_model(source, options);
    ASSERT_TRUE(cpu) << cpu.error().to_string();
    options.target = "opencl";
    const auto compiled = compile_source(source, options);
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    expect_same(*cpu, *compiled, make_calls(*cpu));
  }
};

TEST_F(OnOpenCl, Convolutions) {
  GraphMaker m;
  Value* x = m.node("Relu", {m.conv(m.input("x", {1, 8, 9, 11}), 16, 3)});
  Value* y = m.conv(m.conv(x, 16, 3, 16), 8, 1);
  m.graph.add_output("y", m.node("Add", {y, m.conv(x, 8, 1, 1, 1)}));
  expect_same(m);
}

TEST_F(OnOpenCl, NormsAndProducts) {
  GraphMaker m;
  Value* x = m.input("x", {2, 7, 24});
  Attrs last;
  last.set("axis", int64_t{-1});
  Value* scores = m.node("Softmax", {m.node("MatMul", {x, m.weights("w", {24, 30}, 4)})}, last);
  m.graph.add_output("scores", scores);
  m.graph.add_output("sums", m.node("ReduceSum", {scores}, with_ints("axes", {1})));
  m.graph.add_output("turned", m.node("Transpose", {x}, with_ints("perm", {2, 0, 1})));
  expect_same(m);
}

TEST_F(OnOpenCl, AnAbsentDeviceIsTold) {
  GraphMaker m;
  m.graph.add_output("y", m.node("Relu", {m.input("x", {4})}));
  m.graph.sort();
  const auto compiled = compile_model(m.graph, options_for("opencl"));
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  FettleOptions options{};
  options.device_index = 12;
  const auto model = compiled->instantiate(options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::E710);
  EXPECT_NE(model.error().message.find("there is no OpenCL device number 12"), std::string::npos)
      << model.error().message;
}

// --- control flow and sizes

class BodyMaker {
 public:
  explicit BodyMaker(const std::string& name) : graph(ModelBuilder::make(name).value()) {}
  BuilderValue input(const std::string& name, DType dtype, std::vector<BuilderDim> shape) {
    return {graph, graph->add_input(name, dtype, std::move(shape)).value()};
  }
  BuilderValue constant(const std::vector<double>& values, DType dtype, std::vector<int64_t> shape) {
    return {graph, graph->add_constant("", to_tensor(values, dtype, std::move(shape)).value()).value()};
  }
  std::vector<BuilderValue> nodes(const std::string& op, std::vector<std::optional<BuilderValue>> inputs, int n_outputs,
                                  std::vector<std::pair<std::string, BuilderAttribute>> attributes = {}) {
    BuilderNode node{.op = op, .inputs = std::move(inputs), .n_outputs = n_outputs};
    node.attributes = std::move(attributes);
    const std::vector<int> numbers = graph->add_node(node).value();
    std::vector<BuilderValue> values;
    for (const int number : numbers) values.push_back({graph, number});
    return values;
  }
  BuilderValue node(const std::string& op, std::vector<std::optional<BuilderValue>> inputs,
                    std::vector<std::pair<std::string, BuilderAttribute>> attributes = {}) {
    return nodes(op, std::move(inputs), 1, std::move(attributes)).front();
  }
  void output(const std::string& name, const BuilderValue& value) { EXPECT_TRUE(graph->add_output(name, value)); }

  std::shared_ptr<ModelBuilder> graph;
};

NamedTensor floats(const std::string& name, const std::vector<float>& values, std::vector<int64_t> shape) {
  NamedTensor made{name, Tensor::make(FETTLE_F32, std::move(shape)).value()};
  std::ranges::copy(values, made.tensor.elems<float>().begin());
  return made;
}

/// Goes on until the sum is at least 100: x = x @ w + i, where the iteration's number i is what kernels read; what each
/// iteration made is a row of `steps`. The branch after it looks at the sum.
OnnxModel loop_model() {
  BodyMaker body("body");
  const BuilderValue i = body.input("i", kI64, {}), going = body.input("going", kBool, {});
  const BuilderValue v = body.input("v", kF32, {int64_t{2}, int64_t{2}});
  const BuilderValue w = body.constant({0.5, 1, 1, 0.25}, kF32, {2, 2});
  const BuilderValue next = body.node("Add", {body.node("MatMul", {v, w}), body.node("Cast", {i}, {{"to", kF32}})});
  const BuilderValue sum = body.node("ReduceSum", {next}, {{"keepdims", int64_t{0}}});
  body.output("goes_on", body.node("Less", {sum, body.constant({100}, kF32, {})}));
  body.output("next", next);
  body.output("row", body.node("Relu", {next}));
  (void)going;
  BodyMaker m("loop");
  const BuilderValue x = m.input("x", kF32, {int64_t{2}, int64_t{2}});
  const auto made =
      m.nodes("Loop", {m.constant({12}, kI64, {}), m.constant({1}, kBool, {}), x}, 2, {{"body", body.graph}});
  const BuilderValue sum_after = m.node("ReduceSum", {made[0]}, {{"keepdims", int64_t{0}}});
  BodyMaker large("large"), small("small");
  large.output("y", large.node("Mul", {made[0], large.constant({0.5}, kF32, {})}));
  small.output("y", small.node("MatMul", {made[0], made[0]}));
  m.output("y", m.node("If", {m.node("Less", {m.constant({200}, kF32, {}), sum_after})},
                       {{"then_branch", large.graph}, {"else_branch", small.graph}}));
  m.output("steps", made[1]);
  return m.graph->finish().value();
}

TEST_F(OnOpenCl, LoopsAndBranchesThatDataDecide) {
  expect_same(loop_model(), {}, [](const Model&) {
    std::vector<Inputs> calls(3);
    calls[0].push_back(floats("x", {1, 2, 3, 4}, {2, 2}));
    calls[1].push_back(floats("x", {200, 100, 3, 4}, {2, 2}));
    calls[2].push_back(floats("x", {-1, 0, 0, 1}, {2, 2}));
    return calls;
  });
}

TEST_F(OnOpenCl, OpenSizes) {
  BodyMaker m("open");
  const BuilderValue x = m.input("x", kF32, {std::string("N"), int64_t{6}});
  const BuilderValue y = m.node("MatMul", {x, m.constant(std::vector<double>(6 * 5, 0.25), kF32, {6, 5})});
  m.output("y", m.node("Softmax", {y}));
  m.output("pairs", m.node("Concat", {x, x}, {{"axis", int64_t{0}}}));
  const OnnxModel model = m.graph->finish().value();
  expect_same(model, {}, [](const Model& cpu) {
    std::vector<Inputs> calls;
    for (const int64_t n : {1, 5, 5, 33, 2})
      calls.push_back(random_inputs(cpu, static_cast<uint64_t>(n), {{"x", {n, 6}}}).value());
    return calls;
  });
}

TEST_F(OnOpenCl, SizesThatDataTell) {
  BodyMaker m("found");
  const BuilderValue x = m.input("x", kF32, {int64_t{4}, int64_t{5}});
  m.output("places", m.node("NonZero", {x}));
  const BuilderValue sums =
      m.node("ReduceSum", {x, m.constant(std::vector<double>{1}, kI64, {1})}, {{"keepdims", int64_t{0}}});
  const BuilderValue positive = m.node("Greater", {sums, m.constant(std::vector<double>{0}, kF32, {})});
  m.output("rows", m.node("Compress", {x, positive}, {{"axis", int64_t{0}}}));
  expect_same(m.graph->finish().value(), {}, [](const Model&) {
    std::vector<Inputs> calls(3);
    std::vector<float> some(20, 0);
    calls[0].push_back(floats("x", some, {4, 5}));
    some[3] = 1, some[7] = -2, some[19] = 5;
    calls[1].push_back(floats("x", some, {4, 5}));
    calls[2].push_back(floats("x", std::vector<float>(20, 1), {4, 5}));
    return calls;
  });
}

TEST_F(OnOpenCl, StringsAndHostFunctions) {
  Graph g("words");
  Value* x = g.add_input("x", {kString, {Dim::symbol("n", 0, 1000)}});
  Node* split = g.add_node(find_op("StringSplit"), "split", {x}, {}, {}, 2);
  g.add_output("parts", split->outputs[0]);
  g.add_output("count", split->outputs[1]);
  Value* one = g.add_constant("one", string_tensor(std::vector<std::string>{"a"}, {1}).value());
  g.add_output("is_a", g.add_node(find_op("Equal"), "equal", {x, one})->output());
  g.sort();
  ASSERT_TRUE(optimize(g));
  expect_same(g, [](const Model&) {
    std::vector<Inputs> calls;
    for (const std::vector<std::string>& texts :
         {std::vector<std::string>{"a", "b c  d", ""}, {"a a", "a"}, {"x y z", "a", "", "a"}}) {
      Inputs inputs(1);
      inputs[0] = {"x", Tensor::of_strings(texts, {std::ssize(texts)}).value()};
      calls.push_back(std::move(inputs));
    }
    return calls;
  });
}

TEST_F(OnOpenCl, StatesLieThere) {
  BodyMaker m("sums");
  const BuilderValue x = m.input("x", kF32, {int64_t{3}}), past = m.input("past", kF32, {int64_t{3}});
  const BuilderValue sum = m.node("Add", {x, past});
  m.output("sum", sum);
  m.output("twice", m.node("Add", {sum, sum}));
  OpenOptions options;
  options.states["sum"] = "past";
  expect_same(m.graph->finish().value(), options, [](const Model&) {
    std::vector<Inputs> calls(3);
    for (Inputs& inputs : calls) inputs.push_back(floats("x", {1, 2, 3}, {3}));
    return calls;
  });
}

TEST(OnCuda, CompilesWithoutADevice) {
  if (!has_nvrtc()) GTEST_SKIP() << "there is no NVRTC (FETTLE_NVRTC may name it)";
  GraphMaker m;
  m.graph.add_output("y", m.node("Relu", {m.conv(m.input("x", {1, 8, 9, 11}), 16, 3)}));
  m.graph.sort();
  const auto compiled = compile_model(m.graph, options_for("cuda -arch sm_90a"));
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  const TemporaryLibrary library;
  const auto written = compiled->write(library.path());
  ASSERT_TRUE(written) << written.error().to_string();
  const auto model = Model::load(library.path());
  if (cuda_device.open_stream(1)) {
    ASSERT_TRUE(model) << model.error().to_string();
    const auto inputs = random_inputs(*model, 3);
    const auto cpu = compile_model(m.graph, options_for(""))->instantiate();
    for (int i = 0; i < 3; ++i) expect_close(*cpu->run(*inputs), *model->run(*inputs));
  } else {
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::E710);
    EXPECT_NE(model.error().message.find("CUDA"), std::string::npos) << model.error().message;
  }
}

}  // namespace
}  // namespace fettle
