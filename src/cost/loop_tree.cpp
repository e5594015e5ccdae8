#include "cost/loop_tree.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "base/check.h"
#include "cost/atoms.h"
#include "cost/body_reader.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr double kMostPoints = 4096;
constexpr size_t kMostVariants = 16;

// What binds a variable on the way to a statement, or what is asked there.
struct Binding {
  const VarNode* var = nullptr;  // null: a condition
  Expr min, extent;              // of a loop
  Expr value;                    // of a let; of a condition
  bool negated = false;
};

class TreeBuilder {
 public:
  TreeBuilder(const IrModule& module, const Target& target)
      : module_(module), vector_bytes_(std::max(16, target.vector_bits / 8)) {}

  LoopTree build() {
    const auto entry = module_.funcs.find(module_.entry);
    FETTLE_CHECK(entry != module_.funcs.end());
    const Func& func = entry->second;
    for (const IntParam& param : func->int_params) {
      const int64_t value =
          std::max(param.min, std::min<int64_t>(param.max, 1024) / param.multiple_of * param.multiple_of);
      path_.push_back({param.var.get(), nullptr, nullptr, Expr(value), false});
      middle_.push(param.var.get(), value);
    }
    for (const Param& param : func->params) add_buffer(param.buffer.get(), false);
    tree_.root = build(func->body);
    return std::move(tree_);
  }

 private:
  int add_buffer(const BufferNode* buffer, bool scratch) {
    int64_t elems = 1;
    for (const Expr& extent : buffer->shape) elems *= std::max<int64_t>(1, estimate_int(extent, middle_, 1));
    tree_.buffers.push_back({buffer->name, static_cast<double>(elems * buffer->dtype.element_bytes()), scratch});
    places_[buffer] = {static_cast<int>(tree_.buffers.size()) - 1, nullptr};
    return places_[buffer].buffer;
  }

  /// Calls fn(env, weight) for the points of the loops around that `exprs` and the conditions on the way depend on.
  template <class Fn>
  void for_each_point(const std::vector<Expr>& exprs, const Fn& fn) {
    std::unordered_set<const VarNode*> needed;
    const auto need = [&](const Expr& e) {
      if (!e || as_int(e)) return;
      walk(e, [&](const Expr& x) {
        if (const auto* var = x.as<VarNode>()) needed.insert(var);
        return true;
      });
    };
    for (const Expr& e : exprs) need(e);
    // Whether each variable on the way is needed.
    std::vector<char> turns(path_.size(), 0);
    double points = 1;
    for (size_t i = path_.size(); i-- > 0;) {
      const Binding& b = path_[i];
      if (!b.var) {
        need(b.value);
        continue;
      }
      turns[i] = needed.contains(b.var);
      if (b.value) {
        if (turns[i]) need(b.value);
      } else {
        need(b.min);
        need(b.extent);  // its count weighs
        if (turns[i]) points *= std::max<double>(1, static_cast<double>(estimate_int(b.extent, middle_, 1)));
      }
    }
    IntEnv env;
    env.reserve(path_.size());
    visit_points(0, turns, points, 1.0, env, fn);
  }

  template <class Fn>
  void visit_points(size_t at, const std::vector<char>& turns, double points, double weight, IntEnv& env,
                    const Fn& fn) {
    if (at == path_.size()) return fn(env, weight);
    const Binding& b = path_[at];
    if (!b.var) {
      if ((estimate_int(b.value, env, 1) != 0) != b.negated) visit_points(at + 1, turns, points, weight, env, fn);
      return;
    }
    if (b.value) {
      env.push(b.var, estimate_int(b.value, env));
      visit_points(at + 1, turns, points, weight, env, fn);
      env.pop();
      return;
    }
    const int64_t extent = estimate_int(b.extent, env, 1);
    if (extent <= 0) return;
    const int64_t min = estimate_int(b.min, env);
    if (!turns[at]) {
      env.push(b.var, min);
      visit_points(at + 1, turns, points, weight * static_cast<double>(extent), env, fn);
      env.pop();
      return;
    }
    // Beyond the limit: the first, the last and some in between.
    int64_t step = 1;
    if (points > kMostPoints && extent > 4) {
      step = static_cast<int64_t>(std::min(points / kMostPoints + 1, static_cast<double>(extent) / 4));
      points /= static_cast<double>(step);
    }
    for (int64_t i = 0; i < extent;) {
      int64_t covers = 1;
      if (i > 0 && i < extent - 1) covers = std::min(step, extent - 1 - i);
      env.push(b.var, min + i + (covers - 1) / 2);
      visit_points(at + 1, turns, points, weight * static_cast<double>(covers), env, fn);
      env.pop();
      i += covers;
    }
  }

  CostNode build(const Stmt& s) {
    CostNode node;
    if (!s) return node;
    switch (s.kind()) {
      case StmtKind::kFor:
        return build_loop(*s.as<ForNode>());
      case StmtKind::kSeq:
        return build_seq(s.as<SeqNode>()->stmts);
      case StmtKind::kIf:
        return build_choice(*s.as<IfNode>());
      case StmtKind::kStore:
      case StmtKind::kEvaluate:
        return build_seq({s});
      case StmtKind::kCallFunc:
        return build_call(*s.as<CallFuncNode>());
      case StmtKind::kLet: {
        const auto* n = s.as<LetNode>();
        path_.push_back({n->var.get(), nullptr, nullptr, n->value, false});
        middle_.push(n->var.get(), estimate_int(n->value, middle_));
        node = build(n->body);
        middle_.pop();
        path_.pop_back();
        return node;
      }
      case StmtKind::kAllocate: {
        const auto* n = s.as<AllocateNode>();
        if (n->buffer->scope == kScopeRegister) {
          int64_t elems = 1;
          for (const Expr& extent : n->buffer->shape) elems *= estimate_int(extent, middle_, 1);
          const double registers =
              std::ceil(static_cast<double>(elems * n->buffer->dtype.element_bytes()) / vector_bytes_);
          live_registers_ += registers;
          node = build(n->body);
          live_registers_ -= registers;
          return node;
        }
        add_buffer(n->buffer.get(), true);
        return build(n->body);
      }
      case StmtKind::kBlock:
        return build(s.as<BlockNode>()->body);
      case StmtKind::kWhile:
        return build(s.as<WhileNode>()->body);
      case StmtKind::kAsync:
        return build(s.as<AsyncNode>()->body);
    }
    return node;
  }

  CostNode build_seq(const std::vector<Stmt>& stmts) {
    CostNode node;
    std::vector<Stmt> straight;
    const auto flush = [&] {
      if (straight.empty()) return;
      CostNode body;
      BodyContext context{vector_bytes_, &loops_, &middle_, [&](const BufferNode* buffer) {
                            const auto found = places_.find(buffer);
                            if (found != places_.end()) return found->second;
                            return BufferPlace{add_buffer(buffer, true), nullptr};
                          }};
      // The variants of one call differ in trip counts alone.
      CostNode* known = in_call_ ? &bodies_[straight[0].get()] : nullptr;
      if (known && known->kind == CostNode::Kind::kBody) {
        body = *known;
      } else {
        read_body(straight, context, body);
        body.work.live_registers = live_registers_;
        if (known) *known = body;
      }
      node.children.push_back(std::move(body));
      straight.clear();
    };
    for (const Stmt& s : stmts) {
      if (s.as<StoreNode>() || s.as<EvaluateNode>()) {
        straight.push_back(s);
        continue;
      }
      flush();
      node.children.push_back(build(s));
    }
    flush();
    if (node.children.size() == 1) {
      CostNode only = std::move(node.children[0]);
      return only;
    }
    return node;
  }

  CostNode build_loop(const ForNode& loop) {
    CostNode node;
    node.kind = CostNode::Kind::kLoop;
    node.parallel = loop.loop_kind == ForKind::kParallel && !inside_parallel_;
    if (const int64_t* known = as_int(loop.extent)) {
      node.extent = static_cast<double>(std::max<int64_t>(0, *known));
    } else {
      double iterations = 0, total = 0;
      for_each_point({loop.extent}, [&](const IntEnv& env, double weight) {
        iterations += weight * static_cast<double>(std::max<int64_t>(0, estimate_int(loop.extent, env, 1)));
        total += weight;
      });
      node.extent = total > 0 ? iterations / total : 0;
    }
    const int64_t middle = estimate_int(loop.min, middle_) + static_cast<int64_t>(std::max(0.0, node.extent - 1) / 2);
    path_.push_back({loop.var.get(), loop.min, loop.extent, nullptr, false});
    middle_.push(loop.var.get(), middle);
    loops_.emplace_back(loop.var.get(), node.extent);
    const bool outer = inside_parallel_;
    inside_parallel_ |= node.parallel;
    node.children.push_back(build(loop.body));
    inside_parallel_ = outer;
    loops_.pop_back();
    middle_.pop();
    path_.pop_back();
    return node;
  }

  CostNode build_choice(const IfNode& choice) {
    CostNode node;
    node.kind = CostNode::Kind::kChoice;
    double holds = 0, total = 0;
    for_each_point({choice.condition}, [&](const IntEnv& env, double weight) {
      if (estimate_int(choice.condition, env, 1)) holds += weight;
      total += weight;
    });
    const double share = total > 0 ? holds / total : 0;
    path_.push_back({nullptr, nullptr, nullptr, choice.condition, false});
    if (share > 0) {
      node.children.push_back(build(choice.then_body));
      node.shares.push_back(share);
    }
    path_.back().negated = true;
    if (share < 1 && choice.else_body) {
      node.children.push_back(build(choice.else_body));
      node.shares.push_back(1 - share);
    }
    path_.pop_back();
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
    std::map<std::vector<int64_t>, double> counts;
    double total = 0;
    std::vector<int64_t> values(ints.size());
    std::map<std::vector<int64_t>, double>::iterator last = counts.end();  // most points are like the one before
    for_each_point(ints, [&](const IntEnv& env, double weight) {
      for (size_t i = 0; i < ints.size(); ++i) values[i] = estimate_int(ints[i], env);
      if (last == counts.end() || last->first != values) last = counts.emplace(values, 0).first;
      last->second += weight;
      total += weight;
    });
    if (total <= 0) return node;
    std::vector<std::pair<std::vector<int64_t>, double>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    if (sorted.size() > kMostVariants) {
      for (size_t i = kMostVariants; i < sorted.size(); ++i) sorted[kMostVariants - 1].second += sorted[i].second;
      sorted.resize(kMostVariants);
    }

    // The atom's buffers are parts of the caller's.
    for (size_t i = 0; i < n_buffers; ++i) {
      const auto* address = call.args[i].as<AddressNode>();
      if (!address) continue;
      const auto outer = places_.find(address->buffer.get());
      BufferPlace place =
          outer != places_.end() ? outer->second : BufferPlace{add_buffer(address->buffer.get(), true), nullptr};
      place.base = place.base ? place.base + address->indices[0] : address->indices[0];
      places_[func->params[i].buffer.get()] = place;
    }
    bodies_.clear();
    in_call_ = true;
    for (const auto& [point, count] : sorted) {
      for (size_t i = 0; i < point.size(); ++i) {
        const VarNode* var = func->int_params[i].var.get();
        path_.push_back({var, nullptr, nullptr, Expr(point[i]), false});
        middle_.push(var, point[i]);
      }
      node.children.push_back(build(func->body));
      node.shares.push_back(count / total);
      node.variants.push_back({call.name, point, count / total});
      middle_.pop(point.size());
      path_.resize(path_.size() - point.size());
    }
    in_call_ = false;
    return node;
  }

  const IrModule& module_;
  const int vector_bytes_;
  LoopTree tree_;
  std::vector<Binding> path_;
  IntEnv middle_;
  std::vector<std::pair<const VarNode*, double>> loops_;
  std::unordered_map<const BufferNode*, BufferPlace> places_;
  double live_registers_ = 0;
  bool inside_parallel_ = false;
  bool in_call_ = false;
  std::unordered_map<const StmtNode*, CostNode> bodies_;  // of the call at hand, by their first statement
};

void collect_calls(const CostNode& node, double executions, std::vector<AtomCall>& calls) {
  if (node.kind == CostNode::Kind::kCall) {
    for (const AtomVariant& variant : node.variants) {
      AtomCall* found = nullptr;
      for (AtomCall& call : calls)
        if (call.name == variant.name && call.ints == variant.ints) found = &call;
      if (!found) found = &calls.emplace_back(AtomCall{variant.name, variant.ints, 0});
      found->calls += executions * variant.share;
    }
  }
  if (node.kind == CostNode::Kind::kLoop) executions *= node.extent;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const bool shared = node.kind == CostNode::Kind::kChoice || node.kind == CostNode::Kind::kCall;
    collect_calls(node.children[i], shared ? executions * node.shares[i] : executions, calls);
  }
}

}  // namespace

LoopTree make_loop_tree(const IrModule& kernel, const Target& target) { return TreeBuilder(kernel, target).build(); }

std::vector<AtomCall> atom_calls(const LoopTree& tree) {
  std::vector<AtomCall> calls;
  collect_calls(tree.root, 1, calls);
  return calls;
}

std::vector<AtomCall> atom_calls(const LoweredKernel& kernel, const Target& target) {
  return atom_calls(make_loop_tree(kernel.kernel, target));
}

}  // namespace fettle
