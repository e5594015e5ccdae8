# Build type, compiler flags, ccache and linker: all that holds for every target.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
set(FETTLE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")
option(FETTLE_STATIC "Link LLVM and gRPC as archives, into one libfettle.so for programs and the Python module" OFF)
option(FETTLE_TESTS "Tests, benchmarks and examples" ON)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g")

# Results must not depend on which machine built Fettle: no -march, no contraction of a*b+c.
add_compile_options(-Wall -Wextra -Werror -ffp-contract=off -fno-omit-frame-pointer
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
# Designated initialisers that lean on default member values are the house style.
add_compile_options(-Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Position-independent code may still inline what this file defines: nobody puts another definition in its place.
  add_compile_options(-fno-semantic-interposition)
  # GCC 12 reports these falsely inside its own std::string, std::vector and std::variant (PR 105329, 105651, 105562).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-free-nonheap-object>)
else()
  # GCC 12's own std::stable_sort takes a buffer in a way that it deprecates.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
if(FETTLE_SANITIZE)
  # -O1: what checks add makes -O2 take twice as long to compile, and little faster to run.
  add_compile_options(-fsanitize=${FETTLE_SANITIZE} -fno-sanitize-recover=all $<$<CONFIG:Release>:-O1>)
  add_link_options(-fsanitize=${FETTLE_SANITIZE})
  # Clang looks for a function's type before its code, where compiled kernels have nothing.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND FETTLE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=function)
  endif()
endif()
add_link_options(-Wl,--as-needed -Wl,--build-id -pthread)

# ccache, told that build folders of one checkout may share results.
find_program(FETTLE_CCACHE ccache)
if(FETTLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher /usr/bin/env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${FETTLE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

# The first fast linker found: lld 19, any lld, gold; else the system's.
find_program(FETTLE_LLD19 ld.lld PATHS /usr/lib/llvm-19/bin NO_DEFAULT_PATH)
find_program(FETTLE_LLD ld.lld)
find_program(FETTLE_GOLD ld.gold)
if(FETTLE_STATIC AND NOT FETTLE_LLD19)
  message(FATAL_ERROR "FETTLE_STATIC links with lld 19, which is not found; run `make setup` (Debian: lld-19)")
elseif(FETTLE_LLD19)
  add_link_options(-B/usr/lib/llvm-19/bin -fuse-ld=lld)
elseif(FETTLE_LLD)
  add_link_options(-fuse-ld=lld)
elseif(FETTLE_GOLD)
  add_link_options(-fuse-ld=gold)
endif()

# The Python that is given, or that a wheel is made for, else that of the tree (scripts/setup.sh makes it), else the
# system's.
set(FETTLE_PYTHON_ENV ${CMAKE_SOURCE_DIR}/build/python)
if(DEFINED CACHE{FETTLE_PYTHON})
  set(FETTLE_PYTHON $CACHE{FETTLE_PYTHON})
elseif(DEFINED SKBUILD)
  set(FETTLE_PYTHON ${Python_EXECUTABLE})
elseif(EXISTS ${FETTLE_PYTHON_ENV}/bin/python)
  set(FETTLE_PYTHON ${FETTLE_PYTHON_ENV}/bin/python)
else()
  find_program(FETTLE_SYSTEM_PYTHON python3 REQUIRED)
  set(FETTLE_PYTHON ${FETTLE_SYSTEM_PYTHON})
endif()
