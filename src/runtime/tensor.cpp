#include "runtime/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "runtime/dtype.h"

namespace fettle {
namespace {

constexpr int64_t kMaxElems = int64_t{1} << 40;

}  // namespace

std::optional<int64_t> count_elems(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kMaxElems) return std::nullopt;
    if (extent != 0 && count > kMaxElems / extent) return std::nullopt;
    count *= extent;
  }
  return count;
}

std::string shape_to_string(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<Tensor> Tensor::make(FettleDtype dtype, std::vector<int64_t> shape) {
  const int64_t elem_bytes = dtype_bytes(dtype);
  if (elem_bytes == 0) return fail(ErrorCode::E709, fmt::format("{} is the number of no element type", int{dtype}));
  const std::optional<int64_t> count = count_elems(shape);
  if (!count) {
    return fail(ErrorCode::E709,
                fmt::format("shape {} has a negative extent or more than 2^40 elements", shape_to_string(shape)));
  }
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.n_elems_ = *count;
  tensor.capacity_bytes_ = *count * elem_bytes;
  const auto bytes = static_cast<size_t>(std::max<int64_t>(*count * elem_bytes, 1));
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  tensor.data_.reset(std::aligned_alloc(kAlignment, rounded));
  if (tensor.data_ == nullptr) {
    return fail(ErrorCode::E710, fmt::format("no memory for {} ({} bytes)", tensor.type_to_string(), bytes));
  }
  std::memset(tensor.data_.get(), 0, rounded);
  return tensor;
}

void Tensor::set_shape(std::vector<int64_t> shape) {
  const std::optional<int64_t> count = count_elems(shape);
  FETTLE_CHECK(count && *count * dtype_bytes(dtype_) <= capacity_bytes_);
  shape_ = std::move(shape);
  n_elems_ = *count;
}

int64_t Tensor::n_bytes() const { return n_elems_ * dtype_bytes(dtype_); }

Result<Tensor> Tensor::clone() const {
  FETTLE_TRY(Tensor copy, make(dtype_, shape_));
  if (n_bytes() > 0) std::memcpy(copy.data(), data(), static_cast<size_t>(n_bytes()));
  return copy;
}

std::string Tensor::type_to_string() const { return fmt::format("{}{}", dtype_name(dtype_), shape_to_string(shape_)); }

}  // namespace fettle
