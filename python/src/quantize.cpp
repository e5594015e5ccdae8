// Models of floats → models of bytes.

#include <cstring>
#include <memory>
#include <optional>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "binding.h"
#include "frontend/onnx/model_writer.h"
#include "model_source.h"
#include "model_types.h"
#include "quantize/quantize.h"

namespace fettle::python {
namespace {

/// Arrays by input: each the name of its type, its shape and the bytes.
std::vector<NamedTensor> tensors_of(nb::dict sample) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, given] : sample) {
    const FettleDtype dtype = model_dtype(nb::cast<std::string>(given[0]));
    Tensor tensor = take(Tensor::make(dtype, nb::cast<std::vector<int64_t>>(given[1])));
    const auto bytes = nb::cast<nb::bytes>(given[2]);
    if (static_cast<int64_t>(bytes.size()) != tensor.n_bytes()) raise(ErrorCode::E705, "not as many bytes as elements");
    if (bytes.size() > 0) std::memcpy(tensor.data(), bytes.c_str(), bytes.size());
    tensors.push_back({nb::cast<std::string>(name), std::move(tensor)});
  }
  return tensors;
}

OnnxModel model_of(const PySource& source) {
  if (const auto* file = std::get_if<ModelFile>(&source.source)) return take(read_onnx(file->path));
  if (const auto* model = std::get_if<OnnxModel>(&source.source)) return *model;
  raise(ErrorCode::E709, "only ONNX models, and graphs of their operators, are quantised");
}

nb::object decibels(std::optional<double> db) {
  if (!db) return nb::none();
  return nb::float_(*db);
}

nb::dict report_of(const quantize::QuantizedModel& made) {
  nb::dict report;
  report["products"] = made.n_products;
  report["weights"] = made.n_weights;
  nb::list values, left;
  for (const quantize::QuantizedValue& value : made.values) {
    nb::dict entry;
    entry["name"] = value.name;
    entry["op"] = value.node.op;
    entry["node"] = value.node.name;
    entry["min"] = value.range.least;
    entry["max"] = value.range.most;
    entry["scale"] = value.affine.scale;
    entry["zero_point"] = value.affine.zero_point;
    entry["signal_to_noise_db"] = decibels(value.signal_to_noise_db);
    values.append(entry);
  }
  for (const quantize::LeftNode& node : made.left) left.append(nb::make_tuple(node.op, node.name, node.reason));
  nb::dict outputs;
  for (const quantize::OutputError& output : made.outputs) outputs[output.name.c_str()] = output.signal_to_noise_db;
  report["values"] = values;
  report["left"] = left;
  report["outputs"] = outputs;
  return report;
}

/// (bytes, or None where it was written to `out`; the report)
nb::tuple quantize_source(const PySource& source, nb::list given, const std::string& out, const std::string& method,
                          double percentile, bool per_channel, const std::string& activations,
                          const std::vector<std::string>& exclude, bool errors, int threads) {
  const auto samples = std::make_shared<std::vector<std::vector<NamedTensor>>>();
  for (const auto& sample : given) samples->push_back(tensors_of(nb::cast<nb::dict>(sample)));
  const OnnxModel model = model_of(source);
  const quantize::Options options{
      .method = method == "percentile" ? quantize::RangeMethod::kPercentile : quantize::RangeMethod::kMinMax,
      .percentile = percentile,
      .activations = activations == "s8" ? quantize::ByteType::kS8 : quantize::ByteType::kU8,
      .per_channel = per_channel,
      .exclude = exclude,
      .measures_errors = errors,
      .open = {.threads = threads}};
  const auto read = [samples](size_t i) -> Result<std::vector<NamedTensor>> {
    std::vector<NamedTensor> copies;
    for (const NamedTensor& input : (*samples)[i]) {
      FETTLE_TRY(Tensor copy, input.tensor.clone());
      copies.push_back({input.name, std::move(copy)});
    }
    return copies;
  };
  std::optional<Result<quantize::QuantizedModel>> made;
  Result<> written;
  {
    const nb::gil_scoped_release release;
    made = quantize::quantize_model(model, {samples->size(), read}, options);
    if (*made && !out.empty()) written = write_onnx((*made)->model, out);
  }
  const quantize::QuantizedModel quantized = take(std::move(*made));
  take(std::move(written));
  nb::object bytes = nb::none();
  if (out.empty()) {
    const std::string text = take(onnx_bytes(take(self_contained(quantized.model))));
    bytes = nb::bytes(text.data(), text.size());
  }
  return nb::make_tuple(bytes, report_of(quantized));
}

}  // namespace

void bind_quantize(nb::module_& m) {
  m.def("_quantize", &quantize_source, nb::arg("source"), nb::arg("samples"), nb::arg("out"), nb::arg("method"),
        nb::arg("percentile"), nb::arg("per_channel"), nb::arg("activations"), nb::arg("exclude"), nb::arg("errors"),
        nb::arg("threads"), "(bytes or None, report): see fettle.quantize.");
}

}  // namespace fettle::python
