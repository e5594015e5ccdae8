#include "analysis/affine/exact.h"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/affine/nest.h"

namespace fettle {
namespace {

Result<> check_independent(const Func& func, const ForNode& loop, Known known) {
  FETTLE_TRY(const AffineNest nest, AffineNest::of(func, Stmt(Ref<const ForNode>(&loop)), nullptr, known));
  FETTLE_TRY(const isl::union_map iteration, nest.map_of([](const NestStatement&) { return std::string("[l0]"); }));
  return within_isl(kIslCheckOperations, [&]() -> Result<> {
    const isl::union_map apart(isl_context(), "{ [a] -> [b] : a != b }");
    Result<> result;
    nest.dependences(Reassociation::kNone).foreach_map([&](const isl::map& pair) {
      if (!result || isl::union_map(pair).apply_domain(iteration).apply_range(iteration).intersect(apart).is_empty())
        return;
      const auto named = [&](const std::string& id) {
        return std::ranges::find(nest.statements(), id, &NestStatement::name)->block->name;
      };
      result = fail(ErrorCode::E210,
                    fmt::format("block {} meets in another iteration what block {} touches",
                                named(pair.range_tuple_id().name()), named(pair.domain_tuple_id().name())),
                    "loop " + loop.var->name);
    });
    return result;
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
