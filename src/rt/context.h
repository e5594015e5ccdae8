#pragma once
// A context for running kernels by hand: in tests, in measuring, in the interpreter of host programs.

#include "rt/memory.h"
#include "rt/team.h"

namespace fettle::rt {

/// Owns a team and scratch blocks. threads: including the caller; 0: all usable CPUs.
class OwnedContext {
 public:
  explicit OwnedContext(int32_t threads) : OwnedContext(FettleTeamOptions{threads, 0, 0, 0}) {}
  explicit OwnedContext(const FettleTeamOptions& options) {
    context_.team = fettle_team_create(&options);
    context_.scratch = fettle_scratch_create();
  }
  OwnedContext(const OwnedContext&) = delete;
  OwnedContext& operator=(const OwnedContext&) = delete;
  ~OwnedContext() {
    fettle_team_destroy(context_.team);
    fettle_scratch_destroy(context_.scratch);
  }

  FettleContext* get() { return &context_; }
  int32_t threads() const { return fettle_team_size(context_.team); }

 private:
  FettleContext context_{};
};

}  // namespace fettle::rt
