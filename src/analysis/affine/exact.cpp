#include "analysis/affine/exact.h"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/affine/nest.h"

namespace fettle {
namespace {

isl::union_map of_statement(const isl::union_map& all, const NestStatement& statement) {
  isl::union_map of(isl_context(), "{ }");
  all.foreach_map([&](const isl::map& some) {
    if (some.domain_tuple_id().name() == statement.name) of = of.unite(isl::union_map(some));
  });
  return of;
}

Result<> check_independent(const Func& func, const ForNode& loop, Known known) {
  FETTLE_TRY(const AffineNest nest, AffineNest::of(func, Stmt(Ref<const ForNode>(&loop)), nullptr, known));
  FETTLE_TRY(const isl::union_map iteration, nest.map_of([](const NestStatement&) { return std::string("[l0]"); }));
  return within_isl(kIslCheckOperations, [&]() -> Result<> {
    const isl::union_map apart(isl_context(), "{ [a] -> [b] : a != b }");
    const auto meet = [&](const isl::union_map& one, const isl::union_map& other) {
      return !nest.written(one).apply_range(nest.touched(other).reverse()).intersect(apart).is_empty();
    };
    if (!meet(iteration, iteration)) return {};
    for (const NestStatement& writer : nest.statements())
      for (const NestStatement& other : nest.statements())
        if (meet(of_statement(iteration, writer), of_statement(iteration, other)))
          return fail(ErrorCode::E210,
                      fmt::format("block {} meets in another iteration what block {} touches", writer.block->name,
                                  other.block->name),
                      "loop " + loop.var->name);
    return fail(ErrorCode::E210, "iterations meet", "loop " + loop.var->name);
  });
}

}  // namespace

Result<> check_iterations_independent(const Func& func, const ForNode& loop) {
  if (check_independent(func, loop, Known::kNothing)) return {};
  return check_independent(func, loop, Known::kRanges);
}

Result<> check_bindings_inside(const Func& func, const BlockSite& site) {
  const StmtNode* top = site.loops.empty() ? static_cast<const StmtNode*>(site.block) : site.loops.front();
  FETTLE_TRY(const AffineNest nest, AffineNest::of_block(func, Stmt(Ref<const StmtNode>(top)), *site.block));
  return within_isl(kIslCheckOperations, [&]() -> Result<> {
    const NestStatement& statement = nest.statements().front();
    for (const IterVar& iter : site.block->iters) {
      const auto binding = nest.names().expression(iter.binding), extent = nest.names().expression(iter.extent);
      if (!binding || !extent) return fail(ErrorCode::E209, fmt::format("iterator {} is not affine", iter.var->name));
      const isl::union_set outside(isl_context(), fmt::format("{0}{{ {1} : {2} < 0 or {2} >= {3} }}", nest.parameters(),
                                                              statement.instance(), *binding, *extent));
      if (!nest.domain().intersect(outside).is_empty())
        return fail(ErrorCode::E230, fmt::format("iterator {} leaves its domain", iter.var->name));
    }
    return {};
  });
}

Result<> check_interchange(const Func& func, const Stmt& top, std::span<const ForNode* const> order) {
  FETTLE_TRY(const AffineNest nest, AffineNest::of(func, top));
  std::vector<std::string> before, after;  // of the loops that move: "l1", "l2"
  for (const ForNode* loop = top.as<ForNode>(); loop; loop = loop->body.as<ForNode>())
    if (std::ranges::find(order, loop) != order.end()) before.push_back(*nest.names().expression(loop->var));
  for (const ForNode* loop : order) after.push_back(*nest.names().expression(loop->var));
  FETTLE_TRY(const isl::union_map when, nest.map_of([&](const NestStatement& statement) {
    std::vector<std::string> at = statement.when;
    for (std::string& dim : at)
      if (const auto moved = std::ranges::find(before, dim); moved != before.end())
        dim = after[static_cast<size_t>(moved - before.begin())];
    return fmt::format("[{}]", fmt::join(at, ", "));
  }));
  return nest.keeps_order(when, Reassociation::kReductions);
}

}  // namespace fettle
