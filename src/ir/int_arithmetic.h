#pragma once
// Integers as the language computes with them.

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "ir/expr.h"

namespace fettle {

/// The low bits of `value`, as many as `type` has, as a number of that type.
inline int64_t wrapped_int(uint64_t value, DType type) {
  if (type.bits >= 64 || type.is_bool()) return static_cast<int64_t>(value);
  const int unused = 64 - type.bits;
  return type.code == TypeCode::kInt ? static_cast<int64_t>(value << unused) >> unused
                                     : static_cast<int64_t>(value << unused >> unused);
}

/// a `op` b, of integers or bools of `type`, as the language defines it: sums and products wrap. Divisors are not 0,
/// and `op` is none of floats alone.
inline int64_t binary_int(BinaryOp op, int64_t a, int64_t b, DType type = kI64) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::kAdd:
      return wrapped_int(ua + ub, type);
    case BinaryOp::kSub:
      return wrapped_int(ua - ub, type);
    case BinaryOp::kMul:
      return wrapped_int(ua * ub, type);
    case BinaryOp::kFloorDiv:
      return b == -1 ? wrapped_int(0 - ua, type) : floordiv_int(a, b);
    case BinaryOp::kFloorMod:
      return b == -1 ? 0 : floormod_int(a, b);
    case BinaryOp::kMin:
      return std::min(a, b);
    case BinaryOp::kMax:
      return std::max(a, b);
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kAnd:
      return a != 0 && b != 0;
    case BinaryOp::kOr:
      return a != 0 || b != 0;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:  // beyond the width nothing is left
      return b < 0 || b >= type.bits ? 0 : wrapped_int(ua << b, type);
    case BinaryOp::kShr:
      if (type.code == TypeCode::kInt) return a >> (b < 0 || b >= type.bits ? 63 : b);
      return b < 0 || b >= type.bits ? 0 : static_cast<int64_t>(ua >> b);
    case BinaryOp::kDiv:
    case BinaryOp::kOrderedMax:
      break;
  }
  FETTLE_UNREACHABLE();
}

}  // namespace fettle
