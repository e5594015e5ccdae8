#pragma once
// Boosted trees by XGBoost's C interface: handles that close themselves, and how all models here grow their trees.

#include <xgboost/c_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace fettle {

struct BoosterCloser {
  void operator()(void* handle) const { XGBoosterFree(handle); }
};
struct MatrixCloser {
  void operator()(void* handle) const { XGDMatrixFree(handle); }
};
using Booster = std::unique_ptr<void, BoosterCloser>;
using Matrix = std::unique_ptr<void, MatrixCloser>;

/// Of what a call returned: a failure is a bug.
inline void check_xgboost(int status) { FETTLE_CHECK_MSG(status == 0, XGBGetLastError()); }

/// rows x columns values, row by row.
Matrix make_matrix(const std::vector<float>& values, size_t rows, size_t columns);
/// "label", "weight" or "base_margin" of each row; "group": how many rows each group has.
void set_info(const Matrix& matrix, const char* field, const std::vector<float>& values);
void set_info(const Matrix& matrix, const char* field, const std::vector<unsigned>& values);

/// Trees that are still to be grown on the matrix: by histograms, on one thread, the same each time. `params`: further
/// ones, by XGBoost's names.
Booster make_booster(const Matrix& matrix, uint64_t seed,
                     const std::vector<std::pair<const char*, std::string>>& params);
/// So many trees, by the objective.
void grow(const Booster& booster, const Matrix& matrix, int rounds);
/// What the trees say of each row.
std::vector<float> scores_of(const Booster& booster, const Matrix& matrix);

}  // namespace fettle
