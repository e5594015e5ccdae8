#include "rt/onednn.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "rt/memory.h"
#include "rt/sys.h"

namespace fettle::rt {
namespace {

// The part of dnnl.h that is used. Handles are pointers; enumerations are int.
using Handle = void*;
using Dims = int64_t[12];
struct ExecutionArgument {
  int argument;
  Handle memory;
};
struct Version {
  int major, minor, patch;
};
enum : int { kCpu = 1, kForwardInference = 96, kF32 = 3, kAnyLayout = 1, kUserScratchpad = 1, kScaleAndShift = 6 };
enum : int { kImplementation = 8, kStrides = 14, kWeightsMd = 131, kScratchpadMd = 136, kPaddedDims = 260 };
enum : int { kFormatKind = 262, kInnerCount = 263, kInnerBlocks = 264, kInnerIndices = 265, kBlocked = 2 };
constexpr int kScratchpad = 80, kFrom = 1, kTo = 17;

struct Api {
  const Version* (*version)();
  int (*engine_create)(Handle*, int, size_t);
  int (*stream_create)(Handle*, Handle, unsigned);
  int (*stream_destroy)(Handle);
  int (*md_with_strides)(Handle*, int, const int64_t*, int, const int64_t*);
  int (*md_with_tag)(Handle*, int, const int64_t*, int, int);
  int (*md_destroy)(Handle);
  size_t (*md_size)(Handle);
  int (*md_query)(Handle, int, void*);
  int (*memory_create)(Handle*, Handle, Handle, void*);
  int (*memory_set)(Handle, void*);
  int (*memory_destroy)(Handle);
  int (*ops_create)(Handle*);
  int (*ops_destroy)(Handle);
  int (*ops_eltwise)(Handle, int, float, float);
  int (*ops_binary)(Handle, int, Handle);
  int (*attr_create)(Handle*);
  int (*attr_destroy)(Handle);
  int (*attr_ops)(Handle, Handle);
  int (*attr_scratchpad)(Handle, int);
  int (*pd_destroy)(Handle);
  int (*pd_query)(Handle, int, int, void*);
  Handle (*pd_query_md)(Handle, int, int);
  int (*matmul)(Handle*, Handle, Handle, Handle, Handle, Handle, Handle);
  int (*convolution)(Handle*, Handle, int, int, Handle, Handle, Handle, Handle, const int64_t*, const int64_t*,
                     const int64_t*, const int64_t*, Handle);
  int (*pooling)(Handle*, Handle, int, int, Handle, Handle, const int64_t*, const int64_t*, const int64_t*,
                 const int64_t*, const int64_t*, Handle);
  int (*softmax)(Handle*, Handle, int, int, Handle, Handle, int, Handle);
  int (*layer_norm)(Handle*, Handle, int, Handle, Handle, Handle, float, unsigned, Handle);
  int (*reorder)(Handle*, Handle, Handle, Handle, Handle, Handle);
  int (*primitive_create)(Handle*, Handle);
  int (*primitive_execute)(Handle, Handle, int, const ExecutionArgument*);
  int (*primitive_destroy)(Handle);
  void (*set_threads)(int);
  int (*threads)();

  Handle engine;
};

struct Symbol {
  const char* name;
  size_t offset;
};
constexpr Symbol kSymbols[] = {
    {"dnnl_version", offsetof(Api, version)},
    {"dnnl_engine_create", offsetof(Api, engine_create)},
    {"dnnl_stream_create", offsetof(Api, stream_create)},
    {"dnnl_stream_destroy", offsetof(Api, stream_destroy)},
    {"dnnl_memory_desc_create_with_strides", offsetof(Api, md_with_strides)},
    {"dnnl_memory_desc_create_with_tag", offsetof(Api, md_with_tag)},
    {"dnnl_memory_desc_destroy", offsetof(Api, md_destroy)},
    {"dnnl_memory_desc_get_size", offsetof(Api, md_size)},
    {"dnnl_memory_desc_query", offsetof(Api, md_query)},
    {"dnnl_memory_create", offsetof(Api, memory_create)},
    {"dnnl_memory_set_data_handle", offsetof(Api, memory_set)},
    {"dnnl_memory_destroy", offsetof(Api, memory_destroy)},
    {"dnnl_post_ops_create", offsetof(Api, ops_create)},
    {"dnnl_post_ops_destroy", offsetof(Api, ops_destroy)},
    {"dnnl_post_ops_append_eltwise", offsetof(Api, ops_eltwise)},
    {"dnnl_post_ops_append_binary", offsetof(Api, ops_binary)},
    {"dnnl_primitive_attr_create", offsetof(Api, attr_create)},
    {"dnnl_primitive_attr_destroy", offsetof(Api, attr_destroy)},
    {"dnnl_primitive_attr_set_post_ops", offsetof(Api, attr_ops)},
    {"dnnl_primitive_attr_set_scratchpad_mode", offsetof(Api, attr_scratchpad)},
    {"dnnl_primitive_desc_destroy", offsetof(Api, pd_destroy)},
    {"dnnl_primitive_desc_query", offsetof(Api, pd_query)},
    {"dnnl_primitive_desc_query_md", offsetof(Api, pd_query_md)},
    {"dnnl_matmul_primitive_desc_create", offsetof(Api, matmul)},
    {"dnnl_convolution_forward_primitive_desc_create", offsetof(Api, convolution)},
    {"dnnl_pooling_forward_primitive_desc_create", offsetof(Api, pooling)},
    {"dnnl_softmax_forward_primitive_desc_create", offsetof(Api, softmax)},
    {"dnnl_layer_normalization_forward_primitive_desc_create", offsetof(Api, layer_norm)},
    {"dnnl_reorder_primitive_desc_create", offsetof(Api, reorder)},
    {"dnnl_primitive_create", offsetof(Api, primitive_create)},
    {"dnnl_primitive_execute", offsetof(Api, primitive_execute)},
    {"dnnl_primitive_destroy", offsetof(Api, primitive_destroy)},
    {"omp_set_num_threads", offsetof(Api, set_threads)},
    {"omp_get_max_threads", offsetof(Api, threads)},
};

constexpr const char* kMissing = "oneDNN is missing: libdnnl.so.3 is not found; put its folder into LD_LIBRARY_PATH";
constexpr const char* kWrongBuild = "libdnnl.so.3 is no oneDNN 3 for OpenMP";

enum : uint32_t { kFree = 0, kHeld = 1 };
/// Held while the library is opened and primitives are made: seldom, and not for long.
std::atomic<uint32_t> making{kFree};

class Making {
 public:
  Making() {
    while (making.exchange(kHeld, std::memory_order_acquire) == kHeld) cpu_relax();
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  ~Making() { making.store(kFree, std::memory_order_release); }
};

Api opened_api;
bool is_open = false;

/// Null, with a clause, where there is none. `making` is held.
const Api* open_api(const char* file, const char** reason) {
  if (is_open) return &opened_api;
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  void* library = dlopen("libdnnl.so.3", kMode);
  if (library == nullptr && file[0] != '\0') library = dlopen(file, kMode);
  if (library == nullptr) {
    *reason = kMissing;
    return nullptr;
  }
  *reason = kWrongBuild;
  for (const Symbol& symbol : kSymbols) {
    void* const address = dlsym(library, symbol.name);
    if (address == nullptr) return nullptr;
    memcpy(reinterpret_cast<char*>(&opened_api) + symbol.offset, &address, sizeof(address));
  }
  if (opened_api.version()->major != 3 || opened_api.engine_create(&opened_api.engine, kCpu, 0) != 0) return nullptr;
  is_open = true;
  return &opened_api;
}

/// While it lives, oneDNN works on the calling thread alone.
class OneThread {
 public:
  explicit OneThread(const Api& api) : api_(api), before_(api.threads()) { api.set_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() {
    if (before_ != 1) api_.set_threads(before_);
  }

 private:
  const Api& api_;
  const int before_;
};

/// Memory objects of one run of a part; who runs takes it, and puts it back.
struct Execution {
  Handle stream;
  Handle memories[kOnednnMaxTensors + 1];
  void* scratchpad;
};

struct PartState {
  Handle primitive;
  Handle description;  // the primitive's; those of packed tensors and of the scratchpad live in it
  Handle descriptions[kOnednnMaxTensors];
  int64_t scratchpad_bytes;
  std::atomic<Execution*> spare;
};

struct State {
  const Api* api;
  int32_t n_parts;
  int64_t bytes;
  PartState parts[];
};

uint64_t mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29); }

/// Stands for how a tensor lies; 0: in no way that can be told.
uint64_t layout_of(const Api& api, Handle description, int32_t rank) {
  int kind = 0, inner = 0;
  const int64_t *strides = nullptr, *padded = nullptr, *blocks = nullptr, *indices = nullptr;
  if (api.md_query(description, kFormatKind, &kind) != 0 || kind != kBlocked ||
      api.md_query(description, kInnerCount, &inner) != 0 || api.md_query(description, kStrides, &strides) != 0 ||
      api.md_query(description, kPaddedDims, &padded) != 0 ||
      (inner > 0 && (api.md_query(description, kInnerBlocks, &blocks) != 0 ||
                     api.md_query(description, kInnerIndices, &indices) != 0)))
    return 0;
  uint64_t hash = mixed(static_cast<uint64_t>(api.md_size(description)), static_cast<uint64_t>(inner));
  for (int32_t d = 0; d < rank; ++d)
    hash = mixed(mixed(hash, static_cast<uint64_t>(strides[d])), static_cast<uint64_t>(padded[d]));
  for (int i = 0; i < inner; ++i)
    hash = mixed(mixed(hash, static_cast<uint64_t>(blocks[i])), static_cast<uint64_t>(indices[i]));
  return hash == 0 ? 1 : hash;
}

Handle describe(const Api& api, const OnednnTensor& tensor) {
  Handle made = nullptr;
  const int status = tensor.packed == 1 ? api.md_with_tag(&made, tensor.rank, tensor.dims, kF32, kAnyLayout)
                                        : api.md_with_strides(&made, tensor.rank, tensor.dims, kF32, tensor.strides);
  return status == 0 ? made : nullptr;
}

Handle find(const OnednnPart& part, const PartState& state, int32_t argument) {
  for (int32_t t = 0; t < part.n_tensors; ++t)
    if (part.tensors[t].argument == argument) return state.descriptions[t];
  return nullptr;
}

Handle attributes(const Api& api, const OnednnCall& call, const OnednnPart& part, const PartState& state) {
  Handle attributes = nullptr, ops = nullptr;
  bool good = api.attr_create(&attributes) == 0 && api.attr_scratchpad(attributes, kUserScratchpad) == 0 &&
              api.ops_create(&ops) == 0;
  for (int32_t i = 0; good && i < call.n_ops; ++i) {
    const OnednnOp& op = call.ops[i];
    good = op.is_binary == 1 ? api.ops_binary(ops, op.algorithm, find(part, state, onednn::operand_of(i))) == 0
                             : api.ops_eltwise(ops, op.algorithm, op.alpha, op.beta) == 0;
  }
  good = good && api.attr_ops(attributes, ops) == 0;
  if (ops != nullptr) api.ops_destroy(ops);
  if (good) return attributes;
  if (attributes != nullptr) api.attr_destroy(attributes);
  return nullptr;
}

int make_primitive_description(const Api& api, const OnednnCall& call, const OnednnPart& part, const PartState& state,
                               Handle attributes, Handle* made) {
  const Handle source = find(part, state, onednn::kSource), weights = find(part, state, onednn::kWeights);
  const Handle bias = find(part, state, onednn::kBias), destination = find(part, state, onednn::kDestination);
  switch (call.kind) {
    case kOnednnMatmul:
      return api.matmul(made, api.engine, source, weights, bias, destination, attributes);
    case kOnednnConvolution:
      return api.convolution(made, api.engine, kForwardInference, call.algorithm, source, weights, bias, destination,
                             part.strides, part.dilations, part.padding_low, part.padding_high, attributes);
    case kOnednnPooling:
      return api.pooling(made, api.engine, kForwardInference, call.algorithm, source, destination, part.strides,
                         part.window, part.dilations, part.padding_low, part.padding_high, attributes);
    case kOnednnSoftmax:
      return api.softmax(made, api.engine, kForwardInference, call.algorithm, source, destination,
                         part.tensors[0].rank - 1, attributes);
    case kOnednnLayerNorm:
      return api.layer_norm(made, api.engine, kForwardInference, source, destination, nullptr, call.epsilon,
                            kScaleAndShift, attributes);
    default:
      return 1;
  }
}

/// Null where all is well.
const char* make_part(const Api& api, const OnednnCall& call, int32_t p, PartState& state, OnednnReport* report) {
  const OnednnPart& part = call.parts[p];
  for (int32_t t = 0; t < part.n_tensors; ++t)
    if ((state.descriptions[t] = describe(api, part.tensors[t])) == nullptr) return "oneDNN knows no such tensor";
  const Handle attr = attributes(api, call, part, state);
  if (attr == nullptr) return "oneDNN does not do this to a result";
  Handle pd = nullptr;
  const bool made = make_primitive_description(api, call, part, state, attr, &pd) == 0;
  api.attr_destroy(attr);
  if (!made) return "oneDNN has no kernel for it";
  const char* problem = nullptr;
  for (int32_t t = 0; t < part.n_tensors; ++t) {
    if (part.tensors[t].packed != 1) continue;
    const Handle chosen = api.pd_query_md(pd, kWeightsMd, 0);
    const uint64_t layout = layout_of(api, chosen, part.tensors[t].rank);
    if (layout == 0) problem = "oneDNN keeps its weights in a layout of its own";
    if (part.layout != 0 && part.layout != layout)
      problem = "oneDNN lays weights out otherwise on this processor; compile the model for it";
    if (report != nullptr) {
      report->layout[p] = layout;
      report->packed_bytes[p] = static_cast<int64_t>(api.md_size(chosen));
    }
  }
  if (problem == nullptr) {
    if (report != nullptr && p == 0) {
      const char* name = nullptr;
      if (api.pd_query(pd, kImplementation, 0, &name) == 0 && name != nullptr) {
        const size_t length = strlen(name) < sizeof(report->kernel) - 1 ? strlen(name) : sizeof(report->kernel) - 1;
        memcpy(report->kernel, name, length);
        report->kernel[length] = '\0';
      }
    }
    const Handle scratchpad = api.pd_query_md(pd, kScratchpadMd, 0);
    state.scratchpad_bytes = scratchpad == nullptr ? 0 : static_cast<int64_t>(api.md_size(scratchpad));
    if (api.primitive_create(&state.primitive, pd) != 0) problem = "oneDNN could not make its kernel";
  }
  state.description = pd;
  return problem;
}

Handle description_of(const Api& api, const OnednnPart& part, const PartState& state, int32_t t) {
  return part.tensors[t].packed == 1 ? api.pd_query_md(state.description, kWeightsMd, 0) : state.descriptions[t];
}

void free_execution(const Api& api, const OnednnPart& part, const PartState& state, Execution* execution) {
  for (int32_t t = 0; t <= part.n_tensors; ++t)
    if (execution->memories[t] != nullptr) api.memory_destroy(execution->memories[t]);
  if (execution->stream != nullptr) api.stream_destroy(execution->stream);
  fettle_pages_free(execution->scratchpad, state.scratchpad_bytes, 0);
  fettle_pages_free(execution, sizeof(Execution), 0);
}

void free_state(const OnednnCall& call, State* state) {
  const Api& api = *state->api;
  for (int32_t p = 0; p < state->n_parts; ++p) {
    PartState& part = state->parts[p];
    if (Execution* spare = part.spare.exchange(nullptr)) free_execution(api, call.parts[p], part, spare);
    if (part.primitive != nullptr) api.primitive_destroy(part.primitive);
    if (part.description != nullptr) api.pd_destroy(part.description);
    for (int32_t t = 0; t < call.parts[p].n_tensors; ++t)
      if (part.descriptions[t] != nullptr) api.md_destroy(part.descriptions[t]);
  }
  fettle_pages_free(state, state->bytes, 0);
}

/// `making` is held.
State* make_state(const OnednnCall& call, const char** reason, OnednnReport* report) {
  const Api* api = open_api(call.library, reason);
  if (api == nullptr) return nullptr;
  const Version& version = *api->version();
  if (version.major != call.version[0] || version.minor != call.version[1] || version.patch != call.version[2]) {
    *reason = "libdnnl.so.3 is of another version than the model was compiled with";
    return nullptr;
  }
  const auto bytes = static_cast<int64_t>(sizeof(State) + sizeof(PartState) * static_cast<size_t>(call.n_parts));
  auto* state = static_cast<State*>(fettle_pages_alloc(bytes, 0));
  if (state == nullptr) {
    *reason = "no memory for oneDNN's kernels";
    return nullptr;
  }
  state->api = api;
  state->n_parts = call.n_parts;
  state->bytes = bytes;
  const OneThread one(*api);
  for (int32_t p = 0; p < call.n_parts; ++p)
    if (const char* problem = make_part(*api, call, p, state->parts[p], report)) {
      *reason = problem;
      free_state(call, state);
      return nullptr;
    }
  return state;
}

Execution* make_execution(const Api& api, const OnednnPart& part, const PartState& state) {
  auto* execution = static_cast<Execution*>(fettle_pages_alloc(sizeof(Execution), 0));
  if (execution == nullptr) return nullptr;
  bool good = api.stream_create(&execution->stream, api.engine, 1) == 0;
  execution->scratchpad = state.scratchpad_bytes > 0 ? fettle_pages_alloc(state.scratchpad_bytes, 0) : nullptr;
  good = good && (state.scratchpad_bytes == 0 || execution->scratchpad != nullptr);
  for (int32_t t = 0; good && t < part.n_tensors; ++t)
    good = api.memory_create(&execution->memories[t], description_of(api, part, state, t), api.engine, nullptr) == 0;
  good = good && (state.scratchpad_bytes == 0 || api.memory_create(&execution->memories[part.n_tensors],
                                                                   api.pd_query_md(state.description, kScratchpadMd, 0),
                                                                   api.engine, execution->scratchpad) == 0);
  if (good) return execution;
  free_execution(api, part, state, execution);
  return nullptr;
}

int32_t run_part(const Api& api, const OnednnPart& part, PartState& state, void** buffers) {
  Execution* execution = state.spare.exchange(nullptr, std::memory_order_acquire);
  if (execution == nullptr) execution = make_execution(api, part, state);
  if (execution == nullptr) return FETTLE_OUT_OF_MEMORY;
  ExecutionArgument arguments[kOnednnMaxTensors + 1];
  bool good = true;
  for (int32_t t = 0; t < part.n_tensors; ++t) {
    const OnednnTensor& tensor = part.tensors[t];
    arguments[t] = {tensor.argument, execution->memories[t]};
    good = good && api.memory_set(execution->memories[t],
                                  static_cast<char*>(buffers[tensor.buffer]) + tensor.offset_bytes) == 0;
  }
  int n = part.n_tensors;
  if (state.scratchpad_bytes > 0) arguments[n] = {kScratchpad, execution->memories[n]}, ++n;
  {
    const OneThread one(api);
    good = good && api.primitive_execute(state.primitive, execution->stream, n, arguments) == 0;
  }
  if (Execution* other = state.spare.exchange(execution, std::memory_order_acq_rel))
    free_execution(api, part, state, other);
  return good ? FETTLE_OK : FETTLE_KERNEL_FAILED;
}

/// The call's primitives, made by the first who comes; null, the context told why, where they cannot be.
State* state_of(FettleContext* context, const OnednnCall* call, std::atomic<uintptr_t>* word) {
  uintptr_t known = word->load(std::memory_order_acquire);
  if (known == 0) {
    const Making held;
    known = word->load(std::memory_order_acquire);
    if (known == 0) {
      const char* reason = nullptr;
      known = reinterpret_cast<uintptr_t>(make_state(*call, &reason, nullptr));
      if (known == 0) {
        context->reason = reason;
        return nullptr;
      }
      word->store(known, std::memory_order_release);
    }
  }
  return reinterpret_cast<State*>(known);
}

struct Run {
  const OnednnCall* call;
  State* state;
  void** buffers;
  std::atomic<int32_t> status;
};

void run_numbered(void* closure, int64_t p) {
  auto* run = static_cast<Run*>(closure);
  const int32_t status = run_part(*run->state->api, run->call->parts[p], run->state->parts[p], run->buffers);
  if (status != FETTLE_OK) run->status.store(status, std::memory_order_relaxed);
}

bool pack_part(const Api& api, const OnednnPart& part, const PartState& state, void** buffers) {
  int32_t t = 0;
  while (part.tensors[t].packed != 1) ++t;
  const OnednnTensor &from = part.packed_from, &to = part.tensors[t];
  Handle description = describe(api, from), pd = nullptr, reorder = nullptr, stream = nullptr;
  Handle source = nullptr, destination = nullptr;
  const Handle packed = description_of(api, part, state, t);
  bool good =
      description != nullptr && api.reorder(&pd, description, api.engine, packed, api.engine, nullptr) == 0 &&
      api.primitive_create(&reorder, pd) == 0 && api.stream_create(&stream, api.engine, 1) == 0 &&
      api.memory_create(&source, description, api.engine, static_cast<char*>(buffers[0]) + from.offset_bytes) == 0 &&
      api.memory_create(&destination, packed, api.engine, static_cast<char*>(buffers[1]) + to.offset_bytes) == 0;
  if (good) {
    const ExecutionArgument arguments[] = {{kFrom, source}, {kTo, destination}};
    good = api.primitive_execute(reorder, stream, 2, arguments) == 0;
  }
  if (source != nullptr) api.memory_destroy(source);
  if (destination != nullptr) api.memory_destroy(destination);
  if (stream != nullptr) api.stream_destroy(stream);
  if (reorder != nullptr) api.primitive_destroy(reorder);
  if (pd != nullptr) api.pd_destroy(pd);
  if (description != nullptr) api.md_destroy(description);
  return good;
}

}  // namespace

void onednn_prepare(const OnednnCall* call, OnednnReport* report) {
  memset(report, 0, sizeof(*report));
  const Making held;
  if (State* state = make_state(*call, &report->reason, report)) free_state(*call, state);
}

bool onednn_version(const char* library, int32_t version[3], const char** reason) {
  const Making held;
  const Api* api = open_api(library, reason);
  if (api == nullptr) return false;
  version[0] = api->version()->major;
  version[1] = api->version()->minor;
  version[2] = api->version()->patch;
  return true;
}

}  // namespace fettle::rt

using namespace fettle::rt;

int32_t fettle_onednn_run(FettleContext* context, void** buffers, const int64_t*, const OnednnCall* call,
                          std::atomic<uintptr_t>* word) {
  State* state = state_of(context, call, word);
  if (state == nullptr) return FETTLE_KERNEL_FAILED;
  Run run{call, state, buffers, {FETTLE_OK}};
  if (call->n_parts == 1)
    run_numbered(&run, 0);
  else
    fettle_parallel_for(context->team, call->n_parts, run_numbered, &run);
  return run.status.load(std::memory_order_relaxed);
}

int32_t fettle_onednn_pack(FettleContext* context, void** buffers, const int64_t*, const OnednnCall* call,
                           std::atomic<uintptr_t>* word) {
  State* state = state_of(context, call, word);
  if (state == nullptr) return FETTLE_KERNEL_FAILED;
  const OneThread one(*state->api);
  for (int32_t p = 0; p < call->n_parts; ++p)
    if (call->parts[p].packs == 1 && !pack_part(*state->api, call->parts[p], state->parts[p], buffers))
      return FETTLE_KERNEL_FAILED;
  return FETTLE_OK;
}
