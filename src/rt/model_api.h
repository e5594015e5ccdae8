/* The interface of a compiled model, in C: what a program needs that loads or links OUT.so.
 * Every generated OUT.h carries this text, so it needs no other file.
 *
 * A model is code, constants and threads. It never changes, and any number of threads share it. A context is what one
 * call after another works with: memory, sizes, state. One thread at a time uses a context; make as many as shall run
 * at once.
 *
 * Zero is the default of every field, except of struct_bytes: a program sets it to the struct's sizeof, which tells the
 * model which fields the program knows. */
#ifndef FETTLE_MODEL_API_H
#define FETTLE_MODEL_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. 0 is success; every failure is negative. */
typedef enum FettleStatus {
  FETTLE_OK = 0,
  FETTLE_INVALID_ARGUMENT = -1, /* a null pointer, a wrong type, a name that does not exist */
  FETTLE_OUT_OF_MEMORY = -2,    /* the arena, an output, a scratch block or a thread could not be had */
  FETTLE_UNSUPPORTED_CPU = -3,  /* this processor lacks an instruction set that the model was compiled for */
  FETTLE_BUSY = -4,             /* the context is being used by another call; its error text is left as it was */
  FETTLE_KERNEL_FAILED = -5,    /* compiled code gave up */
  FETTLE_WRONG_SHAPE = -6,      /* an extent that the model does not take, or two that must agree and do not */
  FETTLE_CANCELLED = -7,        /* by another thread; outputs are undefined */
  FETTLE_DEVICE_FAILED = -8     /* the device that kernels run on, or its driver, is missing, was lost, or refused */
} FettleStatus;

/* Element types. The numbers are part of the interface and never change. */
typedef enum FettleDtype {
  FETTLE_BOOL = 1, /* one byte, 0 or 1 */
  FETTLE_I8 = 2,
  FETTLE_U8 = 3,
  FETTLE_I16 = 4,
  FETTLE_U16 = 5,
  FETTLE_I32 = 6,
  FETTLE_U32 = 7,
  FETTLE_I64 = 8,
  FETTLE_U64 = 9,
  FETTLE_F16 = 10,
  FETTLE_BF16 = 11,
  FETTLE_F32 = 12,
  FETTLE_F64 = 13,
  /* One byte an element. Integers: its value, sign-extended. Floats: the code in the byte's low bits, by the names that
   * ONNX gives them. */
  FETTLE_I4 = 14,
  FETTLE_U4 = 15,
  FETTLE_I2 = 16,
  FETTLE_U2 = 17,
  FETTLE_F8E4M3FN = 18,
  FETTLE_F8E4M3FNUZ = 19,
  FETTLE_F8E5M2 = 20,
  FETTLE_F8E5M2FNUZ = 21,
  FETTLE_F8E8M0 = 22,
  FETTLE_F4E2M1 = 23,
  FETTLE_STRING = 24 /* a FettleString */
} FettleDtype;

/* A text, in UTF-8; nothing is made of bytes that are not. What an output holds is the context's until its next call, which
 * may be given it. */
typedef struct FettleString {
  const char* data; /* that no zero need follow */
  int64_t bytes;
} FettleString;

/* Where data lie: the numbers of DLPack's DLDeviceType. A model takes tensors in the CPU's memory, and in that of the
 * device that its kernels run on. */
typedef enum FettleDevice {
  FETTLE_CPU = 1,
  FETTLE_CUDA = 2,
  FETTLE_CUDA_HOST = 3, /* memory of the CPU that CUDA knows */
  FETTLE_OPENCL = 4     /* shared virtual memory, at an address */
} FettleDevice;

/* An array, or, where data is null, the description of one. A tensor to be given is a description with data:
 *   FettleTensor x = info->inputs[0];  x.data = pixels;  and, where an extent is open, x.shape = extents; */
typedef struct FettleTensor {
  uint32_t struct_bytes; /* sizeof(FettleTensor) */
  int32_t dtype;         /* a FettleDtype */
  int32_t rank;
  int32_t device;       /* a FettleDevice; 0: the CPU */
  int32_t device_index; /* which of that kind */
  int32_t reserved;
  const char* name;              /* of descriptions; in tensors that are given it is not looked at */
  void* data;                    /* aligned to the element */
  const int64_t* shape;          /* rank extents, outermost first; in descriptions -1 where each call decides */
  const int64_t* strides;        /* of each axis, counted in elements; null: dense, row-major. Outputs must be dense */
  const char* const* axis_names; /* of descriptions: what an open extent is, "N", "2 * N + 1"; null where it is fixed */
  int64_t capacity_bytes; /* of an output: room at data; 0: what its shape takes; negative: data are the context's */
} FettleTensor;

/* Bytes of the tensor's elements; -1 where an extent is open. */
static inline int64_t fettle_tensor_bytes(const FettleTensor* tensor) {
  static const uint8_t elem_bytes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 16};
  int64_t bytes = elem_bytes[tensor->dtype];
  for (int32_t d = 0; d < tensor->rank; ++d) {
    if (tensor->shape[d] < 0) return -1;
    bytes *= tensor->shape[d];
  }
  return bytes;
}

/* Threads that the host program owns, in place of a team made by the model.
 * parallel_for calls body(closure, i) once for each i in [0, n), on any threads and in any order, and returns when
 * all calls have. It may be called from inside a body; then it may simply loop. */
typedef struct FettleHostTeam {
  uint32_t struct_bytes; /* sizeof(FettleHostTeam) */
  int32_t reserved;
  void* user;
  int32_t (*size)(void* user); /* how many threads may run bodies at once, >= 1 */
  void (*parallel_for)(void* user, int64_t n, void (*body)(void* closure, int64_t i), void* closure);
} FettleHostTeam;

/* A call of a function that the host program has, by its name. All tensors are dense. */
typedef struct FettleHostCall {
  uint32_t struct_bytes; /* sizeof(FettleHostCall) */
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t reserved;
  const char* name;   /* "linalg.eigh" */
  const char* config; /* what the function alone understands */
  const FettleTensor* inputs;
  const FettleTensor* outputs; /* whose data the function writes */
  char* error;                 /* room for a sentence, where it fails: what went wrong, ended by a zero */
  int64_t error_bytes;
} FettleHostCall;

/* The functions of the host program. `call` returns a FettleStatus; several threads may call it at once. */
typedef struct FettleHostCalls {
  uint32_t struct_bytes; /* sizeof(FettleHostCalls) */
  int32_t reserved;
  void* user;
  int32_t (*call)(void* user, const FettleHostCall* call);
} FettleHostCalls;

/* How a model is to run. */
typedef struct FettleOptions {
  uint32_t struct_bytes;  /* sizeof(FettleOptions) */
  int32_t threads;        /* including the caller; 0: what the model was compiled for, within what the machine has */
  int32_t pin;            /* 1: bind each worker thread to a core of its own (the calling thread is left alone) */
  int32_t spin_us;        /* how long an idle worker spins before it sleeps; 0: 200; negative: sleep at once */
  int32_t huge_pages;     /* 1: ask for huge pages for arenas */
  int32_t keep_denormals; /* 1: compute with denormal f32, f64 and bf16; 0: operands and results that are so are zero */
  const FettleHostTeam* host_team; /* not null: use these threads; threads, pin and spin_us are then ignored. Copied */
  const FettleHostCalls* host_calls; /* functions that the model calls by name; null: there are none. Copied */
  /* Of models whose kernels run on a device. Where a stream is given and all tensors lie on the device, a call returns
   * when its work is in the stream, which the caller waits for. */
  void* stream; /* of the device's driver: a CUstream, or (void*)1 for CUDA's default one; null: one of its own */
  int32_t device_index; /* which device of its kind */
  int32_t no_graphs;    /* 1: kernels are launched one by one, where they could be one CUDA graph for each shape */
  /* Calls that run at once on `threads` threads of their own each: context number i has the threads of stream
   * i % streams. More contexts than that share them. 0: as many as the model was compiled for. */
  int32_t streams;
  int32_t reserved;
} FettleOptions;

typedef struct FettleModel FettleModel;
typedef struct FettleContext FettleContext;
typedef struct FettleModelInfo FettleModelInfo;
typedef struct FettleDriver FettleDriver; /* of the device that kernels run on */

/* Told after each kernel of a call: its index in kernel_names, and monotonic nanoseconds. Called on the thread that
 * runs. */
typedef void (*FettleKernelHook)(void* user, int32_t kernel, int64_t begin_ns, int64_t end_ns);

/* A loop or a branch of the host program begins, goes on with its next iteration, or ends. */
typedef enum FettleStepEvent { FETTLE_STEP_BEGIN = 0, FETTLE_STEP_NEXT = 1, FETTLE_STEP_END = 2 } FettleStepEvent;

/* What a call does beside its kernels, told on the thread that runs, with monotonic nanoseconds. */
typedef struct FettleTracer {
  uint32_t struct_bytes; /* sizeof(FettleTracer) */
  int32_t reserved;
  void* user;
  void (*on_step)(void* user, int32_t step, int32_t event, int64_t ns); /* step: its index in step_names; may be null */
  void (*on_memory)(void* user, int64_t bytes, int64_t ns); /* that the context holds from now on; may be null */
} FettleTracer;

/* What one run of a kernel takes. Negative: it depends on sizes that are open. */
typedef struct FettleKernelWork {
  double flops;        /* of the algorithm that needs fewest */
  double bytes;        /* of its operands, each once */
  int64_t arena_bytes; /* in use by values that are alive while it runs */
} FettleKernelWork;

/* Memory for output number `output`, at least `bytes`, aligned to 64; null: there is none. The program frees it. */
typedef void* (*FettleAllocate)(void* user, int32_t output, int64_t bytes);

/* A tensor that outlives calls, and belongs to a context: what one call leaves in an output is an input of the next. */
typedef struct FettleState {
  uint32_t struct_bytes;      /* sizeof(FettleState) */
  int32_t input;              /* that it stands for ("past"): the caller need not give it */
  int32_t output;             /* likewise ("present") */
  int32_t length_axis;        /* along which it grows, from 0 on; -1: its shape is fixed, and it begins as zeros */
  const FettleTensor* tensor; /* name and type; the shape is the most it can hold */
} FettleState;

/* An input or output that is no tensor: a sequence, an optional or a map. It is made of tensors that lie side by side
 * among the model's inputs or outputs:
 *   tensor(T)              X itself
 *   seq(tensor(T))         X.data T[total], the elements one after the other; X.dims i64[n, rank], the extents of each,
 *                          -1 behind those of an element of lower rank
 *   map(K, V)              X.keys K[n], X.values V[n]
 *   seq(map(K, V))         X.keys K[n, k], X.values V[n, k]
 *   optional(...)          X.present bool[], then those of what it may hold; nobody reads these where it is false */
typedef struct FettleStructure {
  uint32_t struct_bytes; /* sizeof(FettleStructure) */
  int32_t is_output;     /* 1: the tensors are outputs, else inputs */
  int32_t first_tensor;  /* the first of them */
  int32_t n_tensors;
  const char* name; /* "X", as the model file has it */
  const char* type; /* as ONNX writes it: "seq(tensor(float))" */
} FettleStructure;

/* Sizes that come to be known while a call runs, and what they need. For compiled code (rt/abi.h). */
typedef struct FettleStage {
  int32_t (*resize)(FettleContext* context, void** buffers, const int64_t* ints); /* fills its entries of the table */
  int32_t arena_bytes_at; /* the entry that says how large the stage's arena is */
  int32_t keeps;          /* 1: what that arena holds stays when it grows */
} FettleStage;

/* Constants that are made when a model is opened, out of others. For compiled code. */
typedef struct FettlePacking {
  int32_t (*run)(FettleContext* context, void** buffers, const int64_t* ints);
  const int32_t* constants; /* of each of its buffers: which of the model's constants */
  int64_t n_constants;
} FettlePacking;

/* The functions that OUT.h declares, for a program that finds `fettle_artefact` in a library that it loads. */
typedef struct FettleFunctions {
  uint32_t struct_bytes;
  int32_t reserved;
  FettleModel* (*open)(const FettleModelInfo* info, uint32_t abi_version, const FettleOptions* options);
  void (*close)(FettleModel* model);
  FettleContext* (*create_context)(FettleModel* model);
  void (*destroy_context)(FettleContext* context);
  int32_t (*run)(FettleContext* context, const FettleTensor* inputs, FettleTensor* outputs);
  int32_t (*begin)(FettleContext* context, const FettleTensor* inputs, FettleTensor* outputs);
  int32_t (*wait)(FettleContext* context);
  int32_t (*cancel)(FettleContext* context);
  int32_t (*output_shapes)(FettleContext* context, const FettleTensor* inputs, FettleTensor* outputs);
  int32_t (*get_state)(FettleContext* context, const char* name, FettleTensor* tensor);
  int32_t (*set_state)(FettleContext* context, const char* name, const FettleTensor* tensor);
  void (*allocate_with)(FettleContext* context, FettleAllocate allocate, void* user);
  void (*profile)(FettleContext* context, FettleKernelHook hook, void* user);
  const char* (*error)(const FettleContext* context);
  void (*trace)(FettleContext* context, const FettleTracer* tracer); /* where struct_bytes says that it is there */
} FettleFunctions;

/* All that is known of a compiled model without running any of its code. */
struct FettleModelInfo {
  uint32_t magic;        /* FETTLE_MAGIC */
  uint32_t abi_version;  /* FETTLE_ABI_VERSION of the compiler; the fields below are as this version has them */
  uint32_t struct_bytes; /* sizeof(FettleModelInfo) */
  int32_t default_threads;
  const char* name;
  const char* compiler;        /* "fettle 0.1.0" */
  const char* target_cpu;      /* the processor it was tuned for, in LLVM's spelling; for reading only */
  const char* target_features; /* instruction sets it needs, separated by commas: "avx2,fma,avx512f" */
  const FettleTensor* inputs;
  const FettleTensor* outputs;
  const FettleState* states;
  const char* const* kernel_names;
  const char* const* kernel_origins; /* of each, the model file's nodes that it does the work of: "Conv c1\nRelu r1" */
  const FettleTensor*
      constants; /* with data, which is read-only and shared by all who load the file, or made by `packings` */
  const char* const* size_errors; /* what sizes can have wrong with them */
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t n_states;
  int32_t n_kernels;
  int32_t n_constants;
  int32_t n_size_errors;
  int32_t n_sizes;         /* entries of a context's table of sizes; 0: all sizes are fixed */
  int32_t default_streams; /* calls at once that it was tuned for, each on default_threads; 0: one */
  int64_t arena_bytes;     /* working memory that a context takes; with open sizes, `resize` tells */
  /* compiled code (rt/abi.h) */
  int32_t (*entry)(FettleContext* context, void** buffers, const int64_t* ints);
  int32_t (*resize)(FettleContext* context, void** buffers, const int64_t* ints);
  const FettleFunctions* functions;
  const FettleStage* stages;    /* n_stages of them */
  const int32_t* output_stages; /* of each output: the stage, counted from 1, that tells its size; 0: known before */
  int32_t n_stages;
  int32_t n_structures;
  const FettleStructure* structures; /* those inputs and outputs that are no tensors */
  /* The strings of the constants, one after the other: number i, from 1 on, ends at string_ends[i - 1]. Number 0 is "". */
  const char* string_bytes;
  const int64_t* string_ends;
  int64_t n_strings;
  /* For whoever traces calls; there where struct_bytes says so. */
  const FettleKernelWork* kernel_work; /* of each kernel; may be null */
  const char* const* step_names;       /* of loops and branches: "Loop decode", "If early: then" */
  int64_t n_steps;
  const FettleDriver* driver; /* null: kernels run on the CPU */
  int32_t device;             /* that kernels run on, a FettleDevice; 0: the CPU */
  int32_t n_targets;
  /* What a library of several targets holds for each, the best first: names, types, shapes, sizes and states are equal.
   * `open` opens any of them. Null: there is this one alone. */
  const FettleModelInfo* const* targets;
  const char* target; /* the name of this one: "x86-64-avx2"; null: it was not given one */
  /* Of constants without data, in any order or at once. No two write the same ones. */
  const FettlePacking* packings;
  int64_t n_packings;
};

#define FETTLE_MAGIC 0x4c545446u /* "FTTL" */
#define FETTLE_ABI_VERSION 3u

#ifdef __cplusplus
}
#endif

#endif
