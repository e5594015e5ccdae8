#pragma once
// What host programs of devices are annotated with, and what they call.

namespace fettle {

// --- on functions
inline constexpr const char* kDeviceHostKey = "device_host";  // 1: calls are launches on a device, whose memory all is
inline constexpr const char* kOnDeviceKey = "on_device";  // 1: what a model's host program is given lies on a device

// --- functions of the run-time system (rt/device.h)
inline constexpr const char* kDeviceLaunch = "fettle_device_launch";       // launches a kernel
inline constexpr const char* kDeviceFetch = "fettle_device_fetch";         // brings the device's memory to the host's
inline constexpr const char* kDevicePut = "fettle_device_put";             // puts an integer into the device's memory
inline constexpr const char* kDeviceCallHost = "fettle_device_call_host";  // a host function on what lies there
inline constexpr const char* kHostFunctions = "fettle_host_";              // how the names of these begin

}  // namespace fettle
