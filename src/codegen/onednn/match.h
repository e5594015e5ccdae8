#pragma once
// What of a loop program oneDNN computes by one primitive: the program is read for what it means.

#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "rt/onednn.h"

namespace fettle::onednn {

/// A tensor of the primitive, in its order of dimensions.
struct MatchedTensor {
  int32_t argument = 0;
  int param = -1;                      // of the program
  std::vector<int64_t> dims, strides;  // strides in elements; of a dimension of extent 1 any
};

/// A window that slides along a dimension of an image.
struct MatchedWindow {
  int64_t window = 1, stride = 1, dilation = 1, padding_low = 0, padding_high = 0;
};

struct Matched {
  rt::OnednnKind kind = rt::kOnednnMatmul;
  int32_t algorithm = 0;
  float epsilon = 0;
  std::vector<MatchedTensor> tensors;  // among them the source and the destination, each once
  std::vector<MatchedWindow> windows;  // of the last dimensions of source and destination
  std::vector<rt::OnednnOp> ops;

  const MatchedTensor* find(int32_t argument) const;
};

/// E301 with the reason, a clause, where oneDNN has no primitive for the program.
Result<Matched> match(const Func& program);

}  // namespace fettle::onednn
