#pragma once
// Memory for kernels under test, between pages that nobody may touch.

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace fettle {

/// Who sees what is written: all processes forked later, or the writing one alone.
enum class Sharing : uint8_t { kShared, kPrivate };

/// Zeroed and touched, between two pages that nobody may touch: a kernel that runs past an end crashes.
/// Private memory of kHugeFromBytes or more lies in huge pages where the system has them, as that of compiled models
/// does: what addresses cost differs by page size. (Shared memory seldom may.)
class GuardedBuffer {
 public:
  static constexpr int64_t kHugeFromBytes = 64 << 10;

  /// The start lies `stagger_bytes` (a multiple of 64 below 4096) into a page, so that equal indices of two buffers do
  /// not fall into one cache set. E710 where there is no memory.
  static Result<std::shared_ptr<GuardedBuffer>> make(int64_t bytes, int64_t stagger_bytes, Sharing sharing);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// That are taken from the system.
  int64_t held_bytes() const { return inner_bytes_; }
  int64_t stagger_bytes() const { return stagger_bytes_; }
  /// In this process alone, from now on.
  void forbid_writing() const;

 private:
  GuardedBuffer() = default;
  char* mapping_ = nullptr;  // all that is mapped
  int64_t mapping_bytes_ = 0;
  char* inner_ = nullptr;  // what may be touched
  int64_t inner_bytes_ = 0;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t stagger_bytes_ = 0;
};

}  // namespace fettle
