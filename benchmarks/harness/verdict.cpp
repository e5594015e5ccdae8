#include "harness/verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace fettle::bench {

std::string tuning_verdict(const Estimate& ratio) {
  if (!std::isfinite(ratio.half_width)) return "tuned over untuned: too few rounds to say";
  const double low = ratio.median * (1 - ratio.half_width), high = ratio.median * (1 + ratio.half_width);
  const std::string said =
      fmt::format("tuned over untuned: {:.3f} of its time, +- {:.1f} %: ", ratio.median, 100 * ratio.half_width);
  if (high < 1) return said + fmt::format("tuning took off {:.1f} %", 100 * (1 - ratio.median));
  if (low > 1) return said + "tuning made it slower, or the machine was disturbed; the defaults are better here";
  return said + "no difference that these times show; the defaults are as fast";
}

}  // namespace fettle::bench
