#include "tests/fuzz/sanitizers.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

// What is reported ends the process as a crash does, by a signal: an exit status could be a child's own.
extern "C" const char* __asan_default_options() { return "abort_on_error=1:detect_stack_use_after_return=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }
extern "C" const char* __lsan_default_suppressions() { return ""; }
#endif

namespace fettle::fuzz {

bool has_leaks() {
#if defined(__SANITIZE_ADDRESS__)
  return __lsan_do_recoverable_leak_check() != 0;
#else
  return false;
#endif
}

}  // namespace fettle::fuzz
