#pragma once
// Memory that a process shares with the children that it forks.

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace fettle {

/// Zeroed, touched, on pages of its own between two that nobody may touch: a kernel that runs past an end crashes.
class SharedBuffer {
 public:
  /// The start lies `stagger_bytes` (a multiple of 64 below 4096) into a page, so that equal indices of two buffers do
  /// not fall into one cache set. E710 where there is no memory.
  static Result<std::shared_ptr<SharedBuffer>> make(int64_t bytes, int64_t stagger_bytes);
  ~SharedBuffer();
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// In this process alone, from now on.
  void forbid_writing() const;

 private:
  SharedBuffer() = default;
  char* mapping_ = nullptr;
  int64_t mapping_bytes_ = 0;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace fettle
