#pragma once
// The text form of the loop language: printed, and parsed back to an equal program (names included).
//
//   func matmul(A: f32[512, 512], B: f32[512, 512] constant, C: f32[512, 512] output):
//     for i in 512:
//       for j in 512:
//         for k in 512:
//           block C(vi: spatial[512] = i, vj: spatial[512] = j, vk: reduce[512] = k):
//             reads A[vi, vk], B[vk, vj]
//             writes C[vi, vj]
//             init:
//               C[vi, vj] = 0.0
//             C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//
// A statement after a colon may stand on the same line: `for i in 100: B[i] = A[i]`. Details: docs/loop-language.md.

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

struct PrintOptions {
  /// A statement to point at: the line is followed by ^^^^.
  const StmtNode* marked = nullptr;
};

std::string to_text(const Expr& e);
std::string to_text(const Stmt& s, const PrintOptions& options = {});
std::string to_text(const Func& func, const PrintOptions& options = {});
std::string to_text(const IrModule& module, const PrintOptions& options = {});

/// E101 with line and column; E102 where the program is not well-formed.
Result<Func> parse_func(std::string_view text);
Result<IrModule> parse_module(std::string_view text);
/// Free names become i64 variables.
Result<Expr> parse_expr(std::string_view text);

/// Infers parameters and blocks, for tests. Bare loops over accesses, without a func header, become blocks. Each buffer
/// that is only read becomes an input, one that is written an output. Its shape is what the loops reach.
///   "for i in 100: B[i] = A[i]"
Result<Func> parse_loops(std::string_view text);

/// Checks names, ranks, types, single binding of variables, unique block names, regions that name accessed buffers.
/// E102.
Result<> check_well_formed(const Func& func);

}  // namespace fettle
