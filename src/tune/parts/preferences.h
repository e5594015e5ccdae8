#pragma once
// Numbers found by measuring, which the parts prefer. Correctness does not depend on them. Each says what it is, and in
// which unit. Where the measurement is on record, it is named. Whoever changes one compares with bench-search and
// bench-model (docs/benchmarks.md).

#include <cstddef>
#include <cstdint>

namespace fettle::preferences {

// --- threads: what one of them takes less for stays with it, ns. Two threads that wait for work gain from half a
// microsecond on.

inline constexpr double kLeastSharedNs = 200;    // below: never shared
inline constexpr double kUsuallySharedNs = 500;  // from here on: preferred
inline constexpr double kAlwaysSharedNs = 2000;  // from here on: no choice
/// Below: a piece for each thread, since asking for one takes as long as working it out.
inline constexpr double kPieceEachNs = 20000;
/// What a piece of an open number of iterations takes.
inline constexpr double kOpenPieceNs = 1000;
/// Of a fused loop, whose index is divided, and of a fork for each iteration of a serial loop around, as shares of the
/// threads' time.
inline constexpr double kFusedLoopCost = 0.02, kForkCost = 0.04;

// --- orders of iterations (tune/space/affine_orders.h)

/// What several steps of time over rows that stay in a cache may be predicted to take, over other orders: more is kept
/// near than the prediction knows (jacobi-1d in the first-level cache).
inline constexpr double kReusedRows = 1.15;
/// The same of rows of a recurrence that run at once. The prediction knows that an iteration waits for the one before,
/// but not for how many operations in turn (bench-polyhedral).
inline constexpr double kOverlappedRows = 2;
/// Another order is taken where it is predicted to take at most this share of the time.
inline constexpr double kPaysToReorder = 0.9;

// --- register tiles (tune/parts/register_tile.h)

/// Tiles that a choice offers, the cheapest first.
inline constexpr size_t kMostTiles = 24;
/// Steps of a reduction from which on it may be blocked, and the depths of its blocks, in steps.
inline constexpr int64_t kLeastBlocked = 512, kDepths[] = {256, 384, 512, 768, 1024};
/// The depth that is preferred, for reductions longer than this.
inline constexpr int64_t kPreferredDepth = 768, kPreferredBlocked = 2048;
/// Channels, at most, inside of which the taps of a window are unrolled, and all steps that are then unrolled with
/// them.
inline constexpr int64_t kFewChannels = 64, kMostUnrolledSteps = 32;
/// Taps, at most, of a window that is unrolled: of a row, and of a whole one that only combines (pooling).
inline constexpr int64_t kMostTaps = 7, kFewTaps = 9;
/// Multiply-adds of a row, below which panels are not dealt out to threads that would share lines.
inline constexpr int64_t kShortRow = 100000;
/// Tiles to one that waits for panels from beyond the second-level cache.
inline constexpr int64_t kManyTiles = 32;
/// Steps of a reduction that make one iteration, where a step has few multiply-adds, in vectors.
inline constexpr int64_t kStepsAtOnce = 4, kFewMultiplyAdds = 16;
/// A second-level cache of so many bytes is farther away.
inline constexpr int64_t kFarCacheBytes = 2 << 20;
/// Steps that a vector of the second-level cache is asked for ahead: a hundred cycles.
inline constexpr int64_t kStepsAhead = 8;
/// Lanes from which on the next step of a convolution's weights is asked for: shorter steps are over too soon.
inline constexpr int64_t kLongVector = 16;
/// Lanes below which channels are not brought into blocks of one vector: the innermost loop would end too soon.
inline constexpr int64_t kLongBlock = 16;
/// Sums of a tile of dot products that hide its latency: two start in a cycle and take five.
inline constexpr int64_t kSumsOfDotProducts = 12;
/// Rows of so many flat pixels are cut across the borders of image rows.
inline constexpr int64_t kLongRow = 8;

// --- what a register tile takes (ranked_tiles in tune/parts/tiling.h), in shares of cycles

/// Registers, at most, of targets that have no broadcasting operands, and whose third-level cache is near.
inline constexpr int kFewRegisters = 16;
/// Of a load beside other work, with many registers and with few.
inline constexpr double kLoadBeside = 0.04, kLoadBesideOfFew = 0.1;
/// Of the waiting for sums that just cover the latency.
inline constexpr double kTightChain = 0.1;
/// Of the first-level cache, what a panel and its rows may take to stay there; of the second-level cache alike.
inline constexpr double kOfFirstLevel = 0.75, kOfSecondLevel = 0.55;
/// Vectors a cycle from the second-level cache; bytes a cycle from beyond it, with many registers and with few.
inline constexpr double kVectorsFromSecondLevel = 0.75, kBytesFromBeyond = 12, kBytesFromBeyondOfFew = 20;
/// Tiles that read a panel, from which on filling it while the program runs may pay; and pays though caches would hold
/// what it is made of. (Of 1024 x 1024 x 1024 it takes 2.7 times as long in place.)
inline constexpr int64_t kTilesOfPanel = 3, kManyTilesOfPanel = 24;
/// Panels that read rows which lie in columns, from which on transposing these while the program runs may pay.
inline constexpr int64_t kPanelsOfPackedRows = 6;
/// Vectors of columns from which on narrow rows are widened once; and instructions that all rows together save from
/// which on a panel is. (Halves of f16 are widened as they are loaded: 512 x 512 x 512 takes as long as in f32.)
inline constexpr int64_t kVectorsOfWideRows = 4, kSavedByWidePanel = 96;
/// Steps of a tile in whose time the lines that it writes have not come from memory.
inline constexpr int64_t kFewStepsOfWrites = 160;
/// Of the traffic, what is not hidden behind work: of panels, and of rows.
inline constexpr double kPanelsNotHidden = 0.15, kRowsNotHidden = 0.3;
/// Factors of time: for rows in the same cache sets, many and few; for lines that lie side by side but are read apart;
/// for pixels in short runs; for neighbours that wait without registers.
inline constexpr double kSameSets = 1.35, kSomeSameSets = 1.06, kLinesApart = 1.1, kShortRuns = 1.2,
                        kNoRegisterToWait = 1.35;
/// Bytes of a run of pixels that pooling reads well.
inline constexpr int64_t kRunBytes = 128;
/// Factors of time for windows over several image rows: of fewer taps than kMostTaps and of others, of several vectors,
/// of more sums than registers, of tiles of two heights or widths. (Of depthwise 7 x 7 the compiler spilled what such
/// tiles held, which cost up to 1.6x untuned.)
inline constexpr double kSeveralImageRows = 0.6, kLargeWindows = 1.2, kSeveralVectors = 1.1, kTooManySums = 1.4,
                        kTwoSizes = 1.08;
/// Of a tile: clearing, writing back and the call, and for each vector of sums, cycles.
inline constexpr double kTileCycles = 20, kSumCycles = 1.5;
/// Rows that a tile has at most, and rows below which it takes several image rows.
inline constexpr int64_t kMostRows = 30, kFewRows = 12;
/// Rows that a tile has at most where their number is open.
inline constexpr int64_t kMostOpenRows = 14;

// --- tiles of matrices (tune/parts/matrix_tile.cpp; bench-tiles)

/// Cycles until a sum takes the next product, of a product, of loads of a tile from the first- and the second-level
/// cache; and for each tile of sums where a grid begins and ends: clearing, storing, and what they become.
inline constexpr double kTileProductLatency = 52, kTileProductCycles = 16, kTileLoadCycles = 8.5,
                        kFarTileLoadCycles = 20, kTileEndCycles = 50;
/// Of the first-level cache, what a factor may take that stays there while the other is streamed.
inline constexpr double kOfFirstLevelForTiles = 0.85;
/// Of the second-level cache, what rows may take that go through all panels together.
inline constexpr double kOfSecondLevelForTiles = 0.6;
/// Cycles for a byte of rows that are copied: read, and written with padding. Columns from which on packed rows are
/// read often enough.
inline constexpr double kTileCopyCycles = 0.12;
inline constexpr int64_t kOftenRead = 3072;

/// Elements that read one of an operand whose lanes lie apart, for which it is laid out first.
inline constexpr int64_t kReadersOfOperand = 16;

// --- rows that several blocks work on (tune/space/rules/row_fusion.cpp; bench-search: softmax, layer norm, attention)

/// Vectors, at most, that are written out one by one: of a row, and of all rows worked on at once that are unrolled.
inline constexpr int64_t kMostOfRow = 16, kMostOfRows = 128;
/// Rows that are worked on at once where there are several: it hides what each waits for, and leaves enough registers.
inline constexpr int64_t kUsualRows = 2;
/// Rows of a matrix in memory that are read at once, so that several lines are under way (bench-polyhedral: gesummv).
inline constexpr int64_t kStreamedRows = 8;
/// Vectors of a row, at most, of which twice as many are: they wait for most of their time.
inline constexpr int64_t kFewVectors = 7;
/// Vectors of a row, at most, whose passes may be unrolled as a whole.
inline constexpr int64_t kUnrolledRow = 64;
/// Elements of a run that take a few microseconds: with calls for each, and without.
inline constexpr int64_t kRunWithCalls = 4096, kRunWithoutCalls = 16384;

// --- blocks that work on the same elements (tune/space/rules/element_fusion.cpp; bench-jax: random normal)

/// Operations of an element from which on several vectors are worked on at once: what waits for what fills a core's
/// window of instructions.
inline constexpr int64_t kLongOfElement = 64;

// --- attention in one pass (tune/parts/attention.h; bench-search: attention)

/// Keys of a block: at most, at least, and those that need not divide their number.
inline constexpr int64_t kMostKeys = 256, kFewestKeys = 48, kKeys[] = {64, 128};
/// Tiles of queries from which on a copy of keys and values pays that lie apart (an encoder of 1,500 tokens takes 38 %
/// less, by bench-attention on an Emerald Rapids).
inline constexpr int64_t kTilesThatReadCopy = 8;
/// Vectors of queries that a tile has at most.
inline constexpr int64_t kMostQueryVectors = 4;
/// Cycles that a vector of scores takes beside the products (an exponential, a maximum, a sum), and a vector of the
/// output once a block; those to fetch an element of a key or a value for a tile.
inline constexpr double kScoreCycles = 12, kScaleCycles = 2, kKeyCycles = 1;
/// Cycles from a sum to the next one that needs it: what a multiply-add takes, and what out-of-order execution does not
/// hide. (On an EPYC of the Zen 3 generation 8 sums took 0.72 cycles each, 10 sums 0.59.)
inline constexpr double kSumsWait = 5;
/// What a last block that is shorter adds to the time of one.
inline constexpr double kShorterBlock = 0.1;
/// A factor of time, for scores that leave the first-level cache.
inline constexpr double kBeyondFirstLevel = 1.15;
/// Keys from which on one pass is preferred: fewer scores stay in the caches anyway.
inline constexpr int64_t kOnePassKeys = 96;

// --- paddings that stay copies (tune/parts/auto_inline.h; bench-search: conv, depthwise)

/// Taps of a row from which on a padding stays; more than the second, also of a picture.
inline constexpr int64_t kManyTaps = 5, kMostPictureTaps = 7;
/// How likely a padding is inlined, and stays, where it is drawn: of one that had better stay, and of others.
inline constexpr double kStays[] = {0.3, 0.7}, kIsInlined[] = {0.8, 0.2};

// --- sums in lanes (tune/parts/lane_reductions.h; bench-search: softmax, layer norm)

/// Rows, at most, whose few sums want several vectors each.
inline constexpr int64_t kFewSums = 8;

// --- the constructed default (tune/space/rule_space.cpp)

/// Another algorithm rounds more: it has to be predicted to take less than this share of the time.
inline constexpr double kPays = 0.9;
/// So do products in parts, which the model takes to be half as fast again as they are, beside plain ones. (Emerald
/// Rapids: 128 x 3072 x 768 is predicted to take 0.47 of the plain product's time, and takes 0.70.)
inline constexpr double kPaysInParts = 0.6;
/// Of this many tilings that the closed form likes best, another than its first has to be predicted to take less than
/// this share of its time. (Over 222 tasks, timed on one thread: what was predicted to take a tenth less was no
/// faster.)
inline constexpr size_t kFavourites = 6;
inline constexpr double kClearly = 0.85;

}  // namespace fettle::preferences
