#include "target/scaling.h"

namespace fettle {

bool scales_by_powers_of_two(const Target& target) {
  return target.has_feature("avx512f") && target.has_feature("avx512vl") && target.has_feature("avx512dq");
}

}  // namespace fettle
