#include "driver/compile.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "codegen/kernel_source.h"
#include "driver/bench.h"
#include "driver/candidates.h"
#include "graph/evaluate.h"
#include "graph/passes/pipeline.h"
#include "graph/testing.h"

namespace fettle {
namespace {

CompileOptions host_options(int threads) {
  CompileOptions options;
  options.target = detect_host(threads);
  options.threads = threads;
  options.name = "test";
  return options;
}

/// The graph's outputs node by node, by the interpreter.
std::vector<std::vector<float>> reference(const Graph& graph, const std::vector<NamedTensor>& inputs) {
  std::map<std::string, ConstantTensor> given;
  for (const NamedTensor& input : inputs) {
    TensorBuilder builder = *make_tensor(kF32, input.tensor.shape());
    std::memcpy(builder.bytes.get(), input.tensor.data(), static_cast<size_t>(input.tensor.n_bytes()));
    given[input.name] = std::move(builder).finish();
  }
  const auto made = evaluate(graph, given, interpreter_executor());
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().to_string());
  std::vector<std::vector<float>> outputs;
  for (const GraphOutput& output : graph.outputs()) {
    const auto elems = made->at(output.name).elems<float>();
    outputs.emplace_back(elems.begin(), elems.end());
  }
  return outputs;
}

void expect_close(const std::vector<std::vector<float>>& expected, const std::vector<NamedTensor>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const auto elems = got[i].tensor.elems<float>();
    ASSERT_EQ(elems.size(), expected[i].size());
    float scale = 0, largest = 0;
    for (size_t k = 0; k < elems.size(); ++k) {
      scale = std::max(scale, std::abs(expected[i][k]));
      largest = std::max(largest, std::abs(expected[i][k] - elems[k]));
    }
    EXPECT_GT(scale, 0) << "output " << i << " is all zero";
    EXPECT_LE(largest, 1e-5 * scale) << "output " << i;
  }
}

/// Compiles on one and two threads, runs twice, compares; then the same as a shared library.
void expect_correct(GraphMaker& m, const std::function<CompileOptions(int threads)>& options = host_options) {
  m.graph.sort();
  for (int threads : {1, 2}) {
    const auto compiled = compile_model(m.graph, options(threads));
    ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
    FettleOptions run{};
    run.threads = threads;
    auto model = compiled->instantiate(run);
    ASSERT_TRUE(model.has_value()) << model.error().to_string();
    const auto inputs = random_inputs(*model, 3);
    ASSERT_TRUE(inputs.has_value());
    const auto expected = reference(m.graph, *inputs);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto outputs = model->run(*inputs);
      ASSERT_TRUE(outputs.has_value()) << outputs.error().to_string();
      expect_close(expected, *outputs);
    }
    const auto path =
        std::filesystem::path(testing::TempDir()) /
        (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + std::to_string(getpid()) + ".so");
    const auto written = compiled->write(path);
    ASSERT_TRUE(written.has_value()) << written.error().to_string();
    {
      auto loaded = Model::load(path, run);
      ASSERT_TRUE(loaded.has_value()) << loaded.error().to_string();
      const auto outputs = loaded->run(*inputs);
      ASSERT_TRUE(outputs.has_value()) << outputs.error().to_string();
      expect_close(expected, *outputs);
    }
    std::filesystem::remove(path);
    std::filesystem::remove(std::filesystem::path(path).replace_extension(".h"));
  }
}

/// One run, compared.
void expect_runs(const GraphMaker& m, const CompiledModel& compiled) {
  auto model = compiled.instantiate();
  ASSERT_TRUE(model.has_value()) << model.error().to_string();
  const auto inputs = random_inputs(*model, 3);
  ASSERT_TRUE(inputs.has_value());
  const auto outputs = model->run(*inputs);
  ASSERT_TRUE(outputs.has_value()) << outputs.error().to_string();
  expect_close(reference(m.graph, *inputs), *outputs);
}

GraphMaker two_layers() {
  GraphMaker m;
  Value* x = m.node("Relu", {m.conv(m.input("x", {1, 16, 12, 14}), 32, 3)});
  m.graph.add_output("y", m.node("Relu", {m.conv(x, 24, 1)}));
  return m;
}

TEST(CompileModel, KernelsOfOthers) {
  const KernelSourceDef* onednn = find_kernel_source("onednn");
  ASSERT_NE(onednn, nullptr);
  if (const auto version = onednn->version(); !version) GTEST_SKIP() << version.error().message;
  GraphMaker m = two_layers();
  const auto with_onednn = [&](int threads) {
    CompileOptions options = host_options(threads);
    options.find_trace = [onednn, target = options.target,
                          threads](const Func& workload) -> std::optional<std::string> {
      const auto offered = offered_schedule(*onednn, workload, std::make_shared<const Target>(target), threads);
      if (!offered) return std::nullopt;
      return to_text(offered->schedule.trace());
    };
    return options;
  };
  expect_correct(m, with_onednn);
  const auto compiled = compile_model(m.graph, with_onednn(1));
  ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
  int theirs = 0;
  for (const TaskInfo& task : compiled->tasks()) theirs += task.source.starts_with("oneDNN ");
  EXPECT_EQ(theirs, 2);
  const auto model = compiled->instantiate();
  ASSERT_TRUE(model.has_value());
  EXPECT_NE(std::string(model->info().compiler).find("needs oneDNN "), std::string::npos);
}

/// Declines whatever it is asked for.
constinit const KernelSourceDef kNothing = {
    .name = "nothing",
    .device = "llvm",
    .library = "a library",
    .description = "nothing",
    .version = [] { return Result<std::string>("1"); },
    .offer = [](const Func&, int) -> Result<KernelOffer> { return fail(ErrorCode::E301, "it has no kernels"); },
    .build = nullptr};

TEST(CompileModel, CandidatesOfEachTask) {
  const AddedKernelSource added(kNothing);
  GraphMaker m = two_layers();
  m.graph.sort();
  Plans plans(m.graph);
  const auto planned = plan_model(plans, host_options(1));
  ASSERT_TRUE(planned.has_value()) << planned.error().to_string();
  const auto timed = time_candidates(*planned, kernel_sources(), 0.01);
  ASSERT_TRUE(timed.has_value()) << timed.error().to_string();
  ASSERT_EQ(timed->size(), planned->tasks().size());
  for (const TaskCandidates& task : *timed) {
    EXPECT_GT(task.own_s, 0);
    ASSERT_EQ(task.offers.size(), kernel_sources().size());
    EXPECT_EQ(task.offers.back().source, "nothing");
    EXPECT_EQ(task.offers.back().declined, "it has no kernels");
    for (const TaskOffer& offer : task.offers) EXPECT_EQ(offer.kernel.empty(), offer.seconds == 0);
  }
}

// A class token before rows of patches, as vision transformers have it: a constant is copied into its part.
TEST(CompileModel, ConstantsBesideWhatIsComputed) {
  GraphMaker m;
  Value* x = m.input("x", {1, 3, 8, 8});
  Value* flat = m.node("Reshape", {m.conv(x, 24, 1)}, with_ints("shape", {1, 24, 64}));
  Value* patches = m.node("Transpose", {flat}, with_ints("perm", {0, 2, 1}));
  Attrs axis;
  axis.set("axis", int64_t{1});
  Value* rows = m.node("Concat", {m.weights("token", {1, 1, 24}, 1), patches}, axis);
  m.graph.add_output("y", m.node("MatMul", {rows, m.weights("w", {24, 40}, 24)}));
  expect_correct(m);
}

// One kernel of two convolutions, in either layout.
TEST(CompileModel, FusedConvolutions) {
  GraphMaker m;
  Value* x = m.input("x", {1, 8, 10, 14});
  Value* expanded = m.node("Relu", {m.conv(x, 24, 1)});
  Value* filtered = m.node("Relu", {m.conv(expanded, 24, 3, 24, 2)});
  m.graph.add_output("y", m.node("Relu", {m.conv(filtered, 16, 1)}));
  m.graph.sort();
  for (const ImageLayout layout : {ImageLayout::kChannelsLast, ImageLayout::kChannelsFirst})
    for (const std::vector<int>& fused : {std::vector<int>{}, std::vector<int>{0}}) {
      CompileOptions options = host_options(2);
      options.layout = layout;
      options.fused = fused;
      const auto compiled = compile_model(m.graph, options);
      ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
      // What is made channels last is copied to the model's layout.
      EXPECT_EQ(compiled->tasks().size(), 3 - fused.size() + (layout == ImageLayout::kChannelsLast ? 1 : 0));
      expect_runs(m, *compiled);
    }
}

// Windows that overlap, that leave gaps in the phases, and that lie side by side; few and many channels.
TEST(CompileModel, TransposedConvolutions) {
  struct Spec {
    int64_t channels, kernel, stride, pad, groups = 1, padding = 0;
  };
  for (const Spec& spec : {Spec{20, 4, 2, 1}, Spec{1, 4, 2, 1}, Spec{20, 3, 2, 1}, Spec{6, 5, 3, 2}, Spec{20, 2, 2, 0},
                           Spec{3, 2, 2, 0}, Spec{1, 3, 2, 1}, Spec{20, 1, 2, 0}, Spec{3, 1, 3, 0, 1, 2},
                           Spec{20, 5, 2, 2, 2, 1}, Spec{34, 4, 3, 0, 2}, Spec{8, 3, 2, 1, 8, 1}}) {
    SCOPED_TRACE(fmt::format("{} channels, {}x{}, stride {}, {} groups", spec.channels, spec.kernel, spec.kernel,
                             spec.stride, spec.groups));
    GraphMaker m;
    Value* x = m.conv(m.input("x", {1, 8, 5, 7}), 8, 1);
    Attrs attrs{{"strides", std::vector<int64_t>(2, spec.stride)},
                {"pads", std::vector<int64_t>(4, spec.pad)},
                {"output_padding", std::vector<int64_t>(2, spec.padding)},
                {"group", spec.groups}};
    const std::vector<int64_t> weights{8, spec.channels / spec.groups, spec.kernel, spec.kernel};
    Value* made = m.node("ConvTranspose", {x, m.weights("w", weights, 8)}, attrs);
    Value* offset = m.weights("offset", {1, spec.channels, 1, 1}, 1);
    m.graph.add_output("y", m.node("Relu", {m.node("Add", {made, offset})}));
    expect_correct(m);
  }
}

TEST(CompileModel, ConvolutionsWithEpilogues) {
  GraphMaker m;
  Value* x = m.input("x", {1, 3, 12, 14});
  Value* a = m.node("Relu", {m.conv(x, 16, 3, 1, 2)});
  Value* b = m.node("Add", {m.conv(a, 16, 3, 16), m.weights("bias", {1, 16, 1, 1}, 1)});
  Value* c = m.node("Mul", {b, m.node("Sigmoid", {b})});
  m.graph.add_output("y", m.node("Add", {m.conv(c, 16, 1), a}));
  expect_correct(m);
}

TEST(CompileModel, TwoOfTheSameWorkWithTheirOwnWeights) {
  GraphMaker m;
  Value* x = m.input("x", {1, 8, 6, 6});
  Value* a = m.conv(m.conv(m.conv(m.conv(x, 8, 1), 8, 1), 8, 1), 8, 1);
  m.graph.add_output("y", a);
  expect_correct(m);
}

TEST(CompileModel, AttentionThroughViews) {
  GraphMaker m;
  Value* x = m.input("x", {1, 10, 24});
  Value* qkv = m.node("MatMul", {x, m.weights("w", {24, 72}, 24)});
  Value* parts = m.node("Transpose", {m.node("Reshape", {qkv}, with_ints("shape", {1, 10, 3, 3, 8}))},
                        with_ints("perm", {2, 0, 3, 1, 4}));
  const auto part = [&](int64_t i) {
    Attrs attrs = with_ints("starts", {i});
    attrs.set("ends", std::vector<int64_t>{i + 1});
    attrs.set("axes", std::vector<int64_t>{0});
    return m.node("Squeeze", {m.node("Slice", {parts}, attrs)}, with_ints("axes", {0}));
  };
  Value* k = m.node("Transpose", {part(1)}, with_ints("perm", {0, 1, 3, 2}));
  Attrs last;
  last.set("axis", int64_t{-1});
  Value* weights = m.node("Softmax", {m.node("MatMul", {part(0), k})}, last);
  Value* mixed = m.node("Transpose", {m.node("MatMul", {weights, part(2)})}, with_ints("perm", {0, 2, 1, 3}));
  m.graph.add_output("y", m.node("Reshape", {mixed}, with_ints("shape", {1, 10, 24})));
  expect_correct(m);
}

// Two groups of two heads, whose queries are the last of the keys: one kernel, and one where products stand alone.
TEST(CompileModel, CausalAttentionOfGroups) {
  GraphMaker m;
  Value *q = m.input("q", {1, 2, 2, 70, 16}), *k = m.input("k", {1, 2, 1, 300, 16}),
        *v = m.input("v", {1, 2, 1, 300, 8});
  Value* turned = m.node("Transpose", {k}, with_ints("perm", {0, 1, 2, 4, 3}));
  Value* scores = m.node("Mul", {m.node("MatMul", {q, turned}), m.constant("scale", {}, 0.25)});
  Value* masked = m.node("CausalMask", {scores}, with_ints("offset", {230}));
  Attrs last;
  last.set("axis", int64_t{-1});
  m.graph.add_output("y", m.node("MatMul", {m.node("Softmax", {masked}, last), v}));
  m.graph.sort();
  for (const std::vector<int>& fused : {std::vector<int>{}, std::vector<int>{0}}) {
    CompileOptions options = host_options(2);
    options.fused = fused;
    const auto compiled = compile_model(m.graph, options);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
    EXPECT_EQ(compiled->tasks().size(), fused.empty() ? 3u : 1u);
    expect_runs(m, *compiled);
  }
}

// A layer's two directions are loops of small kernels, which no second thread makes quicker.
TEST(CompileModel, DirectionsAtOnce) {
  GraphMaker m;
  constexpr int64_t kSteps = 20, kInputs = 16, kHidden = 32;
  Attrs attrs;
  attrs.set("hidden_size", kHidden);
  attrs.set("direction", std::string("bidirectional"));
  Node* layer = m.graph.add_node(find_op("LSTM"), "layer",
                                 {m.input("x", {kSteps, 1, kInputs}), m.weights("W", {2, 4 * kHidden, kInputs}, 4, 1),
                                  m.weights("R", {2, 4 * kHidden, kHidden}, 6, 2)},
                                 std::move(attrs), {}, 3);
  for (const char* name : {"y", "h", "c"}) m.graph.add_output(name, layer->output(m.graph.outputs().size()));
  ASSERT_TRUE(optimize(m.graph));
  const auto on = [&](int threads) {
    const auto compiled = compile_model(m.graph, host_options(threads));
    return compiled ? compiled->plan_text() : compiled.error().to_string();
  };
  EXPECT_NE(on(2).find("at once"), std::string::npos) << on(2);
  EXPECT_EQ(on(1).find("at once"), std::string::npos) << on(1);
  expect_correct(m);
}

TEST(CompileModel, NormsAndPooling) {
  GraphMaker m;
  Value* x = m.input("x", {1, 16, 6, 8});
  Value* c = m.conv(x, 16, 1);
  Value* gate = m.node("Sigmoid", {m.conv(m.node("GlobalAveragePool", {c}), 16, 1)});
  Value* gated = m.node("Mul", {c, gate});
  Value* flat =
      m.node("Transpose", {m.node("Reshape", {gated}, with_ints("shape", {1, 16, 48}))}, with_ints("perm", {0, 2, 1}));
  Attrs mean = with_ints("axes", {-1});
  Value* centred = m.node("Sub", {flat, m.node("ReduceMean", {flat}, mean)});
  Value* variance = m.node("ReduceMean", {m.node("Mul", {centred, centred})}, mean);
  Value* root = m.node("Sqrt", {m.node("Add", {variance, m.constant("eps", {}, 1e-5)})});
  m.graph.add_output("y", m.node("Div", {centred, root}));
  m.graph.add_output("gate", gate);
  expect_correct(m);
}

// 3x3 convolutions are filtered where that pays, unless the error that it may add is more than what is allowed.
// What orders, counts and writes where data say, in machine code.
TEST(CompileModel, OrderAndPlacesOfData) {
  GraphMaker m;
  const auto all = [&](const char* op, std::vector<Value*> inputs, Attrs attrs, size_t n_outputs) {
    Node* node = m.graph.add_node(find_op(op), op, std::move(inputs), std::move(attrs), {}, n_outputs);
    const auto types = node->op->infer(*node);
    EXPECT_TRUE(types.has_value());
    for (size_t i = 0; i < n_outputs; ++i) node->outputs[i]->type = (*types)[i];
    return node->outputs;
  };
  int count = 0;
  const auto output = [&](Value* value) {
    Attrs to_f32;
    to_f32.set("to", int64_t{1});
    m.graph.add_output("y" + std::to_string(count++), m.node("Cast", {value}, to_f32));
  };
  Value* x = m.input("x", {6, 40});
  const auto top = all("TopK", {x}, {{"k", std::vector<int64_t>{7}}, {"axis", int64_t{1}}}, 2);
  Attrs added;
  added.set("axis", int64_t{1});
  added.set("reduction", std::string("add"));
  output(top[1]);
  output(m.node("ScatterElements", {x, top[1], top[0]}, added));
  Value* rows =
      m.node("Cast", {m.node("Mul", {m.input("rows", {9, 1}), m.constant("c", {1}, 12)})}, {{"to", int64_t{7}}});
  output(m.node("ScatterND", {x, rows, m.input("u", {9, 40})}, {{"reduction", std::string("max")}}));
  for (Value* part : all("BoundedUnique", {rows}, {}, 4)) output(part);
  for (Value* part : all("BoundedNonZero", {m.node("Relu", {x})}, {}, 2)) output(part);
  Value *boxes = m.input("boxes", {2, 40, 4}), *scores = m.input("scores", {2, 3, 40});
  Value* most = m.graph.add_constant("most", int_list(std::vector<int64_t>{11}));
  most->type = TensorType{kI64, {1}};
  for (Value* part : all("BoundedNonMaxSuppression", {boxes, scores, most, m.constant("t", {1}, 0.1)}, {}, 2))
    output(part);
  expect_correct(m);
}

TEST(CompileModel, WhatIsNotTunedKeepsTheErrorBound) {
  GraphMaker m;
  m.graph.add_output("y", m.node("Relu", {m.conv(m.input("x", {1, 32, 28, 28}), 32, 3)}));
  m.graph.sort();
  const auto largest_bound = [&](double allowed) {
    CompileOptions options = host_options(1);
    options.max_error_bound = allowed;
    const auto compiled = compile_model(m.graph, options);
    EXPECT_TRUE(compiled.has_value()) << compiled.error().to_string();
    double largest = 0;
    for (const TaskInfo& task : compiled->tasks()) largest = std::max(largest, task.error_bound);
    return largest;
  };
  EXPECT_EQ(largest_bound(100), 0);
  EXPECT_GT(largest_bound(CompileOptions().max_error_bound), 100);
}

TEST(CompileModel, TracesThatAreOfNoUseGiveWayToTheDefault) {
  GraphMaker m;
  m.graph.add_output("y", m.node("MatMul", {m.input("x", {8, 8}), m.weights("w", {8, 8}, 8)}));
  m.graph.sort();
  CompileOptions options = host_options(1);
  options.find_trace = [](const Func&) {
    return std::optional<std::string>("b0 = get_block(name=\"no such block\")\n");
  };
  std::string warned;
  options.warn = [&](const std::string& what) { warned += what; };
  const auto compiled = compile_model(m.graph, options);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
  EXPECT_NE(warned.find("E206"), std::string::npos) << warned;
  EXPECT_FALSE(compiled->tasks().at(0).tuned);
}

}  // namespace
}  // namespace fettle
