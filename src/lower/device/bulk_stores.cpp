// Copies from shared to global memory that the copy engine does.
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/device/bulk_copy.h"
#include "lower/device/passes.h"
#include "lower/passes/range_mutator.h"

namespace fettle {
namespace {

class Storer : public RangeMutator {
 public:
  Storer(const Func& func, std::vector<TensorMap>& maps) : RangeMutator(func), params_(func->params), maps_(maps) {}
  using Mutator::rewrite;
  std::optional<Diagnostic> problem;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop || !loop->annotations.find(kBulkCopyKey) || problem) return RangeMutator::rewrite(s);
    Result<BulkCopy> copy = bulk_copy_of(*loop, params_, nullptr, 1, analyzer_);
    if (!copy || !copy->stores) {
      problem =
          copy ? Diagnostic(ErrorCode::E301,
                            fmt::format("the copy at loop {} to shared memory is annotated \"{}\", and stands in no "
                                        "pipelined loop annotated \"{}\"",
                                        loop->var->name, kBulkCopyKey, kSpecializeWarpsKey))
               : copy.error();
      return s;
    }
    std::vector<Expr> args = {address_of(copy->near, copy->from), Expr(static_cast<int64_t>(maps_.size())),
                              Expr(copy->rows), Expr(copy->columns)};
    args.insert(args.end(), copy->coordinates.begin(), copy->coordinates.end());
    maps_.push_back(std::move(copy->map));
    return evaluate(call(kBulkStoreCall, std::move(args), kI32));
  }

 private:
  const std::vector<Param>& params_;
  std::vector<TensorMap>& maps_;
};

// Buffers of which bulk stores alone read.
std::unordered_set<const BufferNode*> staged_in(const Stmt& body) {
  std::unordered_set<const BufferNode*> staged;
  each_node<EvaluateNode>(body, [&](const EvaluateNode& node) {
    const auto* called = node.value.as<CallNode>();
    if (called && called->name == kBulkStoreCall) staged.insert(called->args[0].as<AddressNode>()->buffer.get());
  });
  each_node<LoadNode>(body, [&](const LoadNode& read) { staged.erase(read.buffer.get()); });
  return staged;
}

// The copy engine leaves out what lies outside of memory's bounds. So what guards keep from being staged may be staged,
// where nothing but registers is read for it, and the place is one of the staging buffer's.
//   if p: S[i, j] = f(C[i, j]);  bulk_store(&S, …)   →   S[i, j] = f(C[i, j]);  bulk_store(&S, …)
class WithoutGuards : public RangeMutator {
 public:
  explicit WithoutGuards(const Func& func) : RangeMutator(func), staged_(staged_in(func->body)) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* guard = s ? s.as<IfNode>() : nullptr;
    if (guard && !guard->else_body && may_stay_out(guard->then_body)) return guard->then_body;
    return RangeMutator::rewrite(s);
  }
  bool has_work() const { return !staged_.empty(); }

 private:
  bool may_stay_out(Stmt inside) {
    const auto scope = analyzer_.enter();
    for (const auto* loop = inside.as<ForNode>(); loop; loop = inside.as<ForNode>()) {
      analyzer_.bind(loop->var, loop->min, loop->extent);
      const Stmt next = loop->body;
      inside = next;
    }
    const auto* stored = inside.as<StoreNode>();
    if (!stored || stored->mask || !staged_.contains(stored->buffer.get())) return false;
    for (size_t d = 0; d < stored->indices.size(); ++d) {
      const Expr& index = stored->indices[d];
      if (!analyzer_.can_prove(le(Expr(0), index)) || !analyzer_.can_prove(lt(index, stored->buffer->shape[d])))
        return false;
    }
    bool from_registers = true;
    each_node<LoadNode>(inside, [&](const LoadNode& read) { from_registers &= read.buffer->scope == kScopeFragment; });
    return from_registers;
  }

  const std::unordered_set<const BufferNode*> staged_;
};

class StagedSwizzler : public AccessMutator {
 public:
  StagedSwizzler(const Func& func, std::unordered_set<const BufferNode*> staged) : staged_(std::move(staged)) {
    analyzer_.bind_params(func);
  }
  using AccessMutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop) return AccessMutator::rewrite(s);
    const auto scope = analyzer_.enter();
    analyzer_.bind(loop->var, loop->min, loop->extent);
    return AccessMutator::rewrite(s);
  }

 private:
  std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
    if (!staged_.contains(buffer.get()) || indices.size() != 1) return std::nullopt;
    const int64_t bytes = buffer->dtype.element_bytes();
    const auto at = [&](const Expr& offset) {
      return swizzled_offset(analyzer_, offset, kPanelBytes / bytes, kSwizzleBytes / kPanelBytes, 16 / bytes);
    };
    if (const auto* run = indices[0].as<RampNode>())
      return Moved{buffer, {ramp(at(run->base), run->stride, indices[0].dtype().lanes)}};
    return Moved{buffer, {at(indices[0])}};
  }

  Analyzer analyzer_;
  std::unordered_set<const BufferNode*> staged_;
};

}  // namespace

Result<Func> bulk_stores(const Func& func, std::vector<TensorMap>& maps) {
  Storer storer(func, maps);
  const Stmt body = storer.rewrite(func->body);
  if (storer.problem) return fail(*storer.problem);
  const Func made = with_body(func, body);
  WithoutGuards without(made);
  return without.has_work() ? with_body(made, without.rewrite(made->body)) : made;
}

Func swizzle_staged(const Func& func) {
  std::unordered_set<const BufferNode*> staged;
  each_node<EvaluateNode>(func->body, [&](const EvaluateNode& node) {
    const auto* called = node.value.as<CallNode>();
    if (called && called->name == kBulkStoreCall) staged.insert(called->args[0].as<AddressNode>()->buffer.get());
  });
  if (staged.empty()) return func;
  return with_body(func, StagedSwizzler(func, std::move(staged)).rewrite(func->body));
}

}  // namespace fettle
