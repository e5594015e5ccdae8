#include <algorithm>
#include <optional>
#include <unordered_map>

#include "arith/analyzer.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// Sums of multiples of variables, and of what division by constants makes of such sums: their form is the same whether
// or not their parts were simplified before. `divides` becomes true where there are divisions.
bool is_quasi_affine(const Expr& e, bool& divides) {
  if (e.dtype() != kI64) return false;
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kVar:
      return true;
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      switch (n->op) {
        case BinaryOp::kAdd:
        case BinaryOp::kSub:
          return is_quasi_affine(n->a, divides) && is_quasi_affine(n->b, divides);
        case BinaryOp::kMul:
          return (as_int(n->b) && is_quasi_affine(n->a, divides)) || (as_int(n->a) && is_quasi_affine(n->b, divides));
        case BinaryOp::kFloorDiv:
        case BinaryOp::kFloorMod:
          divides = true;
          return as_int(n->b) && is_quasi_affine(n->a, divides);
        default:
          return false;
      }
    }
    default:
      return false;
  }
}

class Flattener : public AccessMutator {
 public:
  explicit Flattener(const Func& func) { analyzer_.bind_params(func); }
  using Mutator::rewrite;

  Buffer rewrite(const Buffer& buffer) override {
    Buffer& flat = flat_[buffer.get()];
    if (!flat) {
      flat = edited(buffer, [&](BufferNode& b) {
        Expr size = element_count(*buffer);
        if (!buffer->strides.empty()) {
          // The last element's offset, plus one.
          std::vector<Expr> last;
          for (const Expr& extent : buffer->shape) last.push_back(extent - 1);
          size = flat_index(*buffer, last) + 1;
        }
        b.shape = {analyzer_.simplify(size)};
        b.strides.clear();
        b.layout = nullptr;
      });
      kept_.push_back(buffer);
    }
    return flat;
  }

  Expr rewrite(const Expr& e) override {
    const Expr result = AccessMutator::rewrite(e);
    return e && e.dtype() == kI64 && e.kind() == ExprKind::kBinary ? analyzer_.simplify(result) : result;
  }

  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* loop = s.as<ForNode>()) {
      Expr min = rewrite(loop->min), extent = rewrite(loop->extent);
      analyzer_.bind(loop->var, min, extent);
      Stmt body = rewrite(loop->body);
      return with(*loop, [&](ForNode& f) {
        f.min = analyzer_.simplify(min);
        f.extent = analyzer_.simplify(extent);
        f.body = body;
      });
    }
    if (const auto* choice = s.as<IfNode>()) {
      Expr condition = analyzer_.simplify(rewrite(choice->condition));
      if (const int64_t* known = as_int(condition))
        return *known ? rewrite(choice->then_body) : rewrite(choice->else_body);
      return if_then(condition, rewrite(choice->then_body), rewrite(choice->else_body));
    }
    return AccessMutator::rewrite(s);
  }

 private:
  std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
    return Moved{rewrite(buffer), {flat_offset(buffer, indices)}};
  }
  Expr flat_offset(const Buffer& buffer, const std::vector<Expr>& indices) {
    bool divides = false;
    if (std::ranges::all_of(indices, [&](const Expr& index) { return is_quasi_affine(index, divides); })) {
      const auto offset = divides ? std::nullopt : affine_offset(*buffer, indices);
      return offset ? analyzer_.to_expr(*offset) : analyzer_.simplify(flat_index(*buffer, indices));
    }
    std::vector<Expr> rewritten;
    rewritten.reserve(indices.size());
    for (const Expr& index : indices) rewritten.push_back(rewrite(index));
    return analyzer_.simplify(flat_index(*buffer, rewritten));
  }

  // As flat_index has it, in one go.
  std::optional<LinearForm> affine_offset(const BufferNode& buffer, const std::vector<Expr>& indices) {
    LinearForm flat;
    for (size_t d = 0; d < indices.size(); ++d) {
      const int64_t* factor = as_int(buffer.strides.empty() ? buffer.shape[d] : buffer.strides[d]);
      if (!factor) return std::nullopt;
      if (buffer.strides.empty()) {
        if (d > 0) flat.scale(*factor);
        flat.add(analyzer_.linear(indices[d]));
      } else {
        flat.add(analyzer_.linear(indices[d]), *factor);
      }
    }
    return flat;
  }

  Analyzer analyzer_;
  std::unordered_map<const BufferNode*, Buffer> flat_;
  std::vector<Buffer> kept_;
};

}  // namespace

Func flatten_accesses(const Func& func) {
  Flattener flattener(func);
  return flattener.Mutator::rewrite(func);
}

}  // namespace fettle
