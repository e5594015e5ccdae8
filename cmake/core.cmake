# FETTLE_LIBRARIES: the static libraries of all rooms, first those that nothing else needs, and what they carry.
set(FETTLE_LIBRARIES)
foreach(room IN LISTS FETTLE_ROOMS)
  list(PREPEND FETTLE_LIBRARIES fettle_${room})
endforeach()
list(APPEND FETTLE_LIBRARIES fettle_onnx_proto fettle_devices_proto fettle_rt_embedded)
foreach(library IN LISTS FETTLE_LIBRARIES)
  set(kind)
  if(TARGET ${library})
    get_target_property(kind ${library} TYPE)
  endif()
  if(NOT kind STREQUAL "STATIC_LIBRARY")
    list(REMOVE_ITEM FETTLE_LIBRARIES ${library})
  endif()
endforeach()

# libfettle.so: all of them in one, with LLVM and what else is linked as archives (FETTLE_STATIC). The command, the worker and
# the Python module link it: LLVM is there once. It exports what is Fettle's alone (exports.map), so that other
# packages of a process may bring an LLVM, a gRPC or an OpenSSL of their own.
if(NOT FETTLE_STATIC)
  return()
endif()
list(TRANSFORM FETTLE_LIBRARIES REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(fettle_core SHARED ${objects})
set_target_properties(fettle_core PROPERTIES OUTPUT_NAME fettle LINKER_LANGUAGE CXX
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
target_link_libraries(fettle_core
  PRIVATE fettle_cli
  PUBLIC fmt::fmt nlohmann_json::nlohmann_json tl::expected Threads::Threads)
target_link_options(fettle_core PRIVATE LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map
  LINKER:--no-undefined,--no-gnu-unique,-Bsymbolic-non-weak-functions,--gc-sections)
