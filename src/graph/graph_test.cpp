#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "graph/evaluate.h"
#include "graph/op.h"

namespace fettle {
namespace {

TensorType f32(Shape shape) { return {kF32, std::move(shape)}; }

TEST(ConstantTensor, ElementsOfEveryKind) {
  for (const DType dtype : {kF32, kF64, kF16, kBF16, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64})
    EXPECT_EQ(filled(3, dtype, {2, 2})->at(3), 3) << dtype.to_string();
  EXPECT_EQ(filled(-5, kI16, {1})->int_at(0), -5);
  EXPECT_EQ(filled(7, kBool, {1})->int_at(0), 1);
  EXPECT_EQ(to_ints(int_list(std::vector<int64_t>{4, -1})), (std::vector<int64_t>{4, -1}));
}

TEST(ConstantTensor, WholeNumbersEndWhere64BitsDo) {
  EXPECT_EQ(filled(1e30, kI64, {})->int_at(0), INT64_MAX);
  EXPECT_EQ(filled(-1e30, kI64, {})->int_at(0), INT64_MIN);
  EXPECT_EQ(static_cast<uint64_t>(filled(0x1p63, kU64, {})->int_at(0)), uint64_t{1} << 63);
  EXPECT_EQ(static_cast<uint64_t>(filled(1e30, kU64, {})->int_at(0)), UINT64_MAX);
  EXPECT_EQ(filled(std::nan(""), kI32, {})->int_at(0), 0);
}

TEST(ConstantTensor, RefusesWhatIsTooLarge) {
  EXPECT_EQ(checked_bytes(kF32, std::vector<int64_t>{1 << 20, 1 << 20}).error().code, ErrorCode::E608);
  EXPECT_EQ(checked_bytes(kF32, std::vector<int64_t>{-1}).error().code, ErrorCode::E608);
  EXPECT_EQ(checked_bytes(kF32, std::vector<int64_t>{int64_t{1} << 62, 0}).error().code, ErrorCode::E608);
  EXPECT_EQ(*checked_bytes(kF32, std::vector<int64_t>{1 << 30, 0}), 0);
}

TEST(Graph, EditsKeepUsersAndOrder) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* first = g.add_node(find_op("Relu"), "first", {x});
  Node* second = g.add_node(find_op("Add"), "second", {first->output(), first->output()});
  g.add_output("y", second->output());
  EXPECT_EQ(first->output()->users.size(), 2u);
  // A node added later that comes earlier.
  Node* between = g.add_node(find_op("Exp"), "between", {x});
  g.set_input(second, 1, between->output());
  g.sort();
  EXPECT_EQ(g.nodes().back(), second);
  ASSERT_TRUE(validate(g, false));
  // The graph's output keeps its name when its node goes.
  g.replace_node(second, first->output());
  g.sort();
  EXPECT_EQ(g.outputs()[0].name, "y");
  EXPECT_EQ(g.outputs()[0].value, first->output());
  EXPECT_EQ(g.nodes().size(), 2u);
  ASSERT_TRUE(validate(g, false));
}

TEST(Graph, NamesAreUnique) {
  Graph g("g");
  EXPECT_EQ(g.add_input("x", f32({}))->name, "x");
  EXPECT_EQ(g.add_input("x", f32({}))->name, "x.1");
}

TEST(Graph, CloneIsIndependent) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* add = g.add_node(find_op("Add"), "add", {x, g.add_constant("c", scalar(2))});
  add->outputs[0]->type = f32({2});
  g.add_output("y", add->output());
  Graph copy = g.clone();
  EXPECT_EQ(to_text(copy), to_text(g));
  copy.nodes()[0]->attrs.set("note", int64_t{1});
  EXPECT_FALSE(g.nodes()[0]->attrs.has("note"));
  ASSERT_TRUE(validate(copy, true));
}

TEST(Graph, ValidateFindsWrongTypesAndLinks) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* relu = g.add_node(find_op("Relu"), "relu", {x});
  relu->outputs[0]->type = f32({3});
  g.add_output("y", relu->output());
  EXPECT_EQ(validate(g, true).error().code, ErrorCode::E605);
  relu->outputs[0]->type = f32({2});
  EXPECT_TRUE(validate(g, true));
  x->users.clear();
  EXPECT_EQ(validate(g, false).error().code, ErrorCode::E605);
}

TEST(Op, FusionKindDependsOnShapes) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2, 3}));
  Node* same = g.add_node(find_op("Add"), "same", {x, x});
  same->outputs[0]->type = f32({2, 3});
  Node* wide = g.add_node(find_op("Add"), "wide", {x, g.add_input("row", f32({3}))});
  wide->outputs[0]->type = f32({2, 3});
  EXPECT_EQ(fusion_kind(*same), FusionKind::kElementwise);
  EXPECT_EQ(fusion_kind(*wide), FusionKind::kBroadcast);
}

TEST(Op, OpenSizesBecomeParameters) {
  Graph g("g");
  Value* x = g.add_input("x", f32({Dim::symbol("N", 1, 64, 2, 8)}));
  Node* relu = g.add_node(find_op("Relu"), "relu", {x});
  EXPECT_EQ(node_func(*relu).error().code, ErrorCode::E604);  // without types
  relu->outputs[0]->type = x->type;
  const auto func = node_func(*relu);
  ASSERT_TRUE(func);
  ASSERT_EQ((*func)->int_params.size(), 1u);
  const IntParam& n = (*func)->int_params[0];
  EXPECT_EQ((*func)->params[0].buffer->shape[0].get(), n.var.get());
  EXPECT_EQ((std::vector{n.min, n.max, n.multiple_of, n.typical}), (std::vector<int64_t>{1, 64, 2, 8}));
}

TEST(Op, EveryOperatorHasItsRuleAndMeaning) {
  // What they compute is what their bodies do, or what they are lowered to. A Loop may be a kernel (loop_kernel.h).
  const std::set<std::string_view> planned = {"If", "Scan", "DefineSizes"};
  size_t count = 0;
  for (const OpFamily* family : op_families())
    for (const OpDef& op : family->ops) {
      ++count;
      EXPECT_TRUE(op.infer) << op.name;
      const bool stands_for_others = op.lower || planned.contains(op.name);
      EXPECT_NE(op.compute != nullptr || op.host, stands_for_others) << op.name;
      EXPECT_EQ(find_op(op.name), &op);
      for (const ParamInput& param : op.params) EXPECT_LT(param.index, op.max_inputs) << op.name;
    }
  EXPECT_GT(count, 100u);
}

TEST(Evaluate, ChecksItsInputs) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* relu = g.add_node(find_op("Relu"), "relu", {x});
  relu->outputs[0]->type = x->type;
  g.add_output("y", relu->output());
  const auto run = interpreter_executor();
  EXPECT_EQ(evaluate(g, {}, run).error().code, ErrorCode::E704);
  EXPECT_EQ(evaluate(g, {{"x", *filled(1, kF32, {3})}}, run).error().code, ErrorCode::E705);
  EXPECT_EQ(evaluate(g, {{"x", *filled(1, kF32, {2})}, {"z", scalar(0)}}, run).error().code, ErrorCode::E704);
  const auto out = evaluate(g, {{"x", *filled(-1, kF32, {2})}}, run);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->at("y").at(1), 0);
}

ConstantTensor list_of(const std::vector<double>& values, DType dtype) {
  TensorBuilder builder = *make_tensor(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    const ConstantTensor one = scalar(values[i], dtype);
    std::memcpy(builder.bytes.get() + i * static_cast<size_t>(dtype.element_bytes()), one.bytes.get(),
                static_cast<size_t>(dtype.element_bytes()));
  }
  return std::move(builder).finish();
}

/// What `op` makes of vectors, which are inputs, or with `constant` constants but for the first.
std::vector<double> value_of(const std::string& op, const std::vector<ConstantTensor>& inputs, bool constant = false,
                             Attrs attrs = {}) {
  Graph g("g");
  std::vector<Value*> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType type{inputs[i].dtype, {inputs[i].shape.begin(), inputs[i].shape.end()}};
    values.push_back(constant && i > 0 ? g.add_constant("c", inputs[i]) : g.add_input("x", type));
    values.back()->type = type;
  }
  Node* node = g.add_node(find_op(op), "node", values, std::move(attrs));
  const auto types = node->op->infer(*node);
  EXPECT_TRUE(types) << (types ? "" : types.error().to_string());
  if (!types) return {};
  node->outputs[0]->type = types->front();
  const auto out = evaluate_node(*node, inputs, interpreter_executor());
  EXPECT_TRUE(out) << (out ? "" : out.error().to_string());
  return out ? to_doubles(out->front()) : std::vector<double>{};
}

// Nothing is computed where there are no elements, however many iterations are around them.
TEST(Op, EmptyTensorsOfLongExtentsTakeNoTime) {
  const std::vector<double> none;
  EXPECT_EQ(value_of("Expand", {list_of({1}, kF32)}, false, {{"shape", std::vector<int64_t>{INT32_MAX, 0}}}), none);
}

TEST(Op, PowersOfIntegersAreExact) {
  using Doubles = std::vector<double>;
  for (const bool constant : {false, true}) {
    for (const DType type : {kI32, kI64, kI8, kU8})  // 9^3 = 729 is 217 of a byte
      for (const DType of_exponents : {kI32, kI64, kU8, kF32}) {
        const bool is_byte = type.bits == 8;
        EXPECT_EQ(value_of("Pow", {list_of({9, 3, 0, 0, 2}, type), list_of({3, 4, 0, 3, 6}, of_exponents)}, constant),
                  (Doubles{type == kU8 ? 217.0
                           : is_byte   ? -39.0
                                       : 729.0,
                           81, 1, 0, 64}))
            << type.to_string() << ' ' << of_exponents.to_string() << ' ' << constant;
      }
    EXPECT_EQ(
        value_of("Pow", {list_of({0, 1, -1, -1, 2, -7}, kI32), list_of({-1, -2, -3, -4, -1, -2}, kI64)}, constant),
        (Doubles{0, 1, -1, 1, 0, 0}));
    EXPECT_EQ(value_of("Pow", {list_of({255, 1}, kU8), list_of({-1, -5}, kI8)}, constant), (Doubles{0, 1}));
    EXPECT_EQ(value_of("Pow", {list_of({3}, kI64), list_of({33}, kF64)}, constant), (Doubles{5559060566555523}));
    EXPECT_EQ(value_of("Pow", {list_of({10}, kI32), list_of({10}, kI64)}, constant), (Doubles{1410065408}));
    // A root is what it is, the rest is cut off.
    EXPECT_EQ(value_of("Pow", {list_of({49, 50, 4, 1000000}, kI64), list_of({0.5, 0.5, 1.5, 0.5}, kF64)}, constant),
              (Doubles{7, 7, 8, 1000}));
    EXPECT_EQ(value_of("Pow", {list_of({1.5, -2, 4}, kF32), list_of({2, 3, -1}, kI64)}, constant),
              (Doubles{2.25, -8, 0.25}));
    EXPECT_EQ(value_of("Pow", {list_of({-1, 2}, kF16), list_of({7, 3}, kI32)}, constant), (Doubles{-1, 8}));
    EXPECT_EQ(value_of("Pow", {list_of({4, 9}, kF32), list_of({0.5, 0.5}, kF64)}, constant), (Doubles{2, 3}));
  }
  // An odd number that single precision does not have.
  EXPECT_EQ(value_of("Pow", {list_of({-1}, kF32), list_of({16777217}, kI32)}), (Doubles{-1}));
}

TEST(Op, MinimaAndMaximaPassNaNOn) {
  const auto nans = [](const std::string& op, const std::vector<ConstantTensor>& inputs) {
    std::string text;
    for (const double x : value_of(op, inputs)) text += std::isnan(x) ? 'n' : '.';
    return text;
  };
  for (const DType type : {kF32, kF64, kF16}) {
    const ConstantTensor a = list_of({NAN, 1, 2, NAN}, type), b = list_of({5, NAN, 3, NAN}, type);
    for (const char* op : {"Max", "Min"}) EXPECT_EQ(nans(op, {a, b}), "nn.n") << op;
    EXPECT_EQ(nans("Clip", {a, scalar(0, type), scalar(1, type)}), "n..n");
    EXPECT_EQ(nans("Relu", {a}), "n..n");
    for (const char* op : {"ReduceMax", "ReduceMin"}) {
      EXPECT_EQ(nans(op, {b}), "n") << op;
      EXPECT_EQ(nans(op, {list_of({1, 2}, type)}), ".") << op;
    }
    // As numpy has it: NaN is the extreme.
    for (const bool last : {false, true}) {
      Attrs attrs;
      attrs.set("select_last_index", int64_t{last});
      EXPECT_EQ(value_of("ArgMax", {b}, false, attrs), (std::vector<double>{last ? 3.0 : 1.0}));
      EXPECT_EQ(value_of("ArgMin", {b}, false, attrs), (std::vector<double>{last ? 3.0 : 1.0}));
    }
  }
}

// A row with NaN or +inf is NaN all over, and one of -inf alone; no other row is. As numpy and ONNX Runtime have it.
TEST(Op, SoftmaxOfWhatIsNoNumber) {
  const double inf = INFINITY;
  const std::vector<std::pair<std::vector<double>, bool>> rows = {
      {{NAN, 1, 2, 3}, true},       {{1, 2, 3, NAN}, true},           {{5, NAN, -inf, NAN}, true},
      {{NAN, NAN, NAN, NAN}, true}, {{inf, 1, 2, 3}, true},           {{inf, inf, 0, 0}, true},
      {{inf, NAN, 0, -inf}, true},  {{-inf, -inf, -inf, -inf}, true}, {{-inf, 1, 1, -inf}, false},
      {{1, 1, 1, 1}, false},        {{-inf, -inf, NAN, -inf}, true},  {{-inf, -inf, -inf, 4}, false}};
  for (const DType type : {kF32, kF64, kF16})
    for (const auto& [row, is_nan] : rows) {
      const std::vector<double> y = value_of("Softmax", {list_of(row, type)}),
                                log_y = value_of("LogSoftmax", {list_of(row, type)});
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(std::isnan(y[i]), is_nan) << i << " of " << row[0] << ", " << row[1];
        EXPECT_EQ(std::isnan(log_y[i]), is_nan) << i << " of " << row[0] << ", " << row[1];
        if (is_nan) continue;
        const double count = static_cast<double>(std::ranges::count_if(row, [](double x) { return x > -HUGE_VAL; }));
        EXPECT_NEAR(y[i], row[i] > -inf ? 1 / count : 0, 1e-3);
      }
    }
  for (const auto& [row, expected] : {std::pair{std::vector<double>{1, NAN, 2}, false}, {{0, 0, -inf}, true}})
    EXPECT_EQ(!std::isnan(value_of("ReduceLogSumExp", {list_of(row, kF32)})[0]), expected);
}

}  // namespace
}  // namespace fettle
