#include "schedule/state.h"

#include "base/hash.h"
#include "ir/text.h"

namespace fettle {

std::string show(const Schedule& schedule) { return to_text(schedule.func()) + "\n" + to_text(schedule.trace()); }

uint64_t fork_seed(const Schedule& schedule, uint64_t number) {
  return hash_combine(hash_combine(hash_combine(hash_bytes("fork"), schedule.seed()), schedule.trace().size()), number);
}

Result<Schedule> fork(const Schedule& schedule, const Func& original, uint64_t number) {
  Schedule forked(original, fork_seed(schedule, number));
  if (schedule.target()) forked.set_target(std::make_shared<Target>(*schedule.target()));
  FETTLE_TRY_VOID(replay(forked, as_parsed(schedule.trace())));
  forked.set_address_prefix(schedule.address_prefix());
  return forked;
}

}  // namespace fettle
