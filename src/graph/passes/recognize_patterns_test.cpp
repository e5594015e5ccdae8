#include <functional>

#include "graph/passes/testing.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

class RecognizePatterns : public PassFixture {};

TEST_F(RecognizePatterns, TanhGelu) {
  Value* x = input("x", {2, 8});
  const auto gate = [&](Value* inner) { return op("Add", {op("Tanh", {inner}), number(1)}); };
  // as PyTorch's exporter writes it
  Value* cube = op("Mul", {op("Pow", {x, number(3)}), number(0.044715)});
  Value* a = gate(op("Mul", {op("Add", {x, cube}), number(std::sqrt(2 / M_PI))}));
  g.add_output("a", op("Mul", {op("Mul", {number(0.5), x}), a}));
  // as JAX's
  cube = op("Mul", {x, op("Mul", {x, op("Mul", {number(0.044715), x})})});
  Value* b = gate(op("Mul", {number(0.797885), op("Add", {cube, x})}));
  g.add_output("b", op("Mul", {x, op("Mul", {number(0.5), b})}));
  // with x taken out
  Value* square = op("Add", {op("Mul", {op("Mul", {x, x}), number(0.044715)}), number(1)});
  Value* c = gate(op("Mul", {op("Mul", {x, number(std::sqrt(2 / M_PI))}), square}));
  g.add_output("c", op("Mul", {op("Mul", {x, number(0.5)}), c}));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "Gelu 1") << to_text(g);  // the same, so one
}

TEST_F(RecognizePatterns, OtherCubicsAreNoGelu) {
  Value* x = input("x", {2, 8});
  Value* cube = op("Mul", {op("Pow", {x, number(3)}), number(0.05)});
  Value* gate = op("Add", {op("Tanh", {op("Mul", {op("Add", {x, cube}), number(std::sqrt(2 / M_PI))})}), number(1)});
  g.add_output("y", op("Mul", {op("Mul", {number(0.5), x}), gate}));
  optimize_and_compare();
  EXPECT_NE(g.outputs()[0].value->producer->op->name, "Gelu");
}

// mean(x²) - mean(x)², with sums and reshapes, as JAX's exporter writes it.
TEST_F(RecognizePatterns, LayerNormalizationByMoments) {
  for (const bool bounded : {true, false}) {
    Graph fresh("g");
    std::swap(g, fresh);
    Value* x = input("x", {2, 5, 8});
    const auto mean = [&](Value* v) {
      Attrs attrs = ints("axes", {-1});
      attrs.set("keepdims", int64_t{0});
      return op("Mul", {op("ReduceSum", {v}, std::move(attrs)), number(1.0 / 8)});
    };
    const auto as_column = [&](Value* v) { return op("Reshape", {v, numbers({2, 5, 1})}); };
    Value* m = mean(x);
    Value* variance = op("Sub", {mean(op("Mul", {x, x})), op("Mul", {m, m})});
    if (bounded) variance = op("Max", {number(0), variance});
    Value* inverse = op("Reciprocal", {op("Sqrt", {op("Add", {as_column(variance), number(1e-5)})})});
    Value* y = op("Mul", {op("Sub", {x, as_column(m)}), op("Mul", {inverse, random({1, 1, 8})})});
    g.add_output("y", op("Add", {y, random({1, 1, 8})}));
    optimize_and_compare();
    EXPECT_EQ(histogram(g), "LayerNormalization 1") << to_text(g);
  }
}

// As JAX writes it: reductions drop their dim, which a reshape brings back.
TEST_F(RecognizePatterns, Softmax) {
  for (const bool logarithm : {false, true}) {
    Graph fresh("g");
    std::swap(g, fresh);
    Value* x = input("x", {2, 5, 8});
    Attrs attrs = ints("axes", {2});
    attrs.set("keepdims", int64_t{0});
    const auto as_column = [&](Value* v) { return op("Reshape", {v, numbers({2, 5, 1})}); };
    Value* below = op("Sub", {x, as_column(op("Max", {number(-INFINITY), op("ReduceMax", {x}, attrs)}))});
    Value* e = op("Exp", {below});
    Value* sum = op("ReduceSum", {e}, attrs);
    g.add_output("y", logarithm ? op("Sub", {below, as_column(op("Log", {sum}))}) : op("Div", {e, as_column(sum)}));
    optimize_and_compare();
    EXPECT_EQ(histogram(g), logarithm ? "LogSoftmax 1" : "Softmax 1") << to_text(g);
  }
}

TEST_F(RecognizePatterns, OtherSharesAreNoSoftmax) {
  Value* x = input("x", {8, 8});
  Attrs rows = ints("axes", {1}), flat = rows;
  flat.set("keepdims", int64_t{0});
  const auto shares = [&](const Attrs& greatest, const Attrs& total) {
    Value* e = op("Exp", {op("Sub", {x, op("ReduceMax", {x}, greatest)})});
    return op("Div", {e, op("ReduceSum", {e}, total)});
  };
  g.add_output("a", shares(rows, ints("axes", {0})));  // along another dim
  g.add_output("b", shares(flat, flat));               // of rows for columns
  Value* e = op("Exp", {op("Sub", {x, op("ReduceMax", {x}, rows)})});
  g.add_output("c", op("Div", {e, op("ReduceSum", {e}, rows)}));
  g.add_output("e", e);  // is needed anyway
  optimize_and_compare();
  EXPECT_EQ(histogram(g).find("Softmax"), std::string::npos) << to_text(g);
}

// d * rsqrt(mean(d²) + ε), as JAX's users write it; not where a gradient reads the distances, too.
TEST_F(RecognizePatterns, LayerNormalizationOfDistances) {
  for (const bool is_read_again : {false, true}) {
    Graph fresh("g");
    std::swap(g, fresh);
    Value* x = input("x", {2, 5, 8});
    const auto mean = [&](Value* v) {
      Attrs attrs = ints("axes", {2});
      attrs.set("keepdims", int64_t{0});
      return op("Div", {op("Reshape", {op("ReduceSum", {v}, attrs), numbers({2, 5, 1})}), number(8)});
    };
    Value* d = op("Sub", {x, mean(x)});
    Value* factor = op("Reciprocal", {op("Sqrt", {op("Add", {mean(op("Mul", {d, d})), number(1e-5)})})});
    g.add_output("y", op("Mul", {op("Mul", {d, factor}), random({8})}));
    if (is_read_again) g.add_output("d", d);
    optimize_and_compare();
    EXPECT_EQ(histogram(g) == "LayerNormalization 1", !is_read_again) << to_text(g);
  }
}

TEST_F(RecognizePatterns, OtherMomentsAreNoLayerNormalization) {
  Value* x = input("x", {2, 5, 8});
  Value* m = op("ReduceMean", {x}, ints("axes", {-1}));
  Value* squares = op("ReduceMean", {op("Mul", {x, x})}, ints("axes", {1, 2}));  // over more than the mean
  Value* inverse = op("Reciprocal", {op("Sqrt", {op("Add", {op("Sub", {squares, op("Mul", {m, m})}), number(4)})})});
  g.add_output("y", op("Mul", {op("Sub", {x, m}), inverse}));
  optimize_and_compare();
  EXPECT_EQ(histogram(g).find("LayerNormalization"), std::string::npos) << to_text(g);
}

// Without dims of extent 1 the moments of rows would be taken for those of columns.
TEST_F(RecognizePatterns, MomentsMustLieAlongRows) {
  Value* x = input("x", {8, 8});
  Attrs attrs = ints("axes", {-1});
  attrs.set("keepdims", int64_t{0});
  Value* m = op("ReduceMean", {x}, attrs);
  Value* variance = op("Sub", {op("ReduceMean", {op("Mul", {x, x})}, attrs), op("Mul", {m, m})});
  Value* inverse = op("Reciprocal", {op("Sqrt", {op("Add", {variance, number(4)})})});
  g.add_output("y", op("Mul", {op("Sub", {x, m}), inverse}));
  optimize_and_compare();
}

TEST_F(RecognizePatterns, RmsNormalization) {
  Value* x = input("x", {2, 5, 8});
  Value* gamma = random({8});
  const auto mean = [&](Value* v) {
    return op("Add", {op("ReduceMean", {op("Pow", {v, number(2)})}, ints("axes", {-1})), number(1e-3)});
  };
  const std::function<Value*(Value*)> spellings[] = {
      [&](Value* v) { return op("Div", {v, op("Sqrt", {mean(v)})}); },
      [&](Value* v) { return op("Mul", {v, op("Reciprocal", {op("Sqrt", {mean(v)})})}); },
      [&](Value* v) { return op("Mul", {op("Div", {number(1), op("Sqrt", {mean(v)})}), v}); },
      [&](Value* v) { return op("Mul", {v, op("Pow", {mean(v), number(-0.5)})}); },
  };
  int n = 0;
  for (const auto& spelling : spellings) g.add_output("y" + std::to_string(n++), op("Mul", {gamma, spelling(x)}));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "RMSNormalization 1") << to_text(g);
}

// Nothing stores the squares, unless something else reads them.
TEST_F(RecognizePatterns, SquaresJoinTheirReduction) {
  Value *x = input("x", {2, 5, 8}), *y = input("y", {2, 5, 8});
  g.add_output("mean", op("ReduceMean", {op("Mul", {x, x})}, ints("axes", {1})));
  g.add_output("sum", op("ReduceSum", {op("Mul", {x, x})}, ints("axes", {2})));
  Value* used = op("Mul", {y, y});
  g.add_output("used", used);
  g.add_output("sum of what is used", op("ReduceSum", {used}, ints("axes", {2})));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "Mul 1, ReduceMeanSquare 1, ReduceSum 1, ReduceSumSquare 1") << to_text(g);
}

}  // namespace
}  // namespace fettle
