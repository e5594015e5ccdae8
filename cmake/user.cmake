# For C++ programs outside of this tree: fettle-config.cmake for those that use Fettle's libraries where they were built
# (build/fettle-config.cmake), and `cmake --install build --prefix …`, which has one of its own, and fettle.pc.
#   find_package(fettle CONFIG REQUIRED)      with -Dfettle_DIR=…/fettle/build, or where it was installed
#   target_link_libraries(mine PRIVATE fettle::fettle)
if(FETTLE_STATIC)  # libfettle.so offers what the programs and the module call, no more
  return()
endif()
include(GNUInstallDirs)

# What is linked beside Fettle's own libraries, as files and flags.
set(foreign)
foreach(name lld llvm isl gmp sqlite xgboost grpc protobuf)
  list(APPEND foreign $<FILTER:$<TARGET_PROPERTY:fettle_import_${name},INTERFACE_LINK_LIBRARIES>,EXCLUDE,^fettle>)
endforeach()

# fettle_write_config(FILE INCLUDES folder… LIBRARIES file… PROGRAMS folder)
function(fettle_write_config file)
  cmake_parse_arguments(ARG "" "PROGRAMS" "INCLUDES;LIBRARIES" ${ARGN})
  list(JOIN ARG_INCLUDES " " includes)
  list(JOIN ARG_LIBRARIES "\n    " libraries)
  file(GENERATE OUTPUT ${file} CONTENT "# Written by cmake/user.cmake.
if(TARGET fettle::fettle)
  return()
endif()
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(tl-expected REQUIRED)
add_library(fettle::fettle INTERFACE IMPORTED)
target_compile_features(fettle::fettle INTERFACE cxx_std_20)
target_include_directories(fettle::fettle INTERFACE ${includes})
target_link_libraries(fettle::fettle INTERFACE
  -Wl,--start-group
    ${libraries}
  -Wl,--end-group
  $<JOIN:${foreign}, >
  fmt::fmt tl::expected Threads::Threads \${CMAKE_DL_LIBS})
set(fettle_WORKER ${ARG_PROGRAMS}/fettle-worker)
set(fettle_VERSION ${PROJECT_VERSION})
")
endfunction()

set(libraries ${FETTLE_LIBRARIES})
list(REMOVE_ITEM libraries fettle_cli)
list(TRANSFORM libraries REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE built)
fettle_write_config(${CMAKE_BINARY_DIR}/fettle-config.cmake
  INCLUDES ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated
  LIBRARIES ${built}
  PROGRAMS $<TARGET_FILE_DIR:fettle-worker>)

# --- cmake --install ---------------------------------------------------------------------------------------------

set(headers ${CMAKE_INSTALL_INCLUDEDIR}/fettle)
set(archives ${CMAKE_INSTALL_LIBDIR}/fettle)
list(TRANSFORM libraries REPLACE "(.+)" "$<TARGET_FILE_NAME:\\1>" OUTPUT_VARIABLE names)
list(TRANSFORM names PREPEND "\${fettle_prefix}/${archives}/" OUTPUT_VARIABLE installed)
fettle_write_config(${CMAKE_BINARY_DIR}/install/fettle-targets.cmake
  INCLUDES \${fettle_prefix}/${headers}
  LIBRARIES ${installed}
  PROGRAMS \${fettle_prefix}/${CMAKE_INSTALL_BINDIR})
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fettle)
file(RELATIVE_PATH up /${package} /)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/install/fettle-config.cmake @ONLY CONTENT "# Written by cmake/user.cmake.
get_filename_component(fettle_prefix \${CMAKE_CURRENT_LIST_DIR}/${up} ABSOLUTE)
include(\${CMAKE_CURRENT_LIST_DIR}/fettle-targets.cmake)
")
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/fettle-config-version.cmake COMPATIBILITY ExactVersion)

list(TRANSFORM names PREPEND "\${libdir}/fettle/" OUTPUT_VARIABLE named)
list(JOIN named " " named)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/install/fettle.pc CONTENT "prefix=\${pcfiledir}/${up}
includedir=\${prefix}/${headers}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}

Name: fettle
Description: ${PROJECT_DESCRIPTION}
Version: ${PROJECT_VERSION}
Requires: fmt
Cflags: -std=c++20 -I\${includedir}
Libs: -Wl,--start-group ${named} -Wl,--end-group $<JOIN:${foreign}, > -pthread -ldl
")

install(TARGETS fettle fettle-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT fettle)
foreach(library IN LISTS libraries)
  install(FILES $<TARGET_FILE:${library}> DESTINATION ${archives} COMPONENT fettle)
endforeach()
# Headers that need other packages' headers than fmt's stay inside, and so do those that include them.
set(inside "<(llvm|lld|google|grpc|grpcpp|nlohmann)/|\"[a-z-]+\\.(grpc\\.)?pb\\.h\"")
file(GLOB_RECURSE candidates RELATIVE ${CMAKE_SOURCE_DIR}/src CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.h)
set(private "")
set(found TRUE)
while(found)
  set(found FALSE)
  foreach(header IN LISTS candidates)
    file(STRINGS ${CMAKE_SOURCE_DIR}/src/${header} includes REGEX "^#include (${inside})")
    if(includes)
      list(REMOVE_ITEM candidates ${header})
      list(APPEND private PATTERN ${header} EXCLUDE)
      string(REPLACE "." "\\." name ${header})
      string(APPEND inside "|\"${name}\"")
      set(found TRUE)
    endif()
  endforeach()
endwhile()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/ DESTINATION ${headers} COMPONENT fettle
  FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "test*.h" EXCLUDE PATTERN "*_testing.h" EXCLUDE ${private})
install(DIRECTORY ${CMAKE_BINARY_DIR}/generated/ DESTINATION ${headers} COMPONENT fettle
  FILES_MATCHING PATTERN "*.h" PATTERN "onnx" EXCLUDE PATTERN "remote" EXCLUDE PATTERN "unity" EXCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/install/fettle-config.cmake ${CMAKE_BINARY_DIR}/install/fettle-targets.cmake
  ${CMAKE_BINARY_DIR}/install/fettle-config-version.cmake DESTINATION ${package} COMPONENT fettle)
install(FILES ${CMAKE_BINARY_DIR}/install/fettle.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT fettle)
install(FILES ${CMAKE_SOURCE_DIR}/benchmarks/peers/model_peers.py DESTINATION ${CMAKE_INSTALL_DATADIR}/fettle
  COMPONENT fettle)
