#pragma once
// Converts tensors between the caller's order (dense row-major over the logical shape) and a buffer's own layout.

#include <cstdint>
#include <vector>

#include "arith/int_eval.h"
#include "base/hash.h"
#include "base/result.h"
#include "ir/buffer.h"

namespace fettle {

/// How the elements of one buffer lie. Both directions are made once, from the buffer's layout and strides.
///   nchw [1, 60, 14, 14] → nChw16c [1, 4, 14, 14, 16]: channels 60 to 63 are pad lanes, which are zero
class Relayout {
 public:
  /// `ints` gives the integer parameters that shapes use. E301 where an extent has no value; E709 where a shape is
  /// negative or a logical element lies outside the physical shape.
  static Result<Relayout> make(const BufferNode& buffer, const IntEnv& ints = {});

  const std::vector<int64_t>& logical_shape() const { return logical_shape_; }
  const std::vector<int64_t>& physical_shape() const { return physical_shape_; }
  int64_t logical_elems() const { return logical_elems_; }
  /// Elements from the first to the last that the buffer may touch, strides included.
  int64_t physical_elems() const { return physical_elems_; }
  int element_bytes() const { return element_bytes_; }
  /// Both orders are the same.
  bool is_identity() const { return identity_; }
  /// Equal where each logical element lies in the same place of as many.
  Digest digest() const;
  int64_t logical_bytes() const { return logical_elems_ * element_bytes_; }
  int64_t physical_bytes() const { return physical_elems_ * element_bytes_; }

  /// Copies logical_bytes() to physical_bytes(); pad lanes become zero.
  void to_physical(const void* logical, void* physical) const;
  /// Copies back; pad lanes are dropped.
  void to_logical(const void* physical, void* logical) const;

 private:
  template <class T>
  void copy(const void* from, void* to, bool gather) const;
  void copy(const void* from, void* to, bool gather) const;

  std::vector<int64_t> logical_shape_, physical_shape_;
  int64_t logical_elems_ = 1, physical_elems_ = 1;
  int element_bytes_ = 4;
  bool identity_ = false;
  /// How far elements move with one logical index: by steps, unless a table says where each value leads.
  struct Axis {
    int64_t extent = 0, step = 0;
    std::vector<int64_t> table;
    int64_t at(int64_t i) const { return table.empty() ? i * step : table[static_cast<size_t>(i)]; }
    /// Where its table is steps from a first place: drops it, and returns that place.
    int64_t without_table();
  };
  /// Separable maps: offset of (i0, i1, …) = first_ + Σ axes_[d].at(i_d). Else offsets_ has one for each logical
  /// element.
  std::vector<Axis> axes_;
  int64_t first_ = 0;
  std::vector<int64_t> offsets_;
};

}  // namespace fettle
