#pragma once
// Models → files.

#include <filesystem>
#include <string>

#include "base/result.h"
#include "frontend/onnx/import.h"

namespace fettle {

/// The file's bytes; external data stay where they are. E608 above 2 GiB
Result<std::string> onnx_bytes(const OnnxModel& model);

/// The same with all external data in itself. E607 they cannot be read
Result<OnnxModel> self_contained(const OnnxModel& model);

/// Whether the file needs one beside it: external data lie in files, or all together is larger than a file can be.
bool needs_data_file(const OnnxModel& model);

/// Writes the model, and where needs_data_file says so PATH.data beside it, which then has all raw tensors of
/// kDataFileBytes and more. Both or, on an error, none.
/// Errors: E607 external data cannot be read · E608 above 2 GiB without what the data file has · E702
inline constexpr int64_t kDataFileBytes = 1024;
Result<> write_onnx(const OnnxModel& model, const std::filesystem::path& path);

}  // namespace fettle
