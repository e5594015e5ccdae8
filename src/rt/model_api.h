/* The interface of a compiled model, in C: what a program needs that loads or links OUT.so.
 * Every generated OUT.h carries this text, so it needs no other file. */
#ifndef FETTLE_MODEL_API_H
#define FETTLE_MODEL_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. 0 is success; every failure is negative. */
typedef enum FettleStatus {
  FETTLE_OK = 0,
  FETTLE_INVALID_ARGUMENT = -1, /* a null pointer, a negative count, a name that does not exist */
  FETTLE_OUT_OF_MEMORY = -2,    /* the arena, a scratch block or a thread could not be had */
  FETTLE_UNSUPPORTED_CPU = -3,  /* this processor lacks an instruction set that the model was compiled for */
  FETTLE_BUSY = -4,             /* the model is being run by another thread */
  FETTLE_KERNEL_FAILED = -5     /* compiled code gave up */
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
  FETTLE_F64 = 13
} FettleDtype;

/* A dense row-major tensor, or, where data is null, the description of one. */
typedef struct FettleTensor {
  const char* name;
  void* data;
  const int64_t* shape; /* rank extents, outermost first */
  int32_t rank;
  int32_t dtype; /* a FettleDtype */
} FettleTensor;

/* Bytes of the tensor's data. */
static inline int64_t fettle_tensor_bytes(const FettleTensor* tensor) {
  static const uint8_t elem_bytes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  int64_t bytes = elem_bytes[tensor->dtype];
  for (int32_t d = 0; d < tensor->rank; ++d) bytes *= tensor->shape[d];
  return bytes;
}

/* Threads that the host program owns, in place of a team made by the model.
 * parallel_for calls body(closure, i) once for each i in [0, n), on any threads and in any order, and returns when
 * all calls have. It may be called from inside a body; then it may simply loop. */
typedef struct FettleHostTeam {
  void* user;
  int32_t (*size)(void* user); /* how many threads may run bodies at once, >= 1 */
  void (*parallel_for)(void* user, int64_t n, void (*body)(void* closure, int64_t i), void* closure);
} FettleHostTeam;

/* How a model is to run. Zero everything, then set what matters: zero is the default of every field. */
typedef struct FettleOptions {
  int32_t threads;    /* including the caller; 0: what the model was compiled for, within what the machine has */
  int32_t pin;        /* 1: bind each worker thread to a core of its own (the calling thread is left alone) */
  int32_t spin_us;    /* how long an idle worker spins before it sleeps; 0: 200; negative: sleep at once */
  int32_t huge_pages; /* 1: ask for huge pages for the arena */
  const FettleHostTeam* host_team; /* not null: use these threads; threads, pin and spin_us are then ignored. Copied */
} FettleOptions;

typedef struct FettleModel FettleModel;
struct FettleContext;

/* Told after each kernel of a run: its index in kernel_names, and monotonic nanoseconds. Called on the thread that
 * runs. */
typedef void (*FettleKernelHook)(void* user, int32_t kernel, int64_t begin_ns, int64_t end_ns);

/* All that is known of a compiled model without running any of its code. */
typedef struct FettleModelInfo {
  uint32_t magic;       /* FETTLE_MAGIC */
  uint32_t abi_version; /* FETTLE_ABI_VERSION of the compiler; the fields below are as this version has them */
  const char* name;
  const char* compiler;        /* "fettle 0.1.0" */
  const char* target_cpu;      /* the processor it was tuned for, in LLVM's spelling; for reading only */
  const char* target_features; /* instruction sets it needs, separated by commas: "avx2,fma,avx512f" */
  const FettleTensor* inputs;
  const FettleTensor* outputs;
  const char* const* kernel_names;
  const char* const* kernel_origins; /* of each, the model file's nodes that it does the work of: "Conv c1\nRelu r1" */
  const FettleTensor* constants;     /* with data, which is read-only and shared by all who load the file */
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t n_kernels;
  int32_t n_constants;
  int32_t default_threads;
  int32_t reserved;
  int64_t arena_bytes; /* working memory a model instance takes for activations */
  /* entry points, the same as the exported functions */
  int32_t (*entry)(struct FettleContext* context, void** buffers, const int64_t* ints);
  FettleModel* (*create)(const FettleOptions* options);
  int32_t (*run)(FettleModel* model, const void* const* inputs, void* const* outputs);
  void (*profile)(FettleModel* model, FettleKernelHook hook, void* user);
  void (*destroy)(FettleModel* model);
  const char* (*error)(const FettleModel* model);
} FettleModelInfo;

#define FETTLE_MAGIC 0x4c545446u /* "FTTL" */
#define FETTLE_ABI_VERSION 2u

#ifdef __cplusplus
}
#endif

#endif
