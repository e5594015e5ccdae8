# build/fettle-config.cmake: for programs outside of this tree that use Fettle's libraries as they were built here.
#   find_package(fettle CONFIG REQUIRED)      with -Dfettle_DIR=…/fettle/build
#   target_link_libraries(mine PRIVATE fettle::fettle)
set(room_libraries)
foreach(room IN LISTS FETTLE_ROOMS)
  if(room STREQUAL "cli" OR NOT TARGET fettle_${room})
    continue()
  endif()
  get_target_property(kind fettle_${room} TYPE)
  if(kind STREQUAL "STATIC_LIBRARY")
    list(PREPEND room_libraries "$<TARGET_FILE:fettle_${room}>")
  endif()
endforeach()
foreach(target fettle_onnx_proto fettle_devices_proto fettle_rt_embedded)
  if(TARGET ${target})
    get_target_property(kind ${target} TYPE)
    if(kind STREQUAL "STATIC_LIBRARY")
      list(APPEND room_libraries "$<TARGET_FILE:${target}>")
    endif()
  endif()
endforeach()
string(REPLACE ";" "\n    " room_libraries "${room_libraries}")
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/fettle-config.cmake CONTENT "# Written by cmake/user.cmake.
if(TARGET fettle::fettle)
  return()
endif()
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(tl-expected REQUIRED)
add_library(fettle::fettle INTERFACE IMPORTED)
target_compile_features(fettle::fettle INTERFACE cxx_std_20)
target_include_directories(fettle::fettle INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(fettle::fettle INTERFACE
  -Wl,--start-group
    ${room_libraries}
  -Wl,--end-group
  $<JOIN:$<FILTER:$<TARGET_PROPERTY:fettle_import_lld,INTERFACE_LINK_LIBRARIES>,EXCLUDE,^fettle::>, > $<JOIN:$<TARGET_PROPERTY:fettle_import_llvm,INTERFACE_LINK_LIBRARIES>, >
  $<JOIN:$<TARGET_PROPERTY:fettle_import_sqlite,INTERFACE_LINK_LIBRARIES>, > $<JOIN:$<TARGET_PROPERTY:fettle_import_xgboost,INTERFACE_LINK_LIBRARIES>, >
  $<JOIN:$<TARGET_PROPERTY:fettle_import_grpc,INTERFACE_LINK_LIBRARIES>, > $<JOIN:$<TARGET_PROPERTY:fettle_import_protobuf,INTERFACE_LINK_LIBRARIES>, >
  fmt::fmt tl::expected Threads::Threads \${CMAKE_DL_LIBS})
set(fettle_WORKER $<TARGET_FILE:fettle-worker>)
")
