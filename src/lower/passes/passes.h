#pragma once
// The passes of lowering, in the order in which pipeline.cpp runs them. Each is a function from program to program that
// leaves alone what it has nothing to do with.

#include <functional>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// E301 where a loop is bound to threads that the target does not have.
Result<> check_thread_axes(const Func& func, const Target& target);

/// Virtual threads become ordinary loops. E301 as check_thread_axes has it.
///   for x in 4 thread axis("vthread"): S   →   for x in 4: S
Result<Func> bind_threads(const Func& func, const Target& target);

/// Splits off the nests of the root block that depend on constant parameters alone.
///   B' = pack(B const); C = A @ B'   →   prologue: B' = pack(B);   main: C = A @ B' (const)
struct PrologueSplit {
  Func main;
  Func prologue;  // null: nothing depends on constants alone
};
PrologueSplit split_prologue(const Func& func);

/// What a nest reads and writes, address takers included.
using BufferSet = std::unordered_set<const BufferNode*>;
struct AccessedBuffers {
  BufferSet reads, writes;
};
AccessedBuffers accesses_of(const Stmt& nest);

/// Blocks give way to their bodies: iterators are replaced by bindings, a predicate becomes an If, an init runs where
/// all reduce bindings are zero. Allocations stay listed on the (single) root block that is left. `likely` hints are
/// dropped.
Func flatten_blocks(const Func& func);

/// A tile annotated `tensorize` becomes a nest of its own that carries the annotation, without loops of one iteration:
/// vectors along the output's innermost dimension, the rest unrolled. So it stands in every step that follows as what
/// it computes.
///   for j in 16: for k in 4: C[j] += A[k] * B[j, k]   →   for j in 16 vectorized {tensorize = "…"}: for k in 4
///   unrolled: …
Stmt mark_tensor_tile(const Stmt& body, const std::string& intrinsic);

/// The parts of pipelined loops (software_pipeline), and of loops with double-buffered blocks, become loops of one
/// iteration that carry stage and place, so that they are known after blocks are gone. What later steps made illegal is
/// left to run in order.
Func mark_pipelines(const Func& func);

/// Annotates each loop with the buffers that live on from one of its iterations to the next. These are the buffers of
/// reductions that begin and go on in it, those of scans, and those that some iterations read without writing.
///   for i: for k: block T(vi = i, vk: reduce = k): init T[vi] = 0 …   →   for i: for k {carries = "T"}: …
Func note_carried_buffers(const Func& func);
/// Whether the loop is noted so.
bool carries_buffer(const ForNode& loop, const BufferNode& buffer);

/// Annotates a program that has scans other than copies: in_order = 1. Code generators look there for loops that
/// nothing made vectors.
Func note_scans(const Func& func);

/// In such programs, what a loop adds to one element again and again is kept in registers until its end, also of a
/// tile of lanes and unrolled loops. Nothing else in the loop may touch the element, as the loops' bounds show.
///   for k in j: A[i, j] = A[i, j] - A[i, k] * A[k, j]
///   →  if 0 < j: kept[0] = A[i, j]; for k in j: kept[0] = kept[0] - A[i, k] * A[k, j]; A[i, j] = kept[0]
Func hoist_updates(const Func& func);

/// Plain loops: what vectorize, unroll, parallel and bind asked for is forgotten, and registers are memory.
Func forget_annotations(const Func& func);

/// Vectorized loops become serial ones.
Stmt serialize_lanes(const Stmt& body);
/// So do all but those of threads: units run whole nests.
Stmt serialize_loops(const Stmt& body);
/// The loop as a serial one that is bound to nothing.
Stmt serialized(const ForNode& loop);

/// Places every allocation at the lowest statement that encloses its accesses, and shrinks it to what one iteration
/// there touches; indices are rebased. What has strides of its own keeps its shape. Loops over the threads of a block
/// count as inside of a buffer for which `shared_by_threads` is true, for their axis. Memory of a run-time size stays
/// outside of plain serial loops that have no part in the size: it is acquired once.
using SharedByThreads = std::function<bool(const BufferNode& buffer, const std::string& thread_axis)>;
Func compact_buffers(const Func& func, const SharedByThreads& shared_by_threads = {});

/// Marked loops become prologue, steady state and epilogue. A buffer that lives in one iteration gets as many versions
/// as are in use at once; a loop whose register buffers would need several runs in order.
///   for k in n: [fill T (stage 0); use T (stage 1)]
///   →  fill T[0]; for k in 1 +: n - 1: [fill T[k % 2]; use T[(k - 1) % 2]]; use T[(n - 1) % 2]
Stmt pipeline_loops(const Stmt& body);

/// The guard of a tile's tail around a store to a register buffer is dropped. Every load there must be in bounds
/// without it, and each read of the buffer must have the same guard. Surplus lanes are then computed and never read.
/// What does not depend on the lane is read as the first lane reads it, which must not be surplus, under whatever other
/// guards there are.
Func drop_private_guards(const Func& func);

/// A guard inside a reduction whose other value changes nothing becomes a guard around it:
///   C = C + select(p, a, 0) * b   →   if p: C = C + a * b        (the same for max and min with the lowest / highest)
/// b is taken to be finite. What lanes of sums of products in registers decide stays a selection, so that only `a` is
/// masked:
///   R[j] = R[j] + select(p && j < 9, a[j], 0) * b   →   if p: R[j] = R[j] + select(j < 9, a[j], 0) * b
Func annihilate_guards(const Func& func);

/// Moves each conjunct of a guard outwards to the innermost loop that it depends on, and turns guards into bounds:
///   for k in n: if k < b: S   →   for k in min(n, b): S
/// Unrolled and vectorized loops keep constant bounds.
Stmt tighten_loops(const Stmt& body, const std::vector<IntParam>& int_params);

/// Multi-dimensional accesses become flat ones; buffers and parameters become one-dimensional. Indices are simplified.
Func flatten_accesses(const Func& func);

/// The last iteration of a loop stands by itself where its guards then hold in all others. Guards that do not depend on
/// the loop stay in both parts. Buffers that the loop allocates serve both. Innermost loops only; what is unrolled or
/// vectorized in them does not count, nor do loops in lanes. The turns of an open number may be none; those of a
/// parallel loop are told apart in its body.
///   for i in 13: for j in 16 vectorized: if i*16 + j < 197: S   →   for i in 12: for j: S;  for j: if 192 + j < 197: S
///   for i in (n + 15) / 16: …   →   for i in n / 16: for j: S;  if n / 16 < (n + 15) / 16: for j: if …: S
Func peel_tails(const Func& func);

/// Sums of many terms that are no products (means, norms, softmax, pooling) are taken in blocks, and the sums of blocks
/// again: an accumulator takes at most kLongestSum terms, or some kMostBlocks sums of blocks. One accumulator over n
/// terms errs by some sqrt(n) roundings of the whole sum (Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
///   for k in 25600: R[0] = R[0] + A[k]
///   →  for k_block in 400: T[0] = 0; for k in 64: T[0] = T[0] + A[k_block*64 + k]; R[0] = R[0] + T[0]
/// Products of two operands that vary keep the blocks that their schedule gives them. `func` is flat. Parts of sums lie
/// in the scope of the sum, or in `scope`.
Func cascade_sums(const Func& func, const std::string& scope = {});
inline constexpr int64_t kLongestSum = 64, kMostBlocks = 16;

/// Guards inside a micro-kernel that depend on outer loops and on unrolled loops are decided outside of it:
///   kernel(guards of (i0, i1))   →   if i0 < 14: kernel(all true) else: kernel(i0 = 14)
/// so that every copy has constant guards. What cannot be decided in a few copies stays a guard. So do tails of vectors
/// that the schedule asked to mask or pad, but for `lanes_too`: whole vectors then have a copy without masks.
///   kernel(lanes of i0*24 + j < 6625)   →   if i0 < 276: kernel(all lanes) else: kernel(one lane)
/// Of open extents each number of rows, and of vectors, that a tile can have left is a copy. Unrolled taps that may lie
/// outside of an image of open size are a loop again at its border. Other straight code under such guards is there
/// twice: without them, for what lies inside.
/// Of a guard on serial loops inside, that an integer parameter decides, it is asked outside whether it always holds.
Func dispatch_micro_kernels(const Func& func, bool lanes_too);

/// A loop inside a micro-kernel whose late turns do less, as what comes from outside decides: the turns in which all
/// guards hold, and then those in which some do. Lanes decide none of these guards.
///   for t in 25: (for k in 64: for i in 5 unrolled: if t*5 + i < n: S)
///   →  for t in min(25, n / 5): (for k: for i: S);  for t in n / 5 .. min(25, (n + 4) / 5): (for k: for i: if …: S)
Func split_turns(const Func& func);

/// A loop annotated `prefetch` = d prefetches, while an iteration runs, what the iteration d later reads, into the
/// second-level cache. Each dense run of memory that moves on with the loop by at least a cache line is asked for,
/// evenly over the iterations of the serial loops inside, of which there may be an open number. Operands that are no
/// such run are left alone. Addresses beyond a buffer's end are harmless.
///   for i {prefetch = 1}: for k in 512: for r in 6: … A[(i*6 + r)*512 + k] …
///   →  for i: for k in 512: prefetch(&A[(i + 1)*6*512 + k*6], 2); …
/// A nest that only copies to memory of the iteration has no time to ask: the other nests do it, row by row.
///   for j {prefetch = 1}: (for k: T[k] = B[k, j]; for i: for k: … T[k] …)
///   →  for j: (for k: T[k] = B[k, j]; for i: for k: … T[k] …; prefetch(&B[k, j + 1], 2))
/// Where the loop adds to registers from outside, what it reads beside the loops inside is asked for, too.
///   for b {prefetch = 4}: (for k: P += …; T += P*S[b*64 + l])   →   … T += P*S[b*64 + l]; prefetch(&S[(b + 4)*64], 2)
/// `prefetch_near` asks the same way, but into the first-level cache, and behind what the iteration does: an unrolled
/// iteration's loads are not mixed with those of the one before.
///   for k {prefetch_near = 8}: … B[k*32 + l] …   →   for k: … B[k*32 + l] …; prefetch(&B[k*32 + 256]); …
Stmt insert_prefetches(const Stmt& body);

/// What a tile's epilogue adds to its sums is asked for before the reduction, and arrives while it runs: of buffers
/// that the first-level cache does not hold, in reductions of 64 steps and more.
///   for k in 256: R = R + …; for r in 8 unrolled: C[r*64] = R[r] + X[r*64]
///   →  for r in 8 unrolled: prefetch(&X[r*64]); for k in 256: …
Stmt prefetch_epilogues(const Stmt& body, const Target& target);

/// Loops annotated `alternates` run backwards where the integer parameter `turn`, which the Func gets for them, is 1.
///   for i in 8 {alternates = 1}: S   →   for i in 8: S[i := i + turn*(7 - 2*i)]
Func alternate_loops(const Func& func);

/// Micro-kernels become Funcs: base pointers, strides above 64 elements and trip counts are arguments;
/// tile, unrolling and epilogue are constants. Equal micro-kernels are one Func, named by its canonical hash:
/// "micro_kernel_<hash>".
IrModule outline_micro_kernels(const Func& func);

/// Tiles annotated `tensorize` become the intrinsic's implementation, inlined, where the target has it and the tile's
/// memory lies as the implementation needs it. Elsewhere the annotation goes and the loops stay.
///   for j in 16 vectorized {tensorize = "vpdpbusd_512"}: for k in 4 unrolled: C[j] += A[a + k] * B[b + j*4 + k]
///   →   C[ramp(0, 1, 16)] = vpdpbusd(C[ramp(0, 1, 16)], broadcast(bitcast(A[ramp(a, 1, 4)]), 16), B[ramp(b, 1, 64)])
Stmt substitute_tensor_intrinsics(const Stmt& body, const Target& target);

/// Gives tiles of the tile unit registers, and makes its instructions of the calls that name them by address. Tiles of
/// buffers of scope "tile" keep theirs. Factors in memory are loaded where they are first needed; within straight-line
/// code those stay that are needed again soonest. What lies in memory and is written is stored at once.
///   alloc C: f32[1024] tile: for k: dp(&C[0], 32, &A[k*32], n, &B[k*512], 32); dp(&C[16], 32, &A[k*32], n, …); …
///   →   for k: tileload(4, &A[k*32], n*2); tileload(5, &B[k*512], 64); dp(0, 4, 5); tileload(6, …); dp(1, 4, 6); …
/// Functions and parallel loops of the entry that use the unit themselves are annotated (kHoldsTilesKey): whoever emits
/// code sets the unit up there. E301 where such a buffer is no array of tiles that constants tell apart, is reached by
/// anything else, or there are more tiles than registers. Where the target has no such unit, that scope is memory.
Result<IrModule> place_tiles(const IrModule& module, const Target& target);

/// Transposes tiles in registers. The lanes of such a tile walk through memory in strides, while the unrolled loop
/// around them walks through it contiguously. The tile is read row by row, 4, 8 or 16 lanes of 16 bytes or more.
///   for k in 16 unrolled: for j in 16 vectorized: P[k*16 + j] = B[j*50 + k]
///   →  T[ramp(0, 1, 16)] = B[ramp(0, 1, 16)], … T[ramp(240, 1, 16)] = B[ramp(750, 1, 16)]; shuffles from T to U;
///      for k in 16 unrolled: for j in 16 vectorized: P[k*16 + j] = U[k*16 + j]
Stmt transpose_tiles(const Stmt& body);
/// Lanes of such a tile, and the least bytes of a row.
inline constexpr int64_t kFewestTransposed = 4, kMostTransposed = 16, kTransposedBytes = 16;

/// A Func that has tiles annotated `tensorize` becomes code without loops that are unrolled or vectorized; others stay
/// as they are.
Func expand_tensor_tiles(const Func& func, const Target& target);

/// Vectorized loops become vector code; guards on lanes become masks. A loop whose body has no vector form is run
/// serially.
Stmt vectorize_loops(const Stmt& body);

/// Unrolled loops are replicated; guards that became constant are resolved.
Stmt unroll_loops(const Stmt& body);
/// `body` for each iteration of a loop of constant extent, one after the other.
Stmt copies_of(const ForNode& loop, const Stmt& body);

/// A vector that an iteration stores and the next one reads is kept in registers, where nothing else in the loop writes
/// the buffer. What it stores is stored all the same. In loops whose bodies are stores alone, without masks, of
/// programs that run in order.
///   for j in 9: A[ramp(j + 1, 50, 4)] = A[ramp(j, 50, 4)] * B[ramp(j, 50, 4)]
///   →  before[…] = A[ramp(0, 50, 4)]; for j in 9: now[…] = before[…] * B[ramp(j, 50, 4)];
///      A[ramp(j + 1, 50, 4)] = now[…]; before[…] = now[…]
Stmt carry_vectors(const Stmt& body);

/// Transposes in registers what iterations of an innermost loop read and store, as many of them as there are lanes. The
/// lanes lie a constant stride apart, and what the next iteration accesses is next to what this one does. What one tile
/// is worked out of is worked out along memory. Nothing else in the loop may touch what it stores. Selections stay. Of
/// programs that run in order.
///   for j in 10: A[ramp(j, 50, 4)] = B[ramp(j, 50, 4)] * C[ramp(j * 4, 1, 4)]
///   →  for j_0 in 2: T[ramp(0, 1, 4)] = B[ramp(j_0 * 4, 1, 4)], … T[ramp(12, 1, 4)] = B[ramp(j_0 * 4 + 150, 1, 4)];
///      shuffles from T to U; V[ramp(0, 1, 4)] = U[ramp(0, 1, 4)] * C[ramp(j_0 * 16, 1, 4)], …; shuffles from V to W;
///      A[ramp(j_0 * 4, 1, 4)] = W[ramp(0, 1, 4)], …;   for j in 8 +: 2: …
Stmt transpose_turns(const Stmt& body);

/// In programs that run in order, vectors of columns that a loop goes down, a page or more with each turn, are asked
/// for one iteration of the loop around it ahead: of buffers that the second-level cache does not hold.
///   for i in 250: for j in 1000: … A[ramp(j * 1000 + i * 4, 1, 4)] …
///   →  for i in 250: for j in 1000: … A[ramp(j * 1000 + i * 4, 1, 4)] …; prefetch(&A[j * 1000 + i * 4 + 7], 3)
Func prefetch_columns(const Func& func, const Target& target);

/// Drops masks that only keep surplus lanes out, where nobody asks what these lanes hold. One element for all lanes is
/// read once. Accumulators whose lanes are all stored under the mask are added to without it.
///   R[ramp(0, 1, 16) if m] = R[ramp(0, 1, 16)] + A[broadcast(k, 16) if m] * B[ramp(k*77, 1, 16) if m]
///   →   R[ramp(0, 1, 16)] = R[ramp(0, 1, 16)] + broadcast(A[k], 16) * B[ramp(k*77, 1, 16) if m]
/// Masks must be constant, as they are in micro-kernels: `unroll_loops` comes first.
Stmt relax_lane_masks(const Stmt& body);
/// What a lane of a mask, or of what it compares, is; nothing where it is not constant.
std::optional<int64_t> lane_value(const Expr& e, int64_t lane);

/// A parallel loop around another one, and nothing else, becomes one with it: threads are asked once, and deal out all.
///   for i in n parallel: for j in m parallel: S   →   for i_j in n*m parallel: i = i_j / m; j = i_j % m; S
Func collapse_parallel(const Func& func);

/// Whether anything depends on a condition, or on loops around: without, passes on guards have nothing to do.
bool has_guards(const Stmt& body);

/// The parts of a conjunction, in order.
void split_conjuncts(const Expr& condition, std::vector<Expr>& conjuncts);
/// `body` under all of them.
Stmt guarded(const std::vector<Expr>& conjuncts, Stmt body);

/// Resolves guards that are constant, drops loops without iterations and loops of one.
Stmt fold_control(const Stmt& body);

/// async_commit(): the copies that the thread has begun since the last one are a group. Where they are all of stage 0,
/// pipeline_loops ends each iteration's copies so. It annotates the steady loop with how many iterations later they are
/// used.
inline constexpr const char* kAsyncCommitCall = "async_commit";

}  // namespace fettle
