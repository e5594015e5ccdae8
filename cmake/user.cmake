# build/fettle-config.cmake: for programs outside of this tree that use Fettle's libraries as they were built here.
#   find_package(fettle CONFIG REQUIRED)      with -Dfettle_DIR=…/fettle/build
#   target_link_libraries(mine PRIVATE fettle::fettle)
set(room_libraries ${FETTLE_LIBRARIES})
list(REMOVE_ITEM room_libraries fettle_cli)
list(TRANSFORM room_libraries REPLACE "(.+)" "$<TARGET_FILE:\\1>")
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
