#pragma once
// The steps that programs for threads take, in the order in which device.cpp runs them. Before them: mark_pipelines and
// flatten_blocks.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "arith/analyzer.h"
#include "base/result.h"
#include "ir/func.h"
#include "lower/device/device.h"
#include "target/target.h"

namespace fettle {

/// Who shares one copy of a buffer, from the target's declaration of its scope.
enum class SharedBy { kAll, kBlock, kThread };
SharedBy sharing_of(const BufferNode& buffer, const Target& target);

/// Buffers for which the schedule gives no scope (it is `global`) get the one of the place where they live:
///   inside a loop over threads (all accesses in one iteration of it)   →   local
///   else inside a loop over blocks                                     →   shared
///   else                                                               →   global
/// A nest over threads inside the place where a buffer lives fills it for all of them: then it is shared.
Func infer_scopes(const Func& func, const Target& target);

/// Guards that read no memory move to the single statements inside.
///   if p: for i: [S; T]   →   for i: [if p: S; if p: T]
Stmt sink_guards(const Stmt& body);

/// Loops over virtual threads move to the innermost statements and are unrolled there, so that their iterations are
/// interleaved in one thread. What does not depend on them is done once.
///       for v in 2 vthread: for k: [T[k] = A[k]; C[v] += T[k]]
///   →   for k: [T[k] = A[k]; for v in 2 unrolled: C[v] += T[k]]
Stmt unroll_virtual_threads(const Stmt& body);

/// The threads of one kernel.
struct ThreadShape {
  std::array<Var, 3> vars;  // threadIdx.x, .y, .z; null: not used
  std::array<int64_t, 3> extents = {1, 1, 1};

  /// How many axes, from x on, the 32 lanes of a warp lie along: x, or x and y where these have 32 threads together.
  int lane_axes() const { return extents[0] < 32 && extents[0] * extents[1] == 32 ? 2 : 1; }
};

/// A pipelined loop whose copies warps of their own issue: annotated so, and the target has a copy engine.
bool is_ring(const ForNode& loop, const Target& target);

/// All loops over threads of one block give way to one thread each: the variables of `shape`. What only some threads do
/// is guarded; what stands outside of the loops over an axis, and writes what others may read, is done by thread 0 of
/// it. The body of an innermost loop over threads becomes a loop of one iteration annotated `thread_region`: inside,
/// threads do not meet.
///   [for t in 8 threadIdx.x: S(t); for u in 4 threadIdx.x: T(u); U]   →   [S(tx); if tx < 4: T(tx); if tx == 0: U]
/// `private_apart`: buffers of one thread each that more than one nest over threads uses: their indices must not depend
/// on the thread. E301 where different threads use one in different places.
struct UnifiedThreads {
  Stmt body;
  ThreadShape shape;
  std::map<std::string, std::array<bool, 3>> private_apart;  // by name: along which axes
};
Result<UnifiedThreads> unify_threads(const Stmt& body, const Target& target);
inline constexpr int64_t kWarpThreads = 32;
inline constexpr int64_t kWarpGroupThreads = 128;
/// Memory of one thread.
inline constexpr const char* kScopeLocal = "local";
/// Memory in the registers of a warp.
inline constexpr const char* kScopeFragment = "fragment";
/// Memory in the registers of the threads along threadIdx.x, which read one another's.
inline constexpr const char* kScopeWarp = "warp";

/// A buffer of one thread each that several nests over threads use (`private_apart`). Each thread must find there what
/// it wrote itself. So in each of the nests it reads within what it writes, under the same conditions.
///   T[t] = A[t] in one nest, B[t] = T[t] + T[t + 1] in another one   →   E301
/// `body` is what one thread does, its buffers compacted: an index tells where in the part of a thread it lies.
/// `blocks`: the loops over blocks around it. E301
Result<> check_private_memory(const Stmt& body, const UnifiedThreads& threads, const std::vector<Stmt>& blocks);

/// Barriers wherever a thread may touch what another one wrote (or write what it touches) since the last one; as few as
/// that takes, as far out as they can be. `body` is what one thread does. E301 where one would stand where threads
/// part.
/// `in_groups`: threads of one threadIdx.y may meet by themselves, which suffices where no others touch the same.
Result<Stmt> insert_barriers(const Stmt& body, const ThreadShape& shape, const Target& target, bool in_groups = false);

/// Rings. A pipelined loop annotated kSpecializeWarpsKey fills shared memory by bulk copies, in its first stage, and
/// computes in its last one. Further threads, a warp group behind the others along threadIdx.y, issue the copies; the
/// others compute. Each turn has one of `stages` places; two barriers a place say that it is full, or empty. Turns are
/// counted through the serial loops around, so that copies run ahead across them.
///   for k in n: [copy A, B (stage 0, bulk_copy); multiply (stage 2)]
///   →   ring_init(&ring[0], 3, …)
///       if is_producer(): for k in n: [ring_wait(&ring[3 + k % 3], …); ring_expect(&ring[k % 3], bytes); bulk_load(…)]
///       else:             for k in n: [ring_wait(&ring[k % 3], k // 3 % 2); multiply; ring_release(&ring[3 + k % 3])]
/// Products of a warp group (wgmma) stand between wgmma_fence and wgmma_commit. Where a turn is nothing else, those of
/// one turn go on during the next one.
/// `body` is what one thread does, its buffers compacted; `params` are the kernel's. E301 where a copy is none that the
/// copy engine can do, or the loop is no such pipeline
struct SpecializedWarps {
  Stmt body;
  std::vector<TensorMap> tensor_maps;
  int64_t producer_threads = 0;  // 0: there is no ring, and body is as it was
};
Result<SpecializedWarps> specialize_warps(const Stmt& body, const ThreadShape& shape, const std::vector<Param>& params,
                                          const Var& block, int64_t cluster, const Target& target);
inline constexpr const char* kIsProducerCall = "is_producer";        // ()
inline constexpr const char* kRegistersDownCall = "registers_down";  // (registers of each thread of a warp group)
inline constexpr const char* kRegistersUpCall = "registers_up";
inline constexpr const char* kRingInitCall = "ring_init";        // (&ring, places, arrivals that empty one)
inline constexpr const char* kRingWaitCall = "ring_wait";        // (&barrier, parity)
inline constexpr const char* kRingExpectCall = "ring_expect";    // (&barrier, bytes)
inline constexpr const char* kRingReleaseCall = "ring_release";  // (&barrier, blocks that are told)
/// (&to, &barrier, map, blocks, rows, columns, coordinates…): `rows` lines of `columns` elements, innermost coordinate
/// first; each of `blocks` blocks of the cluster copies its part of the rows to all of them. In shared memory columns
/// lie in panels of 128 bytes, one behind the other, each with all rows.
inline constexpr const char* kBulkLoadCall = "bulk_load";
inline constexpr const char* kWgmmaFenceCall = "wgmma_fence";    // ()
inline constexpr const char* kWgmmaCommitCall = "wgmma_commit";  // ()
inline constexpr const char* kWgmmaWaitCall = "wgmma_wait";      // (groups that may go on)
inline constexpr int64_t kPanelBytes = 128;

/// Copies annotated kBulkCopyKey from shared to global memory become bulk_store calls, whose tensor maps join `maps`.
/// What they read is kept in the order of the 128-byte swizzle: swizzle_staged makes other accesses go there.
///   for i, j: D[m + i, n + j] = S[64*ty + i, j]   →   bulk_store(&S[64*ty, 0], map, 64, 64, n, m)
///   S[64*r + c] = x   →   S[(64*r + c) ^ r % 8 * 8] = x
/// Barriers wait until what was begun before has been read. What lies outside of memory's bounds is left out by the
/// copy engine: guards that keep it from being staged are dropped where registers alone are read. E301 where the copy
/// engine cannot do it
Result<Func> bulk_stores(const Func& func, std::vector<TensorMap>& maps);
Func swizzle_staged(const Func& func);
inline constexpr const char* kBulkStoreCall = "bulk_store";  // (&from, map, rows, columns, coordinates…)
/// The place of an element whose 16-byte pieces, of `chunk` elements, lie in another order in each of `rows` lines:
/// offset ^ offset / line % rows * chunk, what is a multiple of line * rows apart.
Expr swizzled_offset(Analyzer& analyzer, const Expr& offset, int64_t line, int64_t rows, int64_t chunk);
/// Of the consumers of a specialised kernel: `barrier` of one warp group, of the threads of one threadIdx.y.
inline constexpr const char* kGroupBarrierCall = "group_barrier";

/// The factors of wgmma where bulk copies put them: an address in panels, how far the next 8 lines lie, and the next
/// panel, in bytes.
///   wgmma(&A[64*r + c], 64, …)   →   wgmma(&A[…], lead, 1024, …)
/// `func` is flat. E301 where a factor lies elsewhere, or is no part of a panel's lines
Result<Func> place_factors(const Func& func);

/// async_copy(&to, &from, bytes)
inline constexpr const char* kAsyncCopyCall = "async_copy";

/// Where iterations of a pipeline copy asynchronously ahead (kAsyncAheadKey), the barrier at the beginning of an
/// iteration waits only for the groups of copies that this iteration uses. barrier(n) lets the last n go on. It must be
/// the only barrier of the iteration, and stand before its copies; otherwise barrier() waits for all, as a further one
/// behind the loop does.
///   for k {async_ahead = 2}: [barrier(); copies of turn k; async_commit(); use of turn k - 2]
///   →   for k: [barrier(1); …]; barrier()
Stmt relax_waits(const Stmt& body);

/// Blocks beyond a guard around all that they do are not launched: `grid` has the extents of the kernel's loops over
/// blocks.
///   for bx in 2147483647: if h * 2147483647 + bx < n: S   →   min(2147483647, n - h * 2147483647) blocks
void end_grid(const Func& kernel, std::array<Expr, 3>& grid);

/// What unrolled loops and lanes (kLanesKey) store to memory of all goes through the thread's own: what neighbouring
/// lanes read is loaded, then the elements are worked out, then they are stored. So loads are in flight together, and
/// vector_copies makes each of these moves one access.
///   for u in 2 unrolled: for v in 4 {lanes}: B[8*t + 4*u + v] = f(A[8*t + 4*u + v])
///   →  for u: for v {lanes}: A_lanes[4*u + v] = A[…]; for u: for v unrolled: B_lanes[4*u + v] = f(A_lanes[4*u + v]);
///      for u: for v {lanes}: B[…] = B_lanes[4*u + v]
/// Elements that are read in the place where they are stored, or of fragments, stay as they are. `func` is flat.
Func stage_lanes(const Func& func);

/// Loops annotated kLanesKey that copy 4, 8 or 16 neighbouring bytes, provably aligned in their buffers (which begin at
/// multiples of 16 bytes), become one access; others stay loops.
///   for v in 4 {lanes}: S[4*t + v] = A[8*i + v]   →   S[ramp(4*t, 1, 4)] = A[ramp(8*i, 1, 4)]
/// `func` is flat. `swizzled`: the buffers that loops annotated kSwizzleKey fill.
Func vector_copies(const Func& func, const ThreadShape& shape, std::vector<Buffer>& swizzled);

/// The order of 16-byte pieces within the lines of a shared buffer becomes such that tiles are read without conflicts
/// of banks, where the schedule allows it (kSwizzleKey). This holds for buffers of f16 whose accesses are copies of 16
/// bytes to them, and loads of tiles (kAlignedSuffix) whose rows are a power of two apart. They keep the pieces of row
/// r in the order p ^ r % 8 (rows of 64 elements and more; of rows of 32, p ^ r / 2 % 4). Others stay as they are.
/// Loads get the name NAME + kSwizzledSuffix, and as further arguments the tile's place, the elements of a line (64 or
/// a row), and how many orders there are.
///   async_copy(&S[64*t + 8*c], …, 16)        →   async_copy(&S[(64*t + 8*c) ^ (64*t + 8*c) / 64 % 8 * 8], …, 16)
///   load(&D[0], 0, &S[1024*w + 16], 64)      →   load_swizzled(&D[0], 0, &S[0], 64, 1024*w + 16, 64, 8)
Func swizzle_shared(const Func& func, const std::vector<Buffer>& asked);
inline constexpr const char* kSwizzledSuffix = "_swizzled";

/// Buffers of scope "fragment" become arrays of each lane's elements. The tiles of tensor intrinsics in them become
/// places in these arrays, tile by tile. Loops that count tiles are unrolled. Calls whose tiles in memory lie in shared
/// memory, all rows at multiples of 16 bytes, get the name NAME + kAlignedSuffix.
///   allocate C: f32[2048] @fragment; for i in 4: for j in 4: fill(&C[512*i + 8*j], 32)
///   →   allocate C: f32[64] @fragment; for i in 4 unrolled: for j in 4 unrolled: fill(&C[16*i + 4*j], 0)
/// An element of a tile of sums may be read and written by the thread that has it, as loops over threadIdx.x say it:
///   D[…] = C[i, j], i = t // 32 * 16 + h * 8 + t // 4 % 8, j = q * 8 + t % 4 * 2 + v   →   D[…] = C[4*q + 2*h + v]
/// Lanes may lie along threadIdx.x and threadIdx.y. A tile of left factors takes elements, too, as it takes sums.
/// E301 where something else reaches a fragment
Result<Func> place_fragments(const Func& func);
inline constexpr const char* kAlignedSuffix = "_aligned";
/// "mma_m16n8k16_f16" and the like: the products; what moves their tiles has more in its name.
inline constexpr std::string_view kMmaPrefix = "mma_m16n8k16_";
inline bool is_mma_product(std::string_view name) {
  return name.starts_with(kMmaPrefix) && name.find('_', kMmaPrefix.size()) == std::string_view::npos;
}

/// Buffers of scope "warp", whose last dimension counts the threads along threadIdx.x: each has its own column in its
/// registers, which it alone writes, and reads the others'.
///   W[4*r + t] = x;  m = max(m, W[4*r + u])   →   W[r] = x;  m = max(m, lane_value(W[r], u, 4))
/// `func` is flat. E301 where a thread writes another one's column, or reads where others of its warp may not
Result<Func> exchange_lanes(const Func& func, const ThreadShape& shape);
inline constexpr const char* kLaneValueCall = "lane_value";  // (value, thread, threads along threadIdx.x)

}  // namespace fettle
