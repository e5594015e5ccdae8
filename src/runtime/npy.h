#pragma once
// NumPy's .npy files, versions 1.0 to 3.0 (numpy.lib.format), little-endian and C-ordered. A bf16 array is written as
// '<V2', which is how NumPy with ml_dtypes does it.

#include <filesystem>

#include "runtime/tensor.h"

namespace fettle {

/// Reads one array. What the header claims is compared with the file's size before anything is allocated.
/// Errors: E701 unreadable · E703 no .npy file, truncated, Fortran-ordered, big-endian, or of an unsupported type ·
/// E710 no memory.
Result<Tensor> read_npy(const std::filesystem::path& path);

/// Writes version 1.0, whole or not at all (base/output_file.h). Errors: E702.
Result<> write_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace fettle
