#include <algorithm>
#include <vector>

#include "arith/linear.h"
#include "ir/compare.h"
#include "ir/query.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "target/caches.h"

namespace fettle {
namespace {

/// Turns, at least, while which what is asked for can arrive.
constexpr int64_t kLongReduction = 64;

bool takes_long(const Stmt& s) {
  const auto* loop = s.as<ForNode>();
  if (!loop || loop->loop_kind != ForKind::kSerial) return false;
  const int64_t* extent = as_int(loop->extent);
  return extent && *extent >= kLongReduction;
}

bool is_large(const Buffer& buffer, int64_t than) {
  if (buffer->scope == kScopeRegister) return false;
  int64_t bytes = buffer->dtype.element_bytes();
  for (const Expr& extent : buffer->shape) {
    const int64_t* n = as_int(extent);
    if (!n) return false;
    bytes *= *n;
  }
  return bytes > than;
}

/// What a nest of unrolled and vectorized loops reads of large buffers, asked for a vector at a time; null: nothing.
Stmt requests_of(const Stmt& s, const Var& lane, int64_t near_bytes) {
  if (const auto* loop = s.as<ForNode>()) {
    if (loop->loop_kind == ForKind::kVectorized) return lane ? Stmt() : requests_of(loop->body, loop->var, near_bytes);
    if (loop->loop_kind != ForKind::kUnrolled) return {};
    const Stmt body = requests_of(loop->body, lane, near_bytes);
    if (!body) return {};
    const Var fresh = make_var(loop->var->name);
    return with(*loop, [&](ForNode& f) {
      f.var = fresh;
      f.body = substitute(body, {{loop->var.get(), Expr(fresh)}});
    });
  }
  const auto* target = s.as<StoreNode>();
  if (!target || !lane || target->mask) return {};
  std::vector<Stmt> asked;
  each_node<LoadNode>(target->value, [&](const LoadNode& source) {
    if (source.mask || source.indices.size() != 1 || reads_memory(source.indices[0])) return;
    if (!is_large(source.buffer, near_bytes)) return;
    const Expr first = substitute(source.indices[0], {{lane.get(), Expr(0)}});
    const LinearForm step = linear_form(source.indices[0] - first);
    if (step.terms.size() != 1 || step.constant != 0 || step.terms[0].coeff != 1) return;
    asked.push_back(evaluate(call("prefetch", {address_of(source.buffer, {to_expr(linear_form(first))})}, kI32)));
  });
  return asked.empty() ? Stmt() : seq(std::move(asked));
}

}  // namespace

Stmt prefetch_epilogues(const Stmt& body, const Target& target) {
  return rewrite_each<SeqNode>(body, [&](const SeqNode& all) {
    const auto reduction = std::ranges::find_if(all.stmts, takes_long);
    std::vector<Stmt> stmts(all.stmts.begin(), reduction);
    for (auto later = reduction; later != all.stmts.end(); ++later)
      if (const Stmt asked = requests_of(*later, {}, cache_bytes(target, 0))) stmts.push_back(asked);
    if (stmts.size() == static_cast<size_t>(reduction - all.stmts.begin())) return Stmt();
    stmts.insert(stmts.end(), reduction, all.stmts.end());
    return seq(std::move(stmts));
  });
}

}  // namespace fettle
