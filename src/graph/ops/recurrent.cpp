// Recurrent layers, which are lowered to Loops.

#include "graph/op_util.h"
#include "graph/passes/lower_recurrent.h"

namespace fettle {
namespace {

constexpr OpDef layer(std::string_view name, int max_inputs, int n_outputs) {
  return ops::define(FusionKind::kOpaque, name, {3, max_inputs}, ops::not_lowered, nullptr,
                     {.lower = passes::lower_recurrent, .n_outputs = n_outputs});
}

// (x, W, R, B, sequence_lens, initial_h, …)  →  (Y, Y_h, …)
constexpr OpDef recurrent_defs[] = {
    layer("RNN", 6, 2), layer("GRU", 6, 2), layer("LSTM", 8, 3),  // and initial_c, P; Y_c
    layer("com.microsoft.DynamicQuantizeLSTM", 12, 3),  // and scales and zero points of W and R, which are transposed
};

}  // namespace

extern constinit const OpFamily recurrent_ops{"recurrent", recurrent_defs};

}  // namespace fettle
