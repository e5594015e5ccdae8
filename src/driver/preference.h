#pragma once
// Whether a model, as a whole, is faster with the untuned defaults than with what is recorded for its tasks.

#include "base/result.h"
#include "database/database.h"
#include "graph/plan/plan.h"
#include "target/target.h"

namespace fettle {

/// What the database says of models with this plan, on this machine. E502, E503.
Result<bool> prefers_untuned(const Plan& plan, Database& database, const Target& target, int threads);
Result<> set_prefers_untuned(const Plan& plan, Database& database, const Target& target, int threads, bool prefers);

}  // namespace fettle
