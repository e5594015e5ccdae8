#pragma once
// Memory that is kept from call to call. For rt's own sources.

#include <stdint.h>

struct FettleQueue;

namespace fettle::rt {

/// Memory that is kept from call to call and grows where a call needs more; its content is then lost.
struct Block {
  void* data = nullptr;
  int64_t bytes = 0;
  int32_t huge = 0;
  FettleQueue* queue = nullptr;  // whose device's memory it is; null: the host's

  /// False where there is no memory.
  bool reserve(int64_t needed, int32_t huge_pages = 0);
  /// The same, where more will be needed again and again; with what it holds, if it `keeps` that.
  bool grow(int64_t needed, bool keeps, int32_t huge_pages = 0);
  void release();
  bool holds(const void* at) const { return at >= data && at < static_cast<const char*>(data) + bytes; }
};

}  // namespace fettle::rt
