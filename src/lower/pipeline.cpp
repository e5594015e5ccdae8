// Lowering, step by step: this file is the table of contents.

#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/passes/passes.h"
#include "schedule/primitives/tensorize.h"

namespace fettle {
namespace {

// Plain loops: what vectorize, unroll and parallel asked for is forgotten, registers are memory.
class NoteRemover : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return Mutator::rewrite(e); }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result.as<ForNode>();
    if (!loop || loop->loop_kind == ForKind::kSerial) return result;
    return with(*loop, [](ForNode& f) {
      f.loop_kind = ForKind::kSerial;
      f.thread_axis.clear();
    });
  }
  Buffer rewrite(const Buffer& buffer) override {
    if (buffer->scope != kScopeRegister) return buffer;
    Buffer& plain = plain_[buffer.get()];
    if (!plain) plain = edited(buffer, [](BufferNode& b) { b.scope = kScopeGlobal; });
    return plain;
  }

 private:
  std::unordered_map<const BufferNode*, Buffer> plain_;
};

// Vectorized loops become serial ones.
class Scalarizer : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result.as<ForNode>();
    if (!loop || loop->loop_kind != ForKind::kVectorized) return result;
    return with(*loop, [](ForNode& f) { f.loop_kind = ForKind::kSerial; });
  }
};

// Whether anything depends on a condition, or on loops around: without, there is nothing for the passes on guards.
bool has_guards(const Stmt& body) {
  bool found = false;
  walk(
      body,
      [&](const Stmt& s) {
        if (const auto* loop = s.as<ForNode>()) found |= !as_int(loop->min) || !as_int(loop->extent);
        found |= s.kind() == StmtKind::kIf;
        return !found;
      },
      [&](const Expr& e) {
        found |= e.kind() == ExprKind::kSelect;
        return !found;
      });
  return found;
}

bool has_tensor_tiles(const Stmt& body) {
  bool found = false;
  walk(body, [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    found |= loop && loop->annotations.find(kTensorizeKey);
    return !found;
  });
  return found;
}

template <class Pass>
Func on_body(const Func& func, Pass pass) {
  Stmt body = pass(func->body);
  return with(func, [&](FuncNode& f) { f.body = body; });
}

// `whole`: what it is without atoms (LoweredKernel::whole), if that is asked for.
IrModule lower_func(const Func& scheduled, const Target& target, const LowerOptions& options, Func* whole = nullptr) {
  Func func = flatten_blocks(note_carried_buffers(options.obey_notes ? mark_pipelines(scheduled) : scheduled));
  if (!options.obey_notes)
    func = NoteRemover().Mutator::rewrite(func);
  else if (!options.vectors)
    func = Scalarizer().Mutator::rewrite(func);
  func = compact_buffers(func);
  if (options.obey_notes) func = on_body(func, pipeline_loops);
  const auto tighten = [&](const Stmt& body) { return tighten_loops(body, scheduled->int_params); };
  const bool guarded = has_guards(func->body);
  if (guarded) {
    if (options.obey_notes) func = drop_private_guards(func);  // tails only: the guards of values come next
    func = annihilate_guards(func);
    func = on_body(func, tighten);
  }
  func = flatten_accesses(func);
  if (options.obey_notes && guarded) func = peel_tails(func);
  func = cascade_sums(func);
  // What is left of lanes, copies and tensor units' tiles.
  const auto finished = [&](Func f) {
    const bool expand = options.expand || has_tensor_tiles(f->body);
    if (expand && options.obey_notes)
      f = on_body(f, [&](const Stmt& body) { return substitute_tensor_intrinsics(body, target); });
    if (options.obey_notes && options.vectors) f = on_body(f, transpose_tiles);
    if (!expand) return f;
    f = on_body(f, vectorize_loops);
    if (!options.vectors) return on_body(f, fold_control);
    f = on_body(f, unroll_loops);
    return on_body(f, relax_lane_masks);
  };
  IrModule module;
  module.entry = func->name;
  if (options.obey_notes && options.outline_atoms && options.vectors) {
    if (whole) *whole = finished(on_body(func, insert_prefetches));
    if (guarded) {
      // Zen 3 stores under a mask of AVX2 in some twenty cycles; other instruction sets have no such store at all.
      func = dispatch_register_kernels(func, /*lanes_too=*/!target.has_feature("avx512f"));
      func = on_body(func, tighten);
    }
    func = on_body(func, fold_control);
    func = on_body(func, insert_prefetches);
    module = outline_atoms(func);
  } else {
    if (options.obey_notes && options.vectors) func = on_body(func, insert_prefetches);
    module.funcs[func->name] = func;
  }
  for (auto& [name, f] : module.funcs) f = finished(f);
  return module;
}

}  // namespace

Result<LoweredKernel> lower(const Func& scheduled, const Target& target, const LowerOptions& options) {
  Func bound = scheduled;
  if (options.obey_notes) {
    FETTLE_TRY(bound, bind_threads(scheduled, target));
  }
  PrologueSplit split = options.obey_notes ? split_prologue(bound) : PrologueSplit{bound, nullptr};
  LoweredKernel result;
  result.kernel = lower_func(split.main, target, options, options.whole ? &result.whole : nullptr);
  result.kernel_params = split.main->params;
  result.int_params = scheduled->int_params;
  if (split.prologue && options.prologue) {
    result.prologue = lower_func(split.prologue, target, options);
    result.prologue_params = split.prologue->params;
  }
  return result;
}

Result<LoweredKernel> lower_plain(const Func& scheduled, const Target& target) {
  return lower(scheduled, target, {.outline_atoms = false, .obey_notes = false});
}

}  // namespace fettle
