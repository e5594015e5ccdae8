// Halves (f16, bf16) are computed in single precision and rounded once, where a kernel stores them.

#include <cmath>
#include <functional>

#include "graph/evaluate.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"
#include "graph/testing.h"

namespace fettle {
namespace {

/// The distance of neighbouring halves around `value`.
double ulp(double value, DType dtype) {
  const int digits = dtype == kF16 ? 10 : 7, least = dtype == kF16 ? -14 : -126;
  return std::ldexp(1.0, std::max(value == 0 ? least : std::ilogb(value), least) - digits);
}

enum class Values : uint8_t { kUniform, kNormal, kOffset, kLarge };

/// One operator, or a few as exporters spell them, over inputs of any element type.
using Model = std::function<Value*(GraphMaker& m, Value* x, DType dtype)>;

/// The results of a model of halves by its plan, and of the same in double precision node by node.
struct Results {
  ConstantTensor got, want;
};

ConstantTensor numbers(Values kind, DType dtype, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  RandomStream random{11, static_cast<uint64_t>(kind)};
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) {
    const double u = random.uniform();
    const double normal = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * random.uniform());
    v = kind == Values::kUniform  ? 3 * u
        : kind == Values::kNormal ? normal + 0.5
        : kind == Values::kOffset ? 1000 + normal
                                  : 400 * normal;
  }
  return to_tensor(values, dtype, std::move(shape)).value();
}

Results run(const Model& model, Values kind, DType dtype, const std::vector<int64_t>& shape) {
  const auto built = [&](GraphMaker& m, DType type) {
    Value* x = m.graph.add_input("x", {type, {shape.begin(), shape.end()}});
    m.graph.add_output("y", model(m, x, type));
    m.graph.sort();
  };
  GraphMaker halves, doubles;
  built(halves, dtype);
  built(doubles, kF64);
  const ConstantTensor x = numbers(kind, dtype, shape);
  const ConstantTensor same = to_tensor(to_doubles(x), kF64, shape).value();
  const auto want = evaluate(doubles.graph, {{"x", same}}, interpreter_executor());
  EXPECT_TRUE(want) << (want ? "" : want.error().to_string());
  const auto done = optimize(halves.graph);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  Plan plan = make_plan(halves.graph).value();
  assign_memory(plan, [](int) { return true; });
  return {run_plan(halves.graph, plan, {{"x", x}}).at("y"), want->at("y")};
}

Attrs axes(std::vector<int64_t> list) {
  Attrs attrs = with_ints("axes", std::move(list));
  attrs.set("keepdims", int64_t{1});
  return attrs;
}
Attrs window(int64_t side) {
  Attrs attrs = with_ints("kernel_shape", {side, side});
  attrs.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  return attrs;
}
Attrs integer(const std::string& name, int64_t value) {
  Attrs attrs;
  attrs.set(name, value);
  return attrs;
}
Value* number(GraphMaker& m, double value, DType dtype) { return m.graph.add_constant("c", scalar(value, dtype)); }
Value* vector(GraphMaker& m, double value, DType dtype, std::vector<int64_t> shape) {
  Value* made = m.graph.add_constant("c", filled(value, dtype, shape).value());
  made->type = TensorType{dtype, {shape.begin(), shape.end()}};
  return made;
}
Value* typed(GraphMaker& m, double value, DType dtype) {
  Value* made = number(m, value, dtype);
  made->type = TensorType{dtype, {}};
  return made;
}

/// |got - exact| <= `ulps` of what is exact.
void expect_rounded_once(const Results& r, DType dtype, double ulps, const std::string& what) {
  ASSERT_EQ(r.got.shape, r.want.shape) << what;
  ASSERT_EQ(r.got.dtype, dtype) << what;
  for (int64_t i = 0; i < r.got.n_elems(); ++i) {
    const double want = r.want.at(i);
    ASSERT_LE(std::abs(r.got.at(i) - want), ulps * ulp(want, dtype))
        << what << " " << dtype.to_string() << " [" << i << "]: " << r.got.at(i) << ", exactly " << want;
  }
}
void expect_near(const Results& r, double bound, const std::string& what) {
  double scale = 0, error = 0;
  for (int64_t i = 0; i < r.want.n_elems(); ++i) {
    scale = std::max(scale, std::abs(r.want.at(i)));
    const double difference = std::abs(r.got.at(i) - r.want.at(i));
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  EXPECT_LE(error, bound * scale) << what;
}

// What would overflow a half on the way (a sum of 5,184 elements near 1,000, a square of 400), and results that fit.
TEST(Halves, OperatorsRoundOnce) {
  const auto reduce = [](std::string op) {
    return [op](GraphMaker& m, Value* x, DType) { return m.node(op, {x}, axes({2, 3})); };
  };
  const auto plain = [](std::string op, Attrs attrs = {}) {
    return [op, attrs](GraphMaker& m, Value* x, DType) { return m.node(op, {x}, attrs); };
  };
  const std::vector<int64_t> image{1, 2, 72, 72};
  for (const DType dtype : {kF16, kBF16}) {
    for (const Values kind : {Values::kUniform, Values::kNormal, Values::kOffset})
      expect_rounded_once(run(reduce("ReduceMean"), kind, dtype, image), dtype, 0.51, "ReduceMean");
    for (const char* op : {"ReduceSum", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
      expect_rounded_once(run(reduce(op), Values::kUniform, dtype, image), dtype, 0.51, op);
    expect_rounded_once(run(reduce("ReduceL2"), Values::kLarge, dtype, image), dtype, 0.51, "ReduceL2 of large ones");
    expect_rounded_once(run(reduce("ReduceProd"), Values::kUniform, dtype, {2, 3, 2, 3}), dtype, 0.51, "ReduceProd");
    for (const Values kind : {Values::kNormal, Values::kOffset})
      expect_rounded_once(run(plain("GlobalAveragePool"), kind, dtype, image), dtype, 0.51, "GlobalAveragePool");
    expect_rounded_once(run(plain("AveragePool", window(7)), Values::kOffset, dtype, {1, 2, 12, 12}), dtype, 0.51,
                        "AveragePool");
    expect_rounded_once(run(plain("CumSum", integer("axis", 2)), Values::kUniform, dtype, {1, 2, 500, 3}), dtype, 0.51,
                        "CumSum");
    expect_rounded_once(run(plain("LRN", integer("size", 5)), Values::kLarge, dtype, {1, 8, 3, 3}), dtype, 0.51, "LRN");
    for (const char* op : {"Softmax", "LogSoftmax"})
      expect_rounded_once(run(plain(op), Values::kNormal, dtype, {4, 700}), dtype, 0.52, op);
    expect_rounded_once(run(plain("LpNormalization"), Values::kLarge, dtype, {4, 300}), dtype, 0.51, "LpNormalization");
    for (const char* op : {"Gelu", "Mish", "Softplus", "Swish", "Selu", "Erf", "Sinh"})
      expect_rounded_once(run(plain(op), Values::kUniform, dtype, {300}), dtype, 0.6, op);
    const auto product = [](GraphMaker& m, Value* x, DType type) {
      return m.node("Add",
                    {m.node("MatMul", {x, vector(m, 11.0 / 1024, type, {500, 3})}), vector(m, 0.375, type, {3})});
    };
    expect_rounded_once(run(product, Values::kLarge, dtype, {2, 500}), dtype, 0.51, "MatMul, Add");
  }
}

// An image of 480 by 640, in either order of its dims.
TEST(Halves, MeansOfLongRows) {
  const auto mean = [](std::vector<int64_t> over) {
    return [over](GraphMaker& m, Value* x, DType) { return m.node("ReduceMean", {x}, axes(over)); };
  };
  for (const Values kind : {Values::kUniform, Values::kNormal, Values::kOffset}) {
    expect_rounded_once(run(mean({2, 3}), kind, kF16, {1, 2, 160, 160}), kF16, 0.51, "channels first");
    expect_rounded_once(run(mean({1, 2}), kind, kF16, {1, 160, 160, 2}), kF16, 0.51, "channels last");
  }
  expect_rounded_once(run(mean({2, 3}), Values::kNormal, kF16, {1, 1, 480, 640}), kF16, 0.51, "480 by 640");
}

TEST(Halves, Norms) {
  const std::vector<int64_t> image{1, 4, 40, 40};
  for (const DType dtype : {kF16, kBF16})
    for (const Values kind : {Values::kNormal, Values::kLarge}) {
      const double bound = dtype == kF16 ? 2e-3 : 1.6e-2;  // the same number of units in the last place
      for (const char* op : {"InstanceNormalization", "GroupNormalization"})
        expect_near(run(
                        [&](GraphMaker& m, Value* x, DType type) {
                          return m.node(op, {x, vector(m, 1.125, type, {4}), vector(m, 0.25, type, {4})},
                                        integer("num_groups", 2));
                        },
                        kind, dtype, image),
                    bound, op);
      for (const char* op : {"LayerNormalization", "RMSNormalization"})
        expect_near(
            run([&](GraphMaker& m, Value* x, DType type) { return m.node(op, {x, vector(m, 1.125, type, {40})}); },
                kind, dtype, image),
            bound, op);
      expect_near(run(
                      [&](GraphMaker& m, Value* x, DType type) {
                        std::vector<Value*> inputs{x};
                        for (const double v : {1.125, 0.25, 30.0, 40192.0}) inputs.push_back(vector(m, v, type, {4}));
                        return m.node("BatchNormalization", inputs);
                      },
                      kind, dtype, image),
                  bound, "BatchNormalization");
    }
}

/// d = x - mean(x); d / sqrt(mean(d ^ 2) + ε)
Value* spelled_norm(GraphMaker& m, Value* x, DType dtype, const std::vector<int64_t>& over) {
  Value* d = m.node("Sub", {x, m.node("ReduceMean", {x}, axes(over))});
  Value* squares = m.node("Pow", {d, typed(m, 2, dtype)});
  Value* variance = m.node("ReduceMean", {squares}, axes(over));
  return m.node("Div", {d, m.node("Sqrt", {m.node("Add", {variance, typed(m, 1e-3, dtype)})})});
}
/// x * 1/sqrt(mean(x ^ 2) + ε)
Value* spelled_rms_norm(GraphMaker& m, Value* x, DType dtype, const std::vector<int64_t>& over) {
  Value* mean = m.node("ReduceMean", {m.node("Pow", {x, typed(m, 2, dtype)})}, axes(over));
  Value* root = m.node("Sqrt", {m.node("Add", {mean, typed(m, 1e-3, dtype)})});
  return m.node("Mul", {x, m.node("Reciprocal", {root})});
}

// Of large values each square is beyond a half, over any dims: recognised, or in one kernel.
TEST(Halves, NormsInSmallNodes) {
  const std::vector<int64_t> image{2, 4, 30, 30};
  for (const DType dtype : {kF16, kBF16})
    for (const Values kind : {Values::kNormal, Values::kLarge})
      for (const std::vector<int64_t>& over :
           {std::vector<int64_t>{3}, std::vector<int64_t>{2, 3}, std::vector<int64_t>{1}, std::vector<int64_t>{1, 2}}) {
        const double bound = dtype == kF16 ? 2e-3 : 1.6e-2;
        expect_near(run([&](GraphMaker& m, Value* x, DType type) { return spelled_norm(m, x, type, over); }, kind,
                        dtype, image),
                    bound, "norm");
        if (kind == Values::kLarge && dtype == kF16 && over.back() != 3) continue;  // the mean square itself is none
        expect_near(run([&](GraphMaker& m, Value* x, DType type) { return spelled_rms_norm(m, x, type, over); }, kind,
                        dtype, image),
                    bound, "norm by root mean square");
      }
}

// softmax(q k' / 8 + mask) v, expanded
TEST(Halves, Attention) {
  const auto attention = [](GraphMaker& m, Value* x, DType dtype) {
    Value* keys = m.node("Transpose", {x}, with_ints("perm", {0, 2, 1}));
    Value* scores = m.node("Mul", {m.node("MatMul", {x, keys}), typed(m, 0.125, dtype)});
    Value* masked = m.node("Add", {scores, vector(m, -1, dtype, {1, 1, 96})});
    return m.node("MatMul", {m.node("Softmax", {masked}), x});
  };
  expect_near(run(attention, Values::kNormal, kF16, {2, 96, 64}), 1e-3, "attention");
}

// What is rounded on purpose stays rounded.
TEST(Halves, CastsRound) {
  GraphMaker m;
  Value* x = m.input("x", {3});
  Value* half = m.node("Cast", {x}, integer("to", 10));
  m.graph.add_output("y", m.node("Cast", {m.node("Neg", {half})}, integer("to", 1)));
  m.graph.sort();
  ASSERT_TRUE(optimize(m.graph));
  Plan plan = make_plan(m.graph).value();
  assign_memory(plan, [](int) { return true; });
  EXPECT_EQ(plan.calls.size(), 1u);
  const ConstantTensor in = to_tensor(std::vector<double>{2049, 1e6, 0.1}, kF32, {3}).value();
  const ConstantTensor y = run_plan(m.graph, plan, {{"x", in}}).at("y");
  EXPECT_EQ(y.at(0), -2048);
  EXPECT_EQ(y.at(1), -INFINITY);
  EXPECT_NEAR(y.at(2), -0.0999755859375, 1e-9);
}

// Products of halves take up no memory as singles: weights and images are read as they are.
TEST(Halves, NothingIsStoredWide) {
  GraphMaker m;
  Value* x = m.graph.add_input("x", {kF16, {1, 4, 8, 8}});
  Attrs attrs = with_ints("pads", {1, 1, 1, 1});
  Value* c = m.node("Conv", {x, vector(m, 0.125, kF16, {8, 4, 3, 3}), vector(m, 0.25, kF16, {8})}, attrs);
  m.graph.add_output("y", m.node("Relu", {c}));
  m.graph.sort();
  const Plan plan = make_plan(m.graph).value();
  for (const PlannedWorkload& workload : plan.workloads)
    for (const Buffer& buffer : workload.func.root().allocations)
      EXPECT_TRUE(buffer->dtype == kF16 || buffer->name == "conv") << buffer->name;
}

}  // namespace
}  // namespace fettle
