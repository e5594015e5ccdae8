// From a scheduled program to kernels, pass by pass; the lists stand at the end.
#include "lower/device/device.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/bulk_copy.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

constexpr int64_t kMostBlocksOfCluster = 8;  // that every device of sm_90 runs

bool contains_block_loop(const Stmt& s) {
  return contains<ForNode>(s, [](const ForNode& loop) { return is_block_axis(loop.thread_axis); });
}

// Buffers in memory that `s` accesses, in order of first access, and whether it writes them.
std::vector<std::pair<Buffer, bool>> buffers_of(const Stmt& s) {
  std::vector<std::pair<Buffer, bool>> found;
  each_access(s, [&](const Buffer& buffer, const std::vector<Expr>&, AccessKind kind) {
    auto known = std::ranges::find(found, buffer, &std::pair<Buffer, bool>::first);
    if (known == found.end()) known = found.insert(known, {buffer, false});
    known->second |= kind != AccessKind::kRead;
  });
  return found;
}

// Whether the statement, or the shape of a buffer that it accesses, uses the variable.
bool needs_var(const Stmt& s, const VarNode* var) {
  if (uses_var(s, var)) return true;
  for (const auto& [buffer, written] : buffers_of(s))
    for (const auto* list : {&buffer->shape, &buffer->strides})
      for (const Expr& e : *list)
        if (uses_var(e, var)) return true;
  return false;
}

// Vectorized and parallel loops are ordinary ones for one thread; that a loop was vectorized is noted.
Stmt serialize(const Stmt& body, const Target& target) {
  return rewrite_each<ForNode>(body, [&](const ForNode& loop) -> Stmt {
    if (loop.loop_kind != ForKind::kVectorized && loop.loop_kind != ForKind::kParallel) return nullptr;
    return with(loop, [&](ForNode& f) {
      f.loop_kind = ForKind::kSerial;
      if (loop.loop_kind == ForKind::kVectorized && target.kind == "cuda") f.annotations.set(kLanesKey, int64_t{1});
    });
  });
}

template <class Pass>
Func on_body(const Func& func, Pass pass) {
  return with_body(func, pass(func->body));
}

/// A nest of the root block on its way to a kernel.
struct Nest {
  std::string name;
  Stmt body;                   // until `place_buffers` makes it a Func
  std::vector<IntParam> ints;  // integers that it needs
  std::vector<Stmt> blocks;    // loops over blocks, outermost first
  UnifiedThreads threads;
  std::vector<Buffer> swizzled;
  std::vector<Expr> args;  // of the launch
  DeviceKernel kernel;

  Func& func() { return kernel.func; }
};

/// What a block without loops does in several statements is one nest.
///   block B(): …   →   for once in 1: block B(): …
Stmt enclose_blocks(const Stmt& body) {
  if (const auto* all = body.as<SeqNode>()) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : all->stmts) stmts.push_back(enclose_blocks(child));
    return seq(std::move(stmts));
  }
  return body.as<BlockNode>() ? make_for(make_var("once"), 0, 1, body) : body;
}

class DeviceLowering {
 public:
  DeviceLowering(const Func& scheduled, const Target& target, const DeviceObserver& after)
      : scheduled_(scheduled), target_(target), after_(after) {}

  Result<DeviceProgram> run() {
    program_.host = scheduled_;
    for (const Pass& pass : passes()) {
      FETTLE_TRY_VOID(pass.run(*this));
      if (after_) after_(pass.name, host());
    }
    return std::move(program_);
  }

 private:
  // --- the lists ---------------------------------------------------------------------------------------------------

  struct Pass {
    std::string_view name;
    Result<> (*run)(DeviceLowering& d);
  };
  /// On the program as a whole, which is program_.host.
  static std::span<const Pass> passes();

  struct NestPass {
    std::string_view name;
    Result<> (*run)(DeviceLowering& d, Nest& nest);
  };
  /// On each nest that is launched.
  static std::span<const NestPass> nest_passes();

  Func& host() { return program_.host; }

  Result<> becomes(Func made) {
    host() = std::move(made);
    return {};
  }
  static Result<> becomes(Nest& nest, Result<Func> made) {
    FETTLE_TRY(nest.func(), std::move(made));
    return {};
  }

  Result<> check_scopes() {
    for (const Buffer& buffer : host().root().allocations) {
      if (!target_.find_scope(buffer->scope))
        return fail(ErrorCode::E219, fmt::format("scope \"{}\" of buffer {}", buffer->scope, buffer->name),
                    host()->name);
      if (sharing_of(*buffer, target_) != SharedBy::kAll) inside_.push_back(buffer);
    }
    return {};
  }

  Result<> launch_kernels() {
    FETTLE_TRY(Stmt body, launch(host().root().body));
    for (const Buffer& buffer : host().root().allocations)
      if (sharing_of(*buffer, target_) == SharedBy::kAll) body = allocate(buffer, body);
    host() = with_body(scheduled_, body);
    return {};
  }

  template <class Pass>
  static Func on_root(const Func& func, Pass pass) {
    const Stmt body = pass(func.root().body);
    return with(func, [&](FuncNode& f) { f.body = with(func.root(), [&](BlockNode& b) { b.body = body; }); });
  }

  tl::unexpected<Diagnostic> refuse(std::string why) const {
    return fail(ErrorCode::E301, std::move(why), scheduled_->name);
  }
  tl::unexpected<Diagnostic> refuse_size(const BufferNode& buffer) const {
    return refuse(fmt::format("buffer {} of scope \"{}\" has a size that is no constant", buffer.name, buffer.scope));
  }
  tl::unexpected<Diagnostic> exceeds(std::string what) const {
    return fail(ErrorCode::E230, std::move(what), scheduled_->name);
  }

  Result<> check_axes() const { return check_thread_axes(scheduled_, target_); }

  // --- the host ----------------------------------------------------------------------------------------------------

  Result<Stmt> launch(const Stmt& s) {
    if (!s) return s;
    if (const auto* all = s.as<SeqNode>()) {
      std::vector<Stmt> stmts;
      for (const Stmt& child : all->stmts) {
        FETTLE_TRY(Stmt one, launch(child));
        stmts.push_back(std::move(one));
      }
      return seq(std::move(stmts));
    }
    const auto* loop = s.as<ForNode>();
    if (loop && loop->thread_axis.empty() && contains_block_loop(loop->body) && !reads_memory(loop->min) &&
        !reads_memory(loop->extent)) {
      host_loops_.push_back(loop);
      Result<Stmt> body = launch(loop->body);
      host_loops_.pop_back();
      if (!body) return body;
      return with(*loop, [&](ForNode& f) {
        f.body = *body;
        f.loop_kind = ForKind::kSerial;
        f.annotations = {};
      });
    }
    return kernel(s);
  }

  Result<Stmt> kernel(const Stmt& stmt) {
    Nest nest;
    nest.name = fmt::format("{}_kernel{}", scheduled_->name, program_.kernels.size());
    nest.body = stmt;
    // Integers that the nest needs, as parameters of its own.
    std::vector<Expr> int_args;
    const auto need = [&](const IntParam& param) {
      if (!needs_var(stmt, param.var.get())) return;
      int_args.push_back(param.var);
      nest.ints.push_back(param);
    };
    for (const IntParam& param : scheduled_->int_params) need(param);
    for (const ForNode* loop : host_loops_) {
      const int64_t *min = as_int(loop->min), *extent = as_int(loop->extent);
      need({loop->var, min ? *min : 0, min && extent ? *min + *extent - 1 : INT64_MAX, 1});
    }
    for (const NestPass& pass : nest_passes()) {
      FETTLE_TRY_VOID(pass.run(*this, nest));
      if (after_ && nest.func()) after_(pass.name, nest.func());
    }
    program_.kernels[nest.name] = std::move(nest.kernel);
    nest.args.insert(nest.args.end(), int_args.begin(), int_args.end());
    return call_func(nest.name, std::move(nest.args));
  }

  // Which buffers live in the kernel; the others are its parameters.
  Result<> place_buffers(Nest& nest) {
    std::vector<Buffer> own;
    std::vector<Param> params;
    for (const auto& [buffer, written] : buffers_of(nest.threads.body)) {
      if (sharing_of(*buffer, target_) != SharedBy::kAll) {
        if (!owner_.emplace(buffer.get(), nest.name).second && owner_[buffer.get()] != nest.name)
          return refuse(fmt::format("buffer {} of scope \"{}\" is used by several kernels, and lives in one",
                                    buffer->name, buffer->scope));
        for (const ForNode* loop : host_loops_)
          if (carries_buffer(*loop, *buffer))
            return refuse(fmt::format("buffer {} of scope \"{}\" goes on from one launch to the next in loop {}",
                                      buffer->name, buffer->scope, loop->var->name));
        own.push_back(buffer);
        continue;
      }
      params.push_back({buffer, written ? ParamKind::kOutput : ParamKind::kInput, false});
      nest.args.push_back(address_of(buffer, std::vector<Expr>(buffer->shape.size(), Expr(0))));
    }
    nest.func() = make_kernel(nest.name, params, nest.ints,
                              with_threads(nest.blocks, {}, nest.threads.shape, nest.threads.body), own);
    return {};
  }

  // Barriers in what one thread does; what a block shares is allocated around its threads.
  Result<> meet(Nest& nest) {
    const ThreadShape& shape = nest.threads.shape;
    Stmt inner = without_threads(nest.func()->body, nest.blocks.size(), shape);
    FETTLE_TRY_VOID(check_private_memory(inner, nest.threads, nest.blocks));
    // Allocations that a block shares go out of the code of its threads.
    std::vector<Buffer> shared;
    each_node<AllocateNode>(inner, [&](const AllocateNode& alloc) {
      if (sharing_of(*alloc.buffer, target_) == SharedBy::kBlock) shared.push_back(alloc.buffer);
    });
    inner = rewrite_each<AllocateNode>(inner, [&](const AllocateNode& alloc) {
      return sharing_of(*alloc.buffer, target_) == SharedBy::kBlock ? alloc.body : Stmt();
    });
    // What bulk copies fill comes first, so that all of it is aligned.
    std::set<const BufferNode*> filled;
    each_node<EvaluateNode>(inner, [&](const EvaluateNode& node) {
      const auto* called = node.value.as<CallNode>();
      if (called && called->name == kBulkLoadCall) filled.insert(called->args[0].as<AddressNode>()->buffer.get());
    });
    each_node<ForNode>(inner, [&](const ForNode& loop) {
      if (!loop.annotations.find(kBulkCopyKey)) return;
      each_access(loop.body, [&](const Buffer& buffer, const auto&, AccessKind) { filled.insert(buffer.get()); });
    });
    std::ranges::stable_partition(shared, [&](const Buffer& b) { return filled.contains(b.get()); });
    FETTLE_TRY_VOID(check_shared(shared, nest.kernel));
    FETTLE_TRY(inner, insert_barriers(inner, shape, target_, nest.kernel.producer_threads > 0));
    nest.func() = with_body(nest.func(), with_threads(nest.blocks, shared, shape, inner));
    return {};
  }

  Func compacted(const Func& func, const ThreadShape& shape) const {
    return compact_buffers(func, [&](const BufferNode& b, const std::string& axis) {
      const bool is_lane_axis = axis == "threadIdx.x" || (axis == "threadIdx.y" && shape.lane_axes() == 2);
      return sharing_of(b, target_) == SharedBy::kBlock || (b.scope == kScopeFragment && is_lane_axis) ||
             (b.scope == kScopeWarp && axis == "threadIdx.x");
    });
  }

  Result<> specialize(Nest& nest) {
    const ThreadShape& shape = nest.threads.shape;
    const Stmt inner = without_threads(nest.func()->body, nest.blocks.size(), shape);
    Var block;
    for (const Stmt& loop : nest.blocks)
      if (loop.as<ForNode>()->thread_axis == "blockIdx.x") block = loop.as<ForNode>()->var;
    FETTLE_TRY(SpecializedWarps made,
               specialize_warps(inner, shape, nest.func()->params, block, nest.kernel.cluster, target_));
    if (made.producer_threads == 0) return {};
    nest.kernel.tensor_maps = std::move(made.tensor_maps);
    nest.kernel.producer_threads = made.producer_threads;
    nest.kernel.block[1] += made.producer_threads / kWarpGroupThreads;
    FETTLE_TRY_VOID(check_threads(nest.kernel));
    nest.func() = with_body(nest.func(), with_threads(nest.blocks, {}, shape, made.body));
    return {};
  }

  Result<> store_in_bulk(Nest& nest) const {
    if (!has_bulk_copies(target_)) return {};
    return becomes(nest, bulk_stores(nest.func(), nest.kernel.tensor_maps));
  }

  Func with_intrinsics(const Func& func) const {
    return on_body(func, [&](const Stmt& s) { return substitute_tensor_intrinsics(s, target_); });
  }

  Func tightened(const Nest& nest, const Func& func) const {
    const Func tight = on_body(func, [&](const Stmt& s) { return tighten_loops(s, nest.ints); });
    return tight->body ? tight : with_body(tight, evaluate(int_imm(0)));
  }

  static Func make_kernel(const std::string& name, std::vector<Param> params, std::vector<IntParam> ints, Stmt body,
                          std::vector<Buffer> own) {
    auto root = make_ref<BlockNode>();
    root->name = "root";
    root->allocations = std::move(own);
    root->body = std::move(body);
    auto func = make_ref<FuncNode>();
    func->name = name;
    func->params = std::move(params);
    func->int_params = std::move(ints);
    func->body = Stmt(root);
    return Func(func);
  }

  // --- one kernel --------------------------------------------------------------------------------------------------

  Result<> take_block_loops(Nest& nest) const {
    Stmt& body = nest.body;
    std::array<Stmt, 3> by_axis;
    for (const auto* loop = body.as<ForNode>(); loop && is_block_axis(loop->thread_axis); loop = body.as<ForNode>()) {
      const auto d = static_cast<size_t>(axis_dimension(loop->thread_axis));
      for (const Stmt& outer : by_axis)
        if (outer && uses_var(loop->extent, outer.as<ForNode>()->var.get()))
          return refuse(fmt::format("the number of iterations of loop {} over {} depends on loop {}", loop->var->name,
                                    loop->thread_axis, outer.as<ForNode>()->var->name));
      const int64_t* extent = as_int(loop->extent);
      const ThreadAxis* axis = target_.find_thread_axis(loop->thread_axis);
      if (extent && *extent > axis->max_extent)
        return exceeds(fmt::format("loop {} has {} iterations, and the target has {} of {}", loop->var->name, *extent,
                                   axis->max_extent, loop->thread_axis));
      const Var block = make_var(std::string("b") + "xyz"[d]);
      nest.kernel.grid[d] = loop->extent;
      nest.kernel.min_blocks = std::max(nest.kernel.min_blocks, loop->annotations.get_int(kMinBlocksKey, 0));
      FETTLE_TRY(const Stmt inside, one_block(*loop, block, d, nest.kernel));
      const Stmt made = make_for(block, 0, nest.kernel.grid[d], nullptr, ForKind::kThreadBinding);
      by_axis[d] = with(*made.as<ForNode>(), [&](ForNode& f) { f.thread_axis = loop->thread_axis; });
      body = inside;
    }
    if (contains_block_loop(body))
      return refuse(
          "loops over blocks must be the outermost of their nest, one directly inside the other, each axis once");
    for (size_t d = 3; d-- > 0;)
      if (by_axis[d]) nest.blocks.push_back(by_axis[d]);
    return {};
  }

  // What one block does of a loop over blocks: an iteration; or, of a loop annotated kPersistentKey = n, all of its
  // iterations that are a multiple of n further. On the target of a copy engine neighbours may be a cluster.
  Result<Stmt> one_block(const ForNode& loop, const Var& block, size_t d, DeviceKernel& kernel) const {
    const int64_t* extent = as_int(loop.extent);
    int64_t blocks = loop.annotations.get_int(kPersistentKey, 0);
    const int64_t cluster = has_bulk_copies(target_) ? loop.annotations.get_int(kClusterKey, 1) : 1;
    if (blocks < 0 || cluster < 1 || cluster > kMostBlocksOfCluster)
      return refuse(fmt::format("loop {} is annotated with {} persistent blocks and clusters of {}", loop.var->name,
                                blocks, cluster));
    if (cluster > 1) {
      if (d != 0 || !extent || *extent % cluster != 0 || blocks % cluster != 0)
        return refuse(
            fmt::format("loop {} over {} cannot have clusters of {} blocks: it has {} iterations, run by {} "
                        "blocks at once, and clusters lie along blockIdx.x",
                        loop.var->name, loop.thread_axis, cluster, to_text(loop.extent), blocks));
      kernel.cluster = cluster;
    }
    const auto at = [&](const Expr& number) { return substitute(loop.body, {{loop.var.get(), loop.min + number}}); };
    if (blocks == 0 || (extent && *extent <= blocks)) return at(block);
    if (!extent || contains_block_loop(loop.body))
      return refuse(
          fmt::format("loop {} is annotated \"{}\", and has {} iterations, or is not the innermost loop over "
                      "blocks",
                      loop.var->name, kPersistentKey, to_text(loop.extent)));
    kernel.grid[d] = Expr(blocks);
    const Var turn = make_var("turn");
    const Stmt turns =
        make_for(turn, 0, floordiv(loop.extent - block + (blocks - 1), Expr(blocks)), at(block + turn * blocks));
    return with(*turns.as<ForNode>(), [&](ForNode& f) { f.annotations.set(kPersistentKey, blocks); });
  }

  Result<> unify(Nest& nest) const {
    FETTLE_TRY(nest.threads, unify_threads(nest.body, target_));
    nest.kernel.block = nest.threads.shape.extents;
    return check_threads(nest.kernel);
  }

  Result<> check_threads(const DeviceKernel& kernel) const {
    int64_t all = 1;
    for (size_t d = 0; d < 3; ++d) {
      if (kernel.block[d] == 1) continue;
      const std::string name = std::string("threadIdx.") + "xyz"[d];
      const ThreadAxis* axis = target_.find_thread_axis(name);
      if (kernel.block[d] > axis->max_extent)
        return exceeds(
            fmt::format("{} threads along {}, and the target has {}", kernel.block[d], name, axis->max_extent));
      all *= kernel.block[d];
    }
    if (all > target_.max_threads_per_block)
      return exceeds(fmt::format("{} threads in a block, and the target has {}", all, target_.max_threads_per_block));
    return {};
  }

  Result<> check_shared(const std::vector<Buffer>& shared, DeviceKernel& kernel) const {
    if (!kernel.tensor_maps.empty()) kernel.shared_bytes += kSwizzleBytes;  // so that it can begin at a multiple
    for (const Buffer& buffer : shared) {
      Expr count = element_count(*buffer);
      if (!buffer->strides.empty()) count = buffer->shape.front() * buffer->strides.front();
      const int64_t* elements = as_int(count);
      if (!elements) return refuse_size(*buffer);
      kernel.shared_bytes += (*elements * buffer->dtype.element_bytes() + 15) / 16 * 16;
      const MemoryScope* scope = target_.find_scope(buffer->scope);
      if (scope->capacity_bytes > 0 && kernel.shared_bytes > scope->capacity_bytes)
        return exceeds(fmt::format("the buffers of a block take {} bytes or more of scope \"{}\", which has {}",
                                   kernel.shared_bytes, buffer->scope, scope->capacity_bytes));
    }
    return {};
  }

  Result<> check_sizes(const Stmt& body) const {
    Result<> result;
    each_node<AllocateNode>(body, [&](const AllocateNode& alloc) {
      if (!as_int(alloc.buffer->shape[0])) result = refuse_size(*alloc.buffer);
    });
    return result;
  }

  Result<> check_warp_tiles(const Stmt& body) const {
    Result<> result;
    each_node<ForNode>(body, [&](const ForNode& loop) {
      if (loop.annotations.find(kWarpTileKey))
        result = refuse(fmt::format(
            "the tile at loop {} is annotated with a tensor intrinsic of a warp, and its memory, or a guard, does not "
            "suit it",
            loop.var->name));
    });
    return result;
  }

  static Stmt with_threads(const std::vector<Stmt>& blocks, const std::vector<Buffer>& shared, const ThreadShape& shape,
                           Stmt body) {
    for (size_t d = 0; d < 3; ++d) {
      if (!shape.vars[d]) continue;
      const Stmt loop = make_for(shape.vars[d], 0, Expr(shape.extents[d]), std::move(body), ForKind::kThreadBinding);
      body = with(*loop.as<ForNode>(), [&](ForNode& f) { f.thread_axis = std::string("threadIdx.") + "xyz"[d]; });
    }
    body = allocate_all(shared, std::move(body));
    for (size_t i = blocks.size(); i-- > 0;) body = with_body(*blocks[i].as<ForNode>(), body);
    return body;
  }

  // The body inside all loops over blocks and threads; allocations between them go along.
  static Stmt without_threads(Stmt body, size_t blocks, const ThreadShape& shape) {
    size_t loops = blocks;
    for (const Var& var : shape.vars) loops += var != nullptr;
    std::vector<Buffer> buffers;
    while (loops > 0) {
      if (const auto* alloc = body.as<AllocateNode>()) {
        buffers.push_back(alloc->buffer);
        const Stmt inside = alloc->body;
        body = inside;
        continue;
      }
      const Stmt inside = body.as<ForNode>()->body;
      body = inside;
      --loops;
    }
    return allocate_all(buffers, body);
  }

  const Func& scheduled_;
  const Target& target_;
  const DeviceObserver& after_;
  DeviceProgram program_;
  std::vector<Buffer> inside_;
  std::vector<const ForNode*> host_loops_;
  std::map<const BufferNode*, std::string> owner_;
};

using D = DeviceLowering;

std::span<const D::Pass> D::passes() {
  static constexpr Pass list[] = {
      {"check_axes", [](D& d) { return d.check_axes(); }},
      {"mark_pipelines", [](D& d) { return d.becomes(mark_pipelines(d.host())); }},
      {"note_carried_buffers", [](D& d) { return d.becomes(note_carried_buffers(d.host())); }},
      {"enclose_blocks", [](D& d) { return d.becomes(on_root(d.host(), enclose_blocks)); }},
      {"flatten_blocks", [](D& d) { return d.becomes(flatten_blocks(d.host())); }},
      {"serialize",
       [](D& d) { return d.becomes(on_root(d.host(), [&](const Stmt& s) { return serialize(s, d.target_); })); }},
      {"sink_guards", [](D& d) { return d.becomes(on_root(d.host(), sink_guards)); }},
      {"infer_scopes", [](D& d) { return d.becomes(infer_scopes(d.host(), d.target_)); }},
      {"check_scopes", [](D& d) { return d.check_scopes(); }},
      {"unroll_virtual_threads", [](D& d) { return d.becomes(on_root(d.host(), unroll_virtual_threads)); }},
      {"launch_kernels", [](D& d) { return d.launch_kernels(); }},
      {"flatten_accesses", [](D& d) { return d.becomes(flatten_accesses(d.host())); }},
      {"fold_control", [](D& d) { return d.becomes(on_body(d.host(), fold_control)); }},
  };
  return list;
}

std::span<const D::NestPass> D::nest_passes() {
  static constexpr NestPass list[] = {
      {"take_block_loops", [](D& d, Nest& n) { return d.take_block_loops(n); }},
      {"unify_threads", [](D& d, Nest& n) { return d.unify(n); }},
      {"place_buffers", [](D& d, Nest& n) { return d.place_buffers(n); }},
      {"compact_buffers", [](D& d, Nest& n) { return becomes(n, d.compacted(n.func(), n.threads.shape)); }},
      {"specialize_warps", [](D& d, Nest& n) { return d.specialize(n); }},
      {"pipeline_loops", [](D&, Nest& n) { return becomes(n, on_body(n.func(), pipeline_loops)); }},
      {"insert_barriers", [](D& d, Nest& n) { return d.meet(n); }},
      {"bulk_stores", [](D& d, Nest& n) { return d.store_in_bulk(n); }},
      {"annihilate_guards", [](D&, Nest& n) { return becomes(n, annihilate_guards(n.func())); }},
      {"tighten_loops", [](D& d, Nest& n) { return becomes(n, d.tightened(n, n.func())); }},
      {"flatten_accesses", [](D&, Nest& n) { return becomes(n, flatten_accesses(n.func())); }},
      {"cascade_sums", [](D&, Nest& n) { return becomes(n, cascade_sums(n.func(), kScopeLocal)); }},
      {"substitute_tensor_intrinsics", [](D& d, Nest& n) { return becomes(n, d.with_intrinsics(n.func())); }},
      {"check_warp_tiles", [](D& d, Nest& n) { return d.check_warp_tiles(n.func()->body); }},
      {"place_fragments", [](D&, Nest& n) { return becomes(n, place_fragments(n.func())); }},
      {"exchange_lanes", [](D&, Nest& n) { return becomes(n, exchange_lanes(n.func(), n.threads.shape)); }},
      {"place_factors", [](D&, Nest& n) { return becomes(n, place_factors(n.func())); }},
      {"stage_lanes", [](D&, Nest& n) { return becomes(n, stage_lanes(n.func())); }},
      {"vector_copies", [](D&, Nest& n) { return becomes(n, vector_copies(n.func(), n.threads.shape, n.swizzled)); }},
      {"swizzle_staged", [](D&, Nest& n) { return becomes(n, swizzle_staged(n.func())); }},
      {"swizzle_shared", [](D&, Nest& n) { return becomes(n, swizzle_shared(n.func(), n.swizzled)); }},
      {"relax_waits", [](D&, Nest& n) { return becomes(n, on_body(n.func(), relax_waits)); }},
      {"check_sizes", [](D& d, Nest& n) { return d.check_sizes(n.func()->body); }},
      {"unroll_loops", [](D&, Nest& n) { return becomes(n, on_body(n.func(), unroll_loops)); }},
      {"end_grid", [](D&, Nest& n) { return end_grid(n.func(), n.kernel.grid), Result<>(); }},
  };
  return list;
}

}  // namespace

Result<DeviceProgram> lower_for_device(const Func& scheduled, const Target& target, const DeviceObserver& after) {
  return DeviceLowering(scheduled, target, after).run();
}

std::string to_text(const DeviceProgram& program) {
  std::string text = to_text(program.host);
  for (const auto& [name, kernel] : program.kernels) {
    text += fmt::format("\n# {} x {} x {} blocks of {} x {} x {} threads, {} bytes shared\n", to_text(kernel.grid[0]),
                        to_text(kernel.grid[1]), to_text(kernel.grid[2]), kernel.block[0], kernel.block[1],
                        kernel.block[2], kernel.shared_bytes);
    text += to_text(kernel.func);
  }
  return text;
}

}  // namespace fettle
