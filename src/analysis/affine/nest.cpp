#include "analysis/affine/nest.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/path.h"
#include "ir/query.h"

namespace fettle {
namespace {

std::string joined(const std::vector<std::string>& parts, std::string_view between = ", ") {
  return fmt::format("{}", fmt::join(parts, between));
}

// The element that the block's only store updates: B[e] = B[e] op x, where x does not read it, in any order of the
// instances that meet there. Null: none.
const StoreNode* commuting_update(const BlockNode& block) {
  const auto* update = block.body.as<StoreNode>();
  const auto* combine = update ? update->value.as<BinaryNode>() : nullptr;
  if (!combine) return nullptr;
  const auto is_own = [&](const Expr& e) {
    const auto* read = e.as<LoadNode>();
    return read && read->buffer == update->buffer && structural_equal(read->indices, update->indices);
  };
  const auto reads_own = [&](const Expr& e) {
    return contains<LoadNode>(e, [&](const LoadNode& l) { return is_own(Expr(Ref<const LoadNode>(&l))); });
  };
  const bool first = is_own(combine->a) && !reads_own(combine->b);
  const bool second = is_own(combine->b) && !reads_own(combine->a);
  switch (combine->op) {
    case BinaryOp::kSub:
      return first ? update : nullptr;
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kOrderedMax:
      return first || second ? update : nullptr;
    default:
      return nullptr;
  }
}

// Whether updates by other blocks may come between two of these: minima and maxima of integers are exact in any order.
bool is_exact_in_any_order(const StoreNode& update) {
  const BinaryOp op = update.value.as<BinaryNode>()->op;
  return (op == BinaryOp::kMin || op == BinaryOp::kMax) && update.value.dtype().is_int();
}

}  // namespace

std::string NestStatement::instance(std::string_view prefix) const {
  std::vector<std::string> dims;
  for (size_t i = 0; i < loops.size(); ++i) dims.push_back(fmt::format("{}{}", prefix, i));
  return fmt::format("{}[{}]", name, joined(dims));
}

class NestReader {
 public:
  NestReader(const Func& func, Known known, const BlockNode* only = nullptr)
      : func_(func), known_(known), only_(only), ctx_(isl_context()) {}

  Result<AffineNest> read(const Stmt& top, const StmtNode* place) {
    FETTLE_TRY_VOID(read_parameters(place));
    nest_.domain_ = isl::union_set(ctx_, "{ }");
    for (isl::union_map* empty : {&nest_.schedule_, &nest_.reads_, &nest_.writes_, &nest_.certain_writes_,
                                  &nest_.updates_, &nest_.interchangeable_})
      *empty = isl::union_map(ctx_, "{ }");
    FETTLE_TRY_VOID(visit(top));
    size_t dims = 0;
    for (const NestStatement& s : nest_.statements_) dims = std::max(dims, s.when.size());
    for (NestStatement& s : nest_.statements_) {
      s.when.resize(dims, "0");
      add(nest_.schedule_, relation(s, fmt::format("[{}]", joined(s.when)), {}));
    }
    return std::move(nest_);
  }

 private:
  // Loops and iterators of blocks around, and the integer parameters.
  Result<> read_parameters(const StmtNode* place) {
    std::vector<std::string> names, known;
    const auto add_parameter = [&](const Var& var) {
      names.push_back(fmt::format("p{}", names.size()));
      nest_.text_.name(var.get(), names.back());
      nest_.parameter_vars_.push_back(var);
      return names.back();
    };
    for (const IntParam& param : func_->int_params) {
      const std::string name = add_parameter(param.var);
      known.push_back(fmt::format("{} <= {}", param.min, name));
      if (param.max < INT64_MAX) known.push_back(fmt::format("{} <= {}", name, param.max));
      if (param.multiple_of > 1) known.push_back(fmt::format("{} mod {} = 0", name, param.multiple_of));
    }
    std::vector<const StmtNode*> around;
    walk_up(func_->body, place, [&](const Stmt& s) {
      if (s.get() != place) around.push_back(s.get());
    });
    const auto add_range = [&](const Var& var, const Expr& min, const Expr& extent) {
      const auto first = nest_.text_.expression(min), count = nest_.text_.expression(extent);
      const std::string name = add_parameter(var);
      if (first) known.push_back(fmt::format("{} <= {}", *first, name));
      if (first && count) known.push_back(fmt::format("{} < {} + {}", name, *first, *count));
    };
    for (size_t i = around.size(); i-- > 0;) {
      if (around[i]->kind == StmtKind::kFor) {
        const auto* loop = static_cast<const ForNode*>(around[i]);
        add_range(loop->var, loop->min, loop->extent);
      } else if (around[i]->kind == StmtKind::kBlock) {
        for (const IterVar& iter : static_cast<const BlockNode*>(around[i])->iters) add_range(iter.var, 0, iter.extent);
      }
    }
    if (known_ == Known::kNothing) known.clear();
    nest_.parameters_ = names.empty() ? "" : fmt::format("[{}] -> ", joined(names));
    nest_.context_ =
        isl::set(ctx_, fmt::format("{}{{ : {} }}", nest_.parameters_, known.empty() ? "true" : joined(known, " and ")));
    return {};
  }

  static tl::unexpected<Diagnostic> refuse(std::string why) { return fail(ErrorCode::E209, std::move(why)); }

  Result<> visit(const Stmt& s) {
    if (!s) return {};
    switch (s.kind()) {
      case StmtKind::kFor: {
        const auto& loop = *s.as<ForNode>();
        if (reads_memory(loop.min) || reads_memory(loop.extent))
          return refuse(fmt::format("the bounds of loop {} read memory", loop.var->name));
        const std::string name = fmt::format("l{}", loops_.size());
        const auto min = nest_.text_.expression(loop.min), extent = nest_.text_.expression(loop.extent);
        const size_t bounds = bounds_.size();
        const bool exact = std::exchange(exact_, exact_ && min && extent);
        if (min) bounds_.push_back(fmt::format("{} <= {}", *min, name));
        if (min && extent) bounds_.push_back(fmt::format("{} < {} + {}", name, *min, *extent));
        nest_.text_.name(loop.var.get(), name);
        loops_.push_back(&loop);
        at_.push_back(name);
        FETTLE_TRY_VOID(visit(loop.body));
        at_.pop_back();
        loops_.pop_back();
        bounds_.resize(bounds);
        exact_ = exact;
        return {};
      }
      case StmtKind::kSeq: {
        const auto& stmts = s.as<SeqNode>()->stmts;
        for (size_t i = 0; i < stmts.size(); ++i) {
          at_.push_back(std::to_string(i));
          FETTLE_TRY_VOID(visit(stmts[i]));
          at_.pop_back();
        }
        return {};
      }
      case StmtKind::kIf: {
        const auto& choice = *s.as<IfNode>();
        if (choice.else_body) return refuse("a condition has another branch");
        return under(choice.condition, [&] { return visit(choice.then_body); });
      }
      case StmtKind::kBlock: {
        const auto& block = *s.as<BlockNode>();
        if (only_ && &block != only_) return {};
        return under(block.predicate, [&] { return add_block(block); });
      }
      default:
        return refuse("something else than loops, conditions and blocks stands between the loops");
    }
  }

  template <class Fn>
  Result<> under(const Expr& condition, Fn fn) {
    if (is_true(condition)) return fn();
    if (reads_memory(condition)) return refuse("a condition reads memory");
    const auto text = nest_.text_.condition(condition);
    const bool exact = std::exchange(exact_, exact_ && text);
    if (text) bounds_.push_back(*text);
    FETTLE_TRY_VOID(fn());
    if (text) bounds_.pop_back();
    exact_ = exact;
    return {};
  }

  // S<k>[l…] → target : instance and conditions
  isl::union_map relation(const NestStatement& statement, const std::string& target,
                          const std::vector<std::string>& conditions) const {
    const std::string text = fmt::format("{}{{ {} -> {} : {} }}", nest_.parameters_, statement.instance(), target,
                                         conditions.empty() ? "true" : joined(conditions, " and "));
    return isl::union_map(ctx_, text).intersect_domain(nest_.domain_);
  }
  static void add(isl::union_map& all, const isl::union_map& more) { all = all.unite(more); }

  // The elements of a buffer in these ranges: those of the dimension where a range is not affine.
  isl::union_map elements(const NestStatement& statement, const Buffer& buffer, const std::vector<Range>& ranges,
                          const IslText& iters) {
    auto at = std::ranges::find(buffers_, buffer);
    if (at == buffers_.end()) at = buffers_.insert(buffers_.end(), buffer);
    std::vector<std::string> names, conditions;
    for (size_t d = 0; d < ranges.size(); ++d) {
      names.push_back(fmt::format("e{}", d));
      const auto min = iters.expression(ranges[d].min), extent = iters.expression(ranges[d].extent);
      if (min && is_one(ranges[d].extent))
        conditions.push_back(fmt::format("{} = {}", names[d], *min));
      else if (min && extent)
        conditions.push_back(fmt::format("{0} <= {1} < {0} + {2}", *min, names[d], *extent));
    }
    return relation(statement, fmt::format("B{}[{}]", at - buffers_.begin(), joined(names)), conditions);
  }

  Result<> add_block(const BlockNode& block) {
    NestStatement statement{&block, loops_, fmt::format("S{}", nest_.statements_.size()), exact_, at_};
    const isl::union_set instances(ctx_, fmt::format("{}{{ {} : {} }}", nest_.parameters_, statement.instance(),
                                                     bounds_.empty() ? "true" : joined(bounds_, " and ")));
    nest_.domain_ = nest_.domain_.unite(instances.intersect_params(nest_.context_));
    IslText iters = nest_.text_;
    for (const IterVar& iter : block.iters) {
      if (reads_memory(iter.binding)) return refuse(fmt::format("a binding of block {} reads memory", block.name));
      if (const auto binding = nest_.text_.expression(iter.binding)) iters.name(iter.var.get(), *binding);
    }
    const StoreNode* update = commuting_update(block);
    const bool is_exact = update && !block.init && is_exact_in_any_order(*update);
    const bool is_reduced = update && has_reduction(block) && bindings_known(block, iters);
    if (!is_exact && !is_reduced) update = nullptr;
    const auto touches = [&](isl::union_map& all, const Buffer& buffer, const std::vector<Range>& ranges) {
      add(all, elements(statement, buffer, ranges, iters));
    };
    const auto is_affine = [&](const Expr& index) { return iters.expression(index).has_value(); };
    if (accesses_are_plain(block)) {
      for (const Stmt& part : {block.init, block.body}) {
        if (!part) continue;
        each_node<StoreNode>(part, [&](const StoreNode& access) {
          const bool own = update && (&access == update || part == block.init);
          touches(own ? nest_.updates_ : nest_.writes_, access.buffer, ranges_of_indices(access.indices));
          if (!own && exact_ && !contains<IfNode>(part, [](const IfNode&) { return true; }) &&
              std::ranges::all_of(access.indices, is_affine))
            touches(nest_.certain_writes_, access.buffer, ranges_of_indices(access.indices));
        });
        each_node<LoadNode>(part, [&](const LoadNode& access) {
          const bool own =
              update && access.buffer == update->buffer && structural_equal(access.indices, update->indices);
          touches(own ? nest_.updates_ : nest_.reads_, access.buffer, ranges_of_indices(access.indices));
        });
      }
    } else {
      update = nullptr;
      for (const Region& region : block.reads) touches(nest_.reads_, region.buffer, region.ranges);
      for (const Region& region : block.writes) touches(nest_.writes_, region.buffer, region.ranges);
    }
    if (update && is_reduced) add_interchangeable(statement, iters);
    if (update && is_exact) nest_.exact_updates_[statement.name] = update->value.as<BinaryNode>()->op;
    nest_.statements_.push_back(std::move(statement));
    return {};
  }

  static std::vector<Range> ranges_of_indices(const std::vector<Expr>& indices) {
    std::vector<Range> ranges;
    for (const Expr& index : indices) ranges.push_back({index, 1});
    return ranges;
  }

  static bool has_reduction(const BlockNode& block) {
    return std::ranges::any_of(block.iters, [](const IterVar& iter) { return iter.kind == IterKind::kReduce; });
  }
  static bool bindings_known(const BlockNode& block, const IslText& iters) {
    return std::ranges::all_of(block.iters, [&](const IterVar& iter) { return iters.knows(iter.var.get()); });
  }
  // Stores and their values alone: nothing in it binds a variable or touches memory in another way.
  static bool accesses_are_plain(const BlockNode& block) {
    const auto plain = [](const Stmt& s) {
      if (!s) return true;
      bool all = true;
      walk(
          s,
          [&](const Stmt& x) {
            all = all && (x.kind() == StmtKind::kStore || x.kind() == StmtKind::kSeq || x.kind() == StmtKind::kIf);
            return all;
          },
          [&](const Expr& e) {
            all = all && e.kind() != ExprKind::kAddress;
            return all;
          });
      return all;
    };
    return plain(block.body) && plain(block.init);
  }

  // Instances of equal other iterators; but the first, which begins anew, where there is an init.
  void add_interchangeable(const NestStatement& statement, const IslText& iters) {
    IslText again = nest_.text_;
    for (size_t i = 0; i < statement.loops.size(); ++i)
      again.name(statement.loops[i]->var.get(), fmt::format("m{}", i));
    std::vector<std::string> same, later[2];
    for (const IterVar& iter : statement.block->iters) {
      const std::string first = *iters.expression(iter.var), second = *again.expression(iter.binding);
      if (iter.kind == IterKind::kReduce) {
        later[0].push_back(fmt::format("{} > 0", first));
        later[1].push_back(fmt::format("{} > 0", second));
      } else {
        same.push_back(fmt::format("{} = {}", first, second));
      }
    }
    if (statement.block->init)
      for (const auto& some : later) same.push_back(fmt::format("({})", joined(some, " or ")));
    // An instance that runs again begins anew: its runs stay apart.
    std::vector<std::string> iterators;
    for (const IterVar& iter : statement.block->iters) iterators.push_back(*iters.expression(iter.var));
    if (!relation(statement, fmt::format("[{}]", joined(iterators)), {}).is_injective()) return;
    add(nest_.interchangeable_, relation(statement, statement.instance("m"), same));
  }

  const Func& func_;
  Known known_;
  const BlockNode* only_;  // null: all blocks
  isl::ctx ctx_;
  AffineNest nest_;
  std::vector<const ForNode*> loops_;
  std::vector<std::string> bounds_, at_;
  std::vector<Buffer> buffers_;
  bool exact_ = true;
};

namespace {
thread_local SharedNests* shared_nests = nullptr;
}

SharedNests::SharedNests() : around_(std::exchange(shared_nests, this)) {}
SharedNests::~SharedNests() { shared_nests = around_; }

Result<AffineNest> AffineNest::of(const Func& func, const Stmt& top, const StmtNode* place, Known known) {
  const auto read = [&] {
    return within_isl(kIslCheckOperations,
                      [&] { return NestReader(func, known).read(top, place ? place : top.get()); });
  };
  if (!shared_nests) return read();
  auto& nests = shared_nests->nests_;
  const SharedNests::Key key{func.get(), top.get(), place, known};
  auto at = nests.find(key);
  if (at == nests.end()) at = nests.emplace(key, SharedNests::Shared{func, top, read()}).first;
  return at->second.nest;
}

Result<AffineNest> AffineNest::of_block(const Func& func, const Stmt& top, const BlockNode& block) {
  return within_isl(kIslCheckOperations, [&] { return NestReader(func, Known::kRanges, &block).read(top, top.get()); });
}

namespace {

// Pairs (earlier, later) where the later one touches what the earlier one did.
isl::union_map pairs(const isl::union_map& earlier, const isl::union_map& later, const isl::union_map& schedule) {
  return isl::union_access_info(later)
      .set_may_source(earlier)
      .set_schedule_map(schedule)
      .compute_flow()
      .may_dependence();
}

}  // namespace

isl::union_map AffineNest::kept_in_order(isl::union_map updates, Reassociation reassociation) const {
  if (reassociation != Reassociation::kNone) updates = updates.subtract(interchangeable_);
  if (reassociation != Reassociation::kExact) return updates;
  isl::union_map others(isl_context(), "{ }");
  updates.foreach_map([&](const isl::map& some) {
    const auto first = exact_updates_.find(some.domain_tuple_id().name());
    const auto second = exact_updates_.find(some.range_tuple_id().name());
    const bool may_change_places =
        first != exact_updates_.end() && second != exact_updates_.end() && first->second == second->second;
    if (!may_change_places) others = others.unite(isl::union_map(some));
  });
  return others;
}

isl::union_map AffineNest::written(const isl::union_map& place) const {
  return writes_.unite(updates_).apply_domain(place);
}

isl::union_map AffineNest::touched(const isl::union_map& place) const {
  return reads_.unite(writes_).unite(updates_).apply_domain(place);
}

namespace {
// What `find` gives, once.
template <class Found, class Find>
isl::union_map once(Found& found, Reassociation reassociation, Find find) {
  const auto at = found.find(reassociation);
  return at != found.end() ? at->second : found.emplace(reassociation, find()).first->second;
}
}  // namespace

isl::union_map AffineNest::dependences(Reassociation reassociation) const {
  return once(*dependences_, reassociation, [&] { return find_dependences(reassociation); });
}
isl::union_map AffineNest::direct_dependences(Reassociation reassociation) const {
  return once(*direct_, reassociation, [&] { return find_direct_dependences(reassociation); });
}

isl::union_map AffineNest::find_dependences(Reassociation reassociation) const {
  const isl::union_map written = writes_.unite(updates_);
  return kept_in_order(pairs(updates_, updates_, schedule_), reassociation)
      .unite(pairs(written, reads_.unite(writes_), schedule_))
      .unite(pairs(reads_, written, schedule_))
      .unite(pairs(writes_, updates_, schedule_))
      .coalesce();
}

isl::union_map AffineNest::find_direct_dependences(Reassociation reassociation) const {
  const isl::union_map uncertain = writes_.subtract(certain_writes_);
  const auto pairs_without = [&](const isl::union_map& earlier, const isl::union_map& later) {
    return isl::union_access_info(later)
        .set_may_source(earlier)
        .set_kill(certain_writes_)
        .set_schedule_map(schedule_)
        .compute_flow()
        .may_dependence();
  };
  const isl::union_map overwritten = isl::union_access_info(reads_.unite(writes_).unite(updates_))
                                         .set_must_source(certain_writes_)
                                         .set_schedule_map(schedule_)
                                         .compute_flow()
                                         .may_dependence();
  return kept_in_order(pairs_without(updates_, updates_), reassociation)
      .unite(overwritten)
      .unite(pairs_without(uncertain, reads_.unite(writes_).unite(updates_)))
      .unite(pairs_without(updates_, reads_.unite(writes_)))
      .unite(pairs_without(reads_, writes_.unite(updates_)))
      .coalesce();
}

Result<isl::union_map> AffineNest::map_of(FunctionRef<std::string(const NestStatement&)> values) const {
  std::string text = parameters_ + "{ ";
  for (const NestStatement& s : statements_) text += fmt::format("{} -> {}; ", s.instance(), values(s));
  return within_isl(kIslCheckOperations, [&]() -> Result<isl::union_map> {
    return isl::union_map(isl_context(), text + "}").intersect_domain(domain_);
  });
}

bool precedes(const isl::union_map& pairs, const isl::union_map& order) {
  isl::union_map when = pairs.apply_domain(order).apply_range(order);
  bool all = true;
  when.foreach_map([&](const isl::map& times) {
    const isl::map after = isl::manage(isl_map_lex_ge(isl_space_domain(isl_map_get_space(times.get()))));
    all = all && times.intersect(after).is_empty();
  });
  return all;
}

Result<> AffineNest::keeps_order(const isl::union_map& order, Reassociation reassociation) const {
  return within_isl(kIslCheckOperations, [&]() -> Result<> {
    const isl::union_map all = dependences(reassociation);
    if (precedes(all, order)) return {};
    std::string where;
    all.foreach_map([&](const isl::map& some) {
      if (!where.empty() || precedes(some, order)) return;
      const auto named = [&](const std::string& id) {
        for (const NestStatement& s : statements_)
          if (s.name == id) return s.block->name;
        return id;
      };
      where = fmt::format("block {} would run before instances of block {} that it must follow",
                          named(some.range_tuple_id().name()), named(some.domain_tuple_id().name()));
    });
    return fail(ErrorCode::E227, where);
  });
}

}  // namespace fettle
