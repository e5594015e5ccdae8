#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/passes/lane_runs.h"
#include "lower/passes/passes.h"
#include "target/caches.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// Processors ask by themselves for what follows on a page, and not for the next one.
constexpr int64_t kPageBytes = 4096;
constexpr int kFirstLevel = 3;  // of a prefetch

// Elements of one access in a turn of the innermost loop, and how far they move with each turn of the loop around.
struct Column {
  Buffer buffer;
  LinearForm base;
  int64_t outer_step = 0, lanes = 1;
};

int64_t bytes_of(const Buffer& buffer) {
  int64_t bytes = buffer->dtype.element_bytes();
  for (const Expr& extent : buffer->shape) {
    const int64_t* n = as_int(extent);
    if (!n) return std::numeric_limits<int64_t>::max();
    bytes *= *n;
  }
  return bytes;
}

class Requester : public StmtMutator {
 public:
  explicit Requester(const Target& target) : cache_(cache_bytes(target, 1)) {}
  using StmtMutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop) return Mutator::rewrite(s);
    const bool is_innermost = !contains<ForNode>(loop->body, [](const ForNode&) { return true; });
    if (is_innermost) return around_ && loop->loop_kind == ForKind::kSerial ? with_requests(*loop) : s;
    const ForNode* outer = std::exchange(around_, loop->loop_kind == ForKind::kSerial ? loop : nullptr);
    Stmt made = Mutator::rewrite(s);
    around_ = outer;
    return made;
  }

 private:
  // Columns that the loop goes down, a page or more a turn, of buffers that the second-level cache does not hold. One
  // of those that lie on the same lines.
  std::vector<Column> columns_of(const ForNode& loop) const {
    std::vector<Column> found;
    each_access(loop.body, [&](const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind) {
      if (kind == AccessKind::kAddress || is_in_registers(*buffer) || bytes_of(buffer) <= cache_) return;
      const auto run = lane_run(indices, loop.var), outer = lane_run(indices, around_->var);
      const int64_t element = buffer->dtype.element_bytes();
      if (!run || !outer || run->stride != 1 || std::abs(run->step) * element < kPageBytes) return;
      if (outer->step <= 0 || outer->step * element > kCacheLineBytes) return;
      for (Column& known : found) {
        LinearForm between = run->base;
        between.add(known.base, -1);
        if (!(known.buffer == buffer) || !between.is_constant()) continue;
        if (std::abs(between.constant) * element >= kCacheLineBytes) continue;
        if (between.constant + run->lanes > known.lanes) known.lanes = between.constant + run->lanes;
        return;
      }
      found.push_back({buffer, run->base, outer->step, run->lanes});
    });
    return found;
  }

  Stmt with_requests(const ForNode& loop) const {
    const std::vector<Column> columns = columns_of(loop);
    const int64_t* turns = as_int(loop.extent);
    // What does not stay until it is needed is not asked for.
    const auto lines = static_cast<int64_t>(columns.size());
    if (columns.empty() || (turns && *turns * lines * kCacheLineBytes > cache_)) return Stmt(Ref<const ForNode>(&loop));
    std::vector<Stmt> body = {loop.body};
    for (const Column& column : columns) {
      LinearForm last = column.base;
      last.add_constant(column.outer_step + column.lanes - 1);
      body.push_back(
          evaluate(call("prefetch", {address_of(column.buffer, {to_expr(last)}), int_imm(kFirstLevel, kI32)}, kI32)));
    }
    return with_body(loop, seq(std::move(body)));
  }

  int64_t cache_;
  const ForNode* around_ = nullptr;
};

}  // namespace

Func prefetch_columns(const Func& func, const Target& target) {
  if (func->annotations.get_int(kInOrderKey, 0) == 0) return func;
  return with_body(func, Requester(target).rewrite(func->body));
}

}  // namespace fettle
