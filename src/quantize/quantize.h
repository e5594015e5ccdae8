#pragma once
// Models of single precision → models whose products take bytes. ONNX to ONNX: what is not touched stays as it was.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "quantize/affine.h"
#include "quantize/observation.h"
#include "quantize/selection.h"

namespace fettle::quantize {

enum class RangeMethod : uint8_t { kMinMax, kPercentile };

struct Options {
  RangeMethod method = RangeMethod::kMinMax;
  double percentile = 99.99;  // of kPercentile: Histogram::percentile
  ByteType activations = ByteType::kU8;
  bool per_channel = true;                // a scale for each output channel of weights, else for each tensor
  std::vector<std::string> exclude = {};  // nodes, by their names or what they make, or operators, that stay float
  bool measures_errors = false;
  OpenOptions open = {};  // of the runs; its shapes are those of the samples
  std::function<void(const std::string&)> progress = {};
};

struct QuantizedValue {
  std::string name;
  LeftNode node;  // that makes it: its operator and name; empty: it is an input
  Range range;
  Affine affine;
  /// 10 log10 of the power of the values over that of the difference, on the samples: infinite where nothing differs.
  std::optional<double> signal_to_noise_db = std::nullopt;
};

struct OutputError {
  std::string name;
  double signal_to_noise_db = 0;
};

struct QuantizedModel {
  OnnxModel model;
  std::vector<QuantizedValue> values;  // in the model's order
  std::vector<OutputError> outputs;    // of measures_errors
  std::vector<LeftNode> left;
  int n_products = 0;  // that compute with bytes now
  int n_weights = 0;   // tensors that became s8
};

/// Runs the model on the samples, takes ranges from what its values are, and writes QuantizeLinear and
/// DequantizeLinear around what is to be bytes.
/// Errors: those of load_model and of running the samples · E609 an opset before that which the scales need · E709
/// there are no samples, a node to exclude is not there, or nothing in the model can become bytes
Result<QuantizedModel> quantize_model(const OnnxModel& model, const Samples& samples, const Options& options);

}  // namespace fettle::quantize
