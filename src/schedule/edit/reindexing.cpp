#include "schedule/edit/reindexing.h"

#include <algorithm>

#include "analysis/dependence.h"
#include "arith/affine_map.h"
#include "ir/compare.h"
#include "schedule/dataflow/bound_names.h"
#include "schedule/dataflow/overwriting.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/inlining.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

bool are_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::ranges::equal(a, b, [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
}

// Accesses of one buffer at one place go to another.
class Redirector : public Mutator {
 public:
  Redirector(Buffer from, const std::vector<Expr>& place, Buffer to, const std::vector<Expr>& indices)
      : from_(std::move(from)), to_(std::move(to)), place_(place), indices_(indices) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* source = e.as<LoadNode>();
    return source && source->buffer == from_ && are_equal(source->indices, place_) ? load(to_, indices_)
                                                                                   : Mutator::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    const auto* target = s ? s.as<StoreNode>() : nullptr;
    return target && target->buffer == from_ ? store(to_, indices_, rewrite(target->value)) : Mutator::rewrite(s);
  }

 private:
  Buffer from_, to_;
  const std::vector<Expr>&place_, &indices_;
};

std::vector<Expr> begins_of(const std::vector<Range>& ranges) {
  std::vector<Expr> begins;
  for (const Range& range : ranges) begins.push_back(range.min);
  return begins;
}

// The one index tuple of all accesses, or that of `place`, which is one of them; E214 where there are several others.
Result<std::vector<Expr>> access_of(const Func& func, const BlockNode& block, const Buffer& buffer,
                                    const std::vector<Range>& place) {
  const auto refuse = [&](std::string why) {
    return refused(ErrorCode::E214, func, &block, "block {}: {}", block.name, why);
  };
  std::vector<std::vector<Expr>> found;
  for (const Stmt& s : {block.init, block.body}) {
    if (!s) continue;
    for (auto& access : loads_of(s, buffer.get())) found.push_back(std::move(access));
    for (auto& access : stores_of(s, buffer.get())) found.push_back(std::move(access));
    if (!blocks_under(s).empty()) return refuse("there are blocks inside");
    if (takes_address(s, buffer.get())) return refuse(fmt::format("an address of {} is taken", buffer->name));
  }
  if (found.empty()) return refuse(fmt::format("it does not access {}", buffer->name));
  const bool is_point = std::ranges::all_of(place, [](const Range& range) { return is_one(range.extent); });
  const auto wanted = is_point && !place.empty()
                          ? std::ranges::find_if(found, [&](const auto& a) { return are_equal(a, begins_of(place)); })
                          : found.end();
  if (wanted != found.end()) std::swap(found.front(), *wanted);
  for (const auto& access : found)
    if (wanted == found.end() && !are_equal(access, found.front()))
      return refuse(fmt::format("it accesses {} at different places", buffer->name));
  for (const Expr& index : found.front())
    if (uses_bound_in(block.body, index))
      return refuse(fmt::format("an index of {} has a name of its own statements", buffer->name));
  return found.front();
}

}  // namespace

Result<Applied> reindexed(const Schedule& s, const BlockNode& block, const Reindexing& what) {
  const Func& func = s.func();
  const Buffer& buffer = what.buffer;
  const BlockNode* scope = enclosing_block(func, &block);
  FETTLE_TRY_VOID(check_scope(s, what.scope, &block));
  if (!what.write && write_region(block, buffer.get()))
    return refused(ErrorCode::E211, func, &block, "block {} also writes {}", block.name, buffer->name);
  if (const std::string why = what.write ? why_not_complete(block, *scope, true) : ""; !why.empty())
    return refused(ErrorCode::E211, func, &block, "block {}: {}", block.name, why);
  if (const BlockNode* other = what.write ? other_writer(func, block, buffer.get()) : nullptr;
      other && !stores_always(block, buffer.get()))
    return refused(ErrorCode::E211, func, &block,
                   "block {} may leave elements of {} as block {} made them, and the copy would not", block.name,
                   buffer->name, other->name);
  FETTLE_TRY(const std::vector<Expr> indices, access_of(func, block, buffer, what.place));

  // The iterators that matter, and where each point of them lies in the new buffer.
  std::vector<size_t> used;
  std::vector<Expr> extents;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (std::ranges::none_of(indices, [&](const Expr& e) { return uses_var(e, block.iters[i].var.get()); })) continue;
    used.push_back(i);
    extents.push_back(block.iters[i].extent);
  }
  const auto no_bijection = [&](std::string why) { return refused(ErrorCode::E217, func, &block, "{}", why); };
  Analyzer analyzer = analyzer_in(func, block);
  IndexMap map;
  std::vector<Expr> shape = extents;
  for (size_t i : used) map.inputs.push_back(what.map ? make_var(block.iters[i].var->name) : block.iters[i].var);
  if (what.map) {
    if (what.map->inputs.size() != block.iters.size())
      return no_bijection(fmt::format("block {} has {} iterators, the map takes {}", block.name, block.iters.size(),
                                      what.map->inputs.size()));
    VarMap renamed;
    for (size_t k = 0; k < used.size(); ++k) renamed[what.map->inputs[used[k]].get()] = map.inputs[k];
    for (const Expr& output : what.map->outputs) {
      map.outputs.push_back(substitute(output, renamed));
      for (const Var& input : what.map->inputs)
        if (uses_var(map.outputs.back(), input.get()))
          return no_bijection(fmt::format("the map uses {}, on which the access does not depend", input->name));
    }
    auto inverse = invert(map, extents, analyzer);
    if (!inverse) return no_bijection(inverse.error().message);
    if (what.write && !is_true(inverse->valid)) return no_bijection("the map pads");
    shape = inverse->physical_shape;
  } else {
    map.outputs.assign(map.inputs.begin(), map.inputs.end());
  }

  for (size_t d = 0; d < indices.size(); ++d)
    if (!analyzer.can_prove(ge(indices[d], 0)) || !analyzer.can_prove(lt(indices[d], buffer->shape[d])))
      return refused(ErrorCode::E103, func, &block, "block {} may reach outside of dimension {} of {}", block.name, d,
                     buffer->name);
  // Of what is read, more than that may be copied; not where a block around it says what it reads.
  if (what.write || scope != &func.root()) {
    const std::vector<BlockSite> sites = block_sites(func);
    if (!covers_domain(func, sites, *find_site(sites, block.name)))
      return refused(ErrorCode::E216, func, &block, "block {} does not reach all of its iterators' domain", block.name);
  }
  if (what.write) {
    std::vector<VarDomain> domains;
    for (size_t i : used) domains.push_back({block.iters[i].var, {0, block.iters[i].extent}});
    const bool all_used = std::ranges::all_of(block.iters, [&](const IterVar& iter) {
      return iter.kind != IterKind::kSpatial || is_one(iter.extent) ||
             std::ranges::any_of(indices, [&](const Expr& e) { return uses_var(e, iter.var.get()); });
    });
    if (!all_used || !detect_affine_map(indices, buffer->shape, domains, nullptr, analyzer).injective)
      return no_bijection(fmt::format("two instances of block {} may write one element", block.name));
  }

  if (is_in_init(*scope, &block))
    return refused(ErrorCode::E215, func, &block, "block {} is part of an init", block.name);
  // The copy stays on the same side of those who use the buffer, and of those who write what its indices are read from.
  std::vector<const BlockNode*> others =
      what.write ? consumers_of(*scope, buffer.get()) : producers_of(*scope, buffer.get());
  for (const Expr& index : indices)
    each_node<LoadNode>(index, [&](const LoadNode& from) {
      std::ranges::copy(producers_of(*scope, from.buffer.get()), std::back_inserter(others));
    });
  const StmtNode* anchor = anchor_of(*scope, &block, others);
  if (!loops_around(func, anchor).empty())
    return refused(ErrorCode::E215, func, &block, "block {} shares a loop with the {} of {}, or of its indices",
                   block.name, what.write ? "readers" : "writers", buffer->name);

  const Buffer fresh = edited(buffer, [&](BufferNode& b) {
    b.name = unique_buffer_name(func, buffer->name + "_" + what.suffix);
    b.shape = shape;
    b.scope = what.scope;
    b.strides.clear();
    b.layout = nullptr;
  });
  auto copy = make_ref<BlockNode>();
  copy->name = unique_block_name(func, buffer->name + "_" + what.suffix);
  VarMap renamed;
  std::vector<Expr> copy_vars, block_vars;
  for (size_t i : used) {
    const IterVar& iter = block.iters[i];
    const Var var = make_var(iter.var->name);
    renamed[iter.var.get()] = var;
    copy->iters.push_back({var, iter.extent, IterKind::kSpatial, nullptr});
    copy_vars.push_back(var);
    block_vars.push_back(iter.var);
  }
  std::vector<Expr> outside = indices;
  for (Expr& index : outside) index = substitute(index, renamed);
  const std::vector<Expr> inside = map.apply(copy_vars);
  copy->reads = {what.write ? point_region(fresh, inside) : point_region(buffer, outside)};
  copy->writes = {what.write ? point_region(buffer, outside) : point_region(fresh, inside)};
  copy->body = what.write ? store(buffer, outside, load(fresh, inside)) : store(fresh, inside, load(buffer, outside));
  // An index may come from memory, too.
  for (const Expr& index : outside)
    each_node<LoadNode>(index, [&](const LoadNode& from) {
      if (!read_region(*copy, from.buffer.get())) copy->reads.push_back(point_region(from.buffer, from.indices));
    });
  const std::string name = copy->name;
  const Stmt nest = fresh_nest(copy);

  const std::vector<Expr> at = map.apply(block_vars);
  Redirector redirect(buffer, indices, fresh, at);
  auto changed = make_ref<BlockNode>(block);
  changed->init = block.init ? redirect.rewrite(block.init) : Stmt();
  changed->body = redirect.rewrite(block.body);
  const bool is_only = loads_of(changed->body, buffer.get()).empty() &&
                       (!changed->init || loads_of(changed->init, buffer.get()).empty());
  for (auto* regions : {&changed->reads, &changed->writes})
    for (Region& region : *regions)
      if (region.buffer == buffer && (is_only || are_equal(begins_of(region.ranges), indices)))
        region = point_region(fresh, at);
  // What only the access's indices needed is read by the copy alone.
  drop_unread(*changed);
  Func result = edit_scope(func, scope->name,
                           what.write ? ScopeEdit{.anchor = anchor, .after = nest, .allocate = {fresh}}
                                      : ScopeEdit{.anchor = anchor, .before = nest, .allocate = {fresh}});
  return Applied{replace_in(result, find_block(result->body, block.name), changed), {name}};
}

}  // namespace fettle
