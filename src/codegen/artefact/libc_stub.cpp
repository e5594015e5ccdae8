#include "codegen/artefact/libc_stub.h"

namespace fettle {

std::span<const std::string_view> libc_functions() {
  static constexpr std::string_view functions[] = {
      // put in by LLVM and GCC
      "bcmp", "memcmp", "memcpy", "memmove", "memset",
      // called by rt
      "__errno_location", "clock_gettime", "close", "dlopen", "dlsym", "getenv", "madvise", "mmap", "munmap", "open",
      "pthread_attr_destroy", "pthread_attr_init", "pthread_attr_setstacksize", "pthread_create", "pthread_join",
      "pthread_sigmask", "read", "sched_yield", "sigfillset", "strcmp", "strcspn", "strlen", "strstr", "syscall"};
  return functions;
}

}  // namespace fettle
