# What fettle_table takes for an entry of its table: cmake -P table_test.cmake
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/table.cmake)

function(expect_names expected text)
  fettle_table_names(names _def "${text}")
  if(NOT names STREQUAL expected)
    message(SEND_ERROR "of\n${text}\nthe entries are \"${names}\", not \"${expected}\"")
  endif()
endfunction()

# However it is written, on one line or more.
expect_names("split" "extern constinit const RuleDef split_def = {\"split\", 1};\n")
expect_names("split" "constinit const RuleDef split_def{\"split\", 1};\n")
expect_names("split" "// A comment; with a semicolon.\nextern const RuleDef\n    split_def =\n        make(1);\n")
expect_names("split" "extern const auto split_def = RuleDef{\"split\"};\n")
expect_names("split" "}  // namespace\n\nconst std::span<const a::B> split_def{};\n")
# Several of one source, after code that holds brackets and semicolons.
expect_names("b;a" "int f() { return x[1]; }\nconst R b_def = {};\nvoid g(int (&v)[2]);\nconst R a_def = {};\n")
# Uses, declarations and what lies inside of functions are no entries.
expect_names("" "extern const R a_def;\nint f() {\n  const R b_def = {};\n  return g(a_def, b_def);\n}\n")
expect_names("" "int split_default = 1;\n// const R c_def = {};\n  const R d_def = {};\n")
