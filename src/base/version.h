#pragma once

namespace fettle {

/// "fettle 0.1.0": the version that CMakeLists.txt gives the project.
const char* name_and_version();

}  // namespace fettle
