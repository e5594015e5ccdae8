#pragma once
// What is done to each element of a result, as post-ops of oneDNN.

#include <vector>

#include "base/result.h"
#include "codegen/onednn/program.h"
#include "rt/onednn.h"

namespace fettle::onednn {

/// One post-op; of a binary one, what else it reads.
struct EpilogueOp {
  rt::OnednnOp op{};
  const LoadNode* operand = nullptr;
};

struct Epilogue {
  const BufferNode* result = nullptr;  // the program's output, where it all goes
  std::vector<Var> dimensions;         // what the operands' indices speak of, dimension by dimension
  std::vector<EpilogueOp> ops;         // in order
  Expr keeps_alive;
};

/// What the steps from `first` on make of `made`, element by element. E301 where it is something else.
Result<Epilogue> read_epilogue(const Func& program, const std::vector<Step>& steps, size_t first,
                               const BufferNode* made);

}  // namespace fettle::onednn
