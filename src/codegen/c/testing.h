#pragma once
// For tests: printed C through the machine's compiler into this process.

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "codegen/llvm/jit_module.h"

namespace fettle {

inline constexpr const char* kCWarnings = "-Wall -Wextra -Werror -pedantic";

/// Compiles `source` as C11 with `flags` and loads it as JitModule does objects of our own: with the run-time system
/// and libc. E302 with what the compiler said, E303. FETTLE_CC names the compiler.
inline Result<JitModule> load_c(const std::string& source,
                                const std::string& flags = std::string("-O1 ") + kCWarnings) {
  char folder[] = "/tmp/fettle_c_XXXXXX";
  if (!mkdtemp(folder)) return fail(ErrorCode::E702, "no folder for a C file");
  const std::string base = std::string(folder) + "/kernel";
  std::ofstream(base + ".c") << source;
  const std::string command = std::string(FETTLE_CC) + " -std=c11 " + flags +
                              " -fPIC -fno-stack-protector -fno-asynchronous-unwind-tables -c " + base + ".c -o " +
                              base + ".o 2> " + base + ".log";
  const bool fine = std::system(command.c_str()) == 0;
  const auto read = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string object = read(base + ".o"), log = read(base + ".log");
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!fine) return fail(ErrorCode::E302, log.substr(0, 4000));
  return JitModule::load(std::vector<uint8_t>(object.begin(), object.end()));
}

}  // namespace fettle
