#pragma once
// A compiled model's shared library, loaded and checked, before any of its code runs.

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "rt/model_api.h"

namespace fettle {

/// Loads an artefact and checks that it is one, of this version, for a processor like this. Of several targets it is
/// the best that this machine runs, or the one that is wanted (fettle_pick_target). The library stays loaded as long as
/// the returned pointer or a copy of it lives. Errors: E701 unreadable · E706 no artefact, or of another version · E707
/// this processor lacks a feature, or there is no such target.
Result<std::shared_ptr<const FettleModelInfo>> load_library(const std::filesystem::path& path,
                                                            const std::string& target = {});

}  // namespace fettle
