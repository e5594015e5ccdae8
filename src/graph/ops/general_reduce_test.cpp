// Reductions by bodies, against folds in plain C++.

#include "graph/loop_kernel.h"
#include "graph/ops/general_testing.h"

namespace fettle {
namespace {

using Fold = std::function<Doubles(const Doubles& state, const Doubles& element)>;

/// A body, and what it computes.
struct Reducer {
  const char* name;
  size_t n_operands;
  std::function<std::vector<Value*>(Graph&, const std::vector<Value*>&)> body;
  Fold fold;
  std::vector<DType> dtypes;
  Doubles first;
  bool is_known = false;
};

class GeneralReduce : public GeneralOps {
 protected:
  static Doubles one(double x) { return {x}; }
  static Value* constant(Graph& body, double value, DType dtype) {
    return body.add_constant("c", scalar(value, dtype));
  }

  static std::vector<Reducer> reducers() {
    const auto pair = [](auto f) { return [f](const Doubles& s, const Doubles& e) { return Doubles{f(s[0], e[0])}; }; };
    const auto add = pair([](double a, double b) { return a + b; });
    const auto least = pair([](double a, double b) { return std::min(a, b); });
    const auto most = pair([](double a, double b) { return std::max(a, b); });
    const auto times = pair([](double a, double b) { return a * b; });
    const std::vector<DType> numbers{kF32, kF64, kI32, kI64};
    // (value, place) → those of the greatest value, and of its first place
    const auto greatest = [](Graph& b, const std::vector<Value*>& e) {
      Value* greater = node(b, "Greater", {e[2], e[0]});
      Value* first = node(b, "And", {node(b, "Equal", {e[2], e[0]}), node(b, "Less", {e[3], e[1]})});
      Value* takes = node(b, "Or", {greater, first});
      return std::vector{node(b, "Where", {takes, e[2], e[0]}), node(b, "Where", {takes, e[3], e[1]})};
    };
    const auto greatest_fold = [](const Doubles& s, const Doubles& e) {
      return e[0] > s[0] || (e[0] == s[0] && e[1] < s[1]) ? e : s;
    };
    // 2 a - b: neither commutes nor associates.
    const auto odd = [](Graph& b, const std::vector<Value*>& e) {
      return std::vector{node(b, "Sub", {node(b, "Add", {e[0], e[0]}), e[1]})};
    };
    // By a sum over a list: no elementwise work.
    const auto listed = [](Graph& b, const std::vector<Value*>& e) {
      const auto row = [&](Value* x) { return node(b, "Unsqueeze", {x}, {{"axes", Ints{0}}}); };
      Value* list = node(b, "Concat", {row(e[0]), row(e[1]), row(e[1])}, {{"axis", int64_t{0}}});
      return std::vector{node(b, "ReduceSum", {list}, {{"axes", Ints{0}}, {"keepdims", int64_t{0}}})};
    };
    return {
        {"add", 1, pairwise("Add"), add, numbers, {5}, true},
        {"add from nothing", 1, pairwise("Add"), add, numbers, {0}, true},
        {"multiply", 1, pairwise("Mul"), times, {kI64}, {3}, true},
        {"least", 1, pairwise("Min"), least, numbers, {1}, true},
        {"greatest", 1, pairwise("Max"), most, numbers, {-HUGE_VAL}, true},
        {"and", 1, pairwise("And"), times, {kBool}, {1}, true},
        {"or", 1, pairwise("Or"), most, {kBool}, {0}, true},
        {"exclusive or", 1, pairwise("Xor"), pair([](double a, double b) { return a == b ? 0.0 : 1.0; }), {kBool}, {1}},
        {"odd", 1, odd, pair([](double a, double b) { return 2 * a - b; }), {kF64, kI64}, {3}},
        {"listed", 1, listed, pair([](double a, double b) { return a + 2 * b; }), {kF32, kI64}, {-2}},
        // A limit of one element is no limit of all.
        {"limit",
         1,
         [](Graph& b, const std::vector<Value*>& e) {
           return std::vector{node(b, "Clip", {e[0], nullptr, node(b, "Add", {e[1], e[1]})})};
         },
         pair([](double a, double b) { return std::min(a, 2 * b); }),
         {kF32},
         {2}},
        {"first of the greatest", 2, greatest, greatest_fold, {kF32, kF64, kI32, kF16, kBF16}, {-100, 1000}},
        {"sum and product",
         2,
         [](Graph& b, const std::vector<Value*>& e) {
           return std::vector{node(b, "Add", {e[2], e[0]}), node(b, "Mul", {e[1], e[3]})};
         },
         [](const Doubles& s, const Doubles& e) { return Doubles{s[0] + e[0], s[1] * e[1]}; },
         {kI64},
         {1, 2},
         true},
    };
  }

  static double first_of(const Reducer& r, size_t i, DType dtype) {
    return std::isinf(r.first[i]) && !dtype.is_float() ? -1000 : r.first[i];
  }
  /// Operands of this shape, and what they begin with.
  Case random_case(const Reducer& r, const std::string& op, const Ints& shape, DType dtype) {
    Case c{.op = op, .bodies = {{2 * r.n_operands, r.body}}, .n_outputs = r.n_operands};
    for (size_t i = 0; i < r.n_operands; ++i) c.inputs.push_back({random_array(shape, dtype, -2, 2), dtype});
    for (size_t i = 0; i < r.n_operands; ++i) c.inputs.push_back({Array({}, first_of(r, i, dtype)), dtype, coin()});
    return c;
  }
  std::vector<Array> begin_with(const Case& c, const Ints& shape) const {
    std::vector<Array> results;
    for (size_t i = 0; i < c.n_outputs; ++i) results.emplace_back(shape, c.inputs[c.n_outputs + i].array.data[0]);
    return results;
  }
  static void fold_into(std::vector<Array>& results, const Ints& to, const Doubles& elements, const Fold& fold) {
    Doubles state;
    for (Array& result : results) state.push_back(result(to));
    state = fold(state, elements);
    for (size_t i = 0; i < results.size(); ++i) results[i](to) = state[i];
  }
  Doubles elements_at(const Case& c, const Ints& at) const {
    Doubles elements;
    for (size_t i = 0; i < c.n_outputs; ++i) elements.push_back(c.inputs[i].array(at));
    return elements;
  }
};

TEST_F(GeneralReduce, OverAxes) {
  for (const Reducer& r : reducers())
    for (const DType dtype : r.dtypes)
      for (int i = 0; i < 3; ++i) {
        const Ints shape = random_shape(1 + static_cast<size_t>(below(4)), 4);
        Ints axes, kept;
        for (size_t d = 0; d < shape.size(); ++d)
          if (coin())
            axes.push_back(static_cast<int64_t>(d));
          else
            kept.push_back(shape[d]);
        SCOPED_TRACE(fmt::format("{} of {}, {} of {} dims", r.name, dtype.to_string(), axes.size(), shape.size()));
        Case c = random_case(r, "fettle.Reduce", shape, dtype);
        c.attrs.set("axes", axes);
        std::vector<Array> want = begin_with(c, kept);
        for_each_index(shape, [&](const Ints& at) {
          Ints to;
          for (size_t d = 0; d < at.size(); ++d)
            if (std::ranges::count(axes, static_cast<int64_t>(d)) == 0) to.push_back(at[d]);
          fold_into(want, to, elements_at(c, at), r.fold);
        });
        check(c, want);
        if (HasFailure()) return;
      }
}

TEST_F(GeneralReduce, KnownOperationsAreReductionsAndOthersOneKernel) {
  for (const Reducer& r : reducers()) {
    SCOPED_TRACE(r.name);
    if (r.name == std::string("listed") || r.name == std::string("limit")) continue;
    Case c = random_case(r, "fettle.Reduce", {6, 5, 4}, r.dtypes[0]);
    c.attrs.set("axes", Ints{0, 1});
    const auto check_kernels = [&] {
      const Graph graph = optimized(c);
      EXPECT_EQ(has_op(graph, "Loop"), !r.is_known) << to_text(graph);
      for (const Node* made : graph.nodes())
        EXPECT_TRUE(made->bodies.empty() || is_loop_kernel(*made)) << to_text(graph);
    };
    check_kernels();
    for (size_t i = 0; i < r.n_operands; ++i) c.inputs[i].array = Array({3, 200, 100});
    c.attrs = {{"axes", Ints{0}}};
    check_kernels();
    c.op = "fettle.ReduceWindow";
    c.attrs = {{"window", Ints{2, 3, 1}}, {"pads", Ints{1, 0, 0, 0, 2, 0}}};
    check_kernels();
  }
}

// Long rows are folded in parts, where the model says that the order does not matter.
TEST_F(GeneralReduce, InAnyOrder) {
  for (const Reducer& r : reducers()) {
    if (r.name != std::string("first of the greatest")) continue;
    for (const auto& [shape, axes] :
         {std::pair{Ints{3, 100}, Ints{1}}, {{70001}, {0}}, {{2, 80, 3}, {1}}, {{90, 20}, {0}}}) {
      SCOPED_TRACE(to_string(Shape(shape.begin(), shape.end())));
      Case c = random_case(r, "fettle.Reduce", shape, kI32);
      c.attrs = {{"axes", axes}, {"any_order", int64_t{1}}};
      for (int64_t i = 0; i < c.inputs[1].array.count(); ++i) c.inputs[1].array.data[static_cast<size_t>(i)] = i % 7;
      Ints kept = shape;
      kept.erase(kept.begin() + axes[0]);
      std::vector<Array> want = begin_with(c, kept);
      for_each_index(shape, [&](const Ints& at) {
        Ints to = at;
        to.erase(to.begin() + axes[0]);
        fold_into(want, to, elements_at(c, at), r.fold);
      });
      check(c, want);
      const Graph graph = optimized(c);
      const auto loops = std::ranges::count_if(graph.nodes(), [](const Node* made) { return is_loop_kernel(*made); });
      EXPECT_EQ(loops, shape[0] == 90 ? 1 : 2) << to_text(graph);
    }
  }
}

TEST_F(GeneralReduce, HalvesAreSummedInSinglePrecision) {
  const auto widened = [](Graph& b, const std::vector<Value*>& e) {
    const auto to = [&](Value* x, DType dtype) { return node(b, "Cast", {x}, {{"to", onnx_number(dtype)}}); };
    return std::vector{to(node(b, "Add", {to(e[0], kF32), to(e[1], kF32)}), kF16)};
  };
  Case c{.op = "fettle.Reduce",
         .inputs = {{random_array({3, 50}, kF16), kF16}, {Array({}, 1), kF16}},
         .attrs = {{"axes", Ints{1}}},
         .bodies = {{2, widened}}};
  std::vector<Array> want{Array({3}, 1)};
  for_each_index({3, 50}, [&](const Ints& at) { want[0]({at[0]}) += c.inputs[0].array(at); });
  check(c, want);
  EXPECT_FALSE(has_op(optimized(c), "Loop"));
}

// The state has the type of what it begins with.
TEST_F(GeneralReduce, ElementsBecomeOfTheStatesType) {
  Case c{.op = "fettle.Reduce",
         .inputs = {{Array({4}, 100), kI8}, {Array({}, 7), kI32}},
         .attrs = {{"axes", Ints{0}}},
         .bodies = {{2, pairwise("Add")}}};
  check(c, {Array({}, 407)});
}

TEST_F(GeneralReduce, BodiesReadTheGraphAround) {
  for (const bool is_list : {false, true}) {
    const auto body = [&](Graph& b, const std::vector<Value*>& e) {
      Value* factor = is_list ? node(b, "ReduceSum", {e[2]}, {{"keepdims", int64_t{0}}}) : e[2];
      Value* product = node(b, "Mul", {e[0], factor});
      product->declared = TensorType{kI64, {}};
      return std::vector{node(b, "Sub", {product, e[1]})};
    };
    Case c{.op = "fettle.Reduce",
           .inputs = {{random_array({3, 4}, kI64), kI64},
                      {Array({}, 1), kI64},
                      {is_list ? Array({3}, 1) : Array({}, 3), kI64}},
           .attrs = {{"axes", Ints{0}}},
           .bodies = {{3, body}}};
    std::vector<Array> want{Array({4}, 1)};
    for_each_index({3, 4}, [&](const Ints& at) { want[0]({at[1]}) = 3 * want[0]({at[1]}) - c.inputs[0].array(at); });
    check(c, want);
  }
}

TEST_F(GeneralReduce, NanComesThroughKnownExtremes) {
  Case c{.op = "fettle.Reduce",
         .inputs = {{Array({3, 2}, 1), kF32}, {Array({}, -HUGE_VAL), kF32, true}},
         .attrs = {{"axes", Ints{0}}},
         .bodies = {{2, pairwise("Max")}}};
  c.inputs[0].array({1, 0}) = NAN;
  check(c, {[] {
          Array want({2}, 1);
          want({0}) = NAN;
          return want;
        }()});
}

TEST_F(GeneralReduce, Cumulative) {
  for (const Reducer& r : reducers())
    for (const DType dtype : r.dtypes)
      for (const bool exclusive : {false, true}) {
        const Ints shape = random_shape(1 + static_cast<size_t>(below(3)), 5);
        const int64_t axis = below(std::ssize(shape));
        const bool reverse = coin();
        SCOPED_TRACE(fmt::format("{} of {}, axis {} of {}, {} {}", r.name, dtype.to_string(), axis, shape.size(),
                                 exclusive ? "exclusive" : "", reverse ? "reverse" : ""));
        Case c = random_case(r, "fettle.CumulativeReduce", shape, dtype);
        c.attrs = {{"axis", axis}, {"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}};
        const auto a = static_cast<size_t>(axis);
        Ints kept = shape;
        kept.erase(kept.begin() + axis);
        std::vector<Array> state = begin_with(c, kept), want = begin_with(c, shape);
        for (int64_t step = 0; step < shape[a]; ++step)
          for_each_index(kept, [&](const Ints& other) {
            Ints at = other;
            at.insert(at.begin() + axis, reverse ? shape[a] - 1 - step : step);
            const auto note = [&] {
              for (size_t i = 0; i < want.size(); ++i) want[i](at) = state[i](other);
            };
            if (exclusive) note();
            fold_into(state, other, elements_at(c, at), r.fold);
            if (!exclusive) note();
          });
        check(c, want);
        if (HasFailure()) return;
      }
}

TEST_F(GeneralReduce, OverWindows) {
  for (const Reducer& r : reducers())
    for (const DType dtype : r.dtypes)
      for (int i = 0; i < 3; ++i) {
        const size_t rank = 1 + static_cast<size_t>(below(4));
        const Ints shape = random_shape(rank, 6);
        const bool is_image = rank > 2 && coin();  // nothing is done with the first two dims
        Ints window(rank, 1), strides(rank, 1), dilations(rank, 1), base(rank, 1), low(rank, 0), high(rank, 0);
        for (size_t d = is_image ? 2 : 0; d < rank; ++d) {
          window[d] = 1 + below(3);
          strides[d] = 1 + below(2);
          dilations[d] = 1 + below(2);
          if (!is_image) base[d] = 1 + below(2);
          const int64_t extent = shape[d] == 0 ? 0 : (shape[d] - 1) * base[d] + 1;
          low[d] = below(3) - (is_image || extent < 2 ? 0 : 1);
          high[d] = below(3) - (is_image || extent < 2 ? 0 : 1);
        }
        SCOPED_TRACE(
            fmt::format("{} of {}, {}", r.name, dtype.to_string(), to_string(Shape(shape.begin(), shape.end()))));
        Case c = random_case(r, "fettle.ReduceWindow", shape, dtype);
        Ints pads = low;
        pads.insert(pads.end(), high.begin(), high.end());
        c.attrs = {{"window", window},
                   {"strides", strides},
                   {"dilations", dilations},
                   {"base_dilations", base},
                   {"pads", pads}};
        Ints counts;
        for (size_t d = 0; d < rank; ++d) {
          const int64_t dilated = shape[d] == 0 ? 0 : (shape[d] - 1) * base[d] + 1;
          const int64_t room = dilated + low[d] + high[d] - ((window[d] - 1) * dilations[d] + 1);
          counts.push_back(room < 0 ? 0 : room / strides[d] + 1);
        }
        std::vector<Array> want = begin_with(c, counts);
        for_each_index(counts, [&](const Ints& o) {
          for_each_index(window, [&](const Ints& k) {
            Ints at(rank);
            bool is_element = true;
            for (size_t d = 0; d < rank; ++d) {
              const int64_t place = o[d] * strides[d] + k[d] * dilations[d] - low[d];
              is_element = is_element && place >= 0 && place % base[d] == 0 && place / base[d] < shape[d];
              at[d] = place / base[d];
            }
            Doubles elements;
            for (size_t n = 0; n < c.n_outputs; ++n)
              elements.push_back(is_element ? c.inputs[n].array(at) : c.inputs[c.n_outputs + n].array.data[0]);
            fold_into(want, o, elements, r.fold);
          });
        });
        check(c, want);
        if (HasFailure()) return;
      }
}

TEST_F(GeneralReduce, WindowsOverImagesArePools) {
  Case c{.op = "fettle.ReduceWindow",
         .inputs = {{random_array({2, 3, 8, 8}, kF32), kF32}, {Array({}, -HUGE_VAL), kF32, true}},
         .attrs = {{"window", Ints{1, 1, 3, 3}}, {"strides", Ints{1, 1, 2, 2}}, {"pads", Ints{0, 0, 1, 1, 0, 0, 1, 1}}},
         .bodies = {{2, pairwise("Max")}}};
  const Graph graph = optimized(c);
  EXPECT_TRUE(has_op(graph, "MaxPool"));
  EXPECT_EQ(graph.nodes().size(), 1u) << to_text(graph);
}

// What max pooling hands back, and the same by bodies that Fettle has no operation for.
TEST_F(GeneralReduce, SelectAndScatter) {
  const auto odd = [](Graph& b, const std::vector<Value*>& e) {
    return std::vector{node(b, "Sub", {node(b, "Add", {e[0], e[0]}), e[1]})};
  };
  const auto nearer = [](Graph& b, const std::vector<Value*>& e) {
    return std::vector{node(b, "LessOrEqual", {node(b, "Abs", {e[0]}), node(b, "Abs", {e[1]})})};
  };
  for (const DType dtype : {kF32, kF64, kI32, kI64})
    for (int i = 0; i < 6; ++i) {
      const bool is_known = i % 2 == 0;
      const size_t rank = 1 + static_cast<size_t>(below(3));
      const Ints shape = random_shape(rank, 6);
      Ints window(rank), strides(rank), pads(2 * rank, 0), counts;
      for (size_t d = 0; d < rank; ++d) {
        window[d] = 1 + below(3);
        strides[d] = 1 + below(3);
        pads[d] = below(window[d]);
        pads[rank + d] = below(window[d]);
        const int64_t room = shape[d] + pads[d] + pads[rank + d] - window[d];
        counts.push_back(room < 0 ? 0 : room / strides[d] + 1);
      }
      SCOPED_TRACE(fmt::format("{} of {} dims", dtype.to_string(), rank));
      Case c{
          .op = "fettle.SelectAndScatter",
          .inputs = {{random_array(shape, dtype), dtype}, {random_array(counts, dtype), dtype}, {Array({}, 1), dtype}},
          .attrs = {{"window", window}, {"strides", strides}, {"pads", pads}},
          .bodies = {{2, is_known ? pairwise("GreaterOrEqual") : nearer}, {2, is_known ? pairwise("Add") : odd}},
          .body_names = {"select", "scatter"}};
      Array want(shape, 1);
      for_each_index(counts, [&](const Ints& o) {
        Ints chosen;
        for_each_index(window, [&](const Ints& k) {
          Ints at(rank);
          for (size_t d = 0; d < rank; ++d) at[d] = o[d] * strides[d] + k[d] - pads[d];
          const Array& x = c.inputs[0].array;
          if (!x.has(at)) return;
          const bool stays =
              !chosen.empty() && (is_known ? x(chosen) >= x(at) : std::abs(x(chosen)) <= std::abs(x(at)));
          if (!stays) chosen = at;
        });
        if (chosen.empty()) return;
        const double source = c.inputs[1].array(o);
        want(chosen) = is_known ? want(chosen) + source : 2 * want(chosen) - source;
      });
      check(c, {want});
      if (HasFailure()) return;
    }
}

TEST_F(GeneralReduce, WhatDoesNotFitIsRefused) {
  Case c{.op = "fettle.Reduce",
         .inputs = {{Array({3, 4}), kF32}, {Array({}, 1), kF32}},
         .attrs = {{"axes", Ints{2}}},
         .bodies = {{2, pairwise("Add")}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);  // no such axis
  c.attrs = {{"axes", Ints{0}}, {"keepdims", int64_t{1}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);  // no such attribute
  c.attrs = {{"axes", Ints{0}}};
  c.inputs[1].array = Array({2}, 1);
  EXPECT_EQ(refusal(c).code, ErrorCode::E605);  // two elements to begin with
  c.inputs[1].array = Array({}, 1);
  c.bodies = {{3, pairwise("Add")}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);  // a body of three elements
  c.bodies = {};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);
  c.bodies = {{2, pairwise("Less")}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E605);  // what it returns is no state
}

}  // namespace
}  // namespace fettle
