#include "codegen/llvm/index_form.h"

#include <algorithm>

namespace fettle::llvm_backend {
namespace {

constexpr size_t kMaxTerms = 24;
constexpr size_t kMaxDegree = 4;

int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

void IndexForm::add_term(const Monomial& monomial, int64_t coefficient) {
  if (monomial.empty()) {
    constant = wrapping_add(constant, coefficient);
    return;
  }
  if (coefficient == 0) return;
  const auto [at, inserted] = terms.emplace(monomial, coefficient);
  if (inserted) return;
  at->second = wrapping_add(at->second, coefficient);
  if (at->second == 0) terms.erase(at);
}

void IndexForm::add(const IndexForm& other, int64_t factor) {
  constant = wrapping_add(constant, wrapping_mul(other.constant, factor));
  for (const auto& [monomial, coefficient] : other.terms) add_term(monomial, wrapping_mul(coefficient, factor));
}

int IndexForms::intern(const Expr& e) {
  const auto [at, inserted] = numbers_.emplace(e, static_cast<int>(expressions_.size()));
  if (inserted) expressions_.push_back(e);
  return at->second;
}

IndexForm IndexForms::product(const IndexForm& a, const IndexForm& b, const Expr& whole) {
  IndexForm out;
  const auto degree = [](const IndexForm& f) {
    size_t most = 0;
    for (const auto& term : f.terms) most = std::max(most, term.first.size());
    return most;
  };
  if ((a.terms.size() + 1) * (b.terms.size() + 1) > kMaxTerms || degree(a) + degree(b) > kMaxDegree) {
    out.add_term({intern(whole)}, 1);
    return out;
  }
  out.add(b, a.constant);
  for (const auto& [x, c] : a.terms) {
    out.add_term(x, wrapping_mul(c, b.constant));
    for (const auto& [y, d] : b.terms) {
      Monomial both;
      std::merge(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
      out.add_term(both, wrapping_mul(c, d));
    }
  }
  return out;
}

IndexForm IndexForms::form(const Expr& e) {
  IndexForm out;
  if (const auto* imm = e.as<IntImmNode>()) {
    out.constant = imm->value;
    return out;
  }
  if (const auto* var = e.as<VarNode>()) {
    if (const auto found = defined_.find(var); found != defined_.end()) return found->second;
  } else if (const auto* binary = e.as<BinaryNode>(); binary && e.dtype() == kI64) {
    switch (binary->op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub: {
        out = form(binary->a);
        out.add(form(binary->b), binary->op == BinaryOp::kAdd ? 1 : -1);
        if (out.terms.size() <= kMaxTerms) return out;
        out = {};
        break;
      }
      case BinaryOp::kMul:
        return product(form(binary->a), form(binary->b), e);
      default:
        break;
    }
  }
  out.add_term({intern(e)}, 1);
  return out;
}

}  // namespace fettle::llvm_backend
