#pragma once
// The table of models (benchmarks/models.json): which there are, their files and shapes, and what fills their inputs.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/load.h"
#include "runtime/model.h"

namespace fettle::bench {

struct TableInput {
  std::string name;
  std::vector<int64_t> shape;
  std::string fill;   // "image", "page", "ids" or "ones", as the table explains
  int64_t below = 0;  // of ids
};

struct TableModel {
  std::string name;        // "resnet50"
  std::string what;        // "ResNet-50 v1.5"
  std::string file;        // full path
  std::string open_file;   // the same with open sizes; the file itself where its sizes are open
  std::string small_file;  // the same with fewer layers, for tests; the file itself where it is small
  std::vector<TableInput> inputs;

  InputShapes shapes() const;
};

/// Every model of one list, in the table's order. list: "models", or "more" for those that benchmarks run when asked.
/// Errors: E701, E703 the table cannot be read.
Result<std::vector<TableModel>> read_model_table(const std::string& list = "models");

/// Tensors for the inputs of `model`, in its order, filled as the table says; the same for the same seed. Errors: E704
/// an input that the table does not know.
Result<std::vector<NamedTensor>> table_inputs(const TableModel& entry, const Model& model, uint64_t seed);

}  // namespace fettle::bench
