#include "base/version.h"

namespace fettle {

const char* name_and_version() { return "fettle " FETTLE_VERSION; }

}  // namespace fettle
