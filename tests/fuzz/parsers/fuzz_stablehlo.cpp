// StableHLO, as text and as bytecode: import and all passes. A module that is read is printed, and read again as the
// same.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "frontend/stablehlo/import.h"
#include "frontend/stablehlo/read.h"
#include "graph/passes/pipeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fettle;
  const Limits limits{.elements = 1 << 20,
                      .constant_bytes = 1 << 22,
                      .nodes = 500,
                      .nesting = 6,
                      .folded_bytes = 1 << 16,
                      .folded_total_bytes = 1 << 18,
                      .folded_steps = 1 << 18};
  const auto module = stablehlo::read_module(std::as_bytes(std::span(data, size)), "fuzz", limits);
  if (!module) return 0;
  const std::string text = stablehlo::to_text(*module);
  if (const auto again = stablehlo::parse_text(text, "again", limits))
    FETTLE_CHECK_MSG(stablehlo::to_text(*again) == text, text);
  auto graph = import_stablehlo(*module, limits);
  if (!graph) return 0;
  const PassContext context{.limits = limits, .run = interpreter_executor(limits.folded_steps)};
  if (optimize(*graph, context)) (void)require_sizes(*graph);
  return 0;
}
