#pragma once
// Host functions: operators' work that no compiled kernel does. They have a kernel's signature (rt/abi.h), so that a
// model calls them as it calls its kernels, and the compiler calls them where what they are given is known.
//
// buffers: the tensors, first those that are read; dense, row-major. Strings are their numbers, an i64 each.
// ints:    how many tensors there are; of each the FettleDtype, the rank and the extents; then the operator's numbers.

#include <string.h>

#include "rt/abi.h"
#include "rt/text.h"

namespace fettle::rt {

struct HostFunction {
  const char* name;  // of the symbol
  FettleKernel run;
};

/// All of them.
extern const HostFunction kHostFunctions[];
extern const int32_t kHostFunctionCount;
/// Null where there is none of this name.
const HostFunction* find_host_function(const char* name);

struct HostTensor {
  int32_t dtype;
  int32_t rank;
  const int64_t* shape;
  void* data;
  int64_t count;  // of elements

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// What a host function was given.
class HostArguments {
 public:
  HostArguments(void** buffers, const int64_t* ints) : buffers_(buffers), tensors_(ints + 1), numbers_(ints + 1) {
    for (int64_t i = 0; i < ints[0]; ++i) numbers_ += 2 + numbers_[1];
  }

  HostTensor tensor(int32_t i) const {
    const int64_t* at = tensors_;
    for (int32_t k = 0; k < i; ++k) at += 2 + at[1];
    HostTensor made{static_cast<int32_t>(at[0]), static_cast<int32_t>(at[1]), at + 2, buffers_[i], 1};
    for (int32_t d = 0; d < made.rank; ++d) made.count *= made.shape[d];
    return made;
  }
  int32_t count() const { return static_cast<int32_t>(tensors_[-1]); }
  int64_t number(int32_t i) const { return numbers_[i]; }

 private:
  void** buffers_;
  const int64_t *tensors_, *numbers_;
};

/// Working memory of a host function's call, from the context's scratch blocks.
class HostMemory {
 public:
  explicit HostMemory(FettleContext* context) : context_(context) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { fettle_scratch_release(context_, data_); }

  /// At least so much; what it holds stays, what comes is undefined. False where memory ran out.
  bool grow(int64_t bytes) {
    if (bytes <= bytes_) return true;
    constexpr int64_t kLeast = 1024;
    const int64_t wanted = bytes < 2 * bytes_ ? 2 * bytes_ : bytes < kLeast ? kLeast : bytes;
    void* larger = fettle_scratch_acquire(context_, wanted);
    if (larger == nullptr) return false;
    if (bytes_ > 0) memcpy(larger, data_, static_cast<size_t>(bytes_));
    fettle_scratch_release(context_, data_);
    data_ = larger;
    bytes_ = wanted;
    return true;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  FettleContext* context_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Ends a host function's call: it could not do its work. `reason`: a clause that stays where it is, for the error.
int32_t host_failed(FettleContext* context, const char* reason);
/// The same with a text that is kept among the call's strings.
int32_t host_failed(FettleContext* context, const Text& reason);
/// The same, where memory ran out.
int32_t host_out_of_memory(FettleContext* context);

}  // namespace fettle::rt
