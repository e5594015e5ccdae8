// Comprehensions: whatever the text, its functions become graphs whose types can be inferred, or it says why not.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "frontend/comprehension/import.h"
#include "graph/passes/passes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fettle;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool has_problems = !check_comprehensions(text).empty();
  const auto names = comprehension_names(text);
  if (!names) return 0;
  bool all = true;
  for (const std::string& name : *names) {
    auto graph = import_comprehension(text, name);
    all = all && graph.has_value();
    if (graph) (void)passes::infer_shapes(*graph, {});
  }
  FETTLE_CHECK_MSG(has_problems != all, std::string(text));
  return 0;
}
