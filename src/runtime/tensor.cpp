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

void Tensor::keep_strings() {
  auto bytes = std::make_shared<std::string>();
  for (const std::string_view text : strings()) *bytes += text;
  const char* at = bytes->data();
  for (FettleString& string : elems<FettleString>()) {
    string.data = at;
    at += string.bytes;
  }
  string_bytes_ = std::move(bytes);
}

std::vector<std::string_view> Tensor::strings() const {
  std::vector<std::string_view> texts;
  for (const FettleString& string : elems<FettleString>())
    texts.emplace_back(string.data, static_cast<size_t>(string.bytes));
  return texts;
}

Result<Tensor> Tensor::of_strings(std::span<const std::string> strings, std::vector<int64_t> shape) {
  FETTLE_TRY(Tensor tensor, make(FETTLE_STRING, std::move(shape)));
  FETTLE_CHECK(tensor.n_elems() == std::ssize(strings));
  for (size_t i = 0; i < strings.size(); ++i)
    tensor.elems<FettleString>()[i] = {strings[i].data(), std::ssize(strings[i])};
  tensor.keep_strings();
  return tensor;
}

Result<Tensor> Tensor::clone() const {
  FETTLE_TRY(Tensor copy, make(dtype_, shape_));
  if (n_bytes() > 0) std::memcpy(copy.data(), data(), static_cast<size_t>(n_bytes()));
  copy.string_bytes_ = string_bytes_;
  return copy;
}

std::string Tensor::type_to_string() const { return fmt::format("{}{}", dtype_name(dtype_), shape_to_string(shape_)); }

}  // namespace fettle
