#pragma once
// Against: where the points of two programs part.

#include <filesystem>
#include <string>

#include "base/result.h"
#include "tests/digests/rows.h"

namespace fettle::digests {

/// The first line in which two folders of one row (write_points) differ: of the first point that differs the step,
/// else of its program, else of its lowered code. Empty: they are the same.
std::string first_difference(const std::filesystem::path& here, const std::filesystem::path& there);

/// Has this program and `other`, of another checkout, write the points of the row, and says where they part. Errors:
/// those of write_points · E708 the other program fails
Result<std::string> show_against(const Row& row, const std::filesystem::path& other);

}  // namespace fettle::digests
