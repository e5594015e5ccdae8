// What operators that write, order and count where data say come to, against plain C++.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "graph/evaluate.h"
#include "graph/testing.h"

namespace fettle {
namespace {

template <class T>
struct Type;
template <>
struct Type<float> {
  static constexpr DType dtype = kF32;
};
template <>
struct Type<int64_t> {
  static constexpr DType dtype = kI64;
};

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
ConstantTensor tensor(Ints shape, const std::vector<T>& values) {
  TensorBuilder builder = *make_tensor(Type<T>::dtype, std::move(shape));
  std::ranges::copy(values, builder.elems<T>().begin());
  return std::move(builder).finish();
}
template <class T>
std::vector<T> values_of(const ConstantTensor& t) {
  const auto elems = t.elems<T>();
  return {elems.begin(), elems.end()};
}

/// The outputs of one node over these inputs, by the interpreter.
std::vector<ConstantTensor> run(const char* op, std::vector<ConstantTensor> inputs, Attrs attrs = {},
                                size_t n_outputs = 1) {
  Graph graph{"g"};
  std::vector<Value*> values;
  std::map<std::string, ConstantTensor> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    values.push_back(graph.add_input(name, {inputs[i].dtype, Shape(inputs[i].shape.begin(), inputs[i].shape.end())}));
    given.emplace(name, inputs[i]);
  }
  Node* node = graph.add_node(find_op(op), "n", values, std::move(attrs), {}, n_outputs);
  const auto types = node->op->infer(*node);
  EXPECT_TRUE(types) << (types ? "" : types.error().to_string());
  if (!types) return {};
  for (size_t i = 0; i < n_outputs; ++i) {
    node->outputs[i]->type = (*types)[i];
    graph.add_output("y" + std::to_string(i), node->outputs[i]);
  }
  const auto made = evaluate(graph, given, interpreter_executor());
  EXPECT_TRUE(made) << (made ? "" : made.error().to_string());
  std::vector<ConstantTensor> outputs;
  for (size_t i = 0; made && i < n_outputs; ++i) outputs.push_back(made->at("y" + std::to_string(i)));
  return outputs;
}

// NaN is greater than every number; equal elements keep their order.
bool is_less(float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

void expect_top(const Floats& x, int64_t k, bool largest) {
  Ints order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t i, int64_t j) {
    const float a = x[static_cast<size_t>(i)], b = x[static_cast<size_t>(j)];
    return largest ? is_less(b, a) : is_less(a, b);
  });
  order.resize(static_cast<size_t>(k));
  const auto got = run("TopK", {tensor<float>({static_cast<int64_t>(x.size())}, x)},
                       {{"k", Ints{k}}, {"largest", int64_t{largest}}}, 2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(values_of<int64_t>(got[1]), order) << x.size() << " " << k;
  for (size_t i = 0; i < order.size(); ++i) {
    const float want = x[static_cast<size_t>(order[i])], is = static_cast<float>(got[0].at(static_cast<int64_t>(i)));
    EXPECT_TRUE(is == want || (std::isnan(is) && std::isnan(want)));
  }
}

TEST(Order, TopKIsThatOfAStableSort) {
  RandomStream stream{5};
  for (const int64_t n : {0, 1, 2, 3, 7, 8, 33, 100})
    for (const bool largest : {false, true}) {
      Floats x;
      for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(stream.below(static_cast<uint64_t>(n))));
      for (const int64_t k : {int64_t{0}, int64_t{1}, n / 2, n})
        if (k <= n) expect_top(x, k, largest);
    }
}

TEST(Order, NanIsGreaterThanInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const bool largest : {false, true})
    for (const int64_t k : {1, 3, 8}) expect_top({1, kNan, -inf, inf, kNan, 0, -0.0F, inf}, k, largest);
}

TEST(Scatter, PlacesOutsideAreLeftAlone) {
  const Floats x{1, 2, 3, 4};
  const auto got = run("ScatterElements",
                       {tensor<float>({4}, x), tensor<int64_t>({6}, {0, -1, 4, -5, 1LL << 62, 0}),
                        tensor<float>({6}, {10, 20, 30, 40, 50, 60})},
                       {{"axis", int64_t{0}}});
  EXPECT_EQ(values_of<float>(got[0]), (Floats{60, 2, 3, 20}));
}

TEST(Bounded, NonZeroInRowMajorOrder) {
  const auto got = run("BoundedNonZero", {tensor<float>({2, 3}, {0, kNan, -0.0F, 1, 0, -2})}, {}, 2);
  EXPECT_EQ(values_of<int64_t>(got[0]), (Ints{0, 1, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0}));
  EXPECT_EQ(values_of<int64_t>(got[1]), Ints{3});
}

TEST(Bounded, UniqueRows) {
  RandomStream stream{9};
  for (const int64_t n : {0, 1, 2, 9, 40})
    for (const int64_t m : {1, 2, 3})
      for (const int64_t sorted : {0, 1}) {
        std::vector<float> x;
        for (int64_t i = 0; i < n * m; ++i)
          x.push_back(stream.below(4) == 0 ? kNan : static_cast<float>(stream.below(2)));
        const auto row = [&](int64_t i) {
          return std::span<const float>(x).subspan(static_cast<size_t>(i * m), static_cast<size_t>(m));
        };
        const auto less = [&](int64_t i, int64_t j) {
          return std::ranges::lexicographical_compare(row(i), row(j), is_less);
        };
        Ints first;
        for (int64_t i = 0; i < n; ++i)
          if (std::ranges::none_of(first, [&](int64_t j) { return !less(i, j) && !less(j, i); })) first.push_back(i);
        if (sorted) std::ranges::sort(first, less);
        const auto count = static_cast<int64_t>(first.size());
        Ints inverse, counts(static_cast<size_t>(n), 0);
        for (int64_t i = 0; i < n; ++i) {
          const auto at = std::ranges::find_if(first, [&](int64_t j) { return !less(i, j) && !less(j, i); });
          inverse.push_back(at - first.begin());
          ++counts[static_cast<size_t>(inverse.back())];
        }
        first.resize(static_cast<size_t>(n), 0);
        const auto got = run("BoundedUnique", {tensor<float>({n, m}, x)}, {{"sorted", sorted}}, 4);
        ASSERT_EQ(got.size(), 4U);
        EXPECT_EQ(values_of<int64_t>(got[0]), first);
        EXPECT_EQ(values_of<int64_t>(got[1]), inverse);
        EXPECT_EQ(values_of<int64_t>(got[2]), counts);
        EXPECT_EQ(values_of<int64_t>(got[3]), Ints{count});
      }
}

// --- the best boxes, by comparing each with all that were taken

struct Edges {
  float x0, y0, x1, y1;
};
Edges edges(const float* box, bool center) {
  if (center) return {box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2};
  return {std::min(box[0], box[2]), std::min(box[1], box[3]), std::max(box[0], box[2]), std::max(box[1], box[3])};
}
float overlap(const Edges& p, const Edges& q) {
  const float w = std::min(p.x1, q.x1) - std::max(p.x0, q.x0), h = std::min(p.y1, q.y1) - std::max(p.y0, q.y0);
  if (w <= 0 || h <= 0) return 0;
  return w * h / ((p.x1 - p.x0) * (p.y1 - p.y0) + (q.x1 - q.x0) * (q.y1 - q.y0) - w * h);
}

TEST(Bounded, TheBestBoxesThatDoNotOverlap) {
  RandomStream stream{3};
  constexpr int64_t kBatches = 2, kClasses = 3, kBoxes = 30;
  for (const bool center : {false, true})
    for (const int64_t most : {0, 1, 4, 100}) {
      Floats boxes, scores;
      for (int64_t i = 0; i < kBatches * kBoxes * 4; ++i)
        boxes.push_back(static_cast<float>(stream.uniform()) * (center && i % 4 < 2 ? 2 : 1));
      // Some are equal.
      for (int64_t i = 0; i < kBatches * kClasses * kBoxes; ++i)
        scores.push_back(static_cast<float>(stream.below(20)) / 20);
      const float limit = 0.3F, least = 0.25F;
      Ints want;
      for (int64_t b = 0; b < kBatches; ++b)
        for (int64_t c = 0; c < kClasses; ++c) {
          const auto score = [&](int64_t i) { return scores[static_cast<size_t>((b * kClasses + c) * kBoxes + i)]; };
          const auto box = [&](int64_t i) { return edges(&boxes[static_cast<size_t>((b * kBoxes + i) * 4)], center); };
          Ints order(kBoxes), taken;
          std::iota(order.begin(), order.end(), 0);
          std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return score(i) > score(j); });
          for (const int64_t i : order)
            if (static_cast<int64_t>(taken.size()) < most && score(i) > least &&
                std::ranges::none_of(taken, [&](int64_t j) { return overlap(box(i), box(j)) > limit; })) {
              taken.push_back(i);
              want.insert(want.end(), {b, c, i});
            }
        }
      const auto got =
          run("BoundedNonMaxSuppression",
              {tensor<float>({kBatches, kBoxes, 4}, boxes), tensor<float>({kBatches, kClasses, kBoxes}, scores),
               tensor<int64_t>({1}, {most}), tensor<float>({1}, {limit}), tensor<float>({1}, {least})},
              {{"center_point_box", int64_t{center}}}, 2);
      ASSERT_EQ(got.size(), 2U);
      EXPECT_EQ(got[1].int_at(0), static_cast<int64_t>(want.size()) / 3);
      want.resize(kBatches * kClasses * kBoxes * 3, 0);
      EXPECT_EQ(values_of<int64_t>(got[0]), want) << most;
    }
}

}  // namespace
}  // namespace fettle
