#include "remote/distance.h"

namespace fettle {

Result<> check_distance(double seconds) {
  if (seconds > 1) return fail(ErrorCode::E806, "a message takes more than a second");
  return {};
}

}  // namespace fettle
