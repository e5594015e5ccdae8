#include "schedule/primitives/pragma.h"

#include <algorithm>
#include <optional>

#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// Iterations of the serial loops of `s` if all were unrolled; nothing where an extent is not constant.
std::optional<int64_t> steps_of(const Stmt& s) {
  int64_t steps = 1;
  bool known = true;
  const auto add = [&](const Stmt& child) {
    const auto inside = steps_of(child);
    known &= inside.has_value();
    if (inside) steps = std::max(steps, *inside);
  };
  if (const auto* loop = s.as<ForNode>()) {
    add(loop->body);
    const int64_t* extent = as_int(loop->extent);
    if (!known || !extent) return {};
    if (loop->loop_kind == ForKind::kVectorized) return steps;
    if (__builtin_mul_overflow(steps, std::max<int64_t>(*extent, 1), &steps)) return {};
    return steps;
  }
  if (const auto* list = s.as<SeqNode>()) {
    int64_t sum = 0;
    for (const Stmt& child : list->stmts) {
      const auto inside = steps_of(child);
      if (!inside || __builtin_add_overflow(sum, *inside, &sum)) return {};
    }
    return sum;
  }
  if (const auto* block = s.as<BlockNode>()) {
    add(block->body);
    if (block->init) add(block->init);
  }
  if (const auto* branch = s.as<IfNode>()) {
    add(branch->then_body);
    if (branch->else_body) add(branch->else_body);
  }
  return known ? std::optional(steps) : std::nullopt;
}

// Unrolls the plain serial loops that are small enough with all that is inside.
class Unroller : public Mutator {
 public:
  explicit Unroller(int64_t limit) : limit_(limit) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const Stmt inside = Mutator::rewrite(s);
    const auto* loop = inside ? inside.as<ForNode>() : nullptr;
    if (!loop || loop->loop_kind != ForKind::kSerial || !loop->annotations.entries.empty()) return inside;
    const auto steps = steps_of(inside);
    if (!steps || *steps > limit_) return inside;
    return with(*loop, [](ForNode& f) { f.loop_kind = ForKind::kUnrolled; });
  }

 private:
  int64_t limit_;
};

Result<Applied> apply_pragma(const Schedule& s, const PragmaArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  if (args.name != "auto_unroll_max_step")
    return refused(ErrorCode::E241, s.func(), stmt.get(), "there is no pragma \"{}\"", args.name);
  if (args.value < 0)
    return refused(ErrorCode::E202, s.func(), stmt.get(), "the value is {}", std::to_string(args.value));
  const Stmt unrolled = Unroller(args.value).rewrite(stmt);
  return Applied{unrolled == stmt ? s.func() : replace_in(s.func(), stmt.get(), unrolled), {}};
}

}  // namespace

extern constinit const PrimitiveDef pragma_def = define_primitive<PragmaArgs, apply_pragma>("pragma", 1);

Result<> pragma(Schedule& s, const PragmaArgs& args) { return run<void>(s, pragma_def, args); }

}  // namespace fettle
