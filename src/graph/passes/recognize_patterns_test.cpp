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

TEST_F(RecognizePatterns, OtherMomentsAreNoLayerNormalization) {
  Value* x = input("x", {2, 5, 8});
  Value* m = op("ReduceMean", {x}, ints("axes", {-1}));
  Value* squares = op("ReduceMean", {op("Mul", {x, x})}, ints("axes", {1, 2}));  // over more than the mean
  Value* inverse = op("Reciprocal", {op("Sqrt", {op("Add", {op("Sub", {squares, op("Mul", {m, m})}), number(4)})})});
  g.add_output("y", op("Mul", {op("Sub", {x, m}), inverse}));
  optimize_and_compare();
  EXPECT_EQ(histogram(g).find("LayerNormalization"), std::string::npos) << to_text(g);
}

}  // namespace
}  // namespace fettle
