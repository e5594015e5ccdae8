#pragma once
// Memory that is kept from call to call. For rt's own sources.

#include <stdint.h>

namespace fettle::rt {

/// Memory that is kept from call to call and grows where a call needs more; its content is then lost.
struct Block {
  void* data = nullptr;
  int64_t bytes = 0;
  int32_t huge = 0;

  /// False where there is no memory.
  bool reserve(int64_t needed, int32_t huge_pages = 0);
  /// The same, where more will be needed again and again; with what it holds, if it `keeps` that.
  bool grow(int64_t needed, bool keeps, int32_t huge_pages = 0);
  void release();
};

}  // namespace fettle::rt
