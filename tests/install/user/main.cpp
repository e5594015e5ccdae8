// A program of somebody else's: a loop program in text becomes machine code.
#include <cstdio>

#include "base/version.h"
#include "codegen/build.h"
#include "codegen/object_cache.h"
#include "ir/text.h"

int main() {
  const auto program = fettle::parse_func(
      "func twice(A: f32[64], B: f32[64] output):\n"
      "  for i in 64:\n"
      "    block B(v: spatial[64] = i):\n"
      "      reads A[v]\n"
      "      writes B[v]\n"
      "      B[v] = A[v] * 2.0\n");
  if (!program) return std::puts(program.error().to_string().c_str()), 1;
  fettle::ObjectCache cache{""};
  const auto kernel = fettle::build_kernel(*program, fettle::detect_host(1), cache);
  if (!kernel) return std::puts(kernel.error().to_string().c_str()), 1;
  std::printf("%s: %s\n", fettle::name_and_version(), kernel->entry.c_str());
}
