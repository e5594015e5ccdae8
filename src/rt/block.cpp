#include "rt/block.h"

#include <string.h>

#include "rt/device.h"
#include "rt/memory.h"

namespace fettle::rt {

bool Block::reserve(int64_t needed, int32_t huge_pages) {
  if (needed < 0) return false;
  if (data != nullptr && needed <= bytes) return true;
  release();
  data = queue == nullptr ? fettle_pages_alloc(needed, huge_pages)
                          : queue->device->driver->allocate(queue->device->handle, needed);
  if (data == nullptr) return false;
  bytes = needed;
  huge = huge_pages;
  return true;
}

bool Block::grow(int64_t needed, bool keeps, int32_t huge_pages) {
  if (data == nullptr || needed <= bytes) return reserve(needed, huge_pages);
  const int64_t most = bytes + bytes / 2;
  Block larger;
  larger.queue = queue;
  if (!larger.reserve(needed < most ? most : needed, huge_pages)) return false;
  if (keeps && queue != nullptr) {
    if (queue->copy(CopyKind::kWithin, larger.data, data, bytes) != FETTLE_OK || queue->wait() != FETTLE_OK) {
      larger.release();
      return false;
    }
  } else if (keeps) {
    memcpy(larger.data, data, static_cast<size_t>(bytes));
  }
  release();
  *this = larger;
  return true;
}

void Block::release() {
  if (queue == nullptr)
    fettle_pages_free(data, bytes, huge);
  else if (data != nullptr)
    queue->device->driver->free(queue->device->handle, data);
  data = nullptr;
  bytes = 0;
}

}  // namespace fettle::rt
