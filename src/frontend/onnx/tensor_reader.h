#pragma once
// TensorProto → ConstantTensor.

#include <memory>
#include <string>

#include "frontend/onnx/model_file.h"
#include "graph/constant.h"

namespace onnx {
class ModelProto;
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace fettle::onnx_reader {

/// "float16", for messages.
std::string data_type_name(int data_type);

/// The tensor's content; raw bytes are shared with `owner`, which keeps `tensor` alive, or with the mapped external
/// file. E603 element type · E606 data of the wrong length · E607 external data · E608 too large
Result<ConstantTensor> read_tensor(const onnx::TensorProto& tensor, const std::shared_ptr<const void>& owner,
                                   ExternalFiles& files);

/// The bytes of a tensor that lie in an external file, as the file has them. E603 · E606 · E607 · E608
Result<MappedFile> external_bytes(const onnx::TensorProto& tensor, ExternalFiles& files);

/// read_tensor of a sparse tensor, which becomes dense: what it does not list is 0. It may have kMaxSparseBytes when
/// it is dense. E603 · E606 indices do not fit its shape or are not in order · E607 · E608
inline constexpr int64_t kMaxSparseBytes = int64_t{1} << 30;
Result<ConstantTensor> read_sparse_tensor(const onnx::SparseTensorProto& tensor,
                                          const std::shared_ptr<const void>& owner, ExternalFiles& files);

}  // namespace fettle::onnx_reader
