/* The binary interface between compiled kernels, the host program that calls them, and rt.
 * C on purpose: code generators declare these functions by name and lay these structs out by hand. */
#ifndef FETTLE_ABI_H
#define FETTLE_ABI_H

#include "rt/model_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FettleTeam FettleTeam;
typedef struct FettleScratch FettleScratch;
typedef struct FettleStrings FettleStrings; /* rt/strings.h */
typedef struct FettleQueue FettleQueue;     /* rt/device.h */

/* What every kernel is given. Compiled code reads `team` (offset 0) and hands the whole on; it reads no other field.
 * The contexts of models (rt/model_context.h) begin with it. */
struct FettleContext {
  FettleTeam* team;           /* null: one thread */
  FettleScratch* scratch;     /* null: scratch blocks come from the system each time */
  FettleKernelHook on_kernel; /* null: nobody asks */
  void* on_kernel_user;
  int32_t failed_kernel; /* that the model's call failed in: its index plus one; -1: in no kernel; 0: it did not fail */
  uint32_t cancelled;    /* atomic; not 0: fettle_call_kernel starts no kernel */
  FettleStrings* strings;            /* of which kernels have the numbers; null: there are none */
  const char* reason;                /* why the kernel failed, a clause; null: it has not said */
  const FettleHostCalls* host_calls; /* functions of the host program; null: there are none */
  const FettleTracer* tracer;        /* null: nobody asks */
  FettleQueue* queue;                /* of launches on the device that kernels run on; null: they run here */
};

/* Every compiled kernel, and the host program too.
 * buffers: one pointer a buffer parameter, in order. ints: the integer parameters, in order.
 * Returns a FettleStatus.
 *
 * The host program of a model (`entry`) gets: buffers = inputs, outputs, states, the arena, constants, and the table of
 * sizes where there is one; ints = that table, else null. Inputs and outputs are aligned to their element only; the
 * arena and states to a page; constants to 64 bytes, from 64 KiB on to a page. The input and the output that a state
 * stands for lie where the state does. Where kernels run on a device with memory of its own, all of these but the table
 * lie there: their addresses are handed on and computed with, and nothing is read but by fettle_device_fetch (rt/device.h).
 *
 * The table of sizes has n_sizes entries: bytes of the arena, the extents of all outputs one after the other, then what
 * the host program keeps for itself. `resize` fills it: buffers[0] = the table; ints = the extents of all inputs, one
 * after the other; -1 for those of an empty state that other inputs tell. Where sizes break rule number i, table[0] = -1 - i, and size_errors[i] says which. It is
 * called where extents differ from those of the call before. The extents of outputs that a run tells are -1 before it.
 *
 * Such sizes are reached in stages (FettleStage): `entry` calls fettle_reach_stage, which fills the entries of a stage,
 * and gives memory to what depends on them. Behind the table stands the arena of each stage among the buffers. Its
 * address, and those of outputs whose sizes a run tells, are read anew after such a call. */
typedef int32_t (*FettleKernel)(FettleContext* context, void** buffers, const int64_t* ints);

typedef void (*FettleBody)(void* closure, int64_t i);

/* Calls body(closure, i) once for each i in [0, n). Each thread has one contiguous share, ascending; the shares are in
 * order and differ by at most one, the first being the caller's. Whoever is done takes from the ends of the shares of
 * those who are behind, and a worker that has not come by then is not waited for; so which thread runs an iteration is
 * open. Returns when all calls have returned; what they wrote is then visible to the caller. A call from inside a body,
 * or while another thread uses the team, runs serially on the calling thread. n <= 0 does nothing. Every thread rounds,
 * and treats denormal numbers, as the caller does (rt/float_mode.h). */
void fettle_parallel_for(FettleTeam* team, int64_t n, FettleBody body, void* closure);

/* Sections of a host program: calls body(closure, i) once for each i in [0, n), as fettle_parallel_for does on the
 * context's team. Where kernels or steps are told to a hook or a tracer, one after the other on the calling thread. */
void fettle_run_sections(FettleContext* context, int64_t n, FettleBody body, void* closure);

/* Threads of the team, the caller included; 1 for null. */
int32_t fettle_team_size(const FettleTeam* team);

/* Runs kernel number `index` of the model, and reports its time to the context's hook, if there is one. Where the
 * context is cancelled it runs nothing and returns FETTLE_CANCELLED; likewise where something failed before. */
int32_t fettle_call_kernel(FettleContext* context, int32_t index, FettleKernel kernel, void** buffers,
                           const int64_t* ints);

/* What depends on the integers that stage number `stage` reads, from 1 on: `ints`. `table` is the table of sizes. Where
 * they break a rule, or memory runs out, the call of the model ends: no kernel runs any more. */
int32_t fettle_reach_stage(FettleContext* context, int32_t stage, int64_t* table, const int64_t* ints);

/* The host program begins, goes on with or ends a loop or a branch: `event` is a FettleStepEvent. The tracer is told. */
void fettle_mark_step(FettleContext* context, int32_t step, int32_t event);

/* A block of at least `bytes` bytes, aligned to 64, contents undefined; null when there is no memory. Blocks are kept
 * and given again, the last used by this thread first. May be called from bodies. Release exactly once, with the same
 * context. */
void* fettle_scratch_acquire(FettleContext* context, int64_t bytes);
void fettle_scratch_release(FettleContext* context, void* block);

/* What a thread had in its tile registers (Intel's AMX): configuration and contents. Aligned to 64 bytes. */
typedef struct FettleTileState {
  unsigned char bytes[64 + 8 * 1024];
} FettleTileState;

/* Around code that uses the tile unit, on the thread that runs it: all eight tiles are whole in between. What was there
 * before is back afterwards; where that was nothing, the unit is released, which keeps threads quick to switch. Only
 * where the system has permitted it (rt/tiles.h), which fettle_cpu_check asks for. */
void fettle_tiles_begin(FettleTileState* before);
void fettle_tiles_end(const FettleTileState* before);

/* A packing gets the constants that it reads and those that it makes, these zeroed; ints is null. */

/* The functions above, for a code generator that resolves names itself. Ends with a null name. */
typedef struct FettleSymbol {
  const char* name;
  void* address;
} FettleSymbol;
const FettleSymbol* fettle_rt_symbols(void);

#ifdef __cplusplus
}
#endif

#endif
