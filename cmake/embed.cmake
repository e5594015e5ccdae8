# Object code as bytes inside the compiler, so that it can be linked into artefacts.

# fettle_embed_objects(LIBRARY FROM object-library SYMBOL symbol)
# Joins the objects of FROM into one relocatable object and makes the static library LIBRARY that holds its bytes.
# "SYMBOL.h" (generated) declares them:
#   extern "C" const unsigned char SYMBOL_begin[], SYMBOL_end[];
function(fettle_embed_objects library)
  cmake_parse_arguments(ARG "" "FROM;SYMBOL" "" ${ARGN})
  set(out ${CMAKE_BINARY_DIR}/generated/embed/${ARG_SYMBOL})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${ARG_SYMBOL}.h CONTENT "// Written by fettle_embed_objects.
#pragma once
/// The bytes of one relocatable ELF object that holds all of ${ARG_FROM}.
extern \"C\" const unsigned char ${ARG_SYMBOL}_begin[];
extern \"C\" const unsigned char ${ARG_SYMBOL}_end[];
")
  file(CONFIGURE OUTPUT ${out}.S CONTENT "// Written by fettle_embed_objects.
  .section .rodata
  .balign 64
  .global ${ARG_SYMBOL}_begin
  .global ${ARG_SYMBOL}_end
${ARG_SYMBOL}_begin:
  .incbin \"${out}.o\"
${ARG_SYMBOL}_end:
  .byte 0
  .section .note.GNU-stack,\"\",@progbits
")
  add_custom_command(OUTPUT ${out}.o
    COMMAND ${CMAKE_LINKER} -r -o ${out}.o $<TARGET_OBJECTS:${ARG_FROM}>
    DEPENDS ${ARG_FROM} $<TARGET_OBJECTS:${ARG_FROM}>
    COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${out}.S PROPERTIES OBJECT_DEPENDS ${out}.o)
  add_library(${library} STATIC ${out}.S)
  target_include_directories(${library} PUBLIC ${CMAKE_BINARY_DIR}/generated)
endfunction()

# fettle_embed_text(FROM file SYMBOL symbol)
# "SYMBOL.h" (generated) holds the file's text: inline constexpr std::string_view fettle::SYMBOL.
function(fettle_embed_text)
  cmake_parse_arguments(ARG "" "FROM;SYMBOL" "" ${ARGN})
  file(READ ${ARG_FROM} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARG_FROM})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${ARG_SYMBOL}.h @ONLY CONTENT "// Written by fettle_embed_text.
#pragma once
#include <string_view>
namespace fettle {
inline constexpr std::string_view ${ARG_SYMBOL} = R\"__(${text})__\";
}
")
endfunction()
