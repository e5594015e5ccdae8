// Loop programs: what is read is printed, and read again as the same.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fettle;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_expr(text);
  (void)parse_loops(text);
  (void)parse_module(text);
  const auto func = parse_func(text);
  if (!func) return 0;
  const std::string printed = to_text(*func);
  const auto again = parse_func(printed);
  FETTLE_CHECK_MSG(again, printed);
  FETTLE_CHECK_MSG(to_text(*again) == printed, printed);
  return 0;
}
