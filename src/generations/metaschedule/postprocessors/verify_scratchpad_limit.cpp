#include <algorithm>

#include "analysis/verify.h"
#include "generations/metaschedule/postprocessor.h"

namespace fettle {

Postprocessor verify_scratchpad_limit(std::string scope, int64_t capacity_bytes) {
  return {"verify_scratchpad_limit",
          [scope = std::move(scope), capacity_bytes](const TuneContext& context, Schedule& s) -> Result<> {
            Target target = *context.target;
            if (const auto at = std::ranges::find(target.scopes, scope, &MemoryScope::name); at != target.scopes.end())
              at->capacity_bytes = capacity_bytes;
            return verify(s.func(), target, {.races = false});
          }};
}

}  // namespace fettle
