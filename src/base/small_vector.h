#pragma once
// SmallVector: a vector whose first few elements need no memory of their own.

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>

#include "base/pool.h"

namespace fettle {

/// As std::vector, of N elements in place. References and iterators end when it grows, and when it is moved.
template <class T, size_t N>
class SmallVector {
 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() {}
  SmallVector(std::initializer_list<T> items) { append(items.begin(), items.end()); }
  template <std::input_iterator It>
  SmallVector(It first, It last) {
    append(first, last);
  }
  SmallVector(const SmallVector& other) { append(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(std::move(other)); }
  ~SmallVector() { reset(); }
  SmallVector& operator=(const SmallVector& other) {
    if (this == &other) return *this;
    clear();
    append(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this == &other) return *this;
    reset();
    take(std::move(other));
    return *this;
  }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(size_t n) {
    if (n > capacity_) grow(n);
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) {
      T item(std::forward<Args>(args)...);  // the arguments may lie in here
      grow(capacity_ * 2);
      return *std::construct_at(data_ + size_++, std::move(item));
    }
    return *std::construct_at(data_ + size_++, std::forward<Args>(args)...);
  }
  void push_back(const T& item) { emplace_back(item); }
  void push_back(T&& item) { emplace_back(std::move(item)); }
  void pop_back() { std::destroy_at(data_ + --size_); }
  template <class It>
  void append(It first, It last) {
    for (; first != last; ++first) emplace_back(*first);
  }
  iterator erase(const_iterator first, const_iterator last) {
    T* const from = data_ + (first - data_);
    T* const rest = std::move(data_ + (last - data_), end(), from);
    std::destroy(rest, end());
    size_ = static_cast<size_t>(rest - data_);
    return from;
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  /// Only towards fewer elements.
  void shrink_to(size_t n) {
    std::destroy(data_ + n, end());
    size_ = n;
  }
  void clear() { shrink_to(0); }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  bool is_inline() const { return data_ == reinterpret_cast<const T*>(inline_); }

  void grow(size_t n) {
    T* fresh = PoolAllocator<T>().allocate(n);
    std::uninitialized_move(begin(), end(), fresh);
    std::destroy(begin(), end());
    if (!is_inline()) PoolAllocator<T>().deallocate(data_, capacity_);
    data_ = fresh;
    capacity_ = n;
  }
  void reset() {
    clear();
    if (is_inline()) return;
    PoolAllocator<T>().deallocate(data_, capacity_);
    data_ = inline_data();
    capacity_ = N;
  }
  // Into an empty one.
  void take(SmallVector&& other) {
    if (other.is_inline()) {
      std::uninitialized_move(other.begin(), other.end(), data_);
      size_ = other.size_;
      other.clear();
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
    }
  }

  T* data_ = inline_data();
  size_t size_ = 0;
  size_t capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

/// As std::erase_if.
template <class T, size_t N, class Predicate>
size_t erase_if(SmallVector<T, N>& items, Predicate predicate) {
  T* const rest = std::remove_if(items.begin(), items.end(), predicate);
  const auto n = static_cast<size_t>(items.end() - rest);
  items.erase(rest, items.end());
  return n;
}

}  // namespace fettle
