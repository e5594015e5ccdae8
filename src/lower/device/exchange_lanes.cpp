#include <map>

#include <fmt/format.h>

#include "ir/query.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/range_mutator.h"

namespace fettle {
namespace {

bool is_exchanged(const Buffer& buffer) { return buffer->scope == kScopeWarp; }

class Exchanger : public RangeMutator {
 public:
  Exchanger(const Func& func, const ThreadShape& shape) : RangeMutator(func), shape_(shape) {}
  using Mutator::rewrite;
  std::string problem;

  Buffer rewrite(const Buffer& buffer) override {
    if (!is_exchanged(buffer)) return buffer;
    Buffer& own = own_[buffer.get()];
    if (own) return own;
    const int64_t* elements = as_int(buffer->shape[0]);
    if (!elements || *elements % shape_.extents[0] != 0 || shape_.extents[0] > kWarpThreads ||
        kWarpThreads % shape_.extents[0] != 0)
      refuse(buffer, fmt::format("whose last dimension is not that of the {} threads along threadIdx.x, which must "
                                 "divide a warp",
                                 shape_.extents[0]));
    kept_.push_back(buffer);
    own = edited(buffer, [&](BufferNode& b) {
      b.shape = {Expr((elements ? *elements : 1) / shape_.extents[0])};
      b.scope = kScopeLocal;
    });
    return own;
  }

  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    if (const auto* pointer = e.as<AddressNode>(); pointer && is_exchanged(pointer->buffer))
      refuse(pointer->buffer, "whose address is taken");
    if (const auto* choice = e.as<SelectNode>()) {
      const Expr condition = rewrite(choice->condition);
      ++parted_;
      const Expr made = select(condition, rewrite(choice->if_true), rewrite(choice->if_false));
      --parted_;
      return made;
    }
    const auto* source = e.as<LoadNode>();
    if (!source || !is_exchanged(source->buffer)) return Mutator::rewrite(e);
    const auto [place, column] = place_of(source->buffer, source->indices);
    const Expr own = load(rewrite(source->buffer), {place});
    if (is_own(column)) return own;
    if (parted_ > 0) refuse(source->buffer, "which is read where not all threads may come by");
    return call(kLaneValueCall, {own, column, Expr(shape_.extents[0])}, source->dtype);
  }

  Stmt rewrite(const Stmt& s) override {
    if (!s || !problem.empty()) return s;
    if (const auto* target = s.as<StoreNode>(); target && is_exchanged(target->buffer)) {
      const auto [place, column] = place_of(target->buffer, target->indices);
      if (!is_own(column) || target->mask) refuse(target->buffer, "and a thread writes what another one has");
      return store(rewrite(target->buffer), {place}, rewrite(target->value));
    }
    const auto* choice = s.as<IfNode>();
    if (!choice || !tells_threads_apart(choice->condition)) return RangeMutator::rewrite(s);
    ++parted_;
    const Stmt made = RangeMutator::rewrite(s);
    --parted_;
    return made;
  }

 private:
  struct Place {
    Expr register_number, column;
  };
  Place place_of(const Buffer& buffer, const std::vector<Expr>& indices) {
    const Expr width(shape_.extents[0]), place = analyzer_.simplify(floordiv(indices[0], width));
    if (shape_.vars[0] && uses_var(place, shape_.vars[0].get()))
      refuse(buffer, "whose rows depend on the thread along threadIdx.x");
    return {place, analyzer_.simplify(floormod(indices[0], width))};
  }
  bool is_own(const Expr& column) const { return shape_.vars[0] && column.get() == shape_.vars[0].get(); }

  // Threads of one warp may go different ways.
  bool tells_threads_apart(const Expr& condition) const {
    if (reads_memory(condition)) return true;
    for (const Var& var : shape_.vars)
      if (var && uses_var(condition, var.get())) return true;
    return false;
  }

  void refuse(const Buffer& buffer, const std::string& why) {
    if (problem.empty())
      problem =
          fmt::format("threads along threadIdx.x exchange buffer {} (scope \"{}\"), {}", buffer->name, kScopeWarp, why);
  }

  const ThreadShape& shape_;
  std::map<const BufferNode*, Buffer> own_;
  std::vector<Buffer> kept_;
  int parted_ = 0;
};

}  // namespace

Result<Func> exchange_lanes(const Func& func, const ThreadShape& shape) {
  Exchanger exchanger(func, shape);
  const Stmt body = exchanger.rewrite(func->body);
  if (!exchanger.problem.empty()) return fail(ErrorCode::E301, exchanger.problem, func->name);
  return with_body(func, body);
}

}  // namespace fettle
