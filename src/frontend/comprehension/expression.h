#pragma once
// Expressions of the language → expressions of the loop language, with their types and what they index.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "frontend/comprehension/ranges.h"
#include "frontend/comprehension/syntax.h"
#include "ir/expr.h"

namespace fettle::comprehension {

/// A tensor that a statement may read: its elements have indices of [base, base + extent).
struct TensorInfo {
  DType dtype;
  std::vector<Dim> base, extents;
};

struct Scope {
  std::map<std::string, Dim, std::less<>> sizes;
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::set<std::string, std::less<>> functions = {};  // of the text, for errors
};

/// An expression. Halves are computed in single precision.
struct Value {
  Expr expr;
  DType dtype;
  /// A number with a point, or arithmetic of such: it takes the float type of what it meets, and is f64 until then.
  bool is_literal = false;
  /// Integer arithmetic of indices, sizes and numbers: of type int32 and, as it indexes, i64, which `expr` is.
  Form index = nullptr;
};

/// A tensor's element, as a statement reads it.
struct Access {
  std::string tensor;
  Place place;
  std::vector<Form> indices;  // from 0
  bool is_guarded;            // in one side of a condition
  bool is_plain;              // indices are variables by themselves, or numbers
};

/// Reads the expressions of one statement, first to learn of their accesses, then, with the ranges known, to make of
/// them what is computed: the same calls in the same order, after restart().
class ExpressionReader {
 public:
  /// An element, of this type.
  using ReadFn = std::function<Expr(const std::string& tensor, std::vector<Expr> indices, DType dtype)>;

  ExpressionReader(const Scope& scope, const Ranges& loops) : scope_(scope), loops_(loops) {}

  Result<Value> read(const ExprTree& tree);
  /// The same, of an integer of indices and sizes alone. E612
  Result<Affine> read_bound(const ExprTree& tree);
  Result<> let(const std::string& name, const ExprTree& tree);
  /// Makes `name` an index of the statement. E612 at `place`: something else is called so.
  Result<> add_index(const std::string& name, Place place);

  /// The statement's indices, as they appeared first.
  const std::vector<std::string>& indices() const { return indices_; }
  /// Those that what was read since the last call speaks of.
  std::set<std::string, std::less<>> take_used() { return std::exchange(used_, {}); }
  const std::vector<Access>& accesses() const { return accesses_; }

  /// Access k, dim d: its index is held inside of the tensor.
  void hold(size_t access, size_t dim) { held_[access][dim] = true; }
  void restart(std::function<Expr(const std::string& index)> index, ReadFn element);

 private:
  Result<Value> name(const ExprTree& tree);
  Result<Value> extent(const ExprTree& tree);
  Result<Value> access(const ExprTree& tree, const TensorInfo& tensor);
  Result<Value> apply(const ExprTree& tree);
  Result<Value> unary(const ExprTree& tree);
  Result<Value> binary(const ExprTree& tree);
  Result<Value> conditional(const ExprTree& tree);
  Result<Value> guarded(const ExprTree& tree);

  const Scope& scope_;
  const Ranges& loops_;
  struct Let {
    Value value;
    std::set<std::string, std::less<>> used;
  };
  std::map<std::string, Let, std::less<>> lets_;
  std::vector<std::string> indices_;
  std::set<std::string, std::less<>> used_;
  std::vector<Access> accesses_;
  std::vector<std::vector<bool>> held_;
  std::function<Expr(const std::string&)> index_;
  ReadFn element_;
  size_t next_access_ = 0;
  bool is_again_ = false;
  int guards_ = 0;
};

/// What both become when they meet. float beats integers, the wider the narrower; int and uint make int.
DType common_type(DType a, DType b);
/// The value as `dtype`, computed in computed_dtype(dtype).
Expr as_type(const Value& value, DType dtype);
/// Whether a value may be stored in a tensor of this type without being cast: its type is no wider.
bool fits(const Value& value, DType dtype);

/// A function by the name that CUDA has for it.
struct Builtin {
  std::string_view name;
  size_t n_args;
  Expr (*make)(const std::vector<Expr>& args);  // null: Fettle has none
};
const Builtin* find_builtin(std::string_view name);

}  // namespace fettle::comprehension
