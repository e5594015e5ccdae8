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

}  // namespace
}  // namespace fettle
