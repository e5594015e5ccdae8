#pragma once
// A dense row-major array in memory of its own.

#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "rt/model_api.h"

namespace fettle {

/// Number of elements of a shape, or nothing where an extent is negative or the product exceeds 2^40.
std::optional<int64_t> count_elems(std::span<const int64_t> shape);

/// "[1, 3, 48, 320]"
std::string shape_to_string(std::span<const int64_t> shape);

/// Moves, does not copy; see clone(). The data are aligned to 64 bytes.
class Tensor {
 public:
  static constexpr int64_t kAlignment = 64;

  /// An empty f32 tensor of shape [0].
  Tensor() = default;

  /// All elements zero. Errors: E709 a negative extent, more than 2^40 elements, no such dtype · E710 no memory.
  static Result<Tensor> make(FettleDtype dtype, std::vector<int64_t> shape);

  FettleDtype dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t n_elems() const { return n_elems_; }
  int64_t n_bytes() const;
  /// Of the memory that it has: at least n_bytes.
  int64_t capacity_bytes() const { return capacity_bytes_; }

  /// Gives it another shape, which must fit into its memory. Elements stay where they are, one after the other.
  void set_shape(std::vector<int64_t> shape);

  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }

  /// The elements as T, whose size must be that of an element.
  template <class T>
  std::span<T> elems() {
    FETTLE_CHECK(static_cast<int64_t>(sizeof(T)) * n_elems_ == n_bytes());
    return {static_cast<T*>(data()), static_cast<size_t>(n_elems_)};
  }
  template <class T>
  std::span<const T> elems() const {
    FETTLE_CHECK(static_cast<int64_t>(sizeof(T)) * n_elems_ == n_bytes());
    return {static_cast<const T*>(data()), static_cast<size_t>(n_elems_)};
  }

  /// Of FETTLE_STRING, whose elements begin as "": copies what they point to, so that it lives as long as the tensor
  /// and its copies.
  void keep_strings();
  /// Of FETTLE_STRING.
  std::vector<std::string_view> strings() const;
  /// One element a string, with copies of their bytes. Errors: as make.
  static Result<Tensor> of_strings(std::span<const std::string> strings, std::vector<int64_t> shape);

  /// A copy. Errors: E710.
  Result<Tensor> clone() const;

  /// "f32[1, 3, 48, 320]"
  std::string type_to_string() const;

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  FettleDtype dtype_ = FETTLE_F32;
  std::vector<int64_t> shape_{0};
  int64_t n_elems_ = 0;
  int64_t capacity_bytes_ = 0;
  std::unique_ptr<void, Free> data_;
  std::shared_ptr<const std::string> string_bytes_;  // of keep_strings
};

/// A tensor under the name of a model's input or output.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace fettle
