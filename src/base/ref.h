#pragma once
// Intrusive references to immutable, shared objects.
//
// Counts are not atomic: a reference, and the tree below it, is confined to one thread. Threads and processes
// exchange text, bytes and decision maps instead.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/pool.h"

namespace fettle {

/// Base of every shared object. The destructor is virtual so that a reference to a base can hold any node.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) {}
  RefCounted& operator=(const RefCounted&) { return *this; }
  virtual ~RefCounted() = default;

  uint32_t use_count() const { return count_; }

  // Nodes are made and dropped by the thousand for each candidate of a search.
  static void* operator new(size_t bytes) { return pool::take(bytes); }
  static void operator delete(void* memory, size_t bytes) { pool::give(memory, bytes); }

 private:
  template <class T>
  friend class Ref;
  mutable uint32_t count_ = 0;
};

/// A counted, nullable reference. Equality is identity.
template <class T>
class Ref {
 public:
  constexpr Ref() = default;
  constexpr Ref(std::nullptr_t) {}
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(const Ref<U>& other) : object_(other.get()) {
    retain();
  }
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U>&& other) noexcept : object_(other.release()) {}
  ~Ref() { drop(); }

  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* release() { return std::exchange(object_, nullptr); }

  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }
  friend bool operator==(const Ref& a, std::nullptr_t) { return a.object_ == nullptr; }

 private:
  void retain() const {
    if (object_) ++object_->count_;
  }
  void drop() {
    if (object_ && --object_->count_ == 0) delete object_;
  }
  T* object_ = nullptr;
};

}  // namespace fettle

/// As FETTLE_VECTORS_FROM_POOL.
template <class T>
struct std::allocator<fettle::Ref<T>> : fettle::PoolAllocator<fettle::Ref<T>> {
  allocator() = default;
  template <class U>
  allocator(const allocator<U>&) {}
};

namespace fettle {

/// Makes a T and returns the first reference to it.
template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new std::remove_const_t<T>(std::forward<Args>(args)...));
}

}  // namespace fettle
