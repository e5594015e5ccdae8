#pragma once
// A measurer of this machine's that measures one program: for tests only.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "measure/local_measurer.h"

namespace fettle::testing {

class StartedMeasurer {
 public:
  void start(LocalMeasurerOptions options, const Func& workload) {
    auto started = LocalMeasurer::start(std::move(options));
    ASSERT_TRUE(started) << started.error().to_string();
    measurer_ = std::move(*started);
    const auto set = measurer_->set_workload(workload);
    ASSERT_TRUE(set) << set.error().to_string();
  }
  /// For a moment each.
  std::vector<MeasureResult> measure(const std::vector<std::string>& list, MeasureRequest request = {}) {
    request.timing.max_seconds = 0.02;
    auto results = measurer_->measure(list, request);
    EXPECT_TRUE(results) << results.error().to_string();
    return results ? *results : std::vector<MeasureResult>();
  }

 protected:
  std::unique_ptr<LocalMeasurer> measurer_;
};

}  // namespace fettle::testing
