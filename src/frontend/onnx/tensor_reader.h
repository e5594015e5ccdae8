#pragma once
// TensorProto → ConstantTensor.

#include <memory>
#include <string>

#include "frontend/onnx/model_file.h"
#include "graph/constant.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace fettle::onnx_reader {

/// "float16", for messages.
std::string data_type_name(int data_type);

/// The tensor's content; raw bytes are shared with `owner`, which keeps `tensor` alive, or with the mapped external
/// file. E603 element type · E606 data of the wrong length · E607 external data · E608 too large
Result<ConstantTensor> read_tensor(const onnx::TensorProto& tensor, const std::shared_ptr<const void>& owner,
                                   ExternalFiles& files);

}  // namespace fettle::onnx_reader
