// Arrays from the host's memory to buffers, and back.

#include <cstring>

#include "pjrt/buffer.h"
#include "pjrt/entry.h"
#include "pjrt/event.h"

namespace fettle::pjrt {
namespace {

PJRT_Error* out_of_memory(const ArrayShape& shape) {
  return make_error(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                    fmt::format("memory ran out: {} takes {} bytes", shape.to_string(), shape.n_bytes));
}

/// A caller may ask for the order in which Fettle has all arrays.
PJRT_Error* check_layout(const ArrayShape& shape, const PJRT_Buffer_MemoryLayout* layout) {
  if (layout == nullptr) return nullptr;
  const auto strides = strides_of(shape, *layout);
  if (!strides) return make_error(strides.error());
  if (is_dense(shape, strides->data())) return nullptr;
  return make_error(PJRT_Error_Code_UNIMPLEMENTED,
                    fmt::format("an array of type {} in another order than row-major", shape.to_string()));
}

PJRT_Error* from_host(PJRT_Client_BufferFromHostBuffer_Args& args) {
  const auto shape = make_shape(args.type, std::span(args.dims, args.num_dims));
  if (!shape) return make_error(shape.error());
  if (PJRT_Error* wrong = check_layout(**shape, args.device_layout)) return wrong;
  if (args.num_byte_strides != 0 && args.num_byte_strides != args.num_dims)
    return refuse(fmt::format("an array of {} dims has {} strides", args.num_dims, args.num_byte_strides));
  const int64_t* strides = args.num_byte_strides == 0 ? nullptr : args.byte_strides;
  const ElementInfo& element = *find_element(args.type);
  const bool may_share = args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                         args.host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
  const auto alignment = static_cast<uintptr_t>(element.is_complex ? element.bytes / 2 : element.bytes);
  const bool is_aligned = alignment == 0 || reinterpret_cast<uintptr_t>(args.data) % alignment == 0;
  StorageRef storage;
  if (may_share && is_aligned && element.low_bits == 0 && (*shape)->n_bytes > 0 &&
      (strides == nullptr || is_dense(**shape, strides))) {
    PJRT_Event* until = make_event(2);
    storage = lent_storage(const_cast<void*>(args.data), until);
    args.done_with_host_buffer = until;
  } else {
    storage = make_storage((*shape)->n_bytes);
    if (storage == nullptr) return out_of_memory(**shape);
    copy_strided(**shape, storage->data, nullptr, args.data, strides);
    normalize_elements(**shape, storage->data);
    args.done_with_host_buffer = ready_event();
  }
  args.buffer = make_buffer(args.client, *shape, std::move(storage));
  return nullptr;
}

PJRT_Error* view_of_memory(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  const auto shape = make_shape(args.element_type, std::span(args.dims, args.num_dims));
  if (!shape) return make_error(shape.error());
  if (PJRT_Error* wrong = check_layout(**shape, args.layout)) return wrong;
  StorageRef storage = foreign_storage(args.device_buffer_ptr, args.on_delete_callback, args.on_delete_callback_arg);
  args.buffer = make_buffer(args.client, *shape, std::move(storage));
  return nullptr;
}

PJRT_Error* uninitialized(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  const auto shape = make_shape(args.shape_element_type, std::span(args.shape_dims, args.shape_num_dims));
  if (!shape) return make_error(shape.error());
  if (PJRT_Error* wrong = check_layout(**shape, args.shape_layout)) return wrong;
  StorageRef storage = make_storage((*shape)->n_bytes);
  if (storage == nullptr) return out_of_memory(**shape);
  args.buffer = make_buffer(args.client, *shape, std::move(storage));
  return nullptr;
}

PJRT_Error* error_buffer(PJRT_Client_CreateErrorBuffer_Args& args) {
  const auto shape = make_shape(args.shape_element_type, std::span(args.shape_dims, args.shape_num_dims));
  if (!shape) return make_error(shape.error());
  args.buffer = make_buffer(args.client, *shape, nullptr);
  args.buffer->failed = args.error_code;
  args.buffer->failure.assign(args.error_message, args.error_message_size);
  return nullptr;
}

PJRT_Error* to_host(PJRT_Buffer_ToHostBuffer_Args& args) {
  const ArrayShape& shape = *args.src->shape;
  if (args.dst == nullptr) {
    args.dst_size = static_cast<size_t>(shape.n_bytes);
    return nullptr;
  }
  StorageRef source;
  if (PJRT_Error* wrong = take_storage(*args.src, source)) return wrong;
  if (args.dst_size < static_cast<size_t>(shape.n_bytes))
    return refuse(
        fmt::format("{} takes {} bytes, and there is room for {}", shape.to_string(), shape.n_bytes, args.dst_size));
  if (args.host_layout == nullptr) {
    copy_strided(shape, args.dst, nullptr, source->data, nullptr);
  } else {
    const auto strides = strides_of(shape, *args.host_layout);
    if (!strides) return make_error(strides.error());
    copy_strided(shape, args.dst, strides->data(), source->data, nullptr);
  }
  args.event = ready_event();
  return nullptr;
}

PJRT_Error* raw_to_host(PJRT_Buffer_CopyRawToHost_Args& args) {
  StorageRef source;
  if (PJRT_Error* wrong = take_storage(*args.buffer, source)) return wrong;
  const int64_t bytes = args.buffer->shape->n_bytes;
  if (args.offset < 0 || args.transfer_size < 0 || args.offset > bytes || args.transfer_size > bytes - args.offset)
    return refuse(fmt::format("{} bytes from {} on are not all in the {} of {}", args.transfer_size, args.offset, bytes,
                              args.buffer->shape->to_string()));
  std::memcpy(args.dst, static_cast<const char*>(source->data) + args.offset, static_cast<size_t>(args.transfer_size));
  args.event = ready_event();
  return nullptr;
}

PJRT_Error* copy(const PJRT_Buffer& buffer, PJRT_Buffer*& made) {
  StorageRef source;
  if (PJRT_Error* wrong = take_storage(buffer, source)) return wrong;
  StorageRef storage = make_storage(buffer.shape->n_bytes);
  if (storage == nullptr) return out_of_memory(*buffer.shape);
  copy_strided(*buffer.shape, storage->data, nullptr, source->data, nullptr);
  made = make_buffer(buffer.client, buffer.shape, std::move(storage));
  return nullptr;
}

PJRT_Error* copy_to_device(PJRT_Buffer_CopyToDevice_Args& args) { return copy(*args.buffer, args.dst_buffer); }
PJRT_Error* copy_to_memory(PJRT_Buffer_CopyToMemory_Args& args) { return copy(*args.buffer, args.dst_buffer); }

}  // namespace

void add_transfers(PJRT_Api& api) {
  FETTLE_PJRT_ENTRY(api, PJRT_Client_BufferFromHostBuffer, from_host);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_CreateViewOfDeviceBuffer, view_of_memory);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_CreateUninitializedBuffer, uninitialized);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_CreateErrorBuffer, error_buffer);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_ToHostBuffer, to_host);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_CopyRawToHost, raw_to_host);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_CopyToDevice, copy_to_device);
  FETTLE_PJRT_ENTRY(api, PJRT_Buffer_CopyToMemory, copy_to_memory);
}

}  // namespace fettle::pjrt
