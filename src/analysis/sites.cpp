#include "analysis/sites.h"

#include <algorithm>

#include "ir/fields.h"

namespace fettle {
namespace {

class Collector {
 public:
  explicit Collector(std::vector<BlockSite>& sites) : sites_(sites) {}

  void visit(const Stmt& s) {
    if (!s) return;
    if (const auto* loop = s.as<ForNode>()) {
      loops_.push_back(loop);
      visit(loop->body);
      loops_.pop_back();
    } else if (const auto* n = s.as<IfNode>()) {
      const Expr before = condition_;
      condition_ = logical_and(before, n->condition);
      visit(n->then_body);
      condition_ = logical_and(before, logical_not(n->condition));
      visit(n->else_body);
      condition_ = before;
    } else if (const auto* block = s.as<BlockNode>()) {
      sites_.push_back({block, parent_, loops_, condition_});
      inside(block, static_cast<int>(sites_.size()) - 1);
    } else {
      each_child(s, Overloaded{[](const Expr&) {}, [&](const Stmt& child) { visit(child); }});
    }
  }

  void inside(const BlockNode* block, int index) {
    auto loops = std::exchange(loops_, {});
    const Expr condition = std::exchange(condition_, Expr());
    const int parent = std::exchange(parent_, index);
    visit(block->init);
    visit(block->body);
    loops_ = std::move(loops);
    condition_ = condition;
    parent_ = parent;
  }

 private:
  std::vector<BlockSite>& sites_;
  std::vector<const ForNode*> loops_;
  Expr condition_;
  int parent_ = -1;
};

}  // namespace

int BlockSite::depth_of(const ForNode* loop) const {
  for (size_t i = 0; i < loops.size(); ++i)
    if (loops[i] == loop) return static_cast<int>(i);
  return -1;
}

std::vector<BlockSite> block_sites(const Func& func) {
  std::vector<BlockSite> sites;
  sites.reserve(8);
  Collector(sites).inside(&func.root(), -1);
  return sites;
}

const BlockSite* find_site(const std::vector<BlockSite>& sites, std::string_view name) {
  for (const BlockSite& site : sites)
    if (site.block->name == name) return &site;
  return nullptr;
}

bool keeps_order(const BlockNode& block) {
  return std::ranges::any_of(block.iters, [](const IterVar& iter) {
    return (iter.kind == IterKind::kScan || iter.kind == IterKind::kOpaque) && !is_one(iter.extent);
  });
}

std::string name_of(const BlockSite& site) { return "block " + site.block->name; }

std::vector<VarDomain> loop_domains(const BlockSite& site, size_t first) {
  std::vector<VarDomain> domains;
  for (size_t i = first; i < site.loops.size(); ++i)
    domains.push_back({site.loops[i]->var, {site.loops[i]->min, site.loops[i]->extent}});
  return domains;
}

void bind_site(const std::vector<BlockSite>& sites, const BlockSite& site, Analyzer& analyzer) {
  if (site.parent >= 0) {
    const BlockSite& around = sites[static_cast<size_t>(site.parent)];
    bind_site(sites, around, analyzer);
    for (const IterVar& iter : around.block->iters) analyzer.bind(iter.var, 0, iter.extent);
  }
  for (const ForNode* loop : site.loops) analyzer.bind(loop->var, loop->min, loop->extent);
}

Analyzer analyzer_at(const Func& func, const std::vector<BlockSite>& sites, const BlockSite& site) {
  Analyzer analyzer;
  analyzer.bind_params(func);
  bind_site(sites, site, analyzer);
  return analyzer;
}

Analyzer analyzer_in(const Func& func, const BlockNode& block) {
  Analyzer analyzer;
  analyzer.bind_params(func);
  for (const IterVar& iter : block.iters) analyzer.bind(iter.var, 0, iter.extent);
  return analyzer;
}

Expr instance_condition(const BlockSite& site) {
  if (!site.condition) return site.block->predicate;
  return logical_and(site.condition, site.block->predicate);
}

VarMap binding_map(const BlockNode& block) {
  VarMap map;
  for (const IterVar& iter : block.iters) map[iter.var.get()] = iter.binding;
  return map;
}

IterLists iter_lists(const BlockNode& block, bool spatial_only) {
  IterLists lists;
  lists.bindings.reserve(block.iters.size());
  lists.extents.reserve(block.iters.size());
  for (const IterVar& iter : block.iters) {
    if (spatial_only && iter.kind != IterKind::kSpatial) continue;
    lists.bindings.push_back(iter.binding);
    lists.extents.push_back(iter.extent);
  }
  return lists;
}

std::optional<std::vector<Range>> region_at(const BlockSite& site, const Region& region, size_t first,
                                            Analyzer& analyzer) {
  const VarMap map = binding_map(*site.block);
  std::vector<Range> ranges;
  ranges.reserve(region.ranges.size());
  for (const Range& r : region.ranges) ranges.push_back(substitute(r, map));
  return ranges_of(ranges, loop_domains(site, first), analyzer);
}

}  // namespace fettle
