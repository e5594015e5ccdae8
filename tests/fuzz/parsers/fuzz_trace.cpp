// Traces, as text and as JSON, run on a small program.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ir/text.h"
#include "schedule/schedule.h"
#include "schedule/trace/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fettle;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = size > 0 && (text[0] == '[' || text[0] == '{') ? trace_from_json(text) : parse_trace(text);
  if (!trace) return 0;
  const auto func = parse_loops(
      "for i, j, k in 16, 16, 8: C[i, j] += A[i, k] * B[k, j]\nfor i, j in 16, 16: D[i, j] = C[i, j] * 2.0");
  if (!func) return 0;
  Schedule schedule(*func);
  (void)replay(schedule, *trace);
  return 0;
}
