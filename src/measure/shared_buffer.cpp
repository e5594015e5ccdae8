#include "measure/shared_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace fettle {

constexpr int64_t kPage = 4096;

Result<std::shared_ptr<SharedBuffer>> SharedBuffer::make(int64_t bytes, int64_t stagger_bytes) {
  std::shared_ptr<SharedBuffer> buffer(new SharedBuffer);
  const int64_t inner = (stagger_bytes + std::max<int64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  buffer->mapping_bytes_ = inner + 2 * kPage;
  void* mapping =
      ::mmap(nullptr, static_cast<size_t>(buffer->mapping_bytes_), PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    buffer->mapping_bytes_ = 0;
    return fail(ErrorCode::E710, fmt::format("no memory for a buffer of {} MiB", bytes >> 20));
  }
  buffer->mapping_ = static_cast<char*>(mapping);
  if (::mprotect(buffer->mapping_ + kPage, static_cast<size_t>(inner), PROT_READ | PROT_WRITE) != 0)
    return fail(ErrorCode::E710, fmt::format("no memory for a buffer of {} MiB", bytes >> 20));
  buffer->data_ = buffer->mapping_ + kPage + stagger_bytes;
  buffer->bytes_ = bytes;
  std::memset(buffer->mapping_ + kPage, 0, static_cast<size_t>(inner));
  return buffer;
}

SharedBuffer::~SharedBuffer() {
  if (mapping_bytes_ > 0) ::munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

void SharedBuffer::forbid_writing() const {
  ::mprotect(mapping_ + kPage, static_cast<size_t>(mapping_bytes_ - 2 * kPage), PROT_READ);
}

}  // namespace fettle
