#pragma once
// A model with pairs of QuantizeLinear and DequantizeLinear (QDQ) in it.

#include <map>
#include <string>
#include <vector>

#include "quantize/affine.h"
#include "quantize/model_index.h"
#include "quantize/selection.h"

namespace fettle::quantize {

struct RewrittenModel {
  OnnxModel model;
  /// Of each value that became bytes: the float that a DequantizeLinear makes of them.
  std::map<std::string, std::string> dequantized;
};

/// value → QuantizeLinear → bytes → DequantizeLinear → what the nodes of `selection.reads` read in its place. Weights
/// become s8, biases i32 whose scale is that of the product; whatever is not read any more goes. All else stays as it
/// was. `parameters`: of each group of values.
/// Errors: those of reading the weights.
Result<RewrittenModel> rewrite(const ModelIndex& index, const OnnxModel& model, const Selection& selection,
                               const std::map<int, Affine>& parameters, ByteType activations, bool per_channel);

}  // namespace fettle::quantize
