#include <cstdlib>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include <fmt/core.h>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "base/check.h"
#include "ir/annotations.h"
#include "ir/byte_table.h"
#include "ir/compare.h"
#include "ir/query.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "lower/passes/range_mutator.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

/// Coefficients up to this many elements belong to the micro-kernel (tile and panel widths); larger ones are strides of
/// the buffer at hand and become arguments.
constexpr int64_t kLargestConstantStride = 64;

/// Addresses further apart, in elements, are pointers of their own: their distance comes from the shapes around.
constexpr int64_t kLargestOwnDistance = 1024;

/// A micro-kernel does not know how large the buffers are that it works on, but of tables for bytes.
constexpr int64_t kUnknownExtent = int64_t{1} << 40;

class MicroKernelBuilder : public Mutator {
 public:
  MicroKernelBuilder(const Stmt& kernel, Analyzer& outside) : outside_(outside) {
    walk(kernel, [&](const Stmt& s) {
      if (const auto* loop = s.as<ForNode>()) inner_[loop->var.get()] = loop->loop_kind;
      if (const auto* bind = s.as<LetNode>()) inner_[bind->var.get()] = ForKind::kSerial;
      if (const auto* alloc = s.as<AllocateNode>()) local_[alloc->buffer.get()] = true;
      if (const auto* target = s.as<StoreNode>()) written_[target->buffer.get()] = true;
      return true;
    });
  }
  using Mutator::rewrite;

  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    if (e.dtype() == kI64 || e.dtype().is_bool()) {
      if (as_int(e)) return e;
      if (is_outer(e)) return e.dtype() == kI64 ? argument(e) : ne(argument(select(e, Expr(1), Expr(0))), Expr(0));
      if (e.dtype() == kI64) {
        // Sums pass their outer part as one argument.
        const LinearForm form = linear_form(e);
        if (form.terms.size() > 1 || (form.terms.size() == 1 && !structural_equal(form.terms[0].expr, e))) {
          LinearForm outer;
          const Expr inside = split(form, outer);
          return outer.terms.empty() ? inside : inside + argument(to_expr(outer));
        }
      }
    }
    if (const auto* c = e.as<BinaryNode>();
        c && (c->op == BinaryOp::kLt || c->op == BinaryOp::kLe) && c->a.dtype() == kI64) {
      // inside + outer < 0  →  inside < argument
      LinearForm form = linear_form(c->a - c->b);
      LinearForm outer(std::exchange(form.constant, 0));
      const Expr inside = split(form, outer);
      outer.scale(-1);
      Expr limit = outer.terms.empty() ? Expr(outer.constant) : argument(to_expr(outer));
      return binary(c->op, inside, limit);
    }
    if (const auto* source = e.as<LoadNode>(); source && !local_.count(source->buffer.get()))
      return rewrite_load(*source);
    if (const auto* place = e.as<AddressNode>()) {
      auto [buffer, index] = access(place->buffer, place->indices[0], /*exactly=*/!near_);
      return address_of(buffer, {index});
    }
    if (const auto* c = e.as<CallNode>(); c && c->name == "prefetch" && c->args.size() == 1) {
      near_ = true;  // a few iterations ahead of a load: by the same pointer
      Expr result = Mutator::rewrite(e);
      near_ = false;
      return result;
    }
    return Mutator::rewrite(e);
  }

  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* target = s.as<StoreNode>(); target && !local_.count(target->buffer.get())) {
      auto [buffer, index] = access(target->buffer, target->indices[0]);
      Expr value = rewrite(target->value);
      return store(buffer, {index}, value, rewrite(target->mask));
    }
    if (const auto* loop = s.as<ForNode>()) {
      if (loop->annotations.find(kTensorizeKey) && !in_tensor_tile_) {
        in_tensor_tile_ = true;  // its extents say which intrinsic it is
        Stmt tile = rewrite(s);
        in_tensor_tile_ = false;
        return tile;
      }
      if (loop->loop_kind == ForKind::kSerial && !in_tensor_tile_) {
        // Trip counts are arguments; the first index moves into the base pointers.
        Expr extent = is_outer(loop->extent) ? trip_count(loop->extent) : rewrite(loop->extent);
        if (!is_zero(loop->min)) {
          Var fresh = make_var(loop->var->name);
          inner_[fresh.get()] = ForKind::kSerial;
          Stmt body = rewrite(substitute(loop->body, {{loop->var.get(), Expr(fresh) + loop->min}}));
          return make_for(fresh, Expr(0), extent, body);
        }
        Stmt body = rewrite(loop->body);
        return with(*loop, [&](ForNode& f) {
          f.extent = extent;
          f.body = body;
        });
      }
    }
    return Mutator::rewrite(s);
  }

  Func finish(Stmt body) {
    auto func = make_ref<FuncNode>();
    // Names must not tell calls apart: parameters are numbered.
    for (const Group& group : groups_)
      func->params.push_back({group.param, group.written ? ParamKind::kOutput : ParamKind::kInput, false});
    for (const auto& [expr, var] : arguments_)
      func->int_params.push_back({var, at_least_one_.contains(var.get()) ? 1 : INT64_MIN, INT64_MAX, 1});
    func->annotations.set(kMicroKernelKey, int64_t{1});
    func->body = std::move(body);
    func->name = "micro_kernel";
    const std::string name = "micro_kernel_" + canonical_hash(Func(func)).hex().substr(0, 16);
    func->name = name;
    return Func(func);
  }

  Stmt make_call(const std::string& name) const {
    std::vector<Expr> args;
    for (const Group& group : groups_) args.push_back(address_of(group.buffer, {group.base}));
    for (const auto& [expr, var] : arguments_) args.push_back(expr);
    return call_func(name, std::move(args));
  }

 private:
  struct Group {
    Buffer buffer;  // of the caller
    Expr base;      // its element that the parameter points at
    LinearForm outer;
    int64_t constant = 0;
    bool exactly = false;  // for addresses near to each other only
    Buffer param;
    bool written = false;
    std::vector<std::pair<int64_t, Var>> strides;
  };

  bool is_outer(const Expr& e) const {
    return !reads_memory(e) &&
           !contains<VarNode>(e, [&](const VarNode& var) { return inner_.count(&var) || is_argument(&var); });
  }
  bool is_argument(const VarNode* var) const {
    return std::ranges::any_of(arguments_, [&](const auto& argument) { return argument.second.get() == var; });
  }
  // The sum of what belongs to the micro-kernel, its constant among it; the terms from outside are added to `outer`.
  Expr split(const LinearForm& form, LinearForm& outer) {
    Expr inside = Expr(form.constant);
    for (const LinearTerm& term : form.terms) {
      if (is_outer(term.expr))
        outer.add_term(term.expr, term.coeff);
      else
        inside = rewrite_term(term.expr) * Expr(term.coeff) + inside;
    }
    return inside;
  }

  Expr argument(const Expr& e) {
    for (const auto& [expr, var] : arguments_)
      if (structural_equal(expr, e)) return Expr(var);
    arguments_.push_back({e, make_var(fmt::format("n{}", arguments_.size()))});
    return Expr(arguments_.back().second);
  }

  // A trip count that is known to be at least one saves the micro-kernel a test.
  Expr trip_count(const Expr& e) {
    Expr count = argument(e);
    if (outside_.can_prove(le(Expr(1), e))) at_least_one_.insert(count.as<VarNode>());
    return count;
  }

  // A term that is opaque to linear forms and not outer: its children are rewritten.
  Expr rewrite_term(const Expr& e) {
    if (const auto* source = e.as<LoadNode>(); source && !local_.count(source->buffer.get()))
      return rewrite_load(*source);
    return e.kind() == ExprKind::kVar ? e : Mutator::rewrite(e);
  }
  Expr rewrite_load(const LoadNode& source) {
    auto [buffer, index] = access(source.buffer, source.indices[0]);
    return load(buffer, {index}, rewrite(source.mask));
  }

  // exactly: by a pointer of its own, wherever that lies from those of other accesses.
  std::pair<Buffer, Expr> access(const Buffer& buffer, const Expr& index, bool exactly = false) {
    const LinearForm form = linear_form(index);
    LinearForm outer, inside;
    for (const LinearTerm& term : form.terms) (is_outer(term.expr) ? outer : inside).terms.push_back(term);
    Group& group = find_group(buffer, outer, form.constant, exactly);
    Expr result = Expr(form.constant - group.constant);
    for (const LinearTerm& term : inside.terms) {
      Expr factor = rewrite_term(term.expr);
      const int64_t size = term.coeff < 0 ? -term.coeff : term.coeff;
      result =
          (size <= kLargestConstantStride ? factor * Expr(term.coeff) : factor * stride(group, term.coeff)) + result;
    }
    return {group.param, result};
  }

  // A stride is an argument of its own for each buffer, so that equal numbers by chance don't make another
  // micro-kernel.
  Expr stride(Group& group, int64_t coeff) {
    for (const auto& [known, var] : group.strides)
      if (known == coeff) return Expr(var);
    Var var = make_var(fmt::format("s{}", arguments_.size()));
    group.strides.push_back({coeff, var});
    arguments_.push_back({Expr(coeff), var});
    return Expr(var);
  }

  Group& find_group(const Buffer& buffer, const LinearForm& outer, int64_t constant, bool exactly) {
    for (Group& group : groups_) {
      if (group.buffer != buffer || group.exactly != exactly) continue;
      if (exactly && std::abs(constant - group.constant) > kLargestOwnDistance) continue;
      LinearForm distance = outer;
      distance.add(group.outer, -1);
      if (distance.is_zero()) return group;
    }
    Group group;
    group.buffer = buffer;
    group.outer = outer;
    group.constant = constant;
    group.exactly = exactly;
    group.base = to_expr(outer) + constant;
    group.written = written_.count(buffer.get()) > 0;
    const int64_t* extent = buffer->shape.size() == 1 ? as_int(buffer->shape[0]) : nullptr;
    const bool table = buffer->dtype.bits == 8 && extent && *extent == kByteValues && outer.is_zero() && constant == 0;
    group.param = edited(buffer, [&](BufferNode& b) {
      b.name = fmt::format("p{}", groups_.size());
      b.shape = {Expr(table ? kByteValues : kUnknownExtent)};
      b.alignment_bytes = b.dtype.element_bytes();
    });
    groups_.push_back(group);
    return groups_.back();
  }

  Analyzer& outside_;  // knows the loops around
  bool near_ = false;  // in a prefetch without a locality
  bool in_tensor_tile_ = false;
  std::unordered_set<const VarNode*> at_least_one_;
  std::unordered_map<const VarNode*, ForKind> inner_;
  std::unordered_map<const BufferNode*, bool> local_, written_;
  std::deque<Group> groups_;  // references stay good while it grows
  std::vector<std::pair<Expr, Var>> arguments_;
};

class Outliner : public RangeMutator {
 public:
  Outliner(IrModule& module, const Func& func)
      : RangeMutator(func), module_(module), in_order_(func->annotations.get_int(kInOrderKey, 0) != 0) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* alloc = s.as<AllocateNode>();
    if (!alloc || !is_in_registers(*alloc->buffer) || has_plain_sums(*alloc) || !can_outline(s))
      return RangeMutator::rewrite(s);
    MicroKernelBuilder builder(s, analyzer_);
    Stmt body = builder.rewrite(s);
    Func micro_kernel = builder.finish(body);
    const auto [entry, fresh] = module_.funcs.emplace(micro_kernel->name, micro_kernel);
    if (!fresh && !structural_equal(entry->second, micro_kernel)) {
      // Two micro-kernels of one hash: the second takes a name of its own.
      micro_kernel = with(micro_kernel, [&](FuncNode& f) { f.name += fmt::format("_{}", module_.funcs.size()); });
      module_.funcs.emplace(micro_kernel->name, micro_kernel);
    }
    return builder.make_call(micro_kernel->name);
  }

 private:
  // Sums of a program in order that no lanes were asked for (hoist_updates): code generators make lanes of their terms.
  bool has_plain_sums(const AllocateNode& tile) const {
    return in_order_ &&
           !contains<ForNode>(tile.body, [](const ForNode& loop) { return loop.loop_kind == ForKind::kVectorized; });
  }
  // Not where registers of an outer kernel are at work: they have no address.
  static bool can_outline(const Stmt& kernel) {
    bool possible = true;
    std::unordered_set<const BufferNode*> own;
    const auto uses = [&](const Buffer& buffer) {
      possible &= !is_in_registers(*buffer) || own.contains(buffer.get());
    };
    walk(
        kernel,
        [&](const Stmt& s) {
          if (const auto* alloc = s.as<AllocateNode>()) own.insert(alloc->buffer.get());
          if (const auto* target = s.as<StoreNode>()) uses(target->buffer);
          if (const auto* loop = s.as<ForNode>()) possible &= loop->loop_kind != ForKind::kParallel;
          if (const auto* alloc = s.as<AllocateNode>()) possible &= is_in_registers(*alloc->buffer);
          possible &= !s.as<CallFuncNode>() && !s.as<AsyncNode>() && !s.as<WhileNode>();
          const CallNode* effect = effect_of(s);
          possible &= !s.as<EvaluateNode>() || (effect && effect->name == "prefetch");
          return possible && !s.as<EvaluateNode>();
        },
        [&](const Expr& e) {
          possible &= !e.as<AddressNode>();
          if (const auto* source = e.as<LoadNode>()) uses(source->buffer);
          return possible;
        });
    return possible;
  }

  IrModule& module_;
  const bool in_order_;
};

}  // namespace

IrModule outline_micro_kernels(const Func& func) {
  IrModule module;
  module.entry = func->name;
  const Stmt body = Outliner(module, func).rewrite(func->body);
  module.funcs[func->name] = with_body(func, body);
  return module;
}

}  // namespace fettle
