// Linear models and support vector machines of ai.onnx.ml.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/ops/heap.h"
#include "graph/ops/scores.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;
using Numbers = std::vector<double>;

Value* row_of(Lowering& g, const Numbers& numbers) {
  return g.constant(to_tensor(numbers, kF32, {1, std::ssize(numbers)}).value());
}

// `numbers` as rows of features, which must be those of x: [n, features]. E605 · E606.
Result<Value*> rows_of_features(Lowering& g, const Node& node, Value* x, std::string_view name, const Numbers& numbers,
                                int64_t rows) {
  const int64_t size = std::ssize(numbers);
  if (rows < 1 || size == 0 || size % rows != 0)
    return bad_attribute(node, fmt::format("{} has {} elements for {} rows", name, size, rows));
  const int64_t features = size / rows;
  FETTLE_TRY_VOID(common_dim(node, x->shape()[1], features, fmt::format("features of the input and of {}", name)));
  return g.constant(to_tensor(numbers, kF32, {rows, features}).value());
}

// x · rows'
Value* products(Lowering& g, Value* x, Value* rows) { return g("Gemm", {x, rows}, {{{"transB", int64_t{1}}}}); }

// [n, 1] → [n]
Value* flat(Lowering& g, Value* x) { return g.reshape(x, {x->shape()[0]}); }

Value* first_greatest(Lowering& g, Value* x) {
  return g("ArgMax", {x}, {{{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}});
}

// Of one column, PROBIT alone changes anything.
Value* transformed_columns(Lowering& g, Value* y, int64_t columns, PostTransform transform) {
  return columns == 1 && transform != PostTransform::kProbit ? y : transformed(g, y, transform);
}

/// The features times `columns` rows of coefficients, plus an intercept for each: [n, columns].
Result<Value*> linear(Lowering& g, const Node& node, const Numbers& intercepts, int64_t columns) {
  FETTLE_TRY(const Numbers coefficients, number_list(node, "coefficients"));
  FETTLE_TRY(Value * x, feature_rows(g, node, kF32));
  FETTLE_TRY(Value * rows, rows_of_features(g, node, x, "coefficients", coefficients, columns));
  Value* y = products(g, x, rows);
  return intercepts.empty() ? y : g("Add", {y, row_of(g, intercepts)});
}

// --- LinearRegressor: x · coefficients' + intercepts

Values linear_regressor(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"coefficients", "intercepts", "post_transform", "targets"}));
  const int64_t targets = node.attrs.get_int("targets", 1);
  FETTLE_TRY(const Numbers intercepts, number_list(node, "intercepts"));
  if (!intercepts.empty() && std::ssize(intercepts) != targets)
    return bad_attribute(node, fmt::format("intercepts has {} elements for {} targets", intercepts.size(), targets));
  FETTLE_TRY(const PostTransform transform, post_transform(node));
  FETTLE_TRY(Value * y, linear(g, node, intercepts, targets));
  return std::vector{transformed_columns(g, y, targets, transform)};
}

// --- LinearClassifier → (labels: [n], scores: [n, classes]). "multi_class" says how it was trained.

Values linear_classifier(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"classlabels_ints", "classlabels_strings", "coefficients", "intercepts",
                                          "multi_class", "post_transform"}));
  FETTLE_TRY(const ClassLabels labels, ClassLabels::read(node, "classlabels_ints"));
  FETTLE_TRY(const Numbers intercepts, number_list(node, "intercepts"));
  const int64_t columns = intercepts.empty() ? labels.size() : std::ssize(intercepts);
  if (columns != labels.size() && !(columns == 1 && labels.size() == 2))
    return bad_attribute(node, fmt::format("{} labels, and {} intercepts", labels.size(), columns));
  FETTLE_TRY(const PostTransform transform, post_transform(node));
  FETTLE_TRY(Value * scores, linear(g, node, intercepts, columns));
  if (columns == 1 && labels.size() == 2) {
    Value* index = g.cast(flat(g, g("Greater", {scores, g.number(0, kF32)})), kI64);
    FETTLE_TRY(Value * y, of_two_classes(g, node, scores, /*all_positive=*/true, transform));
    return std::vector{labels.at(g, index), y};
  }
  return std::vector{labels.at(g, first_greatest(g, scores)), transformed_columns(g, scores, columns, transform)};
}

// --- support vector machines

struct Kernel {
  std::string type;
  double gamma = 0, coef0 = 0, degree = 0;
};

Result<Kernel> read_kernel(const Node& node) {
  Kernel kernel{.type = node.attrs.get_string("kernel_type", "LINEAR")};
  constexpr std::string_view types[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  if (std::ranges::find(types, kernel.type) == std::end(types))
    return bad_attribute(node, fmt::format("kernel_type is \"{}\"", kernel.type));
  FETTLE_TRY(const Numbers params, number_list(node, "kernel_params"));
  if (!params.empty() && params.size() != 3)
    return bad_attribute(node,
                         fmt::format("kernel_params has {} elements instead of gamma, coef0, degree", params.size()));
  if (!params.empty()) {
    kernel.gamma = params[0];
    kernel.coef0 = params[1];
    kernel.degree = params[2];
  }
  return kernel;
}

// The kernel of each row of x with each vector: [n, vectors].
Value* kernels(Lowering& g, Value* x, Value* vectors, const Kernel& kernel) {
  const auto number = [&](double value) { return g.number(value, kF32); };
  if (kernel.type == "RBF") {
    Value* difference = g("Sub", {g.unsqueeze(x, {1}), g.unsqueeze(vectors, {0})});
    Value* distance = g.reduce("ReduceSumSquare", difference, {2}, false);
    return g("Exp", {g("Mul", {distance, number(-kernel.gamma)})});
  }
  Value* y = products(g, x, vectors);
  if (kernel.type == "LINEAR") return y;
  y = g("Add", {g("Mul", {y, number(kernel.gamma)}), number(kernel.coef0)});
  if (kernel.type == "SIGMOID") return g("Tanh", {y});
  if (kernel.degree == 2) return g("Mul", {y, y});
  if (kernel.degree == 3) return g("Mul", {g("Mul", {y, y}), y});
  return g("Pow", {y, number(kernel.degree)});
}

// SVMRegressor: Σ coefficient · kernel(x, vector) + rho. Without vectors, the coefficients are those of features.
Values svm_regressor(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"coefficients", "kernel_params", "kernel_type", "n_supports", "one_class",
                                          "post_transform", "rho", "support_vectors"}));
  FETTLE_TRY(const PostTransform transform, post_transform(node));
  if (transform != PostTransform::kNone) return bad_attribute(node, "post_transform is not supported");
  FETTLE_TRY(const Kernel kernel, read_kernel(node));
  FETTLE_TRY(const Numbers coefficients, number_list(node, "coefficients"));
  FETTLE_TRY(const Numbers vectors, number_list(node, "support_vectors"));
  FETTLE_TRY(const Numbers rho, number_list(node, "rho"));
  const int64_t n_vectors = node.attrs.get_int("n_supports", 0);
  if (rho.size() != 1) return bad_attribute(node, fmt::format("rho has {} elements", rho.size()));
  FETTLE_TRY(Value * x, feature_rows(g, node, kF32));
  if (n_vectors > 0) {
    FETTLE_TRY(Value * rows, rows_of_features(g, node, x, "support_vectors", vectors, n_vectors));
    x = kernels(g, x, rows, kernel);
  }
  FETTLE_TRY(Value * weights, rows_of_features(g, node, x, "coefficients", coefficients, 1));
  Value* y = g("Add", {products(g, x, weights), g.number(rho[0], kF32)});
  if (node.attrs.get_int("one_class", 0) != 0)
    y = g("Where", {g("Greater", {y, g.number(0, kF32)}), g.number(1, kF32), g.number(-1, kF32)});
  return std::vector{y};
}

// --- PairwiseCoupling(r: [n, classes, classes]) → p: [n, classes]: r[i, j] is the probability of class i where it is i
// or j. Wu, Lin, Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling, algorithm 2.

Types coupling_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3, 3));
  FETTLE_TRY(const Dim classes, common_dim(node, shape_of(node, 0)[1], shape_of(node, 0)[2], "classes"));
  return same_dtype(node, {shape_of(node, 0)[0], classes});
}
Tensors coupling(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& r = in[0];
  const Expr classes = r.dim(1);
  const DType dtype = r.dtype();
  const te::BlockAxis row{make_var("row"), r.dim(0)};
  const auto made = te::opaque(
      {{{row.extent, classes}, dtype}, {{row.extent, classes, classes}, dtype}, {{row.extent, classes}, dtype}}, {row},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const auto local = [&](const char* name) { return make_buffer(name, {1}, dtype, kScopeRegister); };
        const Buffer mean = local("mean"), error = local("error"), sum = local("sum"), left = local_number("left");
        const auto each = [&](const char* name, const std::function<Stmt(const Expr&)>& body) {
          return count_up(name, classes, body);
        };
        const auto p = [&](const Expr& i) { return load(out[0], {row.var, i}); };
        const auto q = [&](const Expr& i, const Expr& j) { return load(out[1], {row.var, i, j}); };
        const auto qp = [&](const Expr& i) { return load(out[2], {row.var, i}); };
        const auto set_p = [&](const Expr& i, const Expr& value) { return store(out[0], {row.var, i}, value); };
        const auto set_qp = [&](const Expr& i, const Expr& value) { return store(out[2], {row.var, i}, value); };
        const Expr one = constant(1, dtype), zero = constant(0, dtype);
        const Expr share = one / cast(dtype, classes);

        const Stmt begin = each("i", [&](const Expr& i) {
          const Stmt matrix = each("j", [&](const Expr& j) {
            const Expr squared = r(row.var, j, i) * r(row.var, j, i);
            return seq({store(out[1], {row.var, i, j}, zero - r(row.var, j, i) * r(row.var, i, j)),
                        if_then(ne(i, j), set(sum, get(sum) + squared))});
          });
          return seq({set_p(i, share), set(sum, zero), matrix, store(out[1], {row.var, i, i}, get(sum))});
        });
        const Stmt look = each("i", [&](const Expr& i) {
          const Stmt product = each("j", [&](const Expr& j) { return set(sum, get(sum) + q(i, j) * p(j)); });
          return seq({set(sum, zero), product, set_qp(i, get(sum)), set(mean, get(mean) + p(i) * get(sum))});
        });
        const Stmt measure =
            each("i", [&](const Expr& i) { return set(error, max(get(error), math("abs", {qp(i) - get(mean)}))); });
        const Stmt improve = each("i", [&](const Expr& i) {
          return let_be("d", (get(mean) - qp(i)) / q(i, i), [&](const Expr& d) {
            const Expr scale = one + d;
            const Stmt rest = each("j", [&](const Expr& j) {
              return seq({set_qp(j, (qp(j) + d * q(i, j)) / scale), set_p(j, p(j) / scale)});
            });
            return seq({set_p(i, p(i) + d),
                        set(mean, (get(mean) + d * (d * q(i, i) + constant(2, dtype) * qp(i))) / scale / scale), rest});
          });
        });
        const Expr close = constant(0.005, dtype) * share;
        const Stmt step = seq({set(mean, zero), look, set(error, zero), measure, set(left, get(left) - Expr(1)),
                               if_then(lt(get(error), close), set(left, 0), improve)});
        constexpr int64_t kMostSteps = 100;
        return {seq({begin, set(left, kMostSteps), repeat_while(lt(Expr(0), get(left)), step)}),
                {mean, error, sum, left}};
      },
      tensor_name(node));
  return one(made[0]);
}

// --- SVMClassifier → (labels: [n], scores), as ONNX Runtime has it

class SvmClassifier {
 public:
  SvmClassifier(Lowering& g, const Node& node, ClassLabels labels) : g_(g), node_(node), labels_(std::move(labels)) {}

  Values run() {
    FETTLE_TRY(coefficients_, number_list(node_, "coefficients"));
    FETTLE_TRY(rho_, number_list(node_, "rho"));
    FETTLE_TRY(prob_a_, number_list(node_, "prob_a"));
    FETTLE_TRY(prob_b_, number_list(node_, "prob_b"));
    FETTLE_TRY(transform_, post_transform(node_));
    FETTLE_TRY(kernel_, read_kernel(node_));
    FETTLE_TRY(x_, feature_rows(g_, node_, kF32));
    return node_.attrs.has("vectors_per_class") ? of_vectors() : of_features();
  }

 private:
  Value* number(double value) { return g_.number(value, kF32); }
  Result<> check_length(std::string_view name, const Numbers& list, int64_t wanted) {
    if (std::ssize(list) == wanted) return {};
    return bad_attribute(node_, fmt::format("{} has {} elements instead of {}", name, list.size(), wanted));
  }

  // One score a class, of its own coefficients.
  Values of_features() {
    FETTLE_TRY_VOID(check_length("rho", rho_, 1));
    const int64_t n = labels_.size();
    FETTLE_TRY(Value * rows, rows_of_features(g_, node_, x_, "coefficients", coefficients_, n));
    Value* scores = g_("Add", {products(g_, x_, rows), number(rho_[0])});
    Value* index = first_greatest(g_, scores);
    if (n == 2 && prob_a_.empty()) {
      // The second class is it where either score is large.
      const bool all_positive = std::ranges::none_of(coefficients_, [](double c) { return c < 0; });
      Value* greatest = g_.reduce("ReduceMax", scores, {1}, false);
      Value* is_second = g_(all_positive ? "GreaterOrEqual" : "Greater", {greatest, number(all_positive ? 0.5 : 0)});
      index = g_("Where", {is_second, g_.index(1), index});
    }
    return std::vector{labels_.at(g_, index), transformed_columns(g_, scores, n, transform_)};
  }

  // Each pair of classes i < j has a score, from the vectors of both. Above 0, it is a vote for i.
  Values of_vectors() {
    const int64_t n = labels_.size(), pairs = n * (n - 1) / 2;
    if (n < 2) return bad_attribute(node_, "it has vectors of one class");
    const auto counts = node_.attrs.get_ints("vectors_per_class");
    FETTLE_TRY(const Numbers vectors, number_list(node_, "support_vectors"));
    if (std::ssize(counts) != n)
      return bad_attribute(node_, fmt::format("vectors_per_class has {} elements instead of {}", counts.size(), n));
    std::vector<int64_t> starts{0};
    for (const int64_t count : counts) {
      if (count < 0 || count > std::ssize(vectors))
        return bad_attribute(node_, fmt::format("vectors_per_class has the element {}", count));
      starts.push_back(starts.back() + count);
    }
    const int64_t all = starts.back();
    if (all > std::ssize(vectors)) return bad_attribute(node_, "vectors_per_class are more than support_vectors");
    FETTLE_TRY_VOID(check_length("coefficients", coefficients_, (n - 1) * all));
    FETTLE_TRY_VOID(check_length("rho", rho_, pairs));
    FETTLE_TRY_VOID(check_length("prob_b", prob_b_, std::ssize(prob_a_)));
    if (!prob_a_.empty()) FETTLE_TRY_VOID(check_length("prob_a", prob_a_, pairs));
    constexpr int64_t kMostWeights = int64_t{1} << 28;
    if (pairs > kMostWeights / std::max(all, n))
      return bad_attribute(node_, fmt::format("it has {} pairs of classes and {} vectors", pairs, all));
    FETTLE_TRY(Value * rows, rows_of_features(g_, node_, x_, "support_vectors", vectors, all));

    Numbers weights(static_cast<size_t>(pairs * all)), votes(static_cast<size_t>(pairs * n)),
        lost(static_cast<size_t>(n));
    int64_t pair = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j, ++pair) {
        const auto take = [&](int64_t own, int64_t row) {
          for (int64_t v = starts[static_cast<size_t>(own)]; v < starts[static_cast<size_t>(own) + 1]; ++v)
            weights[static_cast<size_t>(pair * all + v)] = coefficients_[static_cast<size_t>(row * all + v)];
        };
        take(i, j - 1);
        take(j, i);
        // A pair that is not won by i is won by j.
        votes[static_cast<size_t>(pair * n + i)] = 1;
        votes[static_cast<size_t>(pair * n + j)] = -1;
        ++lost[static_cast<size_t>(j)];
      }
    Value* scores =
        products(g_, kernels(g_, x_, rows, kernel_), g_.constant(to_tensor(weights, kF32, {pairs, all}).value()));
    scores = g_("Add", {scores, row_of(g_, rho_)});
    Value* won = g_.cast(g_("Greater", {scores, number(0)}), kF32);
    Value* counted = g_("MatMul", {won, g_.constant(to_tensor(votes, kF32, {pairs, n}).value())});
    Value* index = first_greatest(g_, g_("Add", {counted, row_of(g_, lost)}));

    Value* y = nullptr;
    if (!prob_a_.empty()) {
      y = transformed(g_, probabilities(scores, n), transform_);
    } else if (n > 2) {
      y = transformed_columns(g_, scores, pairs, transform_);
    } else {
      FETTLE_TRY(y, of_two_classes(g_, node_, scores, transform_ != PostTransform::kNone, transform_));
    }
    return std::vector{labels_.at(g_, index), y};
  }

  // Of classes, from those of pairs: p(i | i or j) = 1 - logistic(a · score + b).
  Value* probabilities(Value* scores, int64_t n) {
    const int64_t pairs = n * (n - 1) / 2;
    Value* z = g_("Add", {g_("Mul", {scores, row_of(g_, prob_a_)}), row_of(g_, prob_b_)});
    constexpr double kLeast = 1e-7;
    Value* p = g_("Sub", {number(1), g_("Sigmoid", {z})});
    p = g_("Min", {g_("Max", {p, number(kLeast)}), number(1 - kLeast)});
    Value* both = g_("Concat", {p, g_("Sub", {number(1), p})}, {{{"axis", int64_t{1}}}});
    std::vector<int64_t> places(static_cast<size_t>(n * n));  // of the diagonal, nothing is read
    int64_t pair = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j, ++pair) {
        places[static_cast<size_t>(i * n + j)] = pair;
        places[static_cast<size_t>(j * n + i)] = pairs + pair;
      }
    Value* r = g_("Gather", {both, g_.ints(places)}, {{{"axis", int64_t{1}}}});
    return g_("PairwiseCoupling", {g_.reshape(r, {r->shape()[0], n, n})});
  }

  Lowering& g_;
  const Node& node_;
  ClassLabels labels_;
  Numbers coefficients_, rho_, prob_a_, prob_b_;
  PostTransform transform_ = PostTransform::kNone;
  Kernel kernel_;
  Value* x_ = nullptr;
};

Values svm_classifier(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(
      check_attributes(node, {"classlabels_ints", "classlabels_strings", "coefficients", "kernel_params", "kernel_type",
                              "post_transform", "prob_a", "prob_b", "rho", "support_vectors", "vectors_per_class"}));
  FETTLE_TRY(ClassLabels labels, ClassLabels::read(node, "classlabels_ints"));
  return SvmClassifier(g, node, std::move(labels)).run();
}

constexpr OpDef ml_linear_defs[] = {
    composite<linear_regressor>("ai.onnx.ml.LinearRegressor", 1),
    composite<linear_classifier>("ai.onnx.ml.LinearClassifier", 1, 2),
    composite<svm_regressor>("ai.onnx.ml.SVMRegressor", 1),
    composite<svm_classifier>("ai.onnx.ml.SVMClassifier", 1, 2),
    define(kOpaque, "PairwiseCoupling", 1, coupling_type, coupling),
};

}  // namespace

extern constinit const OpFamily ml_linear_ops{"ml_linear", ml_linear_defs};

}  // namespace fettle
