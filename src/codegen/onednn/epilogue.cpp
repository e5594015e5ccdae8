#include "codegen/onednn/epilogue.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/query.h"
#include "ir/rewrite.h"

namespace fettle::onednn {
namespace {

constexpr double kRootHalf = 0.70710678118654752;

bool is_near(const Expr& e, double value) {
  const auto* imm = e.as<FloatImmNode>();
  return imm && std::abs(imm->value - value) <= 1e-6 * std::abs(value);
}

/// The factors of a product, or the terms of a sum, however they are grouped.
void flatten(const Expr& e, BinaryOp op, std::vector<Expr>& parts) {
  const auto* node = e.as<BinaryNode>();
  if (node && node->op == op) {
    flatten(node->a, op, parts);
    flatten(node->b, op, parts);
  } else {
    parts.push_back(e);
  }
}

/// x of  0.5 * x * (1 + erf(x * sqrt(1/2))); null: it is no gelu.
Expr argument_of_gelu(const Expr& e) {
  std::vector<Expr> factors;
  flatten(e, BinaryOp::kMul, factors);
  if (factors.size() < 3) return nullptr;
  Expr erf_of;
  std::vector<Expr> rest;
  for (const Expr& f : factors) {
    const auto* sum = f.as<BinaryNode>();
    const auto erf = [&](const Expr& one, const Expr& other) {
      const auto* call = other.as<CallNode>();
      return is_near(one, 1) && call && call->name == "erf" ? call->args[0] : Expr();
    };
    Expr found = sum && sum->op == BinaryOp::kAdd ? erf(sum->a, sum->b) : Expr();
    if (sum && sum->op == BinaryOp::kAdd && !found) found = erf(sum->b, sum->a);
    if (found && !erf_of)
      erf_of = found;
    else
      rest.push_back(f);
  }
  const auto half = std::ranges::find_if(rest, [](const Expr& f) { return is_near(f, 0.5); });
  if (!erf_of || half == rest.end()) return nullptr;
  rest.erase(half);
  const auto* scaled = erf_of.as<BinaryNode>();
  if (rest.size() != 1 || !scaled || scaled->op != BinaryOp::kMul) return nullptr;
  const bool first = is_near(scaled->b, kRootHalf) && structural_equal(scaled->a, rest[0]);
  return first || (is_near(scaled->a, kRootHalf) && structural_equal(scaled->b, rest[0])) ? rest[0] : Expr();
}

/// Puts what steps have made in the place of what reads it.
class ValueReader : public Mutator {
 public:
  ValueReader(const BufferNode* made, const std::vector<Var>& dimensions, const std::vector<Iterator>& iterators,
              const std::map<const BufferNode*, Expr>& values)
      : made_(made), dimensions_(dimensions), iterators_(iterators), values_(values) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* load = e.as<LoadNode>();
    if (!load) return Mutator::rewrite(e);
    const auto known = values_.find(load->buffer.get());
    if (load->buffer.get() != made_ && known == values_.end()) return e;
    for (size_t d = 0; d < load->indices.size(); ++d)
      moves = moves || (load->indices[d].get() != dimensions_[d].get() &&
                        !(iterators_[d].extent == 1 && is_zero(load->indices[d])));
    return load->buffer.get() == made_ ? e : known->second;
  }
  bool moves = false;  // some element is read where another is made

 private:
  const BufferNode* made_;
  const std::vector<Var>& dimensions_;
  const std::vector<Iterator>& iterators_;
  const std::map<const BufferNode*, Expr>& values_;
};

class Reader {
 public:
  Reader(const BufferNode* made, std::vector<EpilogueOp>& ops) : made_(made), ops_(ops) {}

  bool reads_made(const Expr& e) const {
    return contains<LoadNode>(e, [&](const LoadNode& load) { return load.buffer.get() == made_; });
  }

  /// Appends what makes `e` of the element, innermost first.
  bool read(const Expr& e) {
    if (const auto* load = e.as<LoadNode>()) return load->buffer.get() == made_;
    if (const Expr x = argument_of_gelu(e)) return read(x) && eltwise(rt::onednn::kGeluErf, 0, 0);
    if (const auto* call = e.as<CallNode>()) {
      if (call->args.size() != 1 || !read(call->args[0])) return false;
      if (call->name == "tanh") return eltwise(rt::onednn::kTanh, 0, 0);
      return call->name == "sigmoid" && eltwise(rt::onednn::kLogistic, 0, 0);
    }
    const auto* node = e.as<BinaryNode>();
    if (!node) return false;
    const auto& [a, b] = std::pair(node->a, node->b);
    if (node->op == BinaryOp::kMul) {  // x * sigmoid(x)
      for (const auto& [x, gate] : {std::pair(a, b), std::pair(b, a)}) {
        const auto* call = gate.as<CallNode>();
        if (call && call->name == "sigmoid" && structural_equal(call->args[0], x))
          return read(x) && eltwise(rt::onednn::kSwish, 1, 0);
      }
    }
    const bool left = reads_made(a), right = reads_made(b);
    if (left == right) return false;
    const Expr &inner = left ? a : b, &other = left ? b : a;
    // min(max(x, low), high) is one post-op.
    if (node->op == BinaryOp::kMin) {
      const auto* below = inner.as<BinaryNode>();
      const auto* high = other.as<FloatImmNode>();
      if (!high || !below || !is_maximum(below->op)) return false;
      const bool first = reads_made(below->a);
      const auto* low = (first ? below->b : below->a).as<FloatImmNode>();
      return low && low->value <= high->value && read(first ? below->a : below->b) &&
             eltwise(rt::onednn::kClip, low->value, high->value);
    }
    if (!read(inner)) return false;
    if (const auto* number = other.as<FloatImmNode>()) {
      if (node->op == BinaryOp::kAdd) return eltwise(rt::onednn::kLinear, 1, number->value);
      if (node->op == BinaryOp::kSub && left) return eltwise(rt::onednn::kLinear, 1, -number->value);
      if (node->op == BinaryOp::kMul) return eltwise(rt::onednn::kLinear, number->value, 0);
      return is_maximum(node->op) && number->value == 0 && eltwise(rt::onednn::kRelu, 0, 0);
    }
    const auto* load = other.as<LoadNode>();
    if (!load || load->mask || (node->op != BinaryOp::kAdd && node->op != BinaryOp::kMul)) return false;
    EpilogueOp op;
    op.op.algorithm = node->op == BinaryOp::kAdd ? rt::onednn::kAdd : rt::onednn::kMultiply;
    op.op.is_binary = 1;
    op.operand = load;
    ops_.push_back(op);
    return true;
  }

 private:
  bool eltwise(int32_t algorithm, double alpha, double beta) {
    ops_.push_back({{algorithm, static_cast<float>(alpha), static_cast<float>(beta), 0}, nullptr});
    return true;
  }

  const BufferNode* made_;
  std::vector<EpilogueOp>& ops_;
};

}  // namespace

Result<Epilogue> read_epilogue(const Func& program, const std::vector<Step>& steps, size_t first,
                               const BufferNode* made) {
  Epilogue found;
  found.result = made;
  for (int d = 0; d < made->rank(); ++d) found.dimensions.push_back(make_var("d"));
  std::map<const BufferNode*, Expr> values;
  const auto shape = shape_of(*made);
  for (size_t i = first; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const auto own = shape_of(*step.store->buffer);
    if (step.reduces() || !is_identity(step.store->indices, step.iterators) || !own || own != shape)
      return declined("what follows the sum is more than work on its elements");
    VarMap dimension_of;
    for (size_t d = 0; d < step.iterators.size(); ++d) dimension_of[step.iterators[d].var.get()] = found.dimensions[d];
    ValueReader reader(made, found.dimensions, step.iterators, values);
    const Expr value = reader.rewrite(substitute(step.store->value, dimension_of));
    if (reader.moves) return declined("what follows the sum reads other elements of it");
    values[step.store->buffer.get()] = value;
    found.result = step.store->buffer.get();
    found.keeps_alive = value;
  }
  const int param = param_of(program, found.result);
  if (param < 0 || program->params[static_cast<size_t>(param)].kind != ParamKind::kOutput)
    return declined("it has other results");
  if (found.keeps_alive && !Reader(made, found.ops).read(found.keeps_alive))
    return declined("oneDNN has no post-op for what follows the sum");
  if (found.ops.size() > static_cast<size_t>(rt::kOnednnMaxOps)) return declined("too much follows the sum");
  return found;
}

}  // namespace fettle::onednn
