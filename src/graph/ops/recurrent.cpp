// Recurrent layers: passes::lower_recurrent makes a Loop of each direction before types are inferred.

#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

constexpr OpDef layer(std::string_view name, int max_inputs, int n_outputs) {
  return {.name = name,
          .min_inputs = 3,
          .max_inputs = max_inputs,
          .infer = ops::not_lowered,
          .compute = nullptr,
          .n_outputs = n_outputs};
}

// (x, W, R, B, sequence_lens, initial_h, …)  →  (Y, Y_h, …)
constexpr OpDef defs[] = {
    layer("RNN", 6, 2), layer("GRU", 6, 2), layer("LSTM", 8, 3),  // and initial_c, P; Y_c
};

}  // namespace

extern constinit const OpFamily recurrent_ops{"recurrent", defs};

}  // namespace fettle
