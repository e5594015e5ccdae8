#pragma once
// Calls of oneDNN (https://github.com/oneapi-src/oneDNN) from compiled models, by its C interface. The library is
// opened while the model runs, and only where a kernel needs it: nothing here is linked with it.
//
// A kernel is described by plain data, which the compiler writes into the model's code (codegen/onednn). Its threads
// are those of the model: the work is cut into parts, and each is a primitive of oneDNN for one thread.

#include <atomic>

#include "rt/abi.h"

namespace fettle::rt {

inline constexpr int32_t kOnednnMaxRank = 6, kOnednnMaxTensors = 8, kOnednnMaxOps = 6, kOnednnMaxParts = 64,
                         kOnednnPathBytes = 512;

// --- numbers of oneDNN's interface, version 3
namespace onednn {
enum Argument : int32_t { kSource = 1, kDestination = 17, kWeights = 33, kBias = 41, kScale = 51, kShift = 52 };
/// Of the second operand of a binary post-op.
constexpr int32_t operand_of(int32_t op) { return 32768 * (op + 1) | 2; }
enum Algorithm : int32_t {
  kConvolutionDirect = 0x1,
  kRelu = 0x20,
  kTanh = 0x21,
  kLinear = 0x26,
  kHardSigmoid = 0x28,
  kLogistic = 0x29,
  kSwish = 0x2c,
  kClip = 0x2e,
  kGeluErf = 0x31,
  kHardSwish = 0x34,
  kMaxPooling = 0x1ff,
  kAdd = 0x1fff0,
  kMultiply = 0x1fff1,
  kSoftmaxAccurate = 0x30000,
};
}  // namespace onednn

struct OnednnTensor {
  int32_t argument;
  int32_t buffer;        // of the kernel's; of the prologue's in OnednnPart::packed_from
  int64_t offset_bytes;  // where it begins there
  int32_t rank;
  int32_t packed;  // 1: in the layout that oneDNN likes best, which `layout` of its part stands for; else by strides
  int64_t dims[kOnednnMaxRank];
  int64_t strides[kOnednnMaxRank];  // in elements
};

/// What is done to each element of the result, in order.
struct OnednnOp {
  int32_t algorithm;
  float alpha, beta;
  int32_t is_binary;  // 1: with the tensor of argument operand_of(its number)
};

/// One primitive, for one thread.
struct OnednnPart {
  int32_t n_tensors;
  int32_t packs;  // 1: the prologue packs for it; else another part's packing serves it
  OnednnTensor tensors[kOnednnMaxTensors];
  OnednnTensor packed_from;  // where a tensor is packed: the same, as the model has it
  uint64_t layout;           // of the packed tensor; 0: there is none, or it is not known yet
  int64_t window[3], strides[3], dilations[3], padding_low[3], padding_high[3];
};

enum OnednnKind : int32_t { kOnednnMatmul, kOnednnConvolution, kOnednnPooling, kOnednnSoftmax, kOnednnLayerNorm };

struct OnednnCall {
  int32_t kind;
  int32_t algorithm;
  int32_t spatial;  // dimensions of a convolution or pooling that windows slide along
  int32_t n_ops, n_parts;
  float epsilon;  // of a layer normalisation, along the last dimension
  int32_t version[3];
  char library[kOnednnPathBytes];  // the file where the loader finds no libdnnl.so.3
  OnednnOp ops[kOnednnMaxOps];
  OnednnPart parts[];  // n_parts
};

/// What is known once a call's primitives are made.
struct OnednnReport {
  const char* reason;  // why they cannot be: a clause; null where they can
  char kernel[128];    // oneDNN's name of the first part's: "brg:avx512_core"
  uint64_t layout[kOnednnMaxParts];
  int64_t packed_bytes[kOnednnMaxParts];
};

/// Makes the primitives and gives them up again.
void onednn_prepare(const OnednnCall* call, OnednnReport* report);

/// The version of the library that the loader finds, else of the one at `library`; false, with a clause, where there is
/// none that can be used.
bool onednn_version(const char* library, int32_t version[3], const char** reason);

}  // namespace fettle::rt

extern "C" {
/// What compiled code calls. *state is 0 at first, and belongs to the call: its primitives, made when it runs first.
/// They stay as long as the process. A FettleStatus; the context is told why it fails.
int32_t fettle_onednn_run(FettleContext* context, void** buffers, const int64_t* ints,
                          const fettle::rt::OnednnCall* call, std::atomic<uintptr_t>* state);
/// The prologue: buffers are the constant and what becomes of it.
int32_t fettle_onednn_pack(FettleContext* context, void** buffers, const int64_t* ints,
                           const fettle::rt::OnednnCall* call, std::atomic<uintptr_t>* state);
}
