#pragma once
// Compiled models that are kept in a folder, as libraries: a model is compiled once a machine.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/open.h"

namespace fettle {

/// Beyond this, those that were not used for longest go; FETTLE_CACHE_BYTES says otherwise.
inline constexpr int64_t kDefaultCacheBytes = int64_t{4} << 30;

/// Where they lie: `models` in $FETTLE_CACHE, $XDG_CACHE_HOME/fettle or ~/.cache/fettle. Empty: FETTLE_CACHE is "off",
/// or there is no such place.
std::filesystem::path model_cache_folder();

/// Makes the folder, for its owner alone. E702 it or the one around it is another user's, others may write there, or it
/// cannot be made: what lies there is not to be trusted.
Result<> check_cache_folder(const std::filesystem::path& folder);

/// open_model, of what the folder has, or puts there. A model is known by the content of its file and its external
/// data, the options that it was compiled with, the content of the database, the processor, and this very build. Of two
/// processes that want one model, one compiles it. What is damaged is compiled anew. Where the folder cannot be used,
/// options.warn is told, and the model is compiled as ever. Models are not kept where the program has operators of its
/// own (graph/op_registry.h): their meaning is no content of a file.
/// Errors: those of open_model.
Result<Model> open_cached_model(const ModelSource& source, const OpenOptions& options);

struct CachedModel {
  std::filesystem::path file;
  int64_t bytes = 0;
  int64_t used_s = 0;  // when, in seconds since 1970
};
/// The last used first.
std::vector<CachedModel> cached_models(const std::filesystem::path& folder);
/// Removes all, notes on files included. Returns how many bytes they took.
int64_t clear_model_cache(const std::filesystem::path& folder);

}  // namespace fettle
