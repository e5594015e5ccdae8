// Of ai.onnx.ml: Binarizer, ArrayFeatureExtractor.

#include <cmath>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;

// 1 where x is above the threshold, else 0
Result<std::vector<Value*>> binarizer(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"threshold"}));
  const DType dtype = dtype_of(node, 0);
  if (!dtype.is_float() && dtype != kI32 && dtype != kI64)
    return bad_types(node, "its input is of " + dtype.to_string());
  // A whole number is above it where it is above the next whole number below.
  const double threshold = node.attrs.get_float("threshold", 0);
  Value* limit = g.number(dtype.is_int() ? std::floor(threshold) : threshold, dtype);
  return std::vector{g.cast(g("Greater", {node.inputs[0], limit}), dtype)};
}

// (x, indices): x[…, indices]; a list gives one row
Result<std::vector<Value*>> feature_extractor(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  Value* indices = g.reshape(node.inputs[1], {element_count(shape_of(node, 1))});
  Value* y = g("Gather", {node.inputs[0], indices}, {{{"axis", int64_t{-1}}}});
  return std::vector{rank_of(node, 0) == 1 ? g.unsqueeze(y, {0}) : y};
}

constexpr OpDef defs[] = {
    composite<binarizer>("ai.onnx.ml.Binarizer", 1),
    composite<feature_extractor>("ai.onnx.ml.ArrayFeatureExtractor", 2),
};

}  // namespace

extern constinit const OpFamily ml_ops{"ml", defs};

}  // namespace fettle
