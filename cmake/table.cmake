# Registration tables, written from what a folder's sources define when CMake configures. No static initialisers, no
# shared list.

# fettle_table_names(OUT SUFFIX TEXT): the names, without SUFFIX, of all that the source TEXT initialises at the beginning
# of a line under a name that ends in SUFFIX, however its type is written.
function(fettle_table_names out suffix text)
  string(REGEX MATCHALL "(^|\n)[^][ \n#/{}][^][;(){}=\"'/]*[ \n][a-zA-Z0-9_]+${suffix}[ \n]*[={]" found "${text}")
  set(names "")
  foreach(definition IN LISTS found)
    string(REGEX REPLACE ".*[ \n]([a-zA-Z0-9_]+)${suffix}[ \n]*[={]$" "\\1" name "${definition}")
    list(APPEND names ${name})
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# fettle_table_entries(OUT FOLDER SUFFIX): the names of all that the sources in src/FOLDER define, sorted.
function(fettle_table_entries out folder suffix)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)
  list(FILTER files EXCLUDE REGEX "_test\\.cpp$")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(names "")
  foreach(file IN LISTS files)
    file(READ ${file} text)
    fettle_table_names(found ${suffix} "${text}")
    list(APPEND names ${found})
  endforeach()
  list(SORT names)
  if(NOT names)
    message(FATAL_ERROR "no source in src/${folder} defines a NAME${suffix}")
  endif()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# fettle_table_declarations(OUT TYPE SUFFIX NAMES): C++ that declares them.
function(fettle_table_declarations out type suffix names)
  list(TRANSFORM names REPLACE ".+" "extern const ${type} \\0${suffix};")
  string(REPLACE ";;" ";\n" names "${names}")
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# fettle_table(ROOM FOLDER folder TYPE type HEADER header SUFFIX suffix SYMBOL function [NAMESPACE namespace])
# Each source in src/FOLDER and the folders below it, tests left out, may define entries, in NAMESPACE (default fettle):
#   extern constinit const TYPE NAME<SUFFIX> = {…};
# Whatever has such a name joins the table; what is no TYPE, or not extern, does not compile or link. Other sources are
# helpers of those. The generated source joins the room's library and defines
#   std::span<const TYPE* const> SYMBOL();     // in alphabetical order of NAME
# which HEADER, where TYPE is defined, should declare. Call it after fettle_room(ROOM …).
#
#   fettle_table(schedule FOLDER schedule/primitives TYPE PrimitiveDef HEADER schedule/primitive.h
#                SUFFIX _def SYMBOL primitive_defs)
function(fettle_table room)
  cmake_parse_arguments(ARG "" "FOLDER;TYPE;HEADER;SUFFIX;SYMBOL;NAMESPACE" "" ${ARGN})
  if(NOT ARG_NAMESPACE)
    set(ARG_NAMESPACE fettle)
  endif()
  fettle_table_entries(names ${ARG_FOLDER} ${ARG_SUFFIX})
  fettle_table_declarations(declarations ${ARG_TYPE} ${ARG_SUFFIX} "${names}")
  list(TRANSFORM names REPLACE ".+" "      &\\0${ARG_SUFFIX}," OUTPUT_VARIABLE entries)
  string(REPLACE ";" "\n" entries "${entries}")
  set(out ${CMAKE_BINARY_DIR}/generated/tables/${room}_${ARG_SYMBOL}.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT "// Written by fettle_table from the sources in src/${ARG_FOLDER}.
#include <span>

#include \"${ARG_HEADER}\"

namespace ${ARG_NAMESPACE} {

${declarations}

std::span<const ${ARG_TYPE}* const> ${ARG_SYMBOL}() {
  static const ${ARG_TYPE}* const table[] = {
${entries}
  };
  return table;
}

}  // namespace ${ARG_NAMESPACE}
")
  target_sources(fettle_${room} PRIVATE ${out})
endfunction()

# fettle_declarations(NAME FOLDER folder TYPE type HEADER header SUFFIX suffix)
# For entries, as fettle_table has them, whose order a list says: "tables/NAME.h" (generated) declares each, and
# kDefined, their number, so that the list can be held to be complete.
function(fettle_declarations name)
  cmake_parse_arguments(ARG "" "FOLDER;TYPE;HEADER;SUFFIX" "" ${ARGN})
  fettle_table_entries(names ${ARG_FOLDER} ${ARG_SUFFIX})
  list(LENGTH names count)
  fettle_table_declarations(declarations ${ARG_TYPE} ${ARG_SUFFIX} "${names}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/tables/${name}.h @ONLY CONTENT "// Written by fettle_declarations \
from the sources in src/${ARG_FOLDER}.
#pragma once
#include <cstddef>

#include \"${ARG_HEADER}\"

namespace fettle {

${declarations}

namespace ${name} {
inline constexpr size_t kDefined = ${count};
}

}  // namespace fettle
")
endfunction()
