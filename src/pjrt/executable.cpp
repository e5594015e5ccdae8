// What is known of compiled programs.

#include <cstring>

#include "graph/work.h"
#include "pjrt/entry.h"
#include "pjrt/program.h"

struct PJRT_SerializedExecutable {
  std::string bytes;
};
struct PJRT_SerializedCompileOptions {
  std::string bytes;
};
struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};

namespace fettle::pjrt {
namespace {

PJRT_Error* destroy(PJRT_Executable_Destroy_Args& args) {
  delete args.executable;
  return nullptr;
}

PJRT_Error* name(PJRT_Executable_Name_Args& args) {
  args.executable_name = args.executable->program->interface.name.data();
  args.executable_name_size = args.executable->program->interface.name.size();
  return nullptr;
}

PJRT_Error* replicas(PJRT_Executable_NumReplicas_Args& args) {
  args.num_replicas = 1;
  return nullptr;
}

PJRT_Error* partitions(PJRT_Executable_NumPartitions_Args& args) {
  args.num_partitions = 1;
  return nullptr;
}

PJRT_Error* outputs(PJRT_Executable_NumOutputs_Args& args) {
  args.num_outputs = args.executable->program->interface.outputs.size();
  return nullptr;
}

PJRT_Error* output_types(PJRT_Executable_OutputElementTypes_Args& args) {
  args.output_types = args.executable->output_types.data();
  args.num_output_types = args.executable->output_types.size();
  return nullptr;
}

PJRT_Error* output_dimensions(PJRT_Executable_OutputDimensions_Args& args) {
  args.num_outputs = args.executable->output_ranks.size();
  args.dims = args.executable->output_dims.data();
  args.dim_sizes = args.executable->output_ranks.data();
  return nullptr;
}

PJRT_Error* output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  args.num_outputs = args.executable->memory_kinds.size();
  args.memory_kinds = args.executable->memory_kinds.data();
  args.memory_kind_sizes = args.executable->memory_kind_sizes.data();
  return nullptr;
}

PJRT_Error* fingerprint(PJRT_Executable_Fingerprint_Args& args) {
  args.executable_fingerprint = args.executable->fingerprint.data();
  args.executable_fingerprint_size = args.executable->fingerprint.size();
  return nullptr;
}

PJRT_Error* code_bytes(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) {
  args.size_in_bytes = -1;  // not known before it is serialised
  return nullptr;
}

/// The program as it was given: Fettle's own graphs are no StableHLO.
PJRT_Error* program_text(PJRT_Executable_OptimizedProgram_Args& args) {
  const std::string& code = args.executable->program->code;
  if (args.program->code == nullptr) {
    args.program->code_size = code.size();
  } else {
    if (args.program->code_size < code.size())
      return refuse(
          fmt::format("the program takes {} bytes, and there is room for {}", code.size(), args.program->code_size));
    std::memcpy(args.program->code, code.data(), code.size());
    args.program->code_size = code.size();
  }
  args.program->format = "mlir";
  args.program->format_size = 4;
  return nullptr;
}

PJRT_NamedValue cost(std::string_view name, double value) {
  PJRT_NamedValue made{};
  made.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  made.name = name.data();
  made.name_size = name.size();
  made.type = PJRT_NamedValue_kFloat;
  made.float_value = static_cast<float>(value);
  made.value_size = 1;
  return made;
}

PJRT_Error* costs(PJRT_Executable_GetCostAnalysis_Args& args) {
  PJRT_Executable& executable = *args.executable;
  if (executable.costs.empty()) {
    if (!executable.program->graph)
      return make_error(PJRT_Error_Code_UNIMPLEMENTED, "the cost of a program that was loaded, and not compiled here");
    const auto work = work_of(*executable.program->graph);
    if (!work) return make_error(work.error());
    executable.costs = {cost("flops", work->operations.typical()), cost("bytes accessed", work->bytes.typical())};
  }
  args.properties = executable.costs.data();
  args.num_properties = executable.costs.size();
  return nullptr;
}

int64_t bytes_of(const std::vector<ShapeRef>& shapes) {
  int64_t bytes = 0;
  for (const ShapeRef& shape : shapes) bytes += shape->n_bytes;
  return bytes;
}

PJRT_Error* memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  const Program& program = *args.executable->program;
  args.generated_code_size_in_bytes = 0;
  args.argument_size_in_bytes = bytes_of(program.interface.inputs);
  args.output_size_in_bytes = bytes_of(program.interface.outputs);
  args.alias_size_in_bytes = 0;
  args.temp_size_in_bytes = program.temporary_bytes;
  args.host_generated_code_size_in_bytes = 0;
  args.host_argument_size_in_bytes = 0;
  args.host_output_size_in_bytes = 0;
  args.host_alias_size_in_bytes = 0;
  args.host_temp_size_in_bytes = 0;
  args.total_size_in_bytes = args.argument_size_in_bytes + args.output_size_in_bytes + args.temp_size_in_bytes;
  args.peak_memory_in_bytes = args.total_size_in_bytes;
  return nullptr;
}

PJRT_Error* serialize(PJRT_Executable_Serialize_Args& args) {
  auto bytes = serialize_program(*args.executable->program);
  if (!bytes) return make_error(bytes.error());
  args.serialized_executable = new PJRT_SerializedExecutable{*std::move(bytes)};
  args.serialized_bytes = args.serialized_executable->bytes.data();
  args.serialized_bytes_size = args.serialized_executable->bytes.size();
  args.serialized_executable_deleter = [](PJRT_SerializedExecutable* serialized) { delete serialized; };
  return nullptr;
}

PJRT_Error* compile_options(PJRT_Executable_GetCompileOptions_Args& args) {
  args.serialized_compile_options = new PJRT_SerializedCompileOptions{args.executable->program->options};
  args.serialized_bytes = args.serialized_compile_options->bytes.data();
  args.serialized_bytes_size = args.serialized_compile_options->bytes.size();
  args.serialized_compile_options_deleter = [](PJRT_SerializedCompileOptions* options) { delete options; };
  return nullptr;
}

PJRT_Error* destroy_loaded(PJRT_LoadedExecutable_Destroy_Args& args) {
  delete args.executable;
  return nullptr;
}

PJRT_Error* executable_of(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  auto executable = std::make_unique<PJRT_Executable>();
  executable->program = args.loaded_executable->program;
  executable->fingerprint = executable->program->fingerprint.hex();
  for (const ShapeRef& shape : executable->program->interface.outputs) {
    executable->output_types.push_back(shape->type);
    executable->output_ranks.push_back(shape->dims.size());
    executable->output_dims.insert(executable->output_dims.end(), shape->dims.begin(), shape->dims.end());
    executable->memory_kinds.push_back(kMemoryKind);
    executable->memory_kind_sizes.push_back(std::strlen(kMemoryKind));
  }
  args.executable = executable.release();
  return nullptr;
}

PJRT_Error* devices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
  args.addressable_devices = args.executable->client->devices;
  args.num_addressable_devices = 1;
  return nullptr;
}

/// A DeviceAssignmentProto of one replica of one computation, on device 0.
PJRT_Error* device_assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  args.serialized_device_assignment =
      new PJRT_DeviceAssignmentSerialized{std::string("\x08\x01\x10\x01\x1a\x03\x0a\x01\x00", 9)};
  args.serialized_bytes = args.serialized_device_assignment->bytes.data();
  args.serialized_bytes_size = args.serialized_device_assignment->bytes.size();
  args.serialized_device_assignment_deleter = [](PJRT_DeviceAssignmentSerialized* serialized) { delete serialized; };
  return nullptr;
}

PJRT_Error* delete_loaded(PJRT_LoadedExecutable_Delete_Args& args) {
  args.executable->is_deleted = true;
  return nullptr;
}

PJRT_Error* is_deleted(PJRT_LoadedExecutable_IsDeleted_Args& args) {
  args.is_deleted = args.executable->is_deleted;
  return nullptr;
}

PJRT_Error* loaded_fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  args.executable->fingerprint = args.executable->program->fingerprint.hex();
  args.executable_fingerprint = args.executable->fingerprint.data();
  args.executable_fingerprint_size = args.executable->fingerprint.size();
  return nullptr;
}

}  // namespace

void add_executables(PJRT_Api& api) {
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_Destroy, destroy);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_Name, name);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_NumReplicas, replicas);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_NumPartitions, partitions);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_NumOutputs, outputs);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_OutputElementTypes, output_types);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_OutputDimensions, output_dimensions);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_OutputMemoryKinds, output_memory_kinds);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_Fingerprint, fingerprint);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_SizeOfGeneratedCodeInBytes, code_bytes);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_OptimizedProgram, program_text);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_GetCostAnalysis, costs);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_GetCompiledMemoryStats, memory_stats);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_Serialize, serialize);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_GetCompileOptions, compile_options);
  FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_Destroy, destroy_loaded);
  FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_GetExecutable, executable_of);
  FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_AddressableDevices, devices);
  FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_GetDeviceAssignment, device_assignment);
  FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_Delete, delete_loaded);
  FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_IsDeleted, is_deleted);
  FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_Fingerprint, loaded_fingerprint);
}

}  // namespace fettle::pjrt
