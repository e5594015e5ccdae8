// The table of all functions.

#include "pjrt/api.h"

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/entry.h"
#include "pjrt/event.h"
#include "pjrt/program.h"

namespace fettle::pjrt {
namespace {

// JAX serialises programs as this version of StableHLO has them, so that what it may send does not change with it.
constexpr int64_t kNewestStablehlo[] = {1, 0, 0};
constexpr int64_t kOldestStablehlo[] = {0, 9, 0};

PJRT_NamedValue version(std::string_view name, const int64_t (&numbers)[3]) {
  PJRT_NamedValue made{};
  made.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  made.name = name.data();
  made.name_size = name.size();
  made.type = PJRT_NamedValue_kInt64List;
  made.int64_array_value = numbers;
  made.value_size = 3;
  return made;
}

PJRT_Error* initialize(PJRT_Plugin_Initialize_Args& args) {
  (void)args;
  return nullptr;
}

PJRT_Error* attributes(PJRT_Plugin_Attributes_Args& args) {
  static const PJRT_NamedValue values[] = {version("stablehlo_current_version", kNewestStablehlo),
                                           version("stablehlo_minimum_version", kOldestStablehlo)};
  args.attributes = values;
  args.num_attributes = std::size(values);
  return nullptr;
}

/// FETTLE_PJRT_MISSING(api, PJRT_Client_DmaMap): the slot says that it is not there.
#define FETTLE_PJRT_MISSING(api, name)                                                       \
  (api).name = [](name##_Args*) -> PJRT_Error* {                                             \
    return make_error(PJRT_Error_Code_UNIMPLEMENTED, #name " is not implemented by Fettle"); \
  }

void add_missing(PJRT_Api& api) {
  FETTLE_PJRT_MISSING(api, PJRT_Device_MemoryStats);
  FETTLE_PJRT_MISSING(api, PJRT_CopyToDeviceStream_Destroy);
  FETTLE_PJRT_MISSING(api, PJRT_CopyToDeviceStream_AddChunk);
  FETTLE_PJRT_MISSING(api, PJRT_CopyToDeviceStream_TotalBytes);
  FETTLE_PJRT_MISSING(api, PJRT_CopyToDeviceStream_GranuleSize);
  FETTLE_PJRT_MISSING(api, PJRT_CopyToDeviceStream_CurrentBytes);
  FETTLE_PJRT_MISSING(api, PJRT_TopologyDescription_Create);
  FETTLE_PJRT_MISSING(api, PJRT_TopologyDescription_Destroy);
  FETTLE_PJRT_MISSING(api, PJRT_Compile);
  FETTLE_PJRT_MISSING(api, PJRT_ExecuteContext_Create);
  FETTLE_PJRT_MISSING(api, PJRT_ExecuteContext_Destroy);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_Destroy);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_TransferData);
  FETTLE_PJRT_MISSING(api, PJRT_Client_CreateBuffersForAsyncHostToDevice);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_Device);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_BufferCount);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_BufferSize);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_SetBufferError);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_AddMetadata);
  FETTLE_PJRT_MISSING(api, PJRT_Client_DmaMap);
  FETTLE_PJRT_MISSING(api, PJRT_Client_DmaUnmap);
  FETTLE_PJRT_MISSING(api, PJRT_Client_UpdateGlobalProcessInfo);
  FETTLE_PJRT_MISSING(api, PJRT_TopologyDescription_Deserialize);
  FETTLE_PJRT_MISSING(api, PJRT_Client_CreateAliasBuffer);
  FETTLE_PJRT_MISSING(api, PJRT_Client_FulfillAliasBuffer);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  FETTLE_PJRT_MISSING(api, PJRT_Buffer_CopyRawToHostFuture);
  FETTLE_PJRT_MISSING(api, PJRT_Device_PoisonExecution);
  FETTLE_PJRT_MISSING(api, PJRT_Device_CreateAsyncTrackingEvent);
  FETTLE_PJRT_MISSING(api, PJRT_AsyncTrackingEvent_Destroy);
  FETTLE_PJRT_MISSING(api, PJRT_Buffer_DonateWithControlDependency);
}

PJRT_Api make_api() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  FETTLE_PJRT_ENTRY(api, PJRT_Plugin_Initialize, initialize);
  FETTLE_PJRT_ENTRY(api, PJRT_Plugin_Attributes, attributes);
  add_errors(api);
  add_events(api);
  add_clients(api);
  add_topologies(api);
  add_buffers(api);
  add_transfers(api);
  add_compilation(api);
  add_executables(api);
  add_execution(api);
  add_missing(api);
  return api;
}

}  // namespace

const PJRT_Api* pjrt_api() {
  static const PJRT_Api api = make_api();
  return &api;
}

}  // namespace fettle::pjrt
