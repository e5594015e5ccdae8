# Registration tables, written from a folder's listing when CMake configures. No static initialisers, no shared list.

# fettle_table(ROOM FOLDER folder TYPE type HEADER header SUFFIX suffix SYMBOL function
#              [NAMESPACE namespace] [GLOB pattern] [EXCLUDE stem…])
# Every src/FOLDER/NAME.h (or whatever GLOB says, tests left out) must define, in NAMESPACE (default fettle),
#   extern const TYPE NAME<SUFFIX>;
# The generated source joins the room's library and defines
#   std::span<const TYPE* const> SYMBOL();     // in alphabetical order of NAME
# which HEADER, where TYPE is defined, should declare. Call it after fettle_room(ROOM …).
#
#   fettle_table(schedule FOLDER schedule/primitives TYPE PrimitiveDef HEADER schedule/primitive.h
#                SUFFIX _def SYMBOL primitive_defs)
function(fettle_table room)
  cmake_parse_arguments(ARG "" "FOLDER;TYPE;HEADER;SUFFIX;SYMBOL;NAMESPACE;GLOB" "EXCLUDE" ${ARGN})
  if(NOT ARG_NAMESPACE)
    set(ARG_NAMESPACE fettle)
  endif()
  if(NOT ARG_GLOB)
    set(ARG_GLOB *.h)
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${ARG_FOLDER}/${ARG_GLOB})
  list(SORT files)
  set(declarations "")
  set(entries "")
  foreach(file IN LISTS files)
    get_filename_component(stem ${file} NAME_WE)
    if(stem MATCHES "_test$" OR stem IN_LIST ARG_EXCLUDE)
      continue()
    endif()
    string(APPEND declarations "extern const ${ARG_TYPE} ${stem}${ARG_SUFFIX};\n")
    string(APPEND entries "      &${stem}${ARG_SUFFIX},\n")
  endforeach()
  if(entries STREQUAL "")
    set(body "  return {};\n")
  else()
    set(body "  static const ${ARG_TYPE}* const table[] = {\n${entries}  };\n  return table;\n")
  endif()
  set(out ${CMAKE_BINARY_DIR}/generated/tables/${room}_${ARG_SYMBOL}.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT "// Written by fettle_table from the listing of src/${ARG_FOLDER}.
#include <span>

#include \"${ARG_HEADER}\"

namespace ${ARG_NAMESPACE} {

${declarations}
std::span<const ${ARG_TYPE}* const> ${ARG_SYMBOL}() {
${body}}

}  // namespace ${ARG_NAMESPACE}
")
  get_target_property(kind fettle_${room} TYPE)
  if(NOT kind STREQUAL "INTERFACE_LIBRARY")
    target_sources(fettle_${room} PRIVATE ${out})
  endif()
endfunction()
