// From a scheduled program to kernels, step by step: this file is the table of contents.
#include "lower/device/device.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

bool contains_block_loop(const Stmt& s) {
  bool found = false;
  walk(s, [&](const Stmt& x) {
    const auto* loop = x.as<ForNode>();
    found |= loop && is_block_axis(loop->thread_axis);
    return !found;
  });
  return found;
}

// Buffers in memory that `s` accesses, in order of first access, and whether it writes them.
std::vector<std::pair<Buffer, bool>> buffers_of(const Stmt& s) {
  std::vector<std::pair<Buffer, bool>> found;
  const auto note = [&](const Buffer& buffer, bool write) {
    for (auto& [known, written] : found)
      if (known == buffer) {
        written |= write;
        return;
      }
    found.emplace_back(buffer, write);
  };
  walk(
      s,
      [&](const Stmt& x) {
        if (const auto* target = x.as<StoreNode>()) note(target->buffer, true);
        return true;
      },
      [&](const Expr& e) {
        if (const auto* source = e.as<LoadNode>()) note(source->buffer, false);
        if (const auto* pointer = e.as<AddressNode>()) note(pointer->buffer, true);
        return true;
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
class Serializer : public Mutator {
 public:
  explicit Serializer(const Target& target) : notes_lanes_(target.kind == "cuda") {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    const Stmt result = Mutator::rewrite(s);
    const auto* loop = result ? result.as<ForNode>() : nullptr;
    if (!loop || (loop->loop_kind != ForKind::kVectorized && loop->loop_kind != ForKind::kParallel)) return result;
    const bool lanes = loop->loop_kind == ForKind::kVectorized && notes_lanes_;
    return with(*loop, [&](ForNode& f) {
      f.loop_kind = ForKind::kSerial;
      if (lanes) f.annotations.set(kLanesKey, int64_t{1});
    });
  }

 private:
  bool notes_lanes_;
};

// Takes allocations that a block shares out of the code of its threads.
class SharedHoister : public Mutator {
 public:
  explicit SharedHoister(const Target& target) : target_(target) {}
  std::vector<Buffer> shared;
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    const auto* alloc = s ? s.as<AllocateNode>() : nullptr;
    if (!alloc || sharing_of(*alloc->buffer, target_) != Sharing::kBlock) return Mutator::rewrite(s);
    shared.push_back(alloc->buffer);
    return rewrite(alloc->body);
  }

 private:
  const Target& target_;
};

template <class Pass>
Func on_body(const Func& func, Pass pass) {
  Stmt body = pass(func->body);
  return with(func, [&](FuncNode& f) { f.body = body; });
}

class DeviceLowering {
 public:
  DeviceLowering(const Func& scheduled, const Target& target) : scheduled_(scheduled), target_(target) {}

  Result<DeviceProgram> run() {
    FETTLE_TRY_VOID(check_axes());
    Func func = flatten_blocks(note_carried_buffers(mark_pipelines(scheduled_)));
    func = on_root(func, [this](const Stmt& body) { return sink_guards(Serializer(target_).rewrite(body)); });
    func = infer_scopes(func, target_);
    for (const Buffer& buffer : func.root().allocations) {
      if (!target_.find_scope(buffer->scope))
        return fail(ErrorCode::E219, fmt::format("scope \"{}\" of buffer {}", buffer->scope, buffer->name), func->name);
      if (sharing_of(*buffer, target_) != Sharing::kAll) inside_.push_back(buffer);
    }
    FETTLE_TRY(Stmt host, launch(unroll_virtual_threads(func.root().body)));
    for (const Buffer& buffer : func.root().allocations)
      if (sharing_of(*buffer, target_) == Sharing::kAll) host = allocate(buffer, host);
    program_.host = flatten_accesses(with(scheduled_, [&](FuncNode& f) { f.body = host; }));
    program_.host = on_body(program_.host, fold_control);
    return std::move(program_);
  }

 private:
  template <class Pass>
  static Func on_root(const Func& func, Pass pass) {
    const Stmt body = pass(func.root().body);
    return with(func, [&](FuncNode& f) { f.body = with(func.root(), [&](BlockNode& b) { b.body = body; }); });
  }

  tl::unexpected<Diagnostic> refuse(std::string why) const {
    return fail(ErrorCode::E301, std::move(why), scheduled_->name);
  }

  Result<> check_axes() const {
    Result<> result;
    walk(scheduled_->body, [&](const Stmt& s) {
      const auto* loop = s.as<ForNode>();
      if (loop && loop->loop_kind == ForKind::kThreadBinding && !has_thread_axis(target_, loop->thread_axis))
        result = refuse(fmt::format("loop {} is bound to {}, which a target of kind \"{}\" does not have",
                                    loop->var->name, loop->thread_axis, target_.kind));
      return true;
    });
    return result;
  }

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

  Result<Stmt> kernel(const Stmt& nest) {
    DeviceKernel result;
    const std::string name = fmt::format("{}_kernel{}", scheduled_->name, program_.kernels.size());
    // Integers that the nest needs, as parameters of its own.
    std::vector<IntParam> ints;
    std::vector<Expr> int_args;
    const auto need = [&](const IntParam& param) {
      if (!needs_var(nest, param.var.get())) return;
      int_args.push_back(param.var);
      ints.push_back(param);
    };
    for (const IntParam& param : scheduled_->int_params) need(param);
    for (const ForNode* loop : host_loops_) {
      const int64_t *min = as_int(loop->min), *extent = as_int(loop->extent);
      need({loop->var, min ? *min : 0, min && extent ? *min + *extent - 1 : INT64_MAX, 1});
    }
    Stmt body = nest;

    std::vector<Stmt> blocks;  // loops over blocks, outermost first
    FETTLE_TRY(body, take_block_loops(body, result, blocks));
    FETTLE_TRY(UnifiedThreads threads, unify_threads(body, target_));
    FETTLE_TRY_VOID(check_threads(threads.shape, result));

    // Buffers that live in the kernel.
    std::vector<Buffer> own;
    std::vector<Param> params;
    std::vector<Expr> args;
    for (const auto& [buffer, written] : buffers_of(threads.body)) {
      if (sharing_of(*buffer, target_) != Sharing::kAll) {
        if (!owner_.emplace(buffer.get(), name).second && owner_[buffer.get()] != name)
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
      args.push_back(address_of(buffer, std::vector<Expr>(buffer->shape.size(), Expr(0))));
    }
    args.insert(args.end(), int_args.begin(), int_args.end());

    Func func = make_kernel(name, params, ints, with_threads(blocks, {}, threads.shape, threads.body), own);
    func = compact_buffers(func, [&](const BufferNode& b) { return sharing_of(b, target_) == Sharing::kBlock; });
    func = on_body(func, pipeline_loops);
    Stmt inner = without_threads(func->body, blocks.size(), threads.shape);
    FETTLE_TRY_VOID(check_private_memory(inner, threads));
    SharedHoister hoister(target_);
    inner = hoister.rewrite(inner);
    FETTLE_TRY_VOID(check_shared(hoister.shared, result));
    FETTLE_TRY(inner, insert_barriers(inner, threads.shape, target_));
    func = with(func, [&](FuncNode& f) { f.body = with_threads(blocks, hoister.shared, threads.shape, inner); });

    func = annihilate_guards(func);
    func = on_body(func, [&](const Stmt& s) { return tighten_loops(s, ints); });
    if (!func->body) func = with(func, [](FuncNode& f) { f.body = evaluate(int_imm(0)); });
    func = cascade_sums(flatten_accesses(func), kScopeLocal);
    func = on_body(func, [&](const Stmt& s) { return substitute_tensor_intrinsics(s, target_); });
    FETTLE_TRY_VOID(check_warp_tiles(func->body));
    FETTLE_TRY(func, place_fragments(func));
    std::vector<Buffer> swizzled;
    func = vector_copies(func, threads.shape, swizzled);
    func = swizzle_shared(func, swizzled);
    func = on_body(func, relax_waits);
    FETTLE_TRY_VOID(check_sizes(func->body));
    func = on_body(func, unroll_loops);
    result.func = func;
    program_.kernels[name] = std::move(result);
    return call_func(name, std::move(args));
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

  Result<Stmt> take_block_loops(Stmt body, DeviceKernel& kernel, std::vector<Stmt>& blocks) const {
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
        return fail(ErrorCode::E230,
                    fmt::format("loop {} has {} iterations, and the target has {} of {}", loop->var->name, *extent,
                                axis->max_extent, loop->thread_axis),
                    scheduled_->name);
      const Var block = make_var(std::string("b") + "xyz"[d]);
      const Stmt made = make_for(block, 0, loop->extent, nullptr, ForKind::kThreadBinding);
      by_axis[d] = with(*made.as<ForNode>(), [&](ForNode& f) { f.thread_axis = loop->thread_axis; });
      kernel.grid[d] = loop->extent;
      kernel.min_blocks = std::max(kernel.min_blocks, loop->annotations.get_int(kMinBlocksKey, 0));
      const Stmt inside = substitute(loop->body, {{loop->var.get(), loop->min + block}});
      body = inside;
    }
    if (contains_block_loop(body))
      return refuse(
          "loops over blocks must be the outermost of their nest, one directly inside the other, each axis once");
    for (size_t d = 3; d-- > 0;)
      if (by_axis[d]) blocks.push_back(by_axis[d]);
    return body;
  }

  Result<> check_threads(const ThreadShape& shape, DeviceKernel& kernel) const {
    int64_t all = 1;
    for (size_t d = 0; d < 3; ++d) {
      kernel.block[d] = shape.extents[d];
      if (!shape.vars[d]) continue;
      const std::string name = std::string("threadIdx.") + "xyz"[d];
      const ThreadAxis* axis = target_.find_thread_axis(name);
      if (shape.extents[d] > axis->max_extent)
        return fail(ErrorCode::E230,
                    fmt::format("{} threads along {}, and the target has {}", shape.extents[d], name, axis->max_extent),
                    scheduled_->name);
      all *= shape.extents[d];
    }
    if (all > target_.max_threads_per_block)
      return fail(ErrorCode::E230,
                  fmt::format("{} threads in a block, and the target has {}", all, target_.max_threads_per_block),
                  scheduled_->name);
    return {};
  }

  Result<> check_shared(const std::vector<Buffer>& shared, DeviceKernel& kernel) const {
    for (const Buffer& buffer : shared) {
      Expr count = element_count(*buffer);
      if (!buffer->strides.empty()) count = buffer->shape.front() * buffer->strides.front();
      const int64_t* elements = as_int(count);
      if (!elements)
        return refuse(
            fmt::format("buffer {} of scope \"{}\" has a size that is no constant", buffer->name, buffer->scope));
      kernel.shared_bytes += (*elements * buffer->dtype.element_bytes() + 15) / 16 * 16;
      const MemoryScope* scope = target_.find_scope(buffer->scope);
      if (scope->capacity_bytes > 0 && kernel.shared_bytes > scope->capacity_bytes)
        return fail(ErrorCode::E230,
                    fmt::format("the buffers of a block take {} bytes or more of scope \"{}\", which has {}",
                                kernel.shared_bytes, buffer->scope, scope->capacity_bytes),
                    scheduled_->name);
    }
    return {};
  }

  Result<> check_sizes(const Stmt& body) const {
    Result<> result;
    walk(body, [&](const Stmt& s) {
      const auto* alloc = s.as<AllocateNode>();
      if (alloc && !as_int(alloc->buffer->shape[0]))
        result = refuse(fmt::format("buffer {} of scope \"{}\" has a size that is no constant", alloc->buffer->name,
                                    alloc->buffer->scope));
      return true;
    });
    return result;
  }

  Result<> check_warp_tiles(const Stmt& body) const {
    Result<> result;
    walk(body, [&](const Stmt& s) {
      const auto* loop = s.as<ForNode>();
      if (loop && loop->annotations.find(kWarpTileKey))
        result = refuse(fmt::format(
            "the tile at loop {} is noted for a tensor intrinsic of a warp, and its memory, or a guard, does not "
            "suit it",
            loop->var->name));
      return true;
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
    for (size_t i = shared.size(); i-- > 0;) body = allocate(shared[i], std::move(body));
    for (size_t i = blocks.size(); i-- > 0;) body = with(*blocks[i].as<ForNode>(), [&](ForNode& f) { f.body = body; });
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
    for (size_t i = buffers.size(); i-- > 0;) body = allocate(buffers[i], body);
    return body;
  }

  const Func& scheduled_;
  const Target& target_;
  DeviceProgram program_;
  std::vector<Buffer> inside_;
  std::vector<const ForNode*> host_loops_;
  std::map<const BufferNode*, std::string> owner_;
};

}  // namespace

Result<DeviceProgram> lower_for_device(const Func& scheduled, const Target& target) {
  return DeviceLowering(scheduled, target).run();
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
