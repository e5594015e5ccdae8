#pragma once
// Products with weights of few bits, whose scales are one a block of steps: weights are unpacked in registers, and the
// scale is applied to the sum of a block (schedule/reformulate/factor_sum.cpp).
//
//   for i, j, b, t, h: C[i, j] += A[i, …] * (f32(W[j, b, t] >> 4h & 15) - Z[j, b]) * S[j, b]     (W, Z, S constant)
//   →
//   pack W, Z and S into panels of `vectors` x lanes columns
//   for i, b: sums of A                                                                              (once a row)
//   for j0 (parallel): for i0:
//     for b (asks for a later block):
//       for t: for h (unrolled), i1 (unrolled), jv (unrolled), jl (lanes): P[…] += A[…] * f32(W'[…] >> 4h & 15)
//       for i1, jv, jl: T[…] += P[…] * S'[…] - sum of A * (Z'[…] * S'[…])
//     for i1, jv, jl: C[…] = f(T[…])           f: what elementwise consumers did

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

/// The program's only reduction, by name, if its factors may pay to be taken out: a sum over blocks of a product with
/// constant integers of at most 8 bits, which a dimension of the output moves along, and which no dimension that the
/// other factor moves along does.
std::optional<std::string> factorable_sum(const Func& func);

/// The blocks that stand for a sum.
struct SumParts {
  std::string block;    // the sum over blocks of steps
  std::string product;  // of one block of steps
};
/// Replaces the sum. Errors: E228 its pattern does not fit · E234 another edit came before
Result<SumParts> replace_by_factored_sum(Schedule& s, const std::string& block);
/// What it has made of the sum, by the annotations of the blocks.
std::optional<SumParts> factored_parts(const Func& func, std::string_view block);

/// Schedules the sum and its product; the other sums are left to whoever schedules sums. Any extent of the other
/// dimensions may be open. Errors: E230, and what the primitives refuse
Result<Finished> factored_sum_tiles(Schedule& s, const Target& target, Decider& decider, const SumParts& parts,
                                    int threads);

}  // namespace fettle
