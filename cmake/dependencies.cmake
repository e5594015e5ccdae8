# What Fettle links. Each library is one imported target fettle::NAME; its headers count as system headers,
# so their warnings are not ours. `make setup` installs them all.

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tl-expected REQUIRED)
if(FETTLE_TESTS)
  find_package(GTest 1.12 REQUIRED)
endif()

# FETTLE_FOREIGN_FILES: libraries and headers of others, whose licences a wheel carries.
foreach(package nlohmann_json::nlohmann_json/nlohmann/json.hpp tl::expected/tl/expected.hpp fmt::fmt/fmt/format.h)
  string(REGEX MATCH "^([^/]+)/(.+)$" package ${package})
  get_target_property(folder ${CMAKE_MATCH_1} INTERFACE_INCLUDE_DIRECTORIES)
  list(GET folder 0 folder)
  set_property(GLOBAL APPEND PROPERTY FETTLE_FOREIGN_FILES ${folder}/${CMAKE_MATCH_2})
endforeach()

# fettle_import(name HEADER header LIBRARIES lib… [ARCHIVES lib…] HINTS folder… NEEDS target…)
# defines fettle::name, or stops with a sentence that says what to install. With FETTLE_STATIC, ARCHIVES are linked in
# place of LIBRARIES.
function(fettle_import name)
  cmake_parse_arguments(ARG "" "HEADER;PACKAGE" "LIBRARIES;ARCHIVES;HINTS;NEEDS" ${ARGN})
  if(FETTLE_STATIC AND ARG_ARCHIVES)
    set(ARG_LIBRARIES ${ARG_ARCHIVES})
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  endif()
  find_path(FETTLE_${name}_INCLUDE ${ARG_HEADER} HINTS ${ARG_HINTS} PATH_SUFFIXES include)
  set(libraries)
  foreach(lib IN LISTS ARG_LIBRARIES)
    find_library(FETTLE_${name}_${lib} ${lib} HINTS ${ARG_HINTS} PATH_SUFFIXES lib)
    if(NOT FETTLE_${name}_${lib})
      message(FATAL_ERROR "${name}: library ${lib} not found; run `make setup` (Debian: ${ARG_PACKAGE})")
    endif()
    list(APPEND libraries ${FETTLE_${name}_${lib}})
  endforeach()
  if(NOT FETTLE_${name}_INCLUDE)
    message(FATAL_ERROR "${name}: ${ARG_HEADER} not found; run `make setup` (Debian: ${ARG_PACKAGE})")
  endif()
  add_library(fettle_import_${name} INTERFACE)
  target_include_directories(fettle_import_${name} SYSTEM INTERFACE ${FETTLE_${name}_INCLUDE})
  target_link_libraries(fettle_import_${name} INTERFACE ${libraries} ${ARG_NEEDS})
  add_library(fettle::${name} ALIAS fettle_import_${name})
  set_property(GLOBAL APPEND PROPERTY FETTLE_FOREIGN_FILES ${libraries} ${FETTLE_${name}_INCLUDE}/${ARG_HEADER})
endfunction()

# The archives of LLVM that lld and the code generators ask for, where they are linked as archives.
set(llvm_archives)
if(FETTLE_STATIC)
  find_program(FETTLE_LLVM_CONFIG llvm-config PATHS /usr/lib/llvm-19/bin NO_DEFAULT_PATH REQUIRED)
  execute_process(COMMAND ${FETTLE_LLVM_CONFIG} --link-static --libnames x86 aarch64 runtimedyld lto option
    OUTPUT_VARIABLE llvm_archives COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "LLVM[A-Za-z0-9]+" llvm_archives "${llvm_archives}")  # Polly is named, but asked for by nobody
endif()
fettle_import(llvm HEADER llvm/IR/IRBuilder.h LIBRARIES LLVM-19 ARCHIVES ${llvm_archives} HINTS /usr/lib/llvm-19
  PACKAGE llvm-19-dev)
fettle_import(lld HEADER lld/Common/Driver.h LIBRARIES lldELF lldCommon z zstd ARCHIVES lldELF lldCommon z zstd
  HINTS /usr/lib/llvm-19 PACKAGE "liblld-19-dev, zlib1g-dev, libzstd-dev" NEEDS fettle::llvm)
fettle_import(sqlite HEADER sqlite3.h LIBRARIES sqlite3 ARCHIVES sqlite3 PACKAGE libsqlite3-dev)
fettle_import(isl HEADER isl/cpp.h LIBRARIES isl PACKAGE libisl-dev)
# LLVM's shared library exports Polly's copy of isl, of another version than these headers. Options stand before libraries.
target_link_options(fettle_import_isl INTERFACE ${FETTLE_isl_isl})
fettle_import(xgboost HEADER xgboost/c_api.h LIBRARIES xgboost PACKAGE libxgboost-dev)
fettle_import(protobuf HEADER google/protobuf/message.h LIBRARIES protobuf PACKAGE libprotobuf-dev)
# What archives of gRPC need in turn. Debian's archives of absl, re2, protobuf and isl are for programs alone: they cannot be
# part of a shared library.
set(grpc_needs)
if(FETTLE_STATIC)
  file(GLOB absl /usr/lib/${CMAKE_CXX_LIBRARY_ARCHITECTURE}/libabsl_*.so)
  list(TRANSFORM absl REPLACE ".*/lib(.+)\\.so$" "\\1")
  fettle_import(absl HEADER absl/base/config.h LIBRARIES ${absl} PACKAGE libabsl-dev)
  fettle_import(re2 HEADER re2/re2.h LIBRARIES re2 PACKAGE libre2-dev)
  set(grpc_needs fettle::absl fettle::re2)
endif()
fettle_import(grpc HEADER grpcpp/grpcpp.h LIBRARIES grpc++ grpc gpr absl_synchronization
  ARCHIVES grpc++ grpc gpr upb address_sorting cares ssl crypto PACKAGE libgrpc++-dev NEEDS ${grpc_needs})
if(FETTLE_TESTS)
  fettle_import(opencl HEADER CL/cl.h LIBRARIES OpenCL PACKAGE ocl-icd-opencl-dev)
endif()
fettle_import(cli11 HEADER CLI/CLI.hpp PACKAGE libcli11-dev)

# lld asks LLVM for every processor that it was built for, and for Polly. As archives, only the processors that Fettle makes
# code for are linked; for the rest stand functions that do nothing.
if(FETTLE_STATIC)
  file(STRINGS ${FETTLE_llvm_INCLUDE}/llvm/Config/Targets.def targets REGEX "^LLVM_TARGET\\([A-Za-z0-9]+\\)$")
  set(text "// Written by cmake/dependencies.cmake.\n#include <llvm/Passes/PassPlugin.h>\n
llvm::PassPluginLibraryInfo getPollyPluginInfo() { return {LLVM_PLUGIN_API_VERSION, \"\", \"\", [](llvm::PassBuilder&) {}}; }
extern \"C\" {\n")
  foreach(target IN LISTS targets)
    string(REGEX REPLACE ".*\\((.+)\\).*" "\\1" target ${target})
    if(NOT target MATCHES "^(X86|AArch64)$")
      foreach(part Target TargetInfo TargetMC AsmPrinter AsmParser)
        string(APPEND text "void LLVMInitialize${target}${part}() {}\n")
      endforeach()
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/left_out_of_llvm.cpp CONTENT "${text}}\n" @ONLY)
  add_library(fettle_left_out_of_llvm STATIC ${CMAKE_BINARY_DIR}/generated/left_out_of_llvm.cpp)
  target_link_libraries(fettle_left_out_of_llvm PRIVATE fettle::llvm)
  target_link_libraries(fettle_import_lld INTERFACE fettle_left_out_of_llvm)
endif()

# FETTLE_ONNX_PROTO: the .proto that the onnx wheel carries.
execute_process(COMMAND ${FETTLE_PYTHON} -c "import importlib.util as util; print(util.find_spec('onnx').submodule_search_locations[0])"
  OUTPUT_VARIABLE FETTLE_ONNX_PROTO OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(APPEND FETTLE_ONNX_PROTO /onnx-ml.proto)
if(NOT EXISTS ${FETTLE_ONNX_PROTO})
  message(FATAL_ERROR "onnx-ml.proto not found in the Python of ${FETTLE_PYTHON}; run `make setup`")
endif()

# fettle::onnx_proto: the ONNX messages, made by protoc from that .proto, and generated/onnx/schemas.inc, the table of its
# operators.
# Include as "onnx-ml.pb.h". Messages keep their full form: text output and reflection are used in errors.
function(fettle_onnx_proto)
  set(proto ${FETTLE_ONNX_PROTO})
  find_program(FETTLE_PROTOC protoc REQUIRED)
  get_filename_component(folder ${proto} DIRECTORY)
  set(out ${CMAKE_BINARY_DIR}/generated/onnx)
  file(MAKE_DIRECTORY ${out})
  add_custom_command(OUTPUT ${out}/onnx-ml.pb.cc ${out}/onnx-ml.pb.h
    COMMAND ${FETTLE_PROTOC} --proto_path=${folder} --cpp_out=${out} ${proto}
    DEPENDS ${proto} VERBATIM)
  set(script ${CMAKE_SOURCE_DIR}/scripts/onnx_schemas.py)
  add_custom_command(OUTPUT ${out}/schemas.inc
    COMMAND ${FETTLE_PYTHON} ${script} ${out}/schemas.inc
    DEPENDS ${script} ${proto} VERBATIM)
  add_library(fettle_onnx_proto STATIC ${out}/onnx-ml.pb.cc ${out}/onnx-ml.pb.h ${out}/schemas.inc)
  target_compile_options(fettle_onnx_proto PRIVATE -w -g0)
  target_include_directories(fettle_onnx_proto SYSTEM PUBLIC ${out})
  target_link_libraries(fettle_onnx_proto PUBLIC fettle::protobuf)
  add_library(fettle::onnx_proto ALIAS fettle_onnx_proto)
endfunction()

# fettle_grpc_proto(NAME FILE): the messages and services of a .proto of ours, as fettle::NAME_proto. Include as
# "NAME.pb.h" and, in as few files as can be since it is slow to compile, "NAME.grpc.pb.h".
function(fettle_grpc_proto name proto)
  find_program(FETTLE_PROTOC protoc REQUIRED)
  find_program(FETTLE_PROTOC_GRPC grpc_cpp_plugin REQUIRED)
  get_filename_component(folder ${proto} DIRECTORY)
  set(out ${CMAKE_BINARY_DIR}/generated/remote)
  file(MAKE_DIRECTORY ${out})
  set(made ${out}/${name}.pb.cc ${out}/${name}.pb.h ${out}/${name}.grpc.pb.cc ${out}/${name}.grpc.pb.h)
  add_custom_command(OUTPUT ${made}
    COMMAND ${FETTLE_PROTOC} --proto_path=${folder} --cpp_out=${out} --grpc_out=${out}
      --plugin=protoc-gen-grpc=${FETTLE_PROTOC_GRPC} ${proto}
    DEPENDS ${proto} VERBATIM)
  add_library(fettle_${name}_proto STATIC ${made})
  target_compile_options(fettle_${name}_proto PRIVATE -w -g0)
  target_include_directories(fettle_${name}_proto SYSTEM PUBLIC ${out})
  target_link_libraries(fettle_${name}_proto PUBLIC fettle::grpc fettle::protobuf)
  add_library(fettle::${name}_proto ALIAS fettle_${name}_proto)
endfunction()
