# What Fettle links. Each library is one imported target fettle::NAME; its headers count as system headers,
# so their warnings are not ours. `make setup` installs them all.

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(GTest 1.12 REQUIRED)

# fettle_import(name HEADER header LIBRARIES lib… HINTS folder… NEEDS target…)
# defines fettle::name, or stops with a sentence that says what to install.
function(fettle_import name)
  cmake_parse_arguments(ARG "" "HEADER;PACKAGE" "LIBRARIES;HINTS;NEEDS" ${ARGN})
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
endfunction()

fettle_import(llvm HEADER llvm/IR/IRBuilder.h LIBRARIES LLVM-19 HINTS /usr/lib/llvm-19 PACKAGE llvm-19-dev)
fettle_import(lld HEADER lld/Common/Driver.h LIBRARIES lldELF lldCommon HINTS /usr/lib/llvm-19
  PACKAGE liblld-19-dev NEEDS fettle::llvm z zstd)
fettle_import(sqlite HEADER sqlite3.h LIBRARIES sqlite3 PACKAGE libsqlite3-dev)
fettle_import(xgboost HEADER xgboost/c_api.h LIBRARIES xgboost PACKAGE libxgboost-dev)
fettle_import(protobuf HEADER google/protobuf/message.h LIBRARIES protobuf PACKAGE libprotobuf-dev)
fettle_import(grpc HEADER grpcpp/grpcpp.h LIBRARIES grpc++ grpc gpr absl_synchronization PACKAGE libgrpc++-dev)
fettle_import(opencl HEADER CL/cl.h LIBRARIES OpenCL PACKAGE ocl-icd-opencl-dev)
fettle_import(cli11 HEADER CLI/CLI.hpp PACKAGE libcli11-dev)

# fettle::onnx_proto: the ONNX messages, made by protoc from the .proto that the onnx wheel carries, and
# generated/onnx/schemas.inc, the table of its operators.
# Include as "onnx-ml.pb.h". Messages keep their full form: text output and reflection are used in errors.
function(fettle_onnx_proto)
  file(GLOB proto ${FETTLE_PYTHON_ENV}/lib/python3.*/site-packages/onnx/onnx-ml.proto)
  if(NOT proto)
    message(FATAL_ERROR "onnx-ml.proto not found in ${FETTLE_PYTHON_ENV}; run `make setup`")
  endif()
  list(GET proto 0 proto)
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
