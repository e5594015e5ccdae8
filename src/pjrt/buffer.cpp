#include "pjrt/buffer.h"

#include <cstdlib>
#include <utility>

#include "pjrt/entry.h"
#include "pjrt/event.h"

namespace fettle::pjrt {
namespace {

constexpr size_t kAlignment = 64;

/// Held for a few instructions.
class Change {
 public:
  explicit Change(const PJRT_Buffer& buffer) : flag_(buffer.changing) {
    while (flag_.test_and_set(std::memory_order_acquire)) flag_.wait(true, std::memory_order_relaxed);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  ~Change() {
    flag_.clear(std::memory_order_release);
    flag_.notify_one();
  }

 private:
  std::atomic_flag& flag_;
};

/// Where its memory lies.
PJRT_Error* address_of(const PJRT_Buffer& buffer, void*& data) {
  StorageRef storage;
  if (PJRT_Error* wrong = take_storage(buffer, storage)) return wrong;
  data = storage->data;
  return nullptr;
}

PJRT_Error* destroy(PJRT_Buffer_Destroy_Args& args) {
  if (args.buffer == nullptr) return nullptr;
  delete_data(*args.buffer);
  if (args.buffer->external != nullptr) release(args.buffer->external);
  delete args.buffer;
  return nullptr;
}

PJRT_Error* element_type(PJRT_Buffer_ElementType_Args& args) {
  args.type = args.buffer->shape->type;
  return nullptr;
}

PJRT_Error* dimensions(PJRT_Buffer_Dimensions_Args& args) {
  args.dims = args.buffer->shape->dims.data();
  args.num_dims = args.buffer->shape->dims.size();
  return nullptr;
}

PJRT_Error* unpadded_dimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
  args.unpadded_dims = args.buffer->shape->dims.data();
  args.num_dims = args.buffer->shape->dims.size();
  return nullptr;
}

PJRT_Error* dynamic_dimensions(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
  return nullptr;
}

PJRT_Error* memory_layout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args.layout.tiled = {};
  args.layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  args.layout.tiled.minor_to_major = args.buffer->shape->minor_to_major.data();
  args.layout.tiled.minor_to_major_size = args.buffer->shape->minor_to_major.size();
  return nullptr;
}

PJRT_Error* size_in_bytes(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
  args.on_device_size_in_bytes = static_cast<size_t>(args.buffer->shape->n_bytes);
  return nullptr;
}

PJRT_Error* device(PJRT_Buffer_Device_Args& args) {
  args.device = &args.buffer->client->device;
  return nullptr;
}

PJRT_Error* memory(PJRT_Buffer_Memory_Args& args) {
  args.memory = &args.buffer->client->memory;
  return nullptr;
}

PJRT_Error* delete_buffer(PJRT_Buffer_Delete_Args& args) {
  delete_data(*args.buffer);
  return nullptr;
}

PJRT_Error* is_deleted(PJRT_Buffer_IsDeleted_Args& args) {
  const Change change(*args.buffer);
  args.is_deleted = args.buffer->storage == nullptr && args.buffer->failed == PJRT_Error_Code_OK;
  return nullptr;
}

PJRT_Error* is_on_cpu(PJRT_Buffer_IsOnCpu_Args& args) {
  args.is_on_cpu = true;
  return nullptr;
}

PJRT_Error* ready(PJRT_Buffer_ReadyEvent_Args& args) {
  args.event = ready_event();
  if (args.buffer->failed != PJRT_Error_Code_OK) {
    args.event = make_event(1);
    set_event(*args.event, args.buffer->failed, args.buffer->failure);
  }
  return nullptr;
}

PJRT_Error* unsafe_pointer(PJRT_Buffer_UnsafePointer_Args& args) {
  void* data = nullptr;
  PJRT_Error* wrong = address_of(*args.buffer, data);
  args.buffer_pointer = reinterpret_cast<uintptr_t>(data);
  return wrong;
}

PJRT_Error* opaque_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  return address_of(*args.buffer, args.device_memory_ptr);
}

PJRT_Error* add_reference(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  PJRT_Buffer& buffer = *args.buffer;
  StorageRef storage;
  if (PJRT_Error* wrong = take_storage(buffer, storage)) return wrong;
  const Change change(buffer);
  if (buffer.external_references++ == 0) buffer.external = storage.release();
  return nullptr;
}

PJRT_Error* drop_reference(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  PJRT_Buffer& buffer = *args.buffer;
  StorageRef last;
  const Change change(buffer);
  if (buffer.external_references <= 0)
    return make_error(PJRT_Error_Code_FAILED_PRECONDITION, "the buffer has no external references");
  if (--buffer.external_references == 0) last.reset(std::exchange(buffer.external, nullptr));
  return nullptr;
}

}  // namespace

StorageRef make_storage(int64_t bytes) {
  // One block: what is known of the memory lies before it.
  static_assert(sizeof(Storage) <= kAlignment);
  const size_t size = (static_cast<size_t>(bytes) + 2 * kAlignment - 1) / kAlignment * kAlignment;
  void* block = std::aligned_alloc(kAlignment, size);
  if (block == nullptr) return nullptr;
  auto* storage = new (block) Storage;
  storage->is_own = true;
  storage->data = static_cast<char*>(block) + kAlignment;
  return StorageRef(storage);
}

StorageRef lent_storage(void* data, PJRT_Event* until) {
  StorageRef storage(new Storage);
  storage->data = data;
  storage->lent = until;
  return storage;
}

StorageRef foreign_storage(void* data, void (*on_delete)(void*, void*), void* user) {
  StorageRef storage(new Storage);
  storage->data = data;
  storage->on_delete = on_delete;
  storage->on_delete_user = user;
  return storage;
}

Storage* share(Storage* storage) {
  storage->references.fetch_add(1, std::memory_order_relaxed);
  return storage;
}

void release(Storage* storage) {
  if (storage->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (storage->is_own) {
    std::free(storage);
    return;
  }
  if (storage->lent != nullptr) {
    set_event(*storage->lent);
    release_event(storage->lent);
  }
  if (storage->on_delete != nullptr) storage->on_delete(storage->data, storage->on_delete_user);
  delete storage;
}

PJRT_Buffer* make_buffer(PJRT_Client* client, ShapeRef shape, StorageRef storage) {
  auto* buffer = new PJRT_Buffer;
  buffer->client = client;
  buffer->shape = std::move(shape);
  buffer->storage = storage.release();
  return buffer;
}

PJRT_Error* take_storage(const PJRT_Buffer& buffer, StorageRef& storage) {
  if (buffer.failed != PJRT_Error_Code_OK) return make_error(buffer.failed, buffer.failure);
  {
    const Change change(buffer);
    if (buffer.storage != nullptr) storage.reset(share(buffer.storage));
  }
  if (storage != nullptr) return nullptr;
  return refuse(fmt::format("an array of type {} was deleted, or donated to a program", buffer.shape->to_string()));
}

bool give_up_storage(PJRT_Buffer& buffer, const Storage& storage) {
  StorageRef last;
  const Change change(buffer);
  constexpr int32_t kBoth = 2;
  if (buffer.storage != &storage || !storage.is_own || storage.references.load(std::memory_order_acquire) != kBoth)
    return false;
  last.reset(std::exchange(buffer.storage, nullptr));
  return true;
}

void delete_data(PJRT_Buffer& buffer) {
  StorageRef last;
  const Change change(buffer);
  last.reset(std::exchange(buffer.storage, nullptr));
}

void add_buffers(PJRT_Api& api) {
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_Destroy, destroy);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_ElementType, element_type);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_Dimensions, dimensions);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_UnpaddedDimensions, unpadded_dimensions);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_DynamicDimensionIndices, dynamic_dimensions);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_GetMemoryLayout, memory_layout);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_OnDeviceSizeInBytes, size_in_bytes);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_Device, device);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_Memory, memory);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_Delete, delete_buffer);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_IsDeleted, is_deleted);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_IsOnCpu, is_on_cpu);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_ReadyEvent, ready);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_UnsafePointer, unsafe_pointer);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, opaque_pointer);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_IncreaseExternalReferenceCount, add_reference);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_DecreaseExternalReferenceCount, drop_reference);
}

}  // namespace fettle::pjrt
