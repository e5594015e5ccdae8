// Sorts by bodies, against std::stable_sort.

#include <numeric>

#include "graph/ops/general_testing.h"

namespace fettle {
namespace {

class GeneralSort : public GeneralOps {
 protected:
  using Before = std::function<bool(const Doubles& a, const Doubles& b)>;

  Case random_case(const Ints& shape, int64_t axis, const std::vector<DType>& dtypes, const Body& body) {
    Case c{.op = "fettle.Sort",
           .attrs = {{"axis", axis}},
           .bodies = {{2 * dtypes.size(), body}},
           .n_outputs = dtypes.size()};
    for (const DType dtype : dtypes) c.inputs.push_back({random_array(shape, dtype, -3, 3), dtype});
    return c;
  }
  void check_sorted(const Case& c, const Before& before) {
    const Ints shape = c.inputs[0].array.shape;
    const int64_t axis = c.attrs.get_int("axis", -1) < 0 ? std::ssize(shape) - 1 : c.attrs.get_int("axis", -1);
    std::vector<Array> want;
    for (const Input& input : c.inputs) want.push_back(input.array);
    Ints others = shape;
    others[static_cast<size_t>(axis)] = 1;
    for_each_index(others, [&](const Ints& row) {
      const auto at = [&](int64_t k) {
        Ints place = row;
        place[static_cast<size_t>(axis)] = k;
        return place;
      };
      const auto elements = [&](int64_t k) {
        Doubles list;
        for (const Input& input : c.inputs) list.push_back(input.array(at(k)));
        return list;
      };
      Ints order(static_cast<size_t>(shape[static_cast<size_t>(axis)]));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return before(elements(a), elements(b)); });
      for (size_t k = 0; k < order.size(); ++k)
        for (size_t i = 0; i < want.size(); ++i) want[i](at(static_cast<int64_t>(k))) = elements(order[k])[i];
    });
    check(c, want);
  }
};

TEST_F(GeneralSort, ByOneOperandsOrder) {
  for (const DType dtype : {kF32, kF64, kI32, kI64, kU8})
    for (const bool descends : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype.to_string(), descends));
      const Ints shape = random_shape(1 + static_cast<size_t>(below(3)), 7);
      const bool turned = coin();
      const Body body = [&](Graph& b, const Values& e) {  // of the second operand
        return Values{descends && turned ? node(b, "Less", {e[3], e[2]})
                                         : node(b, descends ? "Greater" : "Less", {e[2], e[3]})};
      };
      const Case c = random_case(shape, below(std::ssize(shape)), {kI64, dtype}, body);
      check_sorted(c, [&](const Doubles& a, const Doubles& b) { return descends ? a[1] > b[1] : a[1] < b[1]; });
      EXPECT_FALSE(has_op(optimized(c), "Loop"));
      if (HasFailure()) return;
    }
}

TEST_F(GeneralSort, ByAnyOrder) {
  // By the first operand downwards, then by the second upwards.
  const Body by_both = [](Graph& b, const Values& e) {
    Value* second = node(b, "And", {node(b, "Equal", {e[0], e[1]}), node(b, "Less", {e[2], e[3]})});
    return Values{node(b, "Or", {node(b, "Greater", {e[0], e[1]}), second})};
  };
  const auto before = [](const Doubles& a, const Doubles& b) { return a[0] > b[0] || (a[0] == b[0] && a[1] < b[1]); };
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31})
    for (const bool last : {false, true}) {
      SCOPED_TRACE(fmt::format("{} elements", n));
      check_sorted(random_case(last ? Ints{2, n} : Ints{n, 3}, last ? 1 : 0, {kF32, kI64}, by_both), before);
      if (HasFailure()) return;
    }
}

TEST_F(GeneralSort, WhatIsNotToldApartStaysInOrder) {
  // Halves: most are equal.
  const Body body = [](Graph& b, const Values& e) {
    const auto half = [&](Value* x) { return node(b, "Div", {x, b.add_constant("two", scalar(2, kI64))}); };
    return Values{node(b, "LessOrEqual", {half(e[0]), half(e[1])})};
  };
  const auto half = [](double x) { return static_cast<int64_t>(x) / 2; };
  Case c = random_case({20}, 0, {kI64, kI32}, body);
  std::iota(c.inputs[1].array.data.begin(), c.inputs[1].array.data.end(), 0);
  check_sorted(c, [&](const Doubles& a, const Doubles& b) { return half(a[0]) < half(b[0]); });
}

TEST_F(GeneralSort, WhatDoesNotFitIsRefused) {
  Case c = random_case({3, 4}, 2, {kF32}, pairwise("Less"));
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);  // no such axis
  c.attrs = {{"axis", int64_t{0}}};
  c.bodies = {{4, pairwise("Less")}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);
  c = random_case({3, 4}, 0, {kF32, kF32}, pairwise("Less"));
  c.inputs[1].array = Array({4, 3});
  EXPECT_EQ(refusal(c).code, ErrorCode::E605);
}

}  // namespace
}  // namespace fettle
