#include "pjrt/client.h"
#include "pjrt/entry.h"

struct PJRT_SerializedTopology {
  std::string text;
};

namespace fettle::pjrt {
namespace {

PJRT_Error* platform_name(PJRT_TopologyDescription_PlatformName_Args& args) {
  args.platform_name = kPlatformName;
  args.platform_name_size = std::string_view(kPlatformName).size();
  return nullptr;
}

PJRT_Error* platform_version(PJRT_TopologyDescription_PlatformVersion_Args& args) {
  args.platform_version = args.topology->version.data();
  args.platform_version_size = args.topology->version.size();
  return nullptr;
}

PJRT_Error* devices(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
  args.descriptions = args.topology->devices;
  args.num_descriptions = 1;
  return nullptr;
}

PJRT_Error* attributes(PJRT_TopologyDescription_Attributes_Args& args) {
  args.attributes = nullptr;
  args.num_attributes = 0;
  return nullptr;
}

/// What JAX's compilation cache knows machines by: the compiler's build and the processor's features are in it.
PJRT_Error* serialize(PJRT_TopologyDescription_Serialize_Args& args) {
  auto* serialized = new PJRT_SerializedTopology{args.topology->version};
  args.serialized_topology = serialized;
  args.serialized_bytes = serialized->text.data();
  args.serialized_bytes_size = serialized->text.size();
  args.serialized_topology_deleter = [](PJRT_SerializedTopology* topology) { delete topology; };
  return nullptr;
}

}  // namespace

void add_topologies(PJRT_Api& api) {
  FETTLE_PJRT_ENTRY(api, PJRT_TopologyDescription_PlatformName, platform_name);
  FETTLE_PJRT_ENTRY(api, PJRT_TopologyDescription_PlatformVersion, platform_version);
  FETTLE_PJRT_ENTRY(api, PJRT_TopologyDescription_GetDeviceDescriptions, devices);
  FETTLE_PJRT_ENTRY(api, PJRT_TopologyDescription_Attributes, attributes);
  FETTLE_PJRT_ENTRY(api, PJRT_TopologyDescription_Serialize, serialize);
}

}  // namespace fettle::pjrt
