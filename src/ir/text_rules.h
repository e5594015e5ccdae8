#pragma once
// What the printer and the parser agree on: reserved words, names of operators, notation of literals.

#include <string>
#include <string_view>
#include <vector>

#include "ir/stmt.h"

namespace fettle::text {

bool is_letter(char c);  // or an underscore
bool is_digit(char c);
/// A word that cannot be a name without backquotes.
bool is_reserved(std::string_view word);
/// Letters, digits and underscores, not starting with a digit, in parts joined by dots.
bool is_identifier(std::string_view word);
/// `name`, in backquotes where it is reserved or no identifier.
std::string quoted_name(const std::string& name);

/// Binding strength, weakest first: || && comparison | ^ & shift sum product unary.
inline constexpr int kOrLevel = 1, kAndLevel = 2, kCompareLevel = 3, kBitOrLevel = 4, kBitXorLevel = 5,
                     kBitAndLevel = 6, kShiftLevel = 7, kSumLevel = 8, kProductLevel = 9, kUnaryLevel = 10;
struct OperatorInfo {
  BinaryOp op;
  const char* symbol;
  int level;  // 0: written as a function
};
const OperatorInfo& operator_info(BinaryOp op);
/// The infix operator with that symbol, or null.
const OperatorInfo* find_operator(std::string_view symbol);
/// The operator that is written as a function of that name, or null.
const OperatorInfo* find_function_operator(std::string_view name);
bool is_comparison(BinaryOp op);

/// The type that a call of `name` has where the text does not say: bool for predicates, else that of the first
/// argument, else i32.
DType inferred_call_type(std::string_view name, const std::vector<Expr>& args);
/// True where a call's name alone is read back as that call.
bool is_plain_call_name(const std::string& name);

/// The shortest text that reads back as the same value; suffixed with the type unless f32.
std::string float_text(double value, DType dtype);
std::string int_text(int64_t value, DType dtype);
std::string string_text(std::string_view value);

const char* for_kind_name(ForKind kind);
bool find_for_kind(std::string_view name, ForKind* kind);
const char* tail_name(Tail tail);
bool find_tail(std::string_view name, Tail* tail);
const char* iter_kind_name(IterKind kind);
bool find_iter_kind(std::string_view name, IterKind* kind);

}  // namespace fettle::text
