#pragma once
// The language of Tensor Comprehensions (Vasilache et al. 2018, "Tensor Comprehensions") as a tree, every part of it
// with its place. docs/comprehensions.md has the grammar.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"

namespace fettle::comprehension {

struct Place {
  int line = 1, column = 1;  // from 1
};

enum class ExprKind : uint8_t {
  kInteger,
  kReal,
  kBool,
  kName,         // an index, a size, a scalar tensor, or what a where clause calls so
  kExtent,       // A.0
  kApply,        // A(i, j), exp(x), min(a, b)
  kUnary,        // - !
  kBinary,       // + - * / % == != < <= > >= && ||
  kConditional,  // a ? b : c
  kCast,         // float(a)
};

struct ExprTree {
  ExprKind kind = ExprKind::kInteger;
  Place place;
  std::string text = {};   // of a name, an application, an extent: the name; of operators: their symbol
  int64_t integer = 0;     // kInteger, kBool; of kExtent: the dim
  double real = 0;         // kReal
  DType dtype = kF32;      // kCast
  bool is_single = false;  // kReal: written with an "f"
  std::vector<ExprTree> args = {};
};

/// float(M, 3): the extents are sizes and numbers.
struct TypeTree {
  Place place;
  DType dtype;
  std::vector<ExprTree> extents;
};

struct ParamTree {
  Place place;
  std::string name;
  std::optional<TypeTree> type;  // of results: nothing where it is inferred
};

/// i in begin:end · name = value · exists value
struct ClauseTree {
  enum class Kind : uint8_t { kRange, kLet, kExists } kind;
  Place place;
  std::string name;
  ExprTree begin, end;  // kRange
  ExprTree value;       // kLet, kExists
};

enum class Assignment : uint8_t { kSet, kAdd, kMultiply, kMin, kMax };

struct StatementTree {
  enum class Kind : uint8_t { kComprehension, kCall, kFor } kind = Kind::kComprehension;
  Place place;
  // kComprehension: name(indices) op value where clauses
  std::string name;  // kCall: the function's; kFor: the variable's
  std::vector<ExprTree> indices;
  Assignment assignment = Assignment::kSet;
  bool from_identity = false;  // op=!
  ExprTree value;
  std::vector<ClauseTree> clauses;
  // kCall: targets = name(arguments)
  std::vector<ParamTree> targets;
  std::vector<ExprTree> arguments;
  // kFor: for name in begin:end { body }
  ExprTree begin, end;
  std::vector<StatementTree> body;
};

struct FunctionTree {
  Place place;
  std::string name;
  std::vector<ParamTree> params, results;
  std::vector<StatementTree> statements;
};

}  // namespace fettle::comprehension
