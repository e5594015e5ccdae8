// A decoder with a cache and a branch, of which two contexts run at once: what a thread sanitizer looks at.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/random.h"
#include "driver/open.h"
#include "frontend/onnx/model_builder.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

constexpr int64_t kHeads = 4, kGroups = 2, kWidth = 16, kHidden = kHeads * kWidth, kLayers = 2;

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  RandomStream random{seed};
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() - 0.5);
  return values;
}

class DecoderMaker {
 public:
  OnnxModel make() {
    BuilderValue x = input("x", {"B", "S", kHidden});
    for (int64_t layer = 0; layer < kLayers; ++layer) x = add("Add", {x, attention(x, std::to_string(layer))});
    // What a prompt ends with is scaled; single steps are not.
    const BuilderValue steps = add("Gather", {add("Shape", {x}), ints({1})});
    const BuilderValue is_prompt = add("Squeeze", {add("Greater", {steps, ints({1})})});
    const auto scaled = ModelBuilder::make("scaled").value(), same = ModelBuilder::make("same").value();
    output(scaled, "y", node(scaled, "Add", {x, x}).front());
    output(same, "y", node(same, "Identity", {x}).front());
    output(graph_, "y", node(graph_, "If", {is_prompt}, {{"then_branch", scaled}, {"else_branch", same}}).front());
    return graph_->finish().value();
  }

 private:
  using Inputs = std::vector<std::optional<BuilderValue>>;

  static std::vector<BuilderValue> node(const std::shared_ptr<ModelBuilder>& graph, const std::string& op,
                                        Inputs inputs,
                                        std::vector<std::pair<std::string, BuilderAttribute>> attributes = {},
                                        int n_outputs = 1) {
    const auto made = graph->add_node(
        {.op = op, .inputs = std::move(inputs), .n_outputs = n_outputs, .attributes = std::move(attributes)});
    EXPECT_TRUE(made) << made.error().to_string();
    std::vector<BuilderValue> values;
    for (const int value : made.value()) values.push_back({graph, value});
    return values;
  }
  static void output(const std::shared_ptr<ModelBuilder>& graph, const std::string& name, const BuilderValue& value) {
    EXPECT_TRUE(graph->add_output(name, value));
  }
  BuilderValue add(const std::string& op, Inputs inputs) { return node(graph_, op, std::move(inputs)).front(); }
  BuilderValue input(const std::string& name, std::vector<BuilderDim> shape) {
    return {graph_, graph_->add_input(name, kF32, std::move(shape)).value()};
  }
  BuilderValue ints(const std::vector<int64_t>& values) {
    return {graph_, graph_->add_constant("", int_list(values)).value()};
  }
  BuilderValue projected(const BuilderValue& x, int64_t columns) {
    const std::vector<float> weights = random_floats(kHidden * columns, seed_++);
    const auto tensor = to_tensor(std::vector<double>(weights.begin(), weights.end()), kF32, {kHidden, columns});
    return add("MatMul", {x, BuilderValue{graph_, graph_->add_constant("", tensor.value()).value()}});
  }
  BuilderValue attention(const BuilderValue& x, const std::string& layer) {
    const std::vector<BuilderDim> cache{"B", kGroups, "P", kWidth};
    const BuilderValue q = projected(x, kHidden), k = projected(x, kGroups * kWidth),
                       v = projected(x, kGroups * kWidth);
    const Inputs inputs{q, k, v, std::nullopt, input("past_k" + layer, cache), input("past_v" + layer, cache)};
    const auto made = node(graph_, "Attention", inputs,
                           {{"q_num_heads", kHeads}, {"kv_num_heads", kGroups}, {"is_causal", int64_t{1}}}, 3);
    output(graph_, "present_k" + layer, made[1]);
    output(graph_, "present_v" + layer, made[2]);
    return projected(made[0], kHidden);
  }

  std::shared_ptr<ModelBuilder> graph_ = ModelBuilder::make("decoder").value();
  uint64_t seed_ = 1;
};

/// What calls of so many rows come to, in a context of their own.
void generate(const Model& model, int64_t batch, uint64_t seed, std::vector<std::vector<float>>& made) {
  auto context = model.make_context();
  ASSERT_TRUE(context) << context.error().to_string();
  for (const int64_t rows : {9, 1, 1, 40, 1, 33, 1, 12, 1, 7}) {
    const std::vector<float> x = random_floats(batch * rows * kHidden, seed++);
    auto input = Tensor::make(FETTLE_F32, {batch, rows, kHidden});
    ASSERT_TRUE(input) << input.error().to_string();
    std::ranges::copy(x, input->elems<float>().begin());
    std::vector<NamedTensor> given;
    given.push_back({"x", std::move(*input)});
    const auto outputs = context->run(given);
    ASSERT_TRUE(outputs) << outputs.error().to_string();
    const std::span<const float> y = outputs->back().tensor.elems<float>();
    made.emplace_back(y.begin(), y.end());
  }
}

OpenOptions decoder_options(int64_t most_rows) {
  OpenOptions options{.threads = 2};
  options.sizes["P"].max = most_rows;
  options.sizes["B"] = {.min = 1, .max = 2};
  for (int64_t layer = 0; layer < kLayers; ++layer)
    for (const std::string name : {"k", "v"})
      options.states["present_" + name + std::to_string(layer)] = "past_" + name + std::to_string(layer);
  return options;
}

// Caches of all layers, by what the plan's calls write there.
TEST(Decoder, AStepWritesItsNewRowsOnly) {
  const auto planned = plan_source(DecoderMaker().make(), decoder_options(1024));
  ASSERT_TRUE(planned) << planned.error().to_string();
  for (const int64_t batch : {1, 2})
    for (const int64_t past : {0, 1, 700})
      for (const int64_t rows : {1, 9, 300}) {
        const int64_t elems = kLayers * 2 * batch * kGroups * rows * kWidth;
        EXPECT_EQ(state_bytes_written(planned->plan, {{"B", batch}, {"P", past}, {"S", rows}}), elems * 4)
            << batch << " " << past << " " << rows;
      }
}

TEST(Decoder, TwoContextsAtOnceMakeWhatEachMakesAlone) {
  const OpenOptions options = decoder_options(128);
  const auto model = open_model(DecoderMaker().make(), options);
  ASSERT_TRUE(model) << model.error().to_string();
  std::vector<std::vector<float>> alone[2], at_once[2];
  for (uint64_t i = 0; i < 2; ++i) generate(*model, 1 + static_cast<int64_t>(i), 100 * i, alone[i]);
  {
    std::jthread first([&] { generate(*model, 1, 0, at_once[0]); });
    generate(*model, 2, 100, at_once[1]);
  }
  EXPECT_EQ(at_once[0], alone[0]);
  EXPECT_EQ(at_once[1], alone[1]);
  ASSERT_EQ(alone[0].size(), 10U);
}

}  // namespace
}  // namespace fettle
