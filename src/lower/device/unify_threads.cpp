#include <map>
#include <optional>

#include <fmt/format.h>

#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/bulk_copy.h"
#include "lower/device/passes.h"
#include "target/tensor_intrinsic.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

bool contains_thread_loop(const Stmt& s) {
  return contains<ForNode>(s, [](const ForNode& loop) { return is_block_thread_axis(loop.thread_axis); });
}

// The loop that an axis is bound by at some place, and how many threads it has.
struct Bound {
  const ForNode* loop = nullptr;
  int64_t extent = 0;
};
using Bounds = std::array<Bound, 3>;

class ThreadUnifier {
 public:
  explicit ThreadUnifier(const Target& target) : target_(target) {}

  Result<UnifiedThreads> run(const Stmt& body) {
    FETTLE_TRY_VOID(find_shape(body));
    result_.body = rewrite(body, {});
    check_private();
    if (problem_) return fail(*problem_);
    return std::move(result_);
  }

 private:
  Result<> find_shape(const Stmt& body) {
    Result<> result;
    walk(body, [&](const Stmt& s) {
      const auto* loop = s.as<ForNode>();
      if (!loop || !is_block_thread_axis(loop->thread_axis) || !result) return result.has_value();
      const int64_t* extent = as_int(loop->extent);
      if (!extent || *extent < 1) {
        result = fail(ErrorCode::E301, fmt::format("loop {} over {} has {} iterations, which is no constant",
                                                   loop->var->name, loop->thread_axis, to_text(loop->extent)));
        return false;
      }
      const auto d = static_cast<size_t>(axis_dimension(loop->thread_axis));
      if (!result_.shape.vars[d]) result_.shape.vars[d] = make_var(std::string("t") + "xyz"[d]);
      result_.shape.extents[d] = std::max(result_.shape.extents[d], *extent);
      return true;
    });
    return result;
  }

  Stmt rewrite(const Stmt& s, const Bounds& bounds) {
    if (!s || problem_) return s;
    if (const auto* all = s.as<SeqNode>()) {
      std::vector<Stmt> stmts;
      for (const Stmt& child : all->stmts) stmts.push_back(rewrite(child, bounds));
      return seq(std::move(stmts));
    }
    const auto* loop = s.as<ForNode>();
    if (loop && is_block_thread_axis(loop->thread_axis)) {
      const auto d = static_cast<size_t>(axis_dimension(loop->thread_axis));
      if (bounds[d].loop && uses_var(s, result_.shape.vars[d].get()))
        problem_ = Diagnostic(ErrorCode::E301,
                              fmt::format("loop {} over {} stands inside of loop {} over the same, and depends on it",
                                          loop->var->name, loop->thread_axis, bounds[d].loop->var->name));
      kept_.push_back(s);  // loops are told apart by their addresses
      Bounds inside = bounds;
      inside[d] = {loop, *as_int(loop->extent)};
      const Stmt body = substitute(loop->body, {{loop->var.get(), loop->min + result_.shape.vars[d]}});
      if (contains_thread_loop(body)) return rewrite(body, inside);
      const Stmt region = make_for(make_var("region"), 0, 1, rewrite(body, inside));
      return with(*region.as<ForNode>(), [](ForNode& f) { f.annotations.set(kThreadRegionKey, int64_t{1}); });
    }
    if (loop && loop->annotations.find(kTensorizeKey)) return tensor_tile(*loop, bounds);
    // What the copy engine does is no thread's work.
    if (loop && loop->annotations.find(kBulkCopyKey) && has_bulk_copies(target_)) return in_ring_ ? s : leaf(s, bounds);
    if (loop && is_ring(*loop, target_)) {
      in_ring_ = true;
      const Stmt ring = with_body(*loop, rewrite(loop->body, bounds));
      in_ring_ = false;
      return ring;
    }
    if (loop && !reads_memory(loop->min) && !reads_memory(loop->extent))
      return with_body(*loop, rewrite(loop->body, bounds));
    if (const auto* name = s.as<LetNode>(); name && !reads_memory(name->value))
      return let(name->var, name->value, rewrite(name->body, bounds));
    return leaf(s, bounds);
  }

  // What a warp, or a group of warps, does together has no guard along x; what it cannot do stays loops, as for any
  // other statement.
  Stmt tensor_tile(const ForNode& loop, const Bounds& bounds) {
    const auto* name = std::get_if<std::string>(loop.annotations.find(kTensorizeKey));
    const TensorIntrinsicDef* intrinsic = name ? find_tensor_intrinsic(*name) : nullptr;
    const int axes = result_.shape.lane_axes();
    const int64_t lanes = result_.shape.extents[0] * (axes == 2 ? result_.shape.extents[1] : 1);
    const bool by_warp = intrinsic && intrinsic->threads > 0 && intrinsic->available(target_) && !bounds[0].loop &&
                         (axes == 1 || !bounds[1].loop) && lanes == intrinsic->threads;
    if (!by_warp) {
      const Stmt plain = with(loop, [](ForNode& f) { f.annotations.erase(kTensorizeKey); });
      return intrinsic && intrinsic->threads > 0 ? rewrite(plain, bounds) : leaf(Stmt(make_ref<ForNode>(loop)), bounds);
    }
    each_access(loop.body, [&](const Buffer& buffer, const auto&, AccessKind) { require_shared(*buffer); });
    Bounds of_warp = bounds;
    for (size_t d = 0; d < static_cast<size_t>(axes); ++d) of_warp[d] = {&loop, result_.shape.extents[d]};
    return leaf(with(loop, [&](ForNode& f) { f.annotations.set(kWarpTileKey, int64_t{axes}); }), of_warp);
  }

  void require_shared(const BufferNode& buffer) {
    if (sharing_of(buffer, target_) == SharedBy::kThread && buffer.scope != kScopeFragment)
      problem_ = Diagnostic(ErrorCode::E301,
                            fmt::format("a warp computes a tile of buffer {} together, which is of scope \"{}\" and "
                                        "belongs to one thread; put it in shared memory, or in fragments",
                                        buffer.name, buffer.scope));
  }

  // A single statement, or one whose course depends on memory: done as a whole by those whom it concerns.
  Stmt leaf(const Stmt& s, const Bounds& bounds) {
    if (contains_thread_loop(s)) {
      problem_ = Diagnostic(ErrorCode::E301, "a loop over threads stands where memory decides whether it runs");
      return s;
    }
    bool only_private = true;
    walk(s, [&](const Stmt& x) { return only_private &= !x.as<CallFuncNode>() && !x.as<EvaluateNode>(); });
    each_access(s, [&](const Buffer& buffer, const auto&, AccessKind kind) {
      const bool is_private = sharing_of(*buffer, target_) == SharedBy::kThread;
      if (is_private) note_private(*buffer, bounds, kind != AccessKind::kRead);
      only_private &= is_private || kind != AccessKind::kWrite;
    });
    Expr guard;
    for (size_t d = 0; d < 3; ++d) {
      const Var& thread = result_.shape.vars[d];
      if (!thread || result_.shape.extents[d] == 1) continue;
      if (bounds[d].loop) {
        if (bounds[d].extent < result_.shape.extents[d]) guard = logical_and(guard, lt(thread, Expr(bounds[d].extent)));
      } else if (!only_private) {
        guard = logical_and(guard, eq(thread, 0));
      }
    }
    return is_true(guard) ? s : if_then(guard, s);
  }

  void note_private(const BufferNode& buffer, const Bounds& bounds, bool is_write) {
    Private& known = private_[buffer.name];
    known.scope = buffer.scope;
    (is_write ? known.writes : known.reads).push_back(bounds);
  }

  // A thread may read what it wrote itself. What stands outside of all loops over an axis is written by each thread for
  // itself.
  void check_private() {
    for (const auto& [name, uses] : private_) {
      for (size_t d = 0; d < 3; ++d) {
        if (result_.shape.extents[d] == 1) continue;
        std::vector<Bound> all;
        bool own_copies = true;
        for (const Bounds& bounds : uses.writes) {
          own_copies &= !bounds[d].loop;
          all.push_back(bounds[d]);
        }
        // Which thread has an element of a fragment, place_fragments knows; of what a warp exchanges, exchange_lanes.
        if (own_copies || (d == 0 && uses.scope == kScopeWarp)) continue;
        if (uses.scope == kScopeFragment && d < static_cast<size_t>(result_.shape.lane_axes())) continue;
        for (const Bounds& bounds : uses.reads) all.push_back(bounds[d]);
        for (const Bound& one : all) {
          if (one.loop != all[0].loop) result_.private_apart[name][d] = true;
          if (one.extent == all[0].extent) continue;
          problem_ = Diagnostic(
              ErrorCode::E301,
              fmt::format("buffer {} of scope \"{}\" belongs to one thread, and different threads of {} use it in "
                          "different places",
                          name, uses.scope, std::string("threadIdx.") + "xyz"[d]));
        }
      }
    }
  }

  struct Private {
    std::string scope;
    std::vector<Bounds> writes, reads;
  };
  const Target& target_;
  UnifiedThreads result_;
  std::map<std::string, Private> private_;
  std::vector<Stmt> kept_;
  bool in_ring_ = false;
  std::optional<Diagnostic> problem_;
};

}  // namespace

Result<UnifiedThreads> unify_threads(const Stmt& body, const Target& target) { return ThreadUnifier(target).run(body); }

}  // namespace fettle
