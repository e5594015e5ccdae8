#include "cost/learned/boosting.h"

#include <fmt/format.h>

#include <cmath>

namespace fettle {

Matrix make_matrix(const std::vector<float>& values, size_t rows, size_t columns) {
  DMatrixHandle handle = nullptr;
  check_xgboost(XGDMatrixCreateFromMat(values.data(), rows, columns, NAN, &handle));
  return Matrix(handle);
}

void set_info(const Matrix& matrix, const char* field, const std::vector<float>& values) {
  check_xgboost(XGDMatrixSetFloatInfo(matrix.get(), field, values.data(), values.size()));
}

void set_info(const Matrix& matrix, const char* field, const std::vector<unsigned>& values) {
  check_xgboost(XGDMatrixSetUIntInfo(matrix.get(), field, values.data(), values.size()));
}

Booster make_booster(const Matrix& matrix, uint64_t seed,
                     const std::vector<std::pair<const char*, std::string>>& params) {
  BoosterHandle handle = nullptr;
  const DMatrixHandle cached[] = {matrix.get()};
  check_xgboost(XGBoosterCreate(cached, 1, &handle));
  Booster booster(handle);
  std::vector<std::pair<const char*, std::string>> all = {{"tree_method", "hist"},
                                                          {"lambda", "1"},
                                                          {"nthread", "1"},
                                                          {"verbosity", "0"},
                                                          {"seed", fmt::format("{}", seed & 0x7fffffff)}};
  all.insert(all.end(), params.begin(), params.end());
  for (const auto& [name, value] : all) check_xgboost(XGBoosterSetParam(booster.get(), name, value.c_str()));
  return booster;
}

void grow(const Booster& booster, const Matrix& matrix, int rounds) {
  for (int round = 0; round < rounds; ++round)
    check_xgboost(XGBoosterUpdateOneIter(booster.get(), round, matrix.get()));
}

std::vector<float> scores_of(const Booster& booster, const Matrix& matrix) {
  bst_ulong n = 0;
  const float* scores = nullptr;
  check_xgboost(XGBoosterPredict(booster.get(), matrix.get(), 1, 0, 0, &n, &scores));
  return {scores, scores + n};
}

}  // namespace fettle
