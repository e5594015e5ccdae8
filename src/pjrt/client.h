#pragma once
// The client of a process: one device, which is the CPU, and its memory.

#include <xla/pjrt/c/pjrt_c_api.h>

#include <string>

#include "rt/model_api.h"

struct PJRT_DeviceDescription {
  std::string kind, text;
};
struct PJRT_Memory {
  PJRT_Client* client = nullptr;
};
struct PJRT_Device {
  PJRT_Client* client = nullptr;
};
struct PJRT_TopologyDescription {
  PJRT_DeviceDescription device;
  PJRT_DeviceDescription* devices[1] = {&device};
  std::string version;  // the compiler, and the processor that it compiles for
};

struct PJRT_Client {
  PJRT_TopologyDescription topology;
  PJRT_Device device;
  PJRT_Memory memory;
  PJRT_Device* devices[1] = {&device};
  PJRT_Memory* memories[1] = {&memory};
  int threads = 0;       // of compiled programs
  std::string database;  // of tuned schedules; empty: none
};

namespace fettle::pjrt {

inline constexpr const char* kPlatformName = "fettle";
inline constexpr const char* kMemoryKind = "device";

/// The threads that all programs of the process share: a program that runs while another does takes its caller alone.
FettleHostTeam shared_team(int threads);

void add_clients(PJRT_Api& api);
void add_topologies(PJRT_Api& api);

}  // namespace fettle::pjrt
