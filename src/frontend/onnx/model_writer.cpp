#include "frontend/onnx/model_writer.h"

#include <google/protobuf/stubs/logging.h>

#include <climits>
#include <functional>
#include <memory>
#include <optional>

#include "base/output_file.h"
#include "frontend/onnx/model_file.h"
#include "frontend/onnx/tensor_reader.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

using onnx::GraphProto;
using onnx::TensorProto;
using Edit = std::function<Result<>(TensorProto& tensor)>;

Result<> edit_nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const Edit& edit);

Result<> edit_tensors(GraphProto& graph, const Edit& edit) {
  for (TensorProto& tensor : *graph.mutable_initializer()) FETTLE_TRY_VOID(edit(tensor));
  for (auto& sparse : *graph.mutable_sparse_initializer()) {
    FETTLE_TRY_VOID(edit(*sparse.mutable_values()));
    FETTLE_TRY_VOID(edit(*sparse.mutable_indices()));
  }
  return edit_nodes(*graph.mutable_node(), edit);
}

Result<> edit_nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const Edit& edit) {
  for (auto& node : nodes)
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_t()) FETTLE_TRY_VOID(edit(*a.mutable_t()));
      for (TensorProto& tensor : *a.mutable_tensors()) FETTLE_TRY_VOID(edit(tensor));
      if (a.has_g()) FETTLE_TRY_VOID(edit_tensors(*a.mutable_g(), edit));
      for (GraphProto& body : *a.mutable_graphs()) FETTLE_TRY_VOID(edit_tensors(body, edit));
    }
  return {};
}

/// The tensor with its data in itself.
Result<> take_inside(TensorProto& tensor, onnx_reader::ExternalFiles& from) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return {};
  FETTLE_TRY(const onnx_reader::MappedFile content, onnx_reader::external_bytes(tensor, from));
  tensor.set_raw_data(content.bytes.get(), static_cast<size_t>(content.size_bytes));
  tensor.clear_external_data();
  tensor.clear_data_location();
  return {};
}

Result<> edit_all(onnx::ModelProto& model, const Edit& edit) {
  FETTLE_TRY_VOID(edit_tensors(*model.mutable_graph(), edit));
  for (auto& function : *model.mutable_functions()) FETTLE_TRY_VOID(edit_nodes(*function.mutable_node(), edit));
  return {};
}

/// The file beside the model, filled from the front.
class DataFile {
 public:
  DataFile(OutputFile file, std::string location, const OnnxModel& model)
      : file_(std::move(file)), location_(std::move(location)), from_(model.data) {}

  /// Moves the content of a tensor that is external, or large, into the file.
  Result<> take(TensorProto& tensor) {
    if (tensor.data_location() == TensorProto::EXTERNAL) {
      FETTLE_TRY(const onnx_reader::MappedFile content, onnx_reader::external_bytes(tensor, from_));
      return put(tensor, {reinterpret_cast<const char*>(content.bytes.get()), static_cast<size_t>(content.size_bytes)});
    }
    if (std::ssize(tensor.raw_data()) < kDataFileBytes) return {};
    return put(tensor, std::string(tensor.raw_data()));
  }

  OutputFile& file() { return file_; }

 private:
  Result<> put(TensorProto& tensor, std::string_view content) {
    constexpr int64_t kAlignment = 64;
    const int64_t gap = (kAlignment - size_ % kAlignment) % kAlignment;
    FETTLE_TRY_VOID(file_.write(std::string(static_cast<size_t>(gap), '\0')));
    FETTLE_TRY_VOID(file_.write(content));
    const int64_t offset = size_ + gap, length = std::ssize(content);
    size_ = offset + length;
    tensor.clear_raw_data();
    tensor.clear_external_data();
    tensor.set_data_location(TensorProto::EXTERNAL);
    const auto add = [&](const std::string& key, const std::string& value) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location_);
    add("offset", std::to_string(offset));
    add("length", std::to_string(length));
    return {};
  }

  OutputFile file_;
  std::string location_;
  onnx_reader::ExternalFiles from_;
  int64_t size_ = 0;
};

}  // namespace

Result<std::string> onnx_bytes(const OnnxModel& model) {
  std::string bytes;
  google::protobuf::LogSilencer quiet;
  if (model.proto->ByteSizeLong() > INT_MAX || !model.proto->SerializeToString(&bytes))
    return fail(ErrorCode::E608, "a model above 2 GiB without its external data", model.label);
  return bytes;
}

Result<OnnxModel> self_contained(const OnnxModel& model) {
  auto whole = std::make_shared<onnx::ModelProto>(*model.proto);
  onnx_reader::ExternalFiles from(model.data);
  FETTLE_TRY_VOID(edit_all(*whole, [&](TensorProto& tensor) { return take_inside(tensor, from); }));
  return OnnxModel{std::move(whole), {}, model.label};
}

bool needs_data_file(const OnnxModel& model) {
  auto bytes = static_cast<int64_t>(model.proto->ByteSizeLong());
  for (const auto& [location, content] : model.data.in_memory) bytes += content.size_bytes;
  return bytes > INT_MAX || !external_files(model).empty();
}

Result<> write_onnx(const OnnxModel& model, const std::filesystem::path& path) {
  if (!needs_data_file(model)) {
    FETTLE_TRY(const OnnxModel whole, self_contained(model));
    FETTLE_TRY(const std::string bytes, onnx_bytes(whole));
    return write_file(path, bytes);
  }
  FETTLE_TRY(OutputFile written, OutputFile::create(path));
  const std::filesystem::path beside = path.string() + ".data";
  FETTLE_TRY(OutputFile file, OutputFile::create(beside, {.regular_only = true}));
  DataFile data(std::move(file), beside.filename().string(), model);
  auto moved = std::make_shared<onnx::ModelProto>(*model.proto);
  const Edit take = [&](TensorProto& tensor) { return data.take(tensor); };
  FETTLE_TRY_VOID(edit_all(*moved, take));
  FETTLE_TRY(const std::string bytes, onnx_bytes({moved, {}, path.string()}));
  FETTLE_TRY_VOID(written.write(bytes));
  FETTLE_TRY_VOID(written.close());
  FETTLE_TRY_VOID(data.file().commit());
  return written.commit();
}

}  // namespace fettle
