#pragma once
// MatMul with batches and broadcasting, Gemm.

#include "graph/op.h"

namespace fettle {
extern const OpFamily matmul_ops;
}
