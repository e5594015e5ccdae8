#pragma once
// XGBoost's C interface with handles that close themselves.

#include <xgboost/c_api.h>

#include <cmath>
#include <memory>
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
inline Matrix make_matrix(const std::vector<float>& values, size_t rows, size_t columns) {
  DMatrixHandle handle = nullptr;
  check_xgboost(XGDMatrixCreateFromMat(values.data(), rows, columns, NAN, &handle));
  return Matrix(handle);
}

}  // namespace fettle
