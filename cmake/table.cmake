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
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${ARG_FOLDER}/*.cpp)
  list(FILTER files EXCLUDE REGEX "_test\\.cpp$")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(names "")
  foreach(file IN LISTS files)
    file(READ ${file} text)
    fettle_table_names(found ${ARG_SUFFIX} "${text}")
    list(APPEND names ${found})
  endforeach()
  list(SORT names)
  if(NOT names)
    message(FATAL_ERROR "${ARG_SYMBOL}: no source in src/${ARG_FOLDER} defines a NAME${ARG_SUFFIX}")
  endif()
  list(TRANSFORM names REPLACE ".+" "extern const ${ARG_TYPE} \\0${ARG_SUFFIX};" OUTPUT_VARIABLE declarations)
  list(TRANSFORM names REPLACE ".+" "      &\\0${ARG_SUFFIX}," OUTPUT_VARIABLE entries)
  string(REPLACE ";;" ";\n" declarations "${declarations}")
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
