#include "analysis/sites.h"

namespace fettle {
namespace {

class Collector {
 public:
  explicit Collector(std::vector<BlockSite>& sites) : sites_(sites) {}

  void visit(const Stmt& s) {
    if (!s) return;
    switch (s.kind()) {
      case StmtKind::kFor:
        loops_.push_back(s.as<ForNode>());
        visit(s.as<ForNode>()->body);
        loops_.pop_back();
        return;
      case StmtKind::kSeq:
        for (const Stmt& child : s.as<SeqNode>()->stmts) visit(child);
        return;
      case StmtKind::kIf: {
        const auto* n = s.as<IfNode>();
        const Expr before = condition_;
        condition_ = logical_and(before, n->condition);
        visit(n->then_body);
        if (n->else_body) {
          condition_ = logical_and(before, logical_not(n->condition));
          visit(n->else_body);
        }
        condition_ = before;
        return;
      }
      case StmtKind::kLet:
        return visit(s.as<LetNode>()->body);
      case StmtKind::kAllocate:
        return visit(s.as<AllocateNode>()->body);
      case StmtKind::kWhile:
        return visit(s.as<WhileNode>()->body);
      case StmtKind::kAsync:
        return visit(s.as<AsyncNode>()->body);
      case StmtKind::kBlock: {
        const auto* block = s.as<BlockNode>();
        BlockSite site{block, parent_, loops_, condition_};
        const int index = static_cast<int>(sites_.size());
        sites_.push_back(std::move(site));
        inside(block, index);
        return;
      }
      default:
        return;
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

Expr instance_condition(const BlockSite& site) {
  if (!site.condition) return site.block->predicate;
  return logical_and(site.condition, site.block->predicate);
}

VarMap binding_map(const BlockNode& block) {
  VarMap map;
  for (const IterVar& iter : block.iters) map[iter.var.get()] = iter.binding;
  return map;
}

std::optional<std::vector<Range>> region_at(const BlockSite& site, const Region& region, size_t first,
                                            Analyzer& analyzer) {
  const VarMap map = binding_map(*site.block);
  std::vector<Range> ranges;
  ranges.reserve(region.ranges.size());
  for (const Range& r : region.ranges) ranges.push_back({substitute(r.min, map), substitute(r.extent, map)});
  return ranges_of(ranges, loop_domains(site, first), analyzer);
}

}  // namespace fettle
