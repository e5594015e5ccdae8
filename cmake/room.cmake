# One room is one folder under src/, one static library and one test program.

# fettle_room(NAME [DEPS room…] [LIBS library…] [TEST_LIBS library…] [OPTIONS flag…])
#   src/NAME/**/*.cpp, but for those below and main.cpp  →  library fettle_NAME
#   src/NAME/**/*_test.cpp                               →  program bin/test_NAME, each gtest case a CTest entry
#   src/NAME/testing.cpp                                 →  library fettle_NAME_testing, which comes with fettle_NAME to
#                                                           test programs, and to nothing else
# DEPS are rooms before this one; LIBS are fettle::llvm and the like; OPTIONS are further compiler flags.
function(fettle_room name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;TEST_LIBS;OPTIONS" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cpp$")
  list(REMOVE_ITEM sources ${folder}/testing.cpp)

  set(deps fmt::fmt nlohmann_json::nlohmann_json tl::expected Threads::Threads)
  foreach(dep IN LISTS ARG_DEPS)
    list(APPEND deps fettle_${dep})
  endforeach()

  if(sources)
    add_library(fettle_${name} STATIC ${sources})
    target_include_directories(fettle_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
      ${CMAKE_BINARY_DIR}/generated)
    target_compile_options(fettle_${name} PRIVATE ${ARG_OPTIONS})
    target_link_libraries(fettle_${name} PUBLIC ${deps} ${ARG_LIBS})
    if(NOT ARG_OPTIONS)
      fettle_use_precompiled(fettle_${name} common)
    endif()
  else()
    # A room of headers alone, or one still empty.
    add_library(fettle_${name} INTERFACE)
    target_include_directories(fettle_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
      ${CMAKE_BINARY_DIR}/generated)
    target_link_libraries(fettle_${name} INTERFACE ${deps} ${ARG_LIBS})
  endif()

  if(NOT FETTLE_TESTS)
    return()
  endif()
  if(EXISTS ${folder}/testing.cpp)
    add_library(fettle_${name}_testing STATIC ${folder}/testing.cpp)
    target_compile_definitions(fettle_${name}_testing PRIVATE FETTLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(fettle_${name}_testing PUBLIC fettle_${name} GTest::gtest)
    target_link_libraries(fettle_${name} INTERFACE
      $<$<BOOL:$<TARGET_PROPERTY:FETTLE_TEST_PROGRAM>>:fettle_${name}_testing>)
  endif()

  if(tests)
    fettle_test_program(test_${name} SOURCES ${tests} LIBS fettle_${name} ${ARG_TEST_LIBS} OPTIONS ${ARG_OPTIONS})
  endif()
endfunction()

# All that ctest runs, and no benchmark: what `make test` builds.
add_custom_target(fettle_tests)

# Tests are compiled for longer than they run: -Og saves a third of that time.
set(FETTLE_TEST_OPTIONS $<$<CONFIG:Release>:-Og>)

# fettle_test_program(test_NAME SOURCES file… LIBS library… [OPTIONS flag…]): a gtest program whose cases CTest runs
# one by one, in the root of the source tree. FETTLE_SOURCE_DIR and FETTLE_BINARY_DIR are strings in its code.
function(fettle_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;OPTIONS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(fettle_tests ${name})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
    ${CMAKE_BINARY_DIR}/generated)
  target_compile_definitions(${name} PRIVATE FETTLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    FETTLE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES FETTLE_TEST_PROGRAM ON)
  target_compile_options(${name} PRIVATE ${FETTLE_TEST_OPTIONS} ${ARG_OPTIONS})
  if(NOT ARG_OPTIONS)
    fettle_use_precompiled(${name} tests)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    PROPERTIES TIMEOUT 120)
endfunction()

# fettle_program(NAME SOURCES file… DEPS room… [LIBS library…])  →  bin/NAME
function(fettle_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  fettle_link_rooms(${name} DEPS ${ARG_DEPS} LIBS ${ARG_LIBS})
endfunction()

# fettle_link_rooms(TARGET DEPS room… [LIBS library…]): for what is installed. With FETTLE_STATIC, all rooms are one shared
# library (cmake/core.cmake), which this links in place of them.
function(fettle_link_rooms name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  if(FETTLE_STATIC)
    set(ARG_DEPS core)
  endif()
  set(deps)
  foreach(dep IN LISTS ARG_DEPS)
    list(APPEND deps fettle_${dep})
  endforeach()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
    ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${name} PRIVATE ${deps} ${ARG_LIBS})
endfunction()

include(GoogleTest)
