#pragma once
// Memory of a program's parameters: placed against a page that cannot be touched, filled, and compared.

#include <string>
#include <vector>

#include "arith/int_eval.h"
#include "ir/func.h"

namespace fettle::fuzz {

using Env = IntEnv;

/// Shape, strides and layout of a parameter, with its integer parameters known.
class Place {
 public:
  Place(const BufferNode& buffer, const Env& env);

  const std::vector<int64_t>& logical_shape() const { return logical_; }
  int64_t size_bytes() const { return elements_ * element_bytes_; }
  int element_bytes() const { return element_bytes_; }
  /// Byte offset of the element at these logical indices.
  int64_t offset(const std::vector<int64_t>& logical) const;
  /// Calls fn(byte offset) for each logical element, in row-major order.
  template <class Fn>
  void each(const Fn& fn) const {
    std::vector<int64_t> index(logical_.size(), 0);
    for (const int64_t e : logical_)
      if (e <= 0) return;
    for (;;) {
      fn(offset(index));
      size_t d = index.size();
      while (d > 0 && ++index[d - 1] == logical_[d - 1]) index[--d] = 0;
      if (d == 0) return;
    }
  }

 private:
  Ref<const BufferNode> buffer_;
  Env env_;
  std::vector<int64_t> logical_, shape_, strides_;
  int64_t elements_ = 1;
  int element_bytes_ = 1;
};

/// Bytes that end (or begin) where a page begins (or ends) whose touch is a fault; the other side has a margin that
/// must stay as it is.
class Guarded {
 public:
  Guarded(int64_t size_bytes, bool at_end);
  ~Guarded();
  Guarded(Guarded&& other) noexcept;
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  char* data() const { return data_; }
  int64_t size_bytes() const { return size_; }
  /// False if the margin was written to.
  bool margin_is_whole() const;

 private:
  char* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  char* data_ = nullptr;
  int64_t size_ = 0;
  bool at_end_ = false;
};

/// Values of a parameter's logical elements, in row-major order; what a seed gives, or what a program has left.
struct Values {
  DType type;
  std::vector<char> bytes;
};
/// `nans`: some floats are NaN.
Values random_values(const Param& param, const Place& place, uint64_t seed, int64_t rows_hint, bool nans);
void put(const Values& values, const Place& place, char* memory);
Values taken(DType type, const Place& place, const char* memory);
/// True if all are the same bits; of floats zeros of both signs are equal, and NaNs. Else `where` tells the first
/// difference.
bool same(const Values& a, const Values& b, std::string* where);

}  // namespace fettle::fuzz
