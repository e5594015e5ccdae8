#include "graph/passes/testing.h"

#include <set>

namespace fettle {
namespace {

class PassTest : public PassFixture {
 protected:
  void optimize_to(const std::string& expected_histogram) {
    optimize_and_compare();
    EXPECT_EQ(histogram(g), expected_histogram) << to_text(g);
  }
};

TEST_F(PassTest, NeutralElementsAndCopiesGo) {
  Value* x = input("x", {2, 3});
  Value* y = op("Identity", {op("Mul", {op("Add", {x, number(0)}), number(1)})});
  g.add_output("y", op("Relu", {op("Pow", {y, number(1)})}));
  optimize_to("Relu 1");
}

TEST_F(PassTest, AnOnesTensorThatEnlargesStays) {
  Value* x = input("x", {1, 3});
  g.add_output("y", op("Mul", {x, g.add_constant("ones", *filled(1, kF32, {2, 1}))}));
  optimize_to("Mul 1");
}

TEST_F(PassTest, PowersQuotientsAndChains) {
  Value* x = input("x", {4});
  Value* squares = op("Pow", {x, number(2)});
  g.add_output("y", op("Mul", {op("Div", {squares, number(4)}), number(3)}));
  optimize_to("Mul 2");  // x*x, then times 0.75
}

// Each step rounds, overflows and cancels as it does by itself.
TEST_F(PassTest, QuotientsAndChainsThatAreNotExactStay) {
  Value* x = input("x", {4});
  g.add_output("third", op("Div", {x, number(3)}));
  g.add_output("denormal", op("Div", {x, number(std::ldexp(1.0, 127))}));  // whose inverse is flushed
  g.add_output("rounded", op("Add", {op("Add", {x, number(12582912)}), number(-12582912)}));
  g.add_output("bounded", op("Mul", {op("Mul", {x, number(1e30)}), number(1e-30)}));
  optimize_to("Add 2, Div 2, Mul 2");
}

TEST_F(PassTest, NormsByQuotients) {
  Value* x = input("x", {2, 5, 8});
  Attrs last = ints("axes", {-1});
  const auto mean = [&](Value* v) { return op("Div", {op("ReduceSum", {v}, last), number(8)}); };
  const auto third = [&](Value* v) { return op("Div", {op("ReduceSum", {v}, last), number(3)}); };
  Value* deviation = op("Sqrt", {op("Add", {mean(op("Mul", {x, x})), number(1e-5)})});
  g.add_output("y", op("Div", {x, deviation}));
  Value* other = op("Sqrt", {op("Add", {third(op("Mul", {x, x})), number(1e-5)})});
  g.add_output("z", op("Div", {x, other}));
  optimize_and_compare();
  EXPECT_EQ(std::ranges::count_if(g.nodes(), [](const Node* n) { return n->op->name == "RMSNormalization"; }), 1);
}

TEST_F(PassTest, TransposesJoin) {
  Value* x = input("x", {2, 3, 4});
  Value* y = op("Transpose", {op("Transpose", {x}, ints("perm", {1, 2, 0}))}, ints("perm", {2, 0, 1}));
  g.add_output("y", op("Relu", {y}));
  optimize_to("Relu 1");
}

TEST_F(PassTest, ATransposeOfUnitDimsIsAReshape) {
  Value* x = input("x", {1, 3, 4});
  g.add_output("y", op("Transpose", {x}, ints("perm", {1, 0, 2})));
  optimize_to("Reshape 1");
}

TEST_F(PassTest, AnExpansionByUnitDimsIsAReshape) {
  g.add_output("y", op("Expand", {input("x", {3, 4}), numbers({1, 1, 3, 4})}));
  g.add_output("z", op("Expand", {input("w", {1, 4}), numbers({3, 4})}));
  optimize_to("Expand 1, Reshape 1");
}

// Elementwise work broadcasts by itself, and what is repeated of a constant is no constant of its own.
TEST_F(PassTest, ElementwiseWorkReadsWhatWasRepeated) {
  const auto wide = [&](Value* v) { return op("Expand", {v, numbers({16, 1024})}); };
  Value *x = input("x", {16, 1024}), *row = input("row", {1024}), *column = input("column", {16, 1});
  g.add_output("y", op("Add", {x, op("Exp", {wide(row)})}));
  g.add_output("z", op("Mul", {wide(column), wide(row)}));
  g.add_output("w",
               op("Where", {op("Greater", {wide(number(2)), wide(number(3))}), x, op("Min", {x, wide(number(4))})}));
  optimize_to("Add 1, Exp 1, Min 1, Mul 1");
  for (const Node* node : g.nodes())
    for (const Value* in : node->inputs) EXPECT_TRUE(!in->is_constant() || in->constant->n_elems() == 1) << to_text(g);
}

TEST_F(PassTest, RepeatedResultsAreRepeatedLast) {
  Value* row = op("Expand", {input("row", {8}), numbers({4, 8})});
  g.add_output("y", op("Exp", {op("Add", {row, number(1)})}));
  optimize_to("Add 1, Exp 1, Expand 1");
  EXPECT_EQ(g.outputs()[0].value->producer->op->name, "Expand");
}

TEST_F(PassTest, NothingIsLessThanMinusInfinity) {
  Value* x = input("x", {4});
  g.add_output("y", op("Exp", {op("Max", {number(-INFINITY), x})}));
  g.add_output("z", op("Max", {number(-4), x}));
  optimize_to("Exp 1, Max 1");
}

// Of weights' gradients: the product is made in the order in which it is used.
TEST_F(PassTest, TransposedProductsOfTransposedFactors) {
  const std::vector<int64_t> swap = {1, 0};
  Value *x = input("x", {3, 4}), *dy = input("dy", {3, 5});
  Value* product = op("MatMul", {op("Transpose", {dy}, ints("perm", swap)), x});
  g.add_output("y", op("Exp", {op("Transpose", {product}, ints("perm", swap))}));
  optimize_to("Exp 1, MatMul 1, Transpose 1");
  const Node* made = g.outputs()[0].value->producer->input(0)->producer;
  EXPECT_EQ(made->input(1), dy) << to_text(g);
}

// Whether it fits is known only when data have told the shape.
TEST_F(PassTest, AnExpansionThatDataTellStays) {
  g.add_output("y", op("Expand", {input("x", {3, 2}), input("shape", {2}, kI64)}));
  g.add_output("z", op("Expand", {input("w", {1, 3, 2}), input("shape_of_w", {2}, kI64)}));
  g.sort();
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(histogram(g), "DefineSizes 2, Expand 2") << to_text(g);
}

TEST_F(PassTest, SlicesGoBeforeTransposes) {
  Value* x = input("x", {4, 2, 3});
  Value* t = op("Transpose", {x}, ints("perm", {2, 0, 1}));  // [3, 4, 2]
  g.add_output("a", op("Slice", {t, numbers({0}), numbers({1})}));
  g.add_output("b", op("Slice", {t, numbers({1}), numbers({3}), numbers({-2})}));
  optimize_to("Slice 2, Reshape 1, Transpose 1");  // of one element, the transpose is a reshape
  for (const Node* node : g.nodes()) EXPECT_EQ(node->inputs[0] == x, node->op->name == "Slice");
}

// They have the shape of what they read, and are no copies of it.
TEST_F(PassTest, WhatTurnsOrShiftsStays) {
  Value* x = input("x", {4, 3});
  g.add_output("a", op("Slice", {x, numbers({3}), numbers({-9}), numbers({0}), numbers({-1})}));
  g.add_output("b", op("Pad", {x, numbers({1, 0, -1, 0})}));
  g.add_output("c", op("Neg", {op("Slice", {x, numbers({0}), numbers({9}), numbers({0}), numbers({1})})}));
  g.add_output("d", op("Neg", {op("Pad", {x, numbers({0, 0, 0, 0})})}));
  optimize_to("Neg 1, Pad 1, Slice 1");
}

TEST_F(PassTest, SlicesOfPartsAreTheParts) {
  Value *a = input("a", {2, 3}), *b = input("b", {4, 3}), *c = input("c", {5, 3}), *none = input("none", {0, 3});
  Value* whole = op("Concat", {a, none, b, c}, axis(0));
  const auto slice = [&](int64_t from, int64_t to) {
    return op("Neg", {op("Slice", {whole, numbers({from}), numbers({to}), numbers({0})})});
  };
  g.add_output("b", slice(2, 6));
  g.add_output("b and c", slice(2, 99));
  g.add_output("of c", slice(-4, -1));
  g.add_output("of a and b", slice(1, 4));
  optimize_to("Neg 4, Concat 2, Slice 2");
  for (const Node* node : g.nodes())
    EXPECT_TRUE(node->op->name != "Slice" || node->inputs[0] == c || node->inputs[0]->producer) << to_text(g);
}

TEST_F(PassTest, ReshapesJoin) {
  Value* x = input("x", {2, 3, 4});
  Value* y = op("Unsqueeze", {op("Flatten", {x}), numbers({0})});
  g.add_output("y", op("Reshape", {y, numbers({4, -1})}));
  optimize_to("Reshape 1");
}

TEST_F(PassTest, ShapeArithmeticIsFolded) {
  Value* x = input("x", {2, 3, 4});
  Value* rows = op("Gather", {op("Shape", {x}), numbers({0})});
  Value* product =
      op("Mul", {op("Gather", {op("Shape", {x}), numbers({1})}), op("Gather", {op("Shape", {x}), numbers({2})})});
  g.add_output("y", op("Reshape", {x, op("Concat", {rows, product}, axis(0))}));
  optimize_to("Reshape 1");
  EXPECT_EQ(to_string(g.outputs()[0].value->shape()), "[2, 12]");
}

TEST_F(PassTest, SymbolsTravelThroughShapeArithmetic) {
  Value* x = input("x", {Dim::symbol("N"), 3, Dim::symbol("W")});
  Value* rows = op("Gather", {op("Shape", {x}), numbers({0})});
  Value* y = op("Reshape", {x, op("Concat", {rows, numbers({-1})}, axis(0))});
  g.add_output("y", y);
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(to_string(g.outputs()[0].value->shape()), "[N, 3 * W]");
  EXPECT_TRUE(require_sizes(g));
  g.outputs()[0].value->producer->outputs[0]->type->shape[1] = Dim::symbol("found");
  EXPECT_EQ(require_sizes(g).error().code, ErrorCode::E604);
}

TEST_F(PassTest, BatchNormAndAffineJoinTheConvolution) {
  Value* x = input("x", {1, 4, 6, 6});
  Value* y = op("Conv", {x, random({8, 4, 3, 3})}, ints("pads", {1, 1, 1, 1}));
  y = op("BatchNormalization", {y, random({8}), random({8}), random({8}), random({8})});
  y = op("Add", {op("Mul", {number(1.5), y}), random({8, 1, 1})});
  g.add_output("y", op("Relu", {y}));
  optimize_to("Conv 1, Relu 1");
  EXPECT_EQ(to_text(g.nodes()[0]->provenance), "Conv n0, BatchNormalization n1, Mul n2, Add n3");
  EXPECT_EQ(to_text(g.nodes()[1]->provenance), "Relu n4");
}

// Weights of halves are rounded once, however many factors join them; a bias is as exact as it was computed.
TEST_F(PassTest, BatchNormAndAffineJoinConvolutionsOfHalves) {
  for (const DType dtype : {kF16, kBF16}) {
    g = Graph("g");
    const auto half = [&](std::vector<int64_t> shape) {
      const ConstantTensor& values = *random(shape)->constant;
      return g.add_constant("h", *to_tensor(to_doubles(values), dtype, shape));
    };
    const ConstantTensor w = *half({8, 4, 3, 3})->constant;
    std::vector<ConstantTensor> norm;
    for (int i = 0; i < 4; ++i) norm.push_back(*half({8})->constant);
    Value* x = input("x", {1, 4, 6, 6}, dtype);
    Value* y = op("Conv", {x, g.add_constant("w", w)});
    y = op("BatchNormalization", {y, g.add_constant("scale", norm[0]), g.add_constant("bias", norm[1]),
                                  g.add_constant("mean", norm[2]), g.add_constant("variance", norm[3])});
    y = op("Mul", {y, g.add_constant("c", scalar(1.5, dtype))});
    g.add_output("y", op("Relu", {y}));
    g.sort();
    ASSERT_TRUE(optimize(g));
    ASSERT_EQ(histogram(g), "Conv 1, Relu 1") << to_text(g);
    const Node& conv = *g.nodes()[0];
    const ConstantTensor &made = *conv.input(1)->constant, &bias = *conv.input(2)->constant;
    ASSERT_EQ(made.dtype, dtype);
    EXPECT_EQ(bias.dtype, kF32);
    for (int64_t oc = 0; oc < 8; ++oc) {
      const double factor = norm[0].at(oc) / std::sqrt(norm[3].at(oc) + 1e-5);
      EXPECT_NEAR(bias.at(oc), 1.5 * (norm[1].at(oc) - norm[2].at(oc) * factor), 1e-6);
      for (int64_t k = oc * 36; k < oc * 36 + 36; ++k) {
        const double exact = w.at(k) * 1.5 * factor;
        EXPECT_EQ(made.at(k), to_tensor({&exact, 1}, dtype, {})->at(0)) << k;
      }
    }
  }
}

TEST_F(PassTest, FactorsThatHalvesCannotHoldStay) {
  Value* x = input("x", {1, 1, 4, 4}, kF16);
  const auto normalized = [&](double weight, double scale) {
    const auto all = [&](double value) { return g.add_constant("c", *filled(value, kF16, {1})); };
    Value* y = op("Conv", {x, g.add_constant("w", *filled(weight, kF16, {1, 1, 1, 1}))});
    return op("BatchNormalization", {y, all(scale), all(0.5), all(0), all(1)});
  };
  g.add_output("too large", normalized(3, 60000));
  g.add_output("denormal", normalized(0.3, 0x1p-22));
  g.add_output("fits", normalized(3, 0.3));
  g.sort();
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(histogram(g), "BatchNormalization 2, Conv 2, Split 1") << to_text(g);
}

TEST_F(PassTest, AnOffsetBeforeAPaddedConvolutionStays) {
  Value* x = input("x", {1, 4, 6, 6});
  const auto conv = [&](Value* v, int64_t pad) {
    return op("Conv", {op("Add", {op("Mul", {v, random({4, 1, 1})}), number(0.5)}), random({4, 1, 3, 3})}, [&] {
      Attrs attrs = ints("pads", {pad, pad, pad, pad});
      attrs.set("group", int64_t{4});
      return attrs;
    }());
  };
  g.add_output("padded", conv(x, 1));
  g.add_output("not_padded", conv(x, 0));
  optimize_to("Conv 2, Add 1, Mul 1");
}

TEST_F(PassTest, WhatOthersUseStays) {
  Value* x = input("x", {1, 4, 6, 6});
  Value* y = op("Conv", {x, random({4, 4, 1, 1})});
  g.add_output("raw", y);
  g.add_output("scaled", op("Mul", {y, number(2)}));
  optimize_to("Conv 1, Mul 1");
}

// What only renames memory is copied by its strides: no program runs, however many elements there are.
TEST_F(PassTest, ConstantsAreTransposedSlicedAndReshapedWithoutAProgram) {
  Value* w = random({3, 40, 70});
  const auto bytes = w->constant->bytes;
  const std::vector<float> elems(w->constant->elems<float>().begin(), w->constant->elems<float>().end());
  Value* x = input("x", {1});
  g.add_output("t", op("Add", {op("Transpose", {w}, ints("perm", {2, 0, 1})), x}));
  g.add_output("s",
               op("Add", {op("Slice", {w, numbers({3, 5}), numbers({40, 60}), numbers({1, 2}), numbers({3, 2})}), x}));
  g.add_output("r", op("Add", {op("Reshape", {w, numbers({70, 120})}), x}));
  g.sort();
  ASSERT_TRUE(passes::infer_shapes(g, {}));
  int runs = 0;
  const PassContext context{
      .run = [&](const Func&, std::span<const BufferArg>) -> Result<> { return ++runs, Result<>(); }};
  ASSERT_TRUE(passes::fold_constants(g, context));
  EXPECT_EQ(runs, 0);
  const auto folded = [&](size_t i) -> const ConstantTensor& {
    return *g.outputs()[i].value->producer->inputs[0]->constant;
  };
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(g.outputs()[i].value->producer->inputs[0]->is_constant());
  ASSERT_EQ(folded(0).shape, (std::vector<int64_t>{70, 3, 40}));
  ASSERT_EQ(folded(1).shape, (std::vector<int64_t>{3, 13, 28}));
  ASSERT_EQ(folded(2).shape, (std::vector<int64_t>{70, 120}));
  EXPECT_EQ(folded(2).bytes, bytes) << "the same memory";
  const auto at = [&](int64_t a, int64_t b, int64_t c) { return elems[static_cast<size_t>((a * 40 + b) * 70 + c)]; };
  const auto t = folded(0).elems<float>(), s = folded(1).elems<float>(), r = folded(2).elems<float>();
  for (int64_t a = 0, i = 0; a < 70; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 40; ++c, ++i) ASSERT_EQ(t[static_cast<size_t>(i)], at(b, c, a)) << i;
  for (int64_t a = 0, i = 0; a < 3; ++a)
    for (int64_t b = 0; b < 13; ++b)
      for (int64_t c = 0; c < 28; ++c, ++i) ASSERT_EQ(s[static_cast<size_t>(i)], at(a, 3 + 3 * b, 5 + 2 * c)) << i;
  EXPECT_TRUE(std::ranges::equal(r, elems));
}

TEST_F(PassTest, TransposedConvolutionTakesFactors) {
  Value* x = input("x", {1, 4, 3, 3});
  Attrs attrs = ints("strides", {2, 2});
  attrs.set("group", int64_t{2});
  Value* y = op("ConvTranspose", {x, random({4, 3, 2, 2}), random({6})}, std::move(attrs));
  g.add_output("y", op("Add", {op("Mul", {y, random({6, 1, 1})}), random({6, 1, 1})}));
  optimize_to("ConvTranspose 1");
}

TEST_F(PassTest, GemmIsAProductAndASum) {
  Value* x = input("x", {3, 4});
  Attrs attrs;
  attrs.set("transB", int64_t{1});
  g.add_output("y", op("Gemm", {x, random({5, 4}), random({5})}, std::move(attrs)));
  optimize_to("Add 1, MatMul 1");
}

TEST_F(PassTest, HardSwish) {
  Value* x = input("x", {2, 8});
  Attrs clip;
  clip.set("min", 0.0);
  clip.set("max", 6.0);
  Value* gate = op("Clip", {op("Add", {x, number(3)})}, clip);
  g.add_output("a", op("Div", {op("Mul", {x, gate}), number(6)}));
  Value* gate2 = op("Clip", {op("Add", {number(3), x})}, clip);
  g.add_output("b", op("Mul", {op("Div", {gate2, number(6)}), x}));
  optimize_to("HardSwish 1");  // the same, so one
}

TEST_F(PassTest, ClipsThatAreNoHardSwishStay) {
  Value* x = input("x", {2, 8});
  Attrs clip;
  clip.set("min", 0.0);
  clip.set("max", 5.0);
  Value* gate = op("Clip", {op("Add", {x, number(3)})}, clip);
  g.add_output("a", op("Div", {op("Mul", {x, gate}), number(6)}));
  optimize_to("Add 1, Clip 1, Div 1, Mul 1");
}

TEST_F(PassTest, SwishAndGelu) {
  Value* x = input("x", {2, 8});
  g.add_output("a", op("Mul", {x, op("Sigmoid", {x})}));
  Value* gate = op("Add", {op("Erf", {op("Div", {x, number(std::sqrt(2.0))})}), number(1)});
  g.add_output("b", op("Mul", {op("Mul", {x, gate}), number(0.5)}));
  optimize_to("Gelu 1, Swish 1");
}

TEST_F(PassTest, LayerNormalization) {
  Value* x = input("x", {2, 5, 8});
  Value* d = op("Sub", {x, op("ReduceMean", {x}, ints("axes", {-1}))});
  Value* variance = op("ReduceMean", {op("Pow", {d, number(2)})}, ints("axes", {-1}));
  Value* y = op("Div", {d, op("Sqrt", {op("Add", {variance, number(1e-5)})})});
  g.add_output("y", op("Add", {op("Mul", {y, random({8})}), random({8})}));
  optimize_to("LayerNormalization 1");
  EXPECT_EQ(g.nodes()[0]->provenance.size(), 9u);
}

TEST_F(PassTest, EqualNodesMerge) {
  Value* x = input("x", {2, 3});
  g.add_output("y", op("Add", {op("Exp", {x}), op("Exp", {x})}));
  optimize_to("Add 1, Exp 1");
  EXPECT_EQ(to_text(g.nodes()[0]->provenance), "Exp n0, Exp n1");
}

// No node of the model is lost that the result depends on, whatever becomes of it.
TEST_F(PassTest, EveryNodeHasSomebodyWhoStandsForIt) {
  Value* x = input("x", {2, 3, 4});
  Value* y = op("Identity", {x});                                          // n0: of an input
  Value* shape = op("Concat", {op("Shape", {y}), numbers({1})}, axis(0));  // n1, n2: become an attribute
  y = op("Reshape", {y, shape});                                           // n3
  y = op("Transpose",
         {
             op("Transpose", {y}, ints("perm", {1, 0, 2, 3})),
         },
         ints("perm", {1, 0, 2, 3}));                                    // n4, n5: cancel
  y = op("Mul", {y, op("Exp", {number(0.5)})});                          // n6: a number; n7
  y = op("Gelu", {op("Dropout", {y})});                                  // n8, n9
  g.add_output("y", op("Mul", {op("Mul", {y, number(2)}), number(3)}));  // n10, n11
  g.sort();
  ASSERT_TRUE(optimize(g));
  std::set<std::string> kept;
  for (const Node* node : g.nodes())
    for (const Origin& origin : node->provenance) kept.insert(origin.name);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(kept.contains("n" + std::to_string(i))) << i << "\n" << to_text(g, true);
}

// Each pass may be left out alone: what is computed stays the same.
TEST_F(PassTest, MayBeLeftOut) {
  Value* y = op("Conv", {input("x", {1, 4, 6, 6}), random({8, 4, 3, 3})}, ints("pads", {1, 1, 1, 1}));
  y = op("BatchNormalization",
         {y, random({8}), random({8}), random({8}), g.add_constant("variance", *filled(2, kF32, {8}))});
  y = op("Mul", {op("Relu", {op("Add", {y, number(0.5)})}), number(3)});
  y = op("Reshape", {op("Transpose", {y}, ints("perm", {0, 2, 3, 1})), numbers({36, 8})});
  g.add_output("y", op("Softmax", {op("MatMul", {y, random({8, 5})})}));
  std::map<std::string, ConstantTensor> given;
  given["x"] = *random({1, 4, 6, 6})->constant;
  g.sort();
  Graph whole = g.clone();
  ASSERT_TRUE(optimize(whole));
  const ConstantTensor want = evaluate(whole, given, interpreter_executor())->at("y");
  size_t left_out = 0;
  for (const GraphPass& pass : graph_passes()) {
    if (pass.is_needed) continue;
    Graph other = g.clone();
    ASSERT_TRUE(optimize(other, {.without = {std::string(pass.name)}})) << pass.name;
    const auto got = evaluate(other, given, interpreter_executor());
    ASSERT_TRUE(got) << pass.name;
    for (int64_t i = 0; i < want.n_elems(); ++i) ASSERT_NEAR(got->at("y").at(i), want.at(i), 1e-5) << pass.name;
    ++left_out;
  }
  EXPECT_GT(left_out, 10u);
  EXPECT_EQ(optimize(g, {.without = {"infer_shapes"}}).error().code, ErrorCode::E709);
  EXPECT_EQ(optimize(g, {.without = {"no_such_pass"}}).error().code, ErrorCode::E709);
}

TEST_F(PassTest, WrongShapesAreNamed) {
  g.add_output("y", op("Add", {input("a", {2, 3}), input("b", {4})}));
  const auto status = optimize(g);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::E605);
  EXPECT_EQ(status.error().where, "n0");
}

TEST_F(PassTest, HugeShapesAreRefused) {
  g.add_output("y", op("Expand", {input("x", {1}), numbers({int64_t{1} << 39, 1024})}));
  EXPECT_EQ(optimize(g).error().code, ErrorCode::E608);
}

TEST_F(PassTest, BindShapes) {
  input("a", {Dim::symbol("N"), 3});
  Value* b = input("b", {Dim::symbol("N")});
  EXPECT_EQ(bind_shapes(g, {{"c", {1}}}).error().code, ErrorCode::E704);
  EXPECT_EQ(bind_shapes(g, {{"a", {1}}}).error().code, ErrorCode::E705);
  EXPECT_EQ(bind_shapes(g, {{"a", {1, 4}}}).error().code, ErrorCode::E705);
  EXPECT_EQ(bind_shapes(g, {{"a", {1, 3}}, {"b", {2}}}).error().code, ErrorCode::E705);
  ASSERT_TRUE(bind_shapes(g, {{"a", {7, 3}}}));
  EXPECT_EQ(b->extent(0), 7);  // the symbol is fixed everywhere
}

}  // namespace
}  // namespace fettle
