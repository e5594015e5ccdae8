#include "measure/guarded_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace fettle {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;

int64_t rounded_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Result<std::shared_ptr<GuardedBuffer>> GuardedBuffer::make(int64_t bytes, int64_t stagger_bytes, Sharing sharing) {
  std::shared_ptr<GuardedBuffer> buffer(new GuardedBuffer);
  const bool huge = sharing == Sharing::kPrivate && bytes >= kHugeFromBytes;
  const int64_t used = rounded_up(stagger_bytes + std::max<int64_t>(bytes, 1), kPage);
  const int64_t unit = huge ? kHugePage : kPage;
  const int64_t inner = rounded_up(used, unit);
  const int64_t mapped = inner + unit + kPage;  // a guard, and up to a unit for alignment, before it; a guard behind it
  const int flags = MAP_ANONYMOUS | MAP_NORESERVE | (sharing == Sharing::kShared ? MAP_SHARED : MAP_PRIVATE);
  void* mapping = ::mmap(nullptr, static_cast<size_t>(mapped), PROT_NONE, flags, -1, 0);
  if (mapping == MAP_FAILED) return fail(ErrorCode::E710, fmt::format("no memory for a buffer of {} MiB", bytes >> 20));
  buffer->mapping_ = static_cast<char*>(mapping);
  buffer->mapping_bytes_ = mapped;
  const auto address = reinterpret_cast<int64_t>(mapping);
  buffer->inner_ = buffer->mapping_ + (rounded_up(address + kPage, unit) - address);
  buffer->inner_bytes_ = inner;
  if (::mprotect(buffer->inner_, static_cast<size_t>(inner), PROT_READ | PROT_WRITE) != 0)
    return fail(ErrorCode::E710, fmt::format("no memory for a buffer of {} MiB", bytes >> 20));
  if (huge) ::madvise(buffer->inner_, static_cast<size_t>(inner), MADV_HUGEPAGE);
  buffer->data_ = buffer->inner_ + (inner - used) + stagger_bytes;  // at the end: the guard follows within a page
  buffer->bytes_ = bytes;
  buffer->stagger_bytes_ = stagger_bytes;
  std::memset(buffer->inner_ + (inner - used), 0, static_cast<size_t>(used));
  return buffer;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_bytes_ > 0) ::munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

void GuardedBuffer::forbid_writing() const { ::mprotect(inner_, static_cast<size_t>(inner_bytes_), PROT_READ); }

}  // namespace fettle
