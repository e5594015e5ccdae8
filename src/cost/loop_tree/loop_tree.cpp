#include "cost/loop_tree/loop_tree.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "cost/loop_tree/body_reader.h"
#include "cost/loop_tree/known_calls.h"
#include "cost/loop_tree/loop_points.h"
#include "cost/loop_tree/unexpanded.h"
#include "ir/query.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

constexpr size_t kMostVariants = 16;

/// Whether the numbers in the indices of this buffer matter before they are evaluated: what is spelled out does not
/// depend on where memory is read, but for registers.
bool places_decide(const BufferNode& buffer) { return buffer.scope == kScopeRegister; }

/// Puts numbers in where they decide what code there is: conditions, masks, bounds of loops, places in registers.
/// Indices of memory, most of the code, stay: they are evaluated where they are read.
class Decided : public Mutator {
 public:
  explicit Decided(const VarMap& values) : values_(values) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = values_.find(var);
      return found == values_.end() ? e : found->second;
    }
    // Of what is decided, only what is taken counts.
    if (const auto* choice = e.as<SelectNode>()) {
      const Expr condition = rewrite(choice->condition);
      if (const int64_t* holds = as_int(condition)) return rewrite(*holds ? choice->if_true : choice->if_false);
      Expr if_true = rewrite(choice->if_true), if_false = rewrite(choice->if_false);
      if (condition == choice->condition && if_true == choice->if_true && if_false == choice->if_false) return e;
      return select(condition, std::move(if_true), std::move(if_false));
    }
    if (const auto* source = e.as<LoadNode>(); source && !places_decide(*source->buffer)) {
      if (!source->mask) return e;
      const Expr mask = rewrite(source->mask);
      return mask.get() == source->mask.get() ? e : load(source->buffer, source->indices, mask);
    }
    return Mutator::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    const auto* target = s ? s.as<StoreNode>() : nullptr;
    if (!target || places_decide(*target->buffer)) return Mutator::rewrite(s);
    const Expr value = rewrite(target->value), mask = target->mask ? rewrite(target->mask) : Expr();
    if (value.get() == target->value.get() && mask.get() == target->mask.get()) return s;
    return store(target->buffer, target->indices, value, mask);
  }

 private:
  const VarMap& values_;
};

/// The variables that Decided may put numbers in for.
class DecidingVars : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Stmt& s) override {
    const auto* target = s ? s.as<StoreNode>() : nullptr;
    if (!target || places_decide(*target->buffer)) return Visitor::visit(s);
    visit(target->value);
    if (target->mask) visit(target->mask);
  }
  void visit(const Expr& e) override {
    if (!e) return;
    if (const auto* var = e.as<VarNode>()) {
      if (std::ranges::find(vars, var) == vars.end()) vars.push_back(var);
      return;
    }
    if (const auto* source = e.as<LoadNode>(); source && !places_decide(*source->buffer)) {
      if (source->mask) visit(source->mask);
      return;
    }
    Visitor::visit(e);
  }

  std::vector<const VarNode*> vars;
};

std::vector<const VarNode*> deciding_vars(const Stmt& s) {
  DecidingVars found;
  found.visit(s);
  return std::move(found.vars);
}

class TreeBuilder {
 public:
  TreeBuilder(const IrModule& module, const Target& target) : module_(module) {
    context_.vector_bytes = std::max(16, target.vector_bits / 8);
    context_.around = {&loops_, &unrolled_, &lane_, &middle_};
    context_.constants = &constants_.values;
    context_.place = [this](const BufferNode* buffer) -> const BufferPlace& { return place_of(buffer); };
  }

  LoopTree build() {
    const auto entry = module_.funcs.find(module_.entry);
    FETTLE_CHECK(entry != module_.funcs.end());
    const Func& func = entry->second;
    for (const IntParam& param : func->int_params) {
      const int64_t value = typical_of(param);
      path_.push_let(param.var.get(), Expr(value));
      middle_.push(param.var.get(), value);
    }
    for (const Param& param : func->params) add_buffer(param.buffer.get(), false);
    path_.note_uses(func->body);
    tree_.root = build(func->body);
    return std::move(tree_);
  }

 private:
  int add_buffer(const BufferNode* buffer, bool scratch) {
    int64_t elems = 1;
    for (const Expr& extent : buffer->shape) elems *= std::max<int64_t>(1, estimate_int(extent, middle_, 1));
    tree_.buffers.push_back({buffer->name, static_cast<double>(elems * buffer->dtype.element_bytes()), scratch});
    const int number = static_cast<int>(tree_.buffers.size()) - 1;
    places_[buffer] = {.buffer = number};
    return number;
  }
  const BufferPlace& place_of(const BufferNode* buffer) {
    const auto found = places_.find(buffer);
    if (found != places_.end()) return found->second;
    add_buffer(buffer, true);
    return places_[buffer];
  }

  CostNode build(const Stmt& s) {
    CostNode node;
    if (s) add(s, node);
    flush(node);
    if (node.children.size() == 1) {
      CostNode only = std::move(node.children[0]);
      return only;
    }
    return node;
  }

  /// Appends what `s` is to a sequence. Stores in a row are one piece.
  void add(const Stmt& s, CostNode& seq) {
    switch (s.kind()) {
      case StmtKind::kStore:
      case StmtKind::kEvaluate:
        return add_straight(s);
      case StmtKind::kSeq:
        for (const Stmt& child : s.as<SeqNode>()->stmts) add(child, seq);
        return;
      case StmtKind::kFor:
        return add_loop(s, seq);
      case StmtKind::kIf: {
        const auto& choice = *s.as<IfNode>();
        if (int64_t holds = 0; constants_.size() > 0 && known(choice.condition, holds)) {
          const Stmt& taken = holds ? choice.then_body : choice.else_body;
          if (taken) add(taken, seq);
          return;
        }
        flush(seq);
        seq.children.push_back(build_choice(choice));
        return;
      }
      case StmtKind::kCallFunc:
        flush(seq);
        seq.children.push_back(build_call(*s.as<CallFuncNode>()));
        return;
      case StmtKind::kLet: {
        const auto* n = s.as<LetNode>();
        flush(seq);
        path_.push_let(n->var.get(), n->value);
        middle_.push(n->var.get(), estimate_int(n->value, middle_));
        seq.children.push_back(build(n->body));
        middle_.pop();
        path_.pop();
        return;
      }
      case StmtKind::kAllocate: {
        const auto* n = s.as<AllocateNode>();
        flush(seq);
        double registers = 0;
        if (n->buffer->scope == kScopeRegister) {
          int64_t elems = 1;
          for (const Expr& extent : n->buffer->shape) elems *= estimate_int(extent, middle_, 1);
          registers = std::ceil(static_cast<double>(elems * n->buffer->dtype.element_bytes()) / context_.vector_bytes);
        } else {
          add_buffer(n->buffer.get(), true);
        }
        if (registers > 0) live_.emplace_back(n->buffer.get(), registers);
        live_registers_ += registers;
        seq.children.push_back(build(n->body));
        live_registers_ -= registers;
        if (registers > 0) live_.pop_back();
        return;
      }
      case StmtKind::kBlock:
        flush(seq);
        seq.children.push_back(build(s.as<BlockNode>()->body));
        return;
      case StmtKind::kWhile:
        flush(seq);
        seq.children.push_back(build(s.as<WhileNode>()->body));
        return;
      case StmtKind::kAsync:
        flush(seq);
        seq.children.push_back(build(s.as<AsyncNode>()->body));
        return;
    }
  }

  void add_straight(const Stmt& s) {
    if (!piece_) {
      // The variants of one call differ in trip counts alone.
      piece_key_ = {s.get(), constants_.hash()};
      const auto known = in_call_ ? bodies_.find(piece_key_) : bodies_.end();
      known_piece_ = known == bodies_.end() ? nullptr : &known->second;
      piece_.emplace(context_);
    }
    if (!known_piece_) piece_->read(s);
  }

  void flush(CostNode& seq) {
    if (!piece_) return;
    CostNode body;
    if (known_piece_) {
      body = *known_piece_;
    } else {
      piece_->finish(body);
      body.work.live_registers = live_registers_;
      if (in_call_) bodies_[piece_key_] = body;
    }
    piece_.reset();
    seq.children.push_back(std::move(body));
  }

  bool known(const Expr& e, int64_t& value) const {
    return evaluate_int(e, constants_.values, value) == IntProblem::kNone;
  }

  void add_loop(const Stmt& s, CostNode& seq) {
    const auto& loop = *s.as<ForNode>();
    const int64_t* extent = as_int(loop.extent);
    switch (loop.loop_kind) {
      case ForKind::kUnrolled:
        if (extent) return add_copies(loop, *extent, seq);
        break;
      case ForKind::kVectorized:
        return add_lanes(s, seq);
      default:
        if (int64_t times = 0; constants_.size() > 0 && known(loop.extent, times) && times <= 1) {
          if (times == 1) with_value(loop, loop.min, [&] { add(loop.body, seq); });
          return;
        }
    }
    flush(seq);
    seq.children.push_back(build_loop(loop));
  }

  // The loop's variable is this wherever fn() looks.
  template <class Fn>
  void with_value(const ForNode& loop, const Expr& value, const Fn& fn) {
    int64_t number = 0;
    const bool constant = known(value, number);
    path_.push_let(loop.var.get(), constant ? Expr(number) : value);
    middle_.push(loop.var.get(), constant ? number : estimate_int(value, middle_));
    if (constant) constants_.push(loop.var.get(), number);
    fn();
    if (constant) constants_.pop();
    middle_.pop();
    path_.pop();
  }

  // Copies that are alike are read once, as many; others one by one.
  void add_copies(const ForNode& loop, int64_t extent, CostNode& seq) {
    if (extent <= 0) return;
    if (extent > 1 && unrolled_.size() < AccessForm::kMost && are_alike(loop)) {
      unrolled_.push_back({loop.var.get(), *as_int(loop.min), extent});
      middle_.push(loop.var.get(), *as_int(loop.min));
      add(loop.body, seq);
      middle_.pop();
      unrolled_.pop_back();
      return;
    }
    for (int64_t i = 0; i < extent; ++i) with_value(loop, loop.min + i, [&] { add(loop.body, seq); });
  }

  // Copies or lanes; asked for each copy of what is around.
  bool are_alike(const ForNode& loop) {
    const auto [at, is_new] = alike_.try_emplace(&loop);
    if (is_new) at->second = loop.loop_kind == ForKind::kVectorized ? lanes_are_alike(loop) : copies_are_alike(loop);
    return at->second;
  }

  void add_lanes(const Stmt& s, CostNode& seq) {
    const auto& loop = *s.as<ForNode>();
    const int64_t* extent = as_int(loop.extent);
    if (extent && *extent == 1) return with_value(loop, loop.min, [&] { add(loop.body, seq); });
    if (!lane_.var && are_alike(loop)) {
      const int64_t first = *as_int(loop.min);
      lane_ = {loop.var.get(), static_cast<int>(*extent)};
      path_.push_let(loop.var.get(), Expr(first));
      middle_.push(loop.var.get(), first);
      add(loop.body, seq);
      middle_.pop();
      path_.pop();
      lane_ = {};
      return;
    }
    if (const Stmt& code = spelled_out(s)) add(code, seq);
  }

  // Once for all variants and call sites in which the same numbers are known that decide what is spelled out.
  const Stmt& spelled_out(const Stmt& s) {
    Vectors& vectors = vectors_of_[s.get()];
    if (!vectors.code) {
      vectors.code = vectorize_loops(s);
      vectors.vars = deciding_vars(vectors.code);
    }
    SpelledKey key = {s.get(), {}};
    key.second.reserve(constants_.list.size());
    for (const auto& [var, value] : constants_.list)
      if (std::ranges::find(vectors.vars, var) != vectors.vars.end()) key.second.push_back(value);
    const auto [at, is_new] = spelled_out_.try_emplace(std::move(key));
    if (is_new) {
      VarMap values;
      for (const auto& [var, value] : constants_.list)
        if (std::ranges::find(vectors.vars, var) != vectors.vars.end()) values[var] = Expr(value);
      at->second =
          relax_lane_masks(unroll_loops(values.empty() ? vectors.code : Decided(values).rewrite(vectors.code)));
    }
    return at->second;
  }

  // Of the registers around a loop those that it reads or writes: others wait elsewhere while it runs.
  double registers_in(const ForNode& loop) const {
    double registers = 0;
    for (const auto& [buffer, count] : live_) {
      const auto is_it = [&](const auto& access) { return access.buffer.get() == buffer; };
      if (contains<LoadNode>(loop.body, is_it) || contains<StoreNode>(loop.body, is_it) ||
          contains<AddressNode>(loop.body, is_it))
        registers += count;
    }
    return registers;
  }

  CostNode build_loop(const ForNode& loop) {
    CostNode node;
    node.kind = CostNode::Kind::kLoop;
    // Of nested ones the innermost: lowering makes one loop of them, of as many iterations as all have.
    const auto* nested = loop.body.as<ForNode>();
    node.parallel = loop.loop_kind == ForKind::kParallel && !inside_parallel_ &&
                    !(nested && nested->loop_kind == ForKind::kParallel);
    if (const int64_t* known = as_int(loop.extent)) {
      node.extent = static_cast<double>(std::max<int64_t>(0, *known));
    } else {
      node.extent = points_.average_extent(loop.extent);
    }
    const int64_t middle = estimate_int(loop.min, middle_) + static_cast<int64_t>(std::max(0.0, node.extent - 1) / 2);
    path_.push_loop(loop.var.get(), loop.min, loop.extent);
    middle_.push(loop.var.get(), middle);
    const bool noted = loops_.size() < AccessForm::kMost;
    if (noted) loops_.emplace_back(loop.var.get(), node.extent);
    const bool outer = inside_parallel_;
    inside_parallel_ |= node.parallel;
    const double live_around = std::exchange(live_registers_, registers_in(loop));
    node.children.push_back(build(loop.body));
    live_registers_ = live_around;
    inside_parallel_ = outer;
    if (noted) loops_.pop_back();
    middle_.pop();
    path_.pop();
    return node;
  }

  CostNode build_choice(const IfNode& choice) {
    CostNode node;
    node.kind = CostNode::Kind::kChoice;
    const double share = points_.share(choice.condition);
    path_.push_condition(choice.condition);
    if (share > 0) {
      node.children.push_back(build(choice.then_body));
      node.shares.push_back(share);
    }
    path_.pop();
    path_.push_condition(choice.condition, true);
    if (share < 1 && choice.else_body) {
      node.children.push_back(build(choice.else_body));
      node.shares.push_back(1 - share);
    }
    path_.pop();
    if (node.children.size() == 1 && node.shares[0] == 1) {
      CostNode only = std::move(node.children[0]);
      return only;
    }
    return node;
  }

  CostNode build_call(const CallFuncNode& call) {
    CostNode node;
    node.kind = CostNode::Kind::kCall;
    const auto callee = module_.funcs.find(call.name);
    if (callee == module_.funcs.end()) return node;
    const Func& func = callee->second;
    const size_t n_buffers = func->params.size();
    FETTLE_CHECK(call.args.size() == n_buffers + func->int_params.size());
    const std::vector<Expr> ints(call.args.begin() + static_cast<ptrdiff_t>(n_buffers), call.args.end());
    const ValueCounts counts = points_.counts(ints, kMostVariants);
    double total = 0;
    for (const auto& [point, count] : counts) total += count;
    if (total <= 0) return node;

    // The micro-kernel's buffers are parts of the caller's.
    for (size_t i = 0; i < n_buffers; ++i) {
      const auto* address = call.args[i].as<AddressNode>();
      if (!address) continue;
      BufferPlace place = place_of(address->buffer.get());
      const AccessForm form = access_form(address->indices[0], context_.around);
      place.base_steps.resize(loops_.size(), 0);
      place.base += form.value;
      for (size_t l = 0; l < loops_.size(); ++l) place.base_steps[l] += form.steps[l];
      places_[func->params[i].buffer.get()] = std::move(place);
    }
    for (const auto& [point, count] : counts) {
      node.shares.push_back(count / total);
      node.variants.push_back({call.name, point, count / total});
    }
    const std::optional<CallSite> site = site_of(call, func, counts);
    if (site)
      if (auto known = site->find()) {
        node.children = std::move(*known);
        return node;
      }
    const size_t n_known = tree_.buffers.size();
    bodies_.clear();
    in_call_ = true;
    for (const auto& [point, count] : counts) {
      for (size_t i = 0; i < point.size(); ++i) {
        const VarNode* var = func->int_params[i].var.get();
        path_.push_let(var, Expr(point[i]));
        middle_.push(var, point[i]);
      }
      node.children.push_back(build(func->body));
      middle_.pop(point.size());
      path_.pop(point.size());
    }
    in_call_ = false;
    if (site && tree_.buffers.size() == n_known) site->keep(node.children);
    return node;
  }

  // Where nothing but loops stands around the call, and each of its buffers is known.
  std::optional<CallSite> site_of(const CallFuncNode& call, const Func& micro_kernel, const ValueCounts& counts) {
    if (!unrolled_.empty() || lane_.var || constants_.size() > 0) return std::nullopt;
    std::vector<const BufferPlace*> places;
    for (size_t i = 0; i < micro_kernel->params.size(); ++i) {
      if (!call.args[i].as<AddressNode>()) return std::nullopt;
      places.push_back(&places_.at(micro_kernel->params[i].buffer.get()));
    }
    std::vector<std::vector<int64_t>> points;
    for (const auto& [point, count] : counts) points.push_back(point);
    return CallSite::of(micro_kernel, places, points, loops_.size(), live_registers_, context_.vector_bytes);
  }

  /// Variables that have one value where we are, though loops of theirs stand around: copies that are read one by one.
  struct Constants {
    IntEnv values;
    std::vector<std::pair<const VarNode*, int64_t>> list;
    size_t size() const { return list.size(); }
    void push(const VarNode* var, int64_t value) {
      values.push(var, value);
      list.emplace_back(var, value);
    }
    void pop() {
      values.pop();
      list.pop_back();
    }
    uint64_t hash() const {
      uint64_t h = 0;
      for (const auto& [var, value] : list)
        h = hash_combine(hash_combine(h, reinterpret_cast<uintptr_t>(var)), static_cast<uint64_t>(value));
      return h;
    }
  };

  const IrModule& module_;
  LoopTree tree_;
  LoopPath path_;
  IntEnv middle_;
  const LoopPoints points_{path_, middle_};
  std::vector<std::pair<const VarNode*, double>> loops_;
  std::vector<UnrolledLoop> unrolled_;
  LaneLoop lane_;
  Constants constants_;
  std::unordered_map<const BufferNode*, BufferPlace> places_;
  std::vector<std::pair<const BufferNode*, double>> live_;  // register buffers around, and how many vectors they are
  double live_registers_ = 0;
  bool inside_parallel_ = false;
  bool in_call_ = false;
  BodyContext context_;
  std::optional<BodyReader> piece_;                       // being read
  using PieceKey = std::pair<const StmtNode*, uint64_t>;  // its first statement, and the copy
  PieceKey piece_key_;
  const CostNode* known_piece_ = nullptr;
  std::map<PieceKey, CostNode> bodies_;  // of the call at hand
  // What add_lanes had to spell out, kept for what refers to it: by the loop and the numbers that it uses.
  using SpelledKey = std::pair<const StmtNode*, std::vector<int64_t>>;
  std::map<SpelledKey, Stmt> spelled_out_;
  std::unordered_map<const ForNode*, bool> alike_;
  struct Vectors {
    Stmt code;
    std::vector<const VarNode*> vars;  // those that decide
  };
  std::unordered_map<const StmtNode*, Vectors> vectors_of_;
};

}  // namespace

bool has_loop(const CostNode& node) {
  return node.kind == CostNode::Kind::kLoop || std::ranges::any_of(node.children, has_loop);
}

LoopTree make_loop_tree(const IrModule& kernel, const Target& target) { return TreeBuilder(kernel, target).build(); }

}  // namespace fettle
