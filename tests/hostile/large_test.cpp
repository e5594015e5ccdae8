// Models that are large in one way each, at a part of their size. `make bench-import` times them at full size.

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "frontend/onnx/import.h"
#include "graph/passes/pipeline.h"
#include "import/large_models.h"

namespace fettle::hostile {
namespace {

TEST(LargeModels, AreReadAndOptimised) {
  for (const bench::LargeModel& model : bench::large_models()) {
    const std::string bytes = model.bytes(0.02);
    auto graph = import_onnx_bytes(std::as_bytes(std::span(bytes)), ".");
    if (model.is_refused) {
      EXPECT_FALSE(graph) << model.name;
      continue;
    }
    ASSERT_TRUE(graph) << model.name << ": " << graph.error().to_string().substr(0, 500);
    const auto optimized = optimize(*graph);
    EXPECT_TRUE(optimized) << model.name << ": " << optimized.error().to_string().substr(0, 500);
  }
}

}  // namespace
}  // namespace fettle::hostile
