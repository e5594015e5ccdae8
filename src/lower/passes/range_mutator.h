#pragma once
// For passes whose conditions and indices depend on what loops count.

#include "arith/analyzer.h"
#include "ir/rewrite.h"

namespace fettle {

/// Rewrites statements while an analyzer knows the loops around them. Overrides call RangeMutator::rewrite(s).
class RangeMutator : public StmtMutator {
 public:
  using StmtMutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop) return Mutator::rewrite(s);
    const auto scope = analyzer_.enter();
    analyzer_.bind(loop->var, loop->min, loop->extent);
    return Mutator::rewrite(s);
  }

 protected:
  RangeMutator() = default;
  explicit RangeMutator(const Func& func) { own_.bind_params(func); }
  /// With an analyzer that knows more than the loops below.
  explicit RangeMutator(Analyzer& analyzer) : analyzer_(analyzer) {}

 private:
  Analyzer own_;

 protected:
  Analyzer& analyzer_ = own_;
};

}  // namespace fettle
