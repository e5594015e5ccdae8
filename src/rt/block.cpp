#include "rt/block.h"

#include <string.h>

#include "rt/memory.h"

namespace fettle::rt {

bool Block::reserve(int64_t needed, int32_t huge_pages) {
  if (needed < 0) return false;
  if (data != nullptr && needed <= bytes) return true;
  release();
  data = fettle_pages_alloc(needed, huge_pages);
  if (data == nullptr) return false;
  bytes = needed;
  huge = huge_pages;
  return true;
}

bool Block::grow(int64_t needed, bool keeps, int32_t huge_pages) {
  if (data == nullptr || needed <= bytes) return reserve(needed, huge_pages);
  const int64_t most = bytes + bytes / 2;
  Block larger;
  if (!larger.reserve(needed < most ? most : needed, huge_pages)) return false;
  if (keeps) memcpy(larger.data, data, static_cast<size_t>(bytes));
  release();
  *this = larger;
  return true;
}

void Block::release() {
  fettle_pages_free(data, bytes, huge);
  *this = {};
}

}  // namespace fettle::rt
