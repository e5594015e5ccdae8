#include "pjrt/client.h"

#include <memory>
#include <string_view>

#include "base/version.h"
#include "codegen/object_cache.h"
#include "pjrt/entry.h"
#include "rt/team.h"
#include "target/target.h"

namespace fettle::pjrt {
namespace {

constexpr const char* kDeviceText = "FettleDevice(id=0)";
constexpr const char* kMemoryText = "FettleMemory(device)";

template <class Args>
void tell(Args& args, const char* Args::* text, size_t Args::* size, std::string_view value) {
  args.*text = value.data();
  args.*size = value.size();
}

PJRT_Error* take_option(PJRT_Client& client, const PJRT_NamedValue& option) {
  const std::string_view name(option.name, option.name_size);
  if (name == "threads" && option.type == PJRT_NamedValue_kInt64) {
    if (option.int64_value < 0 || option.int64_value > 4096)
      return refuse(
          fmt::format("option 'threads' is {}; give a number from 0, which is all, to 4096", option.int64_value));
    client.threads = static_cast<int>(option.int64_value);
    return nullptr;
  }
  if (name == "database" && option.type == PJRT_NamedValue_kString) {
    client.database.assign(option.string_value, option.value_size);
    return nullptr;
  }
  return refuse(
      fmt::format("there is no option '{}' of this type; there are threads (a number) and database (a path)", name));
}

PJRT_Error* create(PJRT_Client_Create_Args& args) {
  auto client = std::make_unique<PJRT_Client>();
  for (size_t i = 0; i < args.num_options; ++i)
    if (PJRT_Error* wrong = take_option(*client, args.create_options[i])) return wrong;
  const Target target = detect_host(client->threads);
  client->topology.version = fmt::format("{}, build {}, {}, {} threads", name_and_version(), program_identity(),
                                         target.feature_key(), target.threads);
  client->topology.device = {"cpu", kDeviceText};
  client->device.client = client.get();
  client->memory.client = client.get();
  args.client = client.release();
  return nullptr;
}

PJRT_Error* destroy(PJRT_Client_Destroy_Args& args) {
  delete args.client;
  return nullptr;
}

PJRT_Error* platform_name(PJRT_Client_PlatformName_Args& args) {
  using Args = PJRT_Client_PlatformName_Args;
  tell(args, &Args::platform_name, &Args::platform_name_size, kPlatformName);
  return nullptr;
}

PJRT_Error* platform_version(PJRT_Client_PlatformVersion_Args& args) {
  using Args = PJRT_Client_PlatformVersion_Args;
  tell(args, &Args::platform_version, &Args::platform_version_size, args.client->topology.version);
  return nullptr;
}

PJRT_Error* process_index(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = 0;
  return nullptr;
}

PJRT_Error* topology(PJRT_Client_TopologyDescription_Args& args) {
  args.topology = &args.client->topology;
  return nullptr;
}

PJRT_Error* devices(PJRT_Client_Devices_Args& args) {
  args.devices = args.client->devices;
  args.num_devices = 1;
  return nullptr;
}

PJRT_Error* addressable_devices(PJRT_Client_AddressableDevices_Args& args) {
  args.addressable_devices = args.client->devices;
  args.num_addressable_devices = 1;
  return nullptr;
}

PJRT_Error* no_device(int id) { return refuse(fmt::format("there is no device {}: Fettle has one, which is 0", id)); }

PJRT_Error* lookup_device(PJRT_Client_LookupDevice_Args& args) {
  if (args.id != 0) return no_device(args.id);
  args.device = &args.client->device;
  return nullptr;
}

PJRT_Error* lookup_addressable_device(PJRT_Client_LookupAddressableDevice_Args& args) {
  if (args.local_hardware_id != 0) return no_device(args.local_hardware_id);
  args.addressable_device = &args.client->device;
  return nullptr;
}

PJRT_Error* addressable_memories(PJRT_Client_AddressableMemories_Args& args) {
  args.addressable_memories = args.client->memories;
  args.num_addressable_memories = 1;
  return nullptr;
}

PJRT_Error* default_device_assignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
  if (args.num_replicas != 1 || args.num_partitions != 1 || args.default_assignment_size < 1)
    return make_error(PJRT_Error_Code_UNIMPLEMENTED, fmt::format("{} replicas of {} partitions: Fettle has one device",
                                                                 args.num_replicas, args.num_partitions));
  args.default_assignment[0] = 0;
  return nullptr;
}

PJRT_Error* description_id(PJRT_DeviceDescription_Id_Args& args) {
  args.id = 0;
  return nullptr;
}

PJRT_Error* description_process_index(PJRT_DeviceDescription_ProcessIndex_Args& args) {
  args.process_index = 0;
  return nullptr;
}

PJRT_Error* description_attributes(PJRT_DeviceDescription_Attributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
  return nullptr;
}

PJRT_Error* description_kind(PJRT_DeviceDescription_Kind_Args& args) {
  using Args = PJRT_DeviceDescription_Kind_Args;
  tell(args, &Args::device_kind, &Args::device_kind_size, args.device_description->kind);
  return nullptr;
}

PJRT_Error* description_debug_string(PJRT_DeviceDescription_DebugString_Args& args) {
  using Args = PJRT_DeviceDescription_DebugString_Args;
  tell(args, &Args::debug_string, &Args::debug_string_size, args.device_description->text);
  return nullptr;
}

PJRT_Error* description_to_string(PJRT_DeviceDescription_ToString_Args& args) {
  using Args = PJRT_DeviceDescription_ToString_Args;
  tell(args, &Args::to_string, &Args::to_string_size, args.device_description->text);
  return nullptr;
}

PJRT_Error* device_description(PJRT_Device_GetDescription_Args& args) {
  args.device_description = &args.device->client->topology.device;
  return nullptr;
}

PJRT_Error* device_is_addressable(PJRT_Device_IsAddressable_Args& args) {
  args.is_addressable = true;
  return nullptr;
}

PJRT_Error* device_hardware_id(PJRT_Device_LocalHardwareId_Args& args) {
  args.local_hardware_id = 0;
  return nullptr;
}

PJRT_Error* device_memories(PJRT_Device_AddressableMemories_Args& args) {
  args.memories = args.device->client->memories;
  args.num_memories = 1;
  return nullptr;
}

PJRT_Error* device_default_memory(PJRT_Device_DefaultMemory_Args& args) {
  args.memory = &args.device->client->memory;
  return nullptr;
}

PJRT_Error* memory_id(PJRT_Memory_Id_Args& args) {
  args.id = 0;
  return nullptr;
}

PJRT_Error* memory_kind(PJRT_Memory_Kind_Args& args) {
  using Args = PJRT_Memory_Kind_Args;
  tell(args, &Args::kind, &Args::kind_size, kMemoryKind);
  return nullptr;
}

PJRT_Error* memory_kind_id(PJRT_Memory_Kind_Id_Args& args) {
  args.kind_id = 0;
  return nullptr;
}

PJRT_Error* memory_debug_string(PJRT_Memory_DebugString_Args& args) {
  using Args = PJRT_Memory_DebugString_Args;
  tell(args, &Args::debug_string, &Args::debug_string_size, kMemoryText);
  return nullptr;
}

PJRT_Error* memory_to_string(PJRT_Memory_ToString_Args& args) {
  using Args = PJRT_Memory_ToString_Args;
  tell(args, &Args::to_string, &Args::to_string_size, kMemoryText);
  return nullptr;
}

PJRT_Error* memory_devices(PJRT_Memory_AddressableByDevices_Args& args) {
  args.devices = args.memory->client->devices;
  args.num_devices = 1;
  return nullptr;
}

}  // namespace

FettleHostTeam shared_team(int threads) {
  static FettleTeam* const team = [&] {
    FettleTeamOptions options{};
    options.threads = threads;
    return fettle_team_create(&options);
  }();
  FettleHostTeam shared{};
  shared.struct_bytes = sizeof shared;
  shared.user = team;
  shared.size = [](void* user) { return fettle_team_size(static_cast<FettleTeam*>(user)); };
  shared.parallel_for = [](void* user, int64_t n, void (*body)(void*, int64_t), void* closure) {
    fettle_parallel_for(static_cast<FettleTeam*>(user), n, body, closure);
  };
  return shared;
}

void add_clients(PJRT_Api& api) {
  FETTLE_PJRT_ENTRY(api, PJRT_Client_Create, create);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_Destroy, destroy);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_PlatformName, platform_name);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_PlatformVersion, platform_version);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_ProcessIndex, process_index);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_TopologyDescription, topology);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_Devices, devices);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_AddressableDevices, addressable_devices);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_LookupDevice, lookup_device);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_LookupAddressableDevice, lookup_addressable_device);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_AddressableMemories, addressable_memories);
  FETTLE_PJRT_ENTRY(api, PJRT_Client_DefaultDeviceAssignment, default_device_assignment);
  FETTLE_PJRT_ENTRY(api, PJRT_DeviceDescription_Id, description_id);
  FETTLE_PJRT_ENTRY(api, PJRT_DeviceDescription_ProcessIndex, description_process_index);
  FETTLE_PJRT_ENTRY(api, PJRT_DeviceDescription_Attributes, description_attributes);
  FETTLE_PJRT_ENTRY(api, PJRT_DeviceDescription_Kind, description_kind);
  FETTLE_PJRT_ENTRY(api, PJRT_DeviceDescription_DebugString, description_debug_string);
  FETTLE_PJRT_ENTRY(api, PJRT_DeviceDescription_ToString, description_to_string);
  FETTLE_PJRT_ENTRY(api, PJRT_Device_GetDescription, device_description);
  FETTLE_PJRT_ENTRY(api, PJRT_Device_IsAddressable, device_is_addressable);
  FETTLE_PJRT_ENTRY(api, PJRT_Device_LocalHardwareId, device_hardware_id);
  FETTLE_PJRT_ENTRY(api, PJRT_Device_AddressableMemories, device_memories);
  FETTLE_PJRT_ENTRY(api, PJRT_Device_DefaultMemory, device_default_memory);
  FETTLE_PJRT_ENTRY(api, PJRT_Memory_Id, memory_id);
  FETTLE_PJRT_ENTRY(api, PJRT_Memory_Kind, memory_kind);
  FETTLE_PJRT_ENTRY(api, PJRT_Memory_Kind_Id, memory_kind_id);
  FETTLE_PJRT_ENTRY(api, PJRT_Memory_DebugString, memory_debug_string);
  FETTLE_PJRT_ENTRY(api, PJRT_Memory_ToString, memory_to_string);
  FETTLE_PJRT_ENTRY(api, PJRT_Memory_AddressableByDevices, memory_devices);
}

}  // namespace fettle::pjrt
