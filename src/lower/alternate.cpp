#include "lower/alternate.h"

#include <algorithm>
#include <vector>

#include "analysis/parallel_check.h"
#include "analysis/sites.h"
#include "ir/annotations.h"
#include "ir/rewrite.h"

namespace fettle {

Func with_alternating_loops(const Func& scheduled) {
  const std::vector<BlockSite> sites = block_sites(scheduled);
  ParallelCheck checker(scheduled, sites);
  std::vector<const ForNode*> loops;
  for (const BlockSite& site : sites) {
    if (site.parent >= 0) continue;
    const auto outermost = std::ranges::find_if(site.loops, [](const ForNode* loop) { return !is_one(loop->extent); });
    if (outermost == site.loops.end() || (*outermost)->loop_kind != ForKind::kSerial) continue;
    if (std::ranges::count(loops, *outermost) == 0 && checker.check(**outermost)) loops.push_back(*outermost);
  }
  if (loops.empty()) return scheduled;

  class Annotator : public StmtMutator {
   public:
    explicit Annotator(const std::vector<const ForNode*>& loops) : loops_(loops) {}
    using StmtMutator::rewrite;
    Stmt rewrite(const Stmt& s) override {
      const Stmt made = Mutator::rewrite(s);
      if (std::ranges::count(loops_, s.as<ForNode>()) == 0 || !s.as<ForNode>()) return made;
      return with(*made.as<ForNode>(), [](ForNode& loop) { loop.annotations.set(kAlternatesKey, int64_t{1}); });
    }

   private:
    const std::vector<const ForNode*>& loops_;
  };
  return with_body(scheduled, Annotator(loops).rewrite(scheduled->body));
}

}  // namespace fettle
