#pragma once
// Buffers: arrays in memory, which several of them may share.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "pjrt/array.h"
#include "pjrt/client.h"

namespace fettle::pjrt {

/// Memory with an owner: the allocator, the program that lent it, or another's.
struct Storage {
  std::atomic<int32_t> references{1};
  bool is_own = false;  // the memory lies behind this very struct
  void* data = nullptr;
  PJRT_Event* lent = nullptr;  // of memory that the caller keeps until this event
  void (*on_delete)(void* data, void* user) = nullptr;
  void* on_delete_user = nullptr;
};

Storage* share(Storage* storage);
void release(Storage* storage);

struct ReleaseStorage {
  void operator()(Storage* storage) const { release(storage); }
};
/// A reference.
using StorageRef = std::unique_ptr<Storage, ReleaseStorage>;

/// Aligned to 64 bytes. Null: memory ran out.
StorageRef make_storage(int64_t bytes);
StorageRef lent_storage(void* data, PJRT_Event* until);
StorageRef foreign_storage(void* data, void (*on_delete)(void*, void*), void* user);

}  // namespace fettle::pjrt

struct PJRT_Buffer {
  PJRT_Client* client = nullptr;
  fettle::pjrt::ShapeRef shape;
  fettle::pjrt::Storage* storage = nullptr;     // null: deleted, or donated
  mutable std::atomic_flag changing = {};       // held while `storage` is looked at
  PJRT_Error_Code failed = PJRT_Error_Code_OK;  // that whoever uses it is told
  std::string failure;
  // Those who look at the memory from outside: it stays for them.
  int32_t external_references = 0;
  fettle::pjrt::Storage* external = nullptr;
};

namespace fettle::pjrt {

/// Takes the reference over; none: it has no memory.
PJRT_Buffer* make_buffer(PJRT_Client* client, ShapeRef shape, StorageRef storage);
/// A reference to the memory that it has: an error where it was deleted, or stands for a failure.
PJRT_Error* take_storage(const PJRT_Buffer& buffer, StorageRef& storage);
/// Takes its memory away to be written over, where the caller, with `storage`, and it are all that have it, and it is
/// the allocator's. False: it is left as it is.
bool give_up_storage(PJRT_Buffer& buffer, const Storage& storage);
/// What is left of it has no memory.
void delete_data(PJRT_Buffer& buffer);

void add_buffers(PJRT_Api& api);
void add_transfers(PJRT_Api& api);

}  // namespace fettle::pjrt
