#pragma once
// Constant tensors: shared, immutable bytes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "ir/type.h"
#include "target/host_memory.h"

namespace fettle {

/// A dense row-major array. `bytes` may lie in a mapped file, whose owner `bytes` keeps alive.
struct ConstantTensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::shared_ptr<const std::byte> bytes;
  int64_t size_bytes = 0;

  int64_t n_elems() const;
  const void* data() const { return bytes.get(); }

  /// The elements as T, whose size must be that of an element.
  template <class T>
  std::span<const T> elems() const {
    FETTLE_CHECK(static_cast<int64_t>(sizeof(T)) * n_elems() == size_bytes);
    return {reinterpret_cast<const T*>(bytes.get()), static_cast<size_t>(n_elems())};
  }

  /// Element i as a number (0 <= i < n_elems).
  double at(int64_t i) const;
  /// … of floats truncated and saturated, NaN zero.
  int64_t int_at(int64_t i) const;

  friend bool operator==(const ConstantTensor& a, const ConstantTensor& b);
};

/// The largest constant that is made or read: 16 GiB.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 34;

/// Product of the extents, or E608 where one is negative or the bytes exceed kMaxTensorBytes.
Result<int64_t> checked_bytes(DType dtype, std::span<const int64_t> shape);

/// A writable tensor before it is shared: fill `data`, then move it into a ConstantTensor.
struct TensorBuilder {
  DType dtype;
  std::vector<int64_t> shape;
  std::shared_ptr<std::byte> bytes;  // 64-byte aligned, zero
  int64_t size_bytes = 0;

  template <class T>
  std::span<T> elems() {
    return {reinterpret_cast<T*>(bytes.get()), static_cast<size_t>(size_bytes) / sizeof(T)};
  }
  ConstantTensor finish() && { return {dtype, std::move(shape), std::move(bytes), size_bytes}; }
};
/// E608 too large.
Result<TensorBuilder> make_tensor(DType dtype, std::vector<int64_t> shape);

/// One-dimensional i64, and scalars.
ConstantTensor int_list(std::span<const int64_t> values);
ConstantTensor scalar(double value, DType dtype = kF32);
/// All elements `value`.
Result<ConstantTensor> filled(double value, DType dtype, std::vector<int64_t> shape);
/// One element a value, rounded to `dtype`.
Result<ConstantTensor> to_tensor(std::span<const double> values, DType dtype, std::vector<int64_t> shape);
/// The same bytes under another shape of as many elements.
ConstantTensor reshaped(const ConstantTensor& tensor, std::vector<int64_t> shape);
/// The tensor whose dim k is dim order[k] of `tensor`, dense.
ConstantTensor transposed(const ConstantTensor& tensor, std::span<const int> order);
/// The elements as f64 / i64, for small tensors.
std::vector<double> to_doubles(const ConstantTensor& tensor);
std::vector<int64_t> to_ints(const ConstantTensor& tensor);

/// The element type that ONNX gives this number (TensorProto.DataType), of those that Fettle has.
std::optional<DType> element_type(int64_t onnx_number);
/// The inverse.
int64_t onnx_number(DType dtype);

}  // namespace fettle
