#pragma once
// Loops, conditions and names over integers, gone through when work is issued: of host programs, and of what feeds an
// accelerator.

#include "arith/int_eval.h"
#include "ir/stmt.h"

namespace fettle {

/// Errors: those of the two functions that a walk provides.
class HostWalk {
 public:
  virtual ~HostWalk() = default;

 protected:
  Result<> run(const Stmt& s);
  /// What is neither a sequence, a loop, a condition nor a name: allocations, launches, tasks.
  virtual Result<> leaf(const Stmt& s) = 0;
  virtual Result<int64_t> value(const Expr& e) const = 0;

  IntEnv ints_;
};

}  // namespace fettle
