#include "schedule/edit/scanning.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "ir/query.h"
#include "schedule/edit/nest.h"

namespace fettle {
namespace {

// What is thrown inside of callbacks of isl, and caught around them.
struct Unsayable {
  std::string what;
};

class AstReader {
 public:
  AstReader(const AffineNest& nest, Analyzer& analyzer) : nest_(nest), analyzer_(analyzer) {
    for (size_t i = 0; i < nest.parameter_vars().size(); ++i) names_[fmt::format("p{}", i)] = nest.parameter_vars()[i];
  }

  Stmt statement(const isl::ast_node& node) {
    if (node.isa<isl::ast_node_for>()) return loop(node.as<isl::ast_node_for>());
    if (node.isa<isl::ast_node_if>()) {
      const auto choice = node.as<isl::ast_node_if>();
      const Expr condition = analyzer_.simplify(expression(choice.cond()));
      const auto known = analyzer_.enter();
      Stmt then_body;
      {
        const auto scope = analyzer_.assume(condition);
        then_body = add_predicate(statement(choice.then_node()), condition);
      }
      if (!choice.has_else_node()) return then_body;
      const Expr otherwise = logical_not(condition);
      return seq({then_body, add_predicate(statement(choice.else_node()), otherwise)});
    }
    if (node.isa<isl::ast_node_block>()) {
      std::vector<Stmt> stmts;
      const isl::ast_node_list children = node.as<isl::ast_node_block>().children();
      for (unsigned i = 0; i < children.size(); ++i) stmts.push_back(statement(children.at(static_cast<int>(i))));
      return seq(std::move(stmts));
    }
    if (node.isa<isl::ast_node_user>()) return instance(node.as<isl::ast_node_user>().expr());
    throw Unsayable{"a node of isl's that is no loop, condition, sequence or instance"};
  }

 private:
  Stmt loop(const isl::ast_node_for& node) {
    const std::string name = node.iterator().as<isl::ast_expr_id>().id().name();
    const Expr first = analyzer_.simplify(expression(node.init()));
    if (node.is_degenerate()) {
      const auto before = std::exchange(names_[name], first);
      Stmt body = statement(node.body());
      names_[name] = before;
      return body;
    }
    const auto bound = node.cond().as<isl::ast_expr_op>();
    const bool inclusive = isl_ast_expr_op_get_type(bound.get()) == isl_ast_expr_op_le;
    if (!inclusive && isl_ast_expr_op_get_type(bound.get()) != isl_ast_expr_op_lt)
      throw Unsayable{"a loop whose end is no bound"};
    const Expr step = expression(node.inc());
    if (!as_int(step) || *as_int(step) < 1) throw Unsayable{"a loop whose step is not a positive constant"};
    const Expr width = expression(bound.arg(1)) - first + Expr(inclusive ? 1 : 0);
    const Expr extent = analyzer_.simplify(is_one(step) ? width : floordiv(width + Expr(*as_int(step) - 1), step));
    const Var var = make_var(name);
    const auto scope = analyzer_.enter();
    Expr min = is_one(step) ? first : Expr(0);
    analyzer_.bind(var, min, extent);
    const Expr before = std::exchange(names_[name], is_one(step) ? Expr(var) : first + Expr(var) * step);
    Stmt body = statement(node.body());
    names_[name] = before;
    return make_for(var, min, extent, body);
  }

  Stmt instance(const isl::ast_expr& called) {
    const auto call = called.as<isl::ast_expr_op>();
    const std::string name = call.arg(0).as<isl::ast_expr_id>().id().name();
    const auto statement = std::ranges::find(nest_.statements(), name, &NestStatement::name);
    VarMap values;
    for (size_t i = 0; i < statement->loops.size(); ++i)
      values[statement->loops[i]->var.get()] = expression(call.arg(static_cast<int>(i) + 1));
    // The loops and conditions around say where it runs.
    const Stmt bare = with(*statement->block, [](BlockNode& b) { b.predicate = nullptr; });
    return substitute_loops(bare, values, analyzer_);
  }

  Expr expression(const isl::ast_expr& e) {
    if (e.isa<isl::ast_expr_int>()) return Expr(static_cast<int64_t>(e.as<isl::ast_expr_int>().val().num_si()));
    if (e.isa<isl::ast_expr_id>()) {
      const std::string name = e.as<isl::ast_expr_id>().id().name();
      const auto at = names_.find(name);
      if (at == names_.end() || !at->second) throw Unsayable{"a variable that nothing binds: " + name};
      return at->second;
    }
    const auto op = e.as<isl::ast_expr_op>();
    const auto arg = [&](int i) { return expression(op.arg(i)); };
    const auto all = [&](auto combine) {
      Expr result = arg(0);
      for (unsigned i = 1; i < op.n_arg(); ++i) result = combine(result, arg(static_cast<int>(i)));
      return result;
    };
    switch (isl_ast_expr_op_get_type(op.get())) {
      case isl_ast_expr_op_add:
        return arg(0) + arg(1);
      case isl_ast_expr_op_sub:
        return arg(0) - arg(1);
      case isl_ast_expr_op_minus:
        return Expr(0) - arg(0);
      case isl_ast_expr_op_mul:
        return arg(0) * arg(1);
      // Divisions of what is not negative, exact ones, and those that round down are one in the loop language.
      case isl_ast_expr_op_fdiv_q:
      case isl_ast_expr_op_pdiv_q:
      case isl_ast_expr_op_div:
        return floordiv(arg(0), arg(1));
      case isl_ast_expr_op_pdiv_r:
      case isl_ast_expr_op_zdiv_r:
        return floormod(arg(0), arg(1));
      case isl_ast_expr_op_min:
        return all([](Expr a, Expr b) { return min(std::move(a), std::move(b)); });
      case isl_ast_expr_op_max:
        return all([](Expr a, Expr b) { return max(std::move(a), std::move(b)); });
      case isl_ast_expr_op_and:
      case isl_ast_expr_op_and_then:
        return all([](Expr a, Expr b) { return logical_and(std::move(a), std::move(b)); });
      case isl_ast_expr_op_or:
      case isl_ast_expr_op_or_else:
        return all([](Expr a, Expr b) { return logical_or(std::move(a), std::move(b)); });
      case isl_ast_expr_op_eq:
        return eq(arg(0), arg(1));
      case isl_ast_expr_op_le:
        return le(arg(0), arg(1));
      case isl_ast_expr_op_lt:
        return lt(arg(0), arg(1));
      case isl_ast_expr_op_ge:
        return ge(arg(0), arg(1));
      case isl_ast_expr_op_gt:
        return gt(arg(0), arg(1));
      case isl_ast_expr_op_cond:
      case isl_ast_expr_op_select:
        return select(arg(0), arg(1), arg(2));
      default:
        break;
    }
    throw Unsayable{"an operation that the loop language lacks"};
  }

  const AffineNest& nest_;
  Analyzer& analyzer_;
  std::map<std::string, Expr> names_;
};

// Whole tiles: all points of the tile are instances of every block, as far as the tiled rows say.
//   { [T…] : for all r in tile T: r in the rows' values of each block }
isl::set whole_tiles(const AffineNest& nest, const ScanOrder& order) {
  const isl::ctx ctx = isl_context();
  const size_t n = order.factors.size();
  std::vector<std::string> rows, tiles, inside;
  for (size_t d = 0; d < n; ++d) {
    rows.push_back(fmt::format("r{}", d));
    tiles.push_back(fmt::format("t{}", d));
    inside.push_back(fmt::format("{0} * t{1} <= r{1} < {0} * t{1} + {0}", order.factors[d], d));
  }
  const isl::map points(ctx, fmt::format("{{ [{}] -> [{}] : {} }}", fmt::join(tiles, ", "), fmt::join(rows, ", "),
                                         fmt::join(inside, " and ")));
  isl::set whole(ctx, fmt::format("{{ [{}] }}", fmt::join(tiles, ", ")));
  const isl::union_set times = nest.domain().apply(order.when);
  std::vector<isl::set> sets;
  nest.domain().foreach_set([&](const isl::set& instances) {
    isl::set some = isl::union_set(instances).apply(order.when).as_set();
    some = isl::manage(isl_set_project_out(some.release(), isl_dim_set, static_cast<unsigned>(n),
                                           static_cast<unsigned>(order.rows - n)));
    const isl::set touched = some.apply(points.reverse());
    const isl::map all = points.intersect_domain(touched);
    whole = whole.intersect(touched.subtract(all.subtract(all.intersect_range(some)).domain()));
  });
  return whole.coalesce();
}

isl::ast_node ast_of(const AffineNest& nest, const ScanOrder& order) {
  isl::ctx ctx = isl_context();
  const isl::schedule instances = isl::schedule::from_domain(nest.domain());
  isl::schedule_node node = instances.root().child(0).insert_partial_schedule(order.when.as_multi_union_pw_aff());
  const size_t n = order.factors.size();
  if (!order.apart.empty()) {
    auto band = node.as<isl::schedule_node_band>();
    if (n > 0) band = band.split(static_cast<int>(n)).child(0).as<isl::schedule_node_band>();
    for (const size_t row : order.apart) band = band.member_set_ast_loop_unroll(static_cast<int>(row - n));
    node = n > 0 ? band.parent() : isl::schedule_node(band);
  }
  if (n > 0) {
    auto band = node.as<isl::schedule_node_band>();
    if (n < band.n_member()) band = band.split(static_cast<int>(n));
    isl::multi_val sizes = isl::multi_val::zero(band.partial_schedule().space());
    for (size_t d = 0; d < n; ++d)
      sizes = sizes.set_at(static_cast<int>(d), isl::val(ctx, static_cast<long>(order.factors[d])));
    // Loops over tiles count tiles.
    isl_options_set_tile_scale_tile_loops(ctx.get(), 0);
    isl_options_set_tile_shift_point_loops(ctx.get(), 0);
    band = band.tile(sizes);
    if (order.full_tiles) {
      const isl::set whole = whole_tiles(nest, order);
      if (!whole.is_empty()) {
        isl::map isolate = isl::manage(isl_map_from_domain_and_range(isl::set(ctx, "{ [] }").release(), whole.copy()));
        isl::set option = isolate.wrap();
        option = isl::manage(isl_set_set_tuple_name(option.release(), "isolate"));
        band = band.set_ast_build_options(isl::union_set(option));
      }
    }
    node = band;
  }
  return isl::ast_build::from_context(nest.context()).node_from(node.schedule());
}

}  // namespace

int scanned_dimension(const ForNode& loop) {
  const std::string& name = loop.var->name;
  int dimension = -1;
  if (name.starts_with('c')) std::from_chars(name.data() + 1, name.data() + name.size(), dimension);
  return dimension;
}

namespace {

// How many loops around the block have constant extents.
int constant_loops(const Stmt& top, const BlockNode* block) {
  int count = 0;
  for (const Stmt& s : path_to(top, block))
    if (const auto* loop = s.as<ForNode>()) count += as_int(loop->extent) != nullptr;
  return count;
}

// Of the copies of a block all but one get names of their own.
Stmt name_copies(const Func& func, const AffineNest& nest, Stmt top) {
  std::map<std::string, std::vector<const BlockNode*>> copies;
  for (const NestStatement& statement : nest.statements()) copies[statement.block->name] = {};
  each_node<BlockNode>(top, [&](const BlockNode& block) {
    if (const auto at = copies.find(block.name); at != copies.end()) at->second.push_back(&block);
  });
  std::map<const StmtNode*, std::string> renamed;
  std::vector<std::string> taken;
  for (auto& [name, blocks] : copies) {
    if (blocks.size() < 2) continue;
    std::ranges::stable_sort(blocks, std::greater{}, [&](const BlockNode* b) { return constant_loops(top, b); });
    int number = 1;
    for (size_t i = 1; i < blocks.size(); ++i) {
      std::string fresh;
      do fresh = fmt::format("{}_{}", name, number++);
      while (find_block(func->body, fresh));
      renamed[blocks[i]] = fresh;
    }
  }
  class Renamer : public Mutator {
   public:
    explicit Renamer(const std::map<const StmtNode*, std::string>& names) : names_(names) {}
    using Mutator::rewrite;
    Stmt rewrite(const Stmt& s) override {
      const auto at = s ? names_.find(s.get()) : names_.end();
      if (at == names_.end()) return Mutator::rewrite(s);
      return rename_bound(with(*s.as<BlockNode>(), [&](BlockNode& b) { b.name = at->second; }));
    }

   private:
    const std::map<const StmtNode*, std::string>& names_;
  };
  return Renamer(renamed).rewrite(top);
}

}  // namespace

Result<Stmt> scan(const Func& func, const AffineNest& nest, const ScanOrder& order, Analyzer& analyzer) {
  try {
    FETTLE_TRY(const Stmt made, within_isl(kIslScheduleOperations, [&]() -> Result<Stmt> {
                 return AstReader(nest, analyzer).statement(ast_of(nest, order));
               }));
    return name_copies(func, nest, made);
  } catch (const Unsayable& e) {
    return fail(ErrorCode::E209, "isl makes code of it that has " + e.what);
  }
}

}  // namespace fettle
