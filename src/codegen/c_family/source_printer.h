#pragma once
// Lowered Funcs → source text of a language of the C family. What a lowered program is: codegen/llvm/README.md; scalar
// code only (Pipeline::kScalar).
//
// A language derives from this class, gives its Dialect, and overrides what it does in its own way: parallel loops,
// calls, allocations, the head of a function. The text is made of functions, helpers before them (helpers.h), and
// whatever the language puts before both.
//
// The text has no undefined behaviour where the program has a meaning. Integers wrap, as in the loop language. Only
// indices (sums and products of loop variables, integer parameters and constants) are plain signed arithmetic.

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "codegen/c_family/dialect.h"
#include "codegen/c_family/names.h"
#include "ir/func.h"

namespace fettle::c_family {

class SourcePrinter {
 public:
  SourcePrinter(const Dialect& dialect, const IrModule& module);
  virtual ~SourcePrinter() = default;
  SourcePrinter(const SourcePrinter&) = delete;
  SourcePrinter& operator=(const SourcePrinter&) = delete;

  /// Prints one Func as a function called `name`; functions come in the order in which they are printed.
  void print_function(const Func& func, const std::string& name);
  /// Prints every Func of the module, each under its own name.
  void print_all();
  /// Helpers, then functions. E301 where a construct is not known; the first one counts.
  Result<std::string> finish();

  /// How tightly the outermost operator of a text binds, as in C.
  enum Level { kPrimary, kUnary, kProduct, kSum, kShift, kOrder, kEquality, kBits, kAnd, kOr, kTernary };

 protected:
  struct Text {
    std::string text;
    Level level = kPrimary;
  };
  /// How a buffer is known where the printer stands.
  struct Place {
    std::string name;     // of a pointer or an array
    std::string pointer;  // the type of a pointer to its elements, with a space or '*' at the end
  };

  // --- what a language overrides; the defaults suit a language without threads ---

  /// The line before the body: "void f(const float *A, float *C, int64_t n)". The names are parameters()'s.
  virtual std::string head(const Func& func, const std::string& name);
  /// Statements at the top and the end of a function.
  virtual void begin_body(const Func&) {}
  virtual void end_body(const Func&) {}
  virtual void print_parallel(const ForNode& loop);
  /// The line before a loop, or nothing: dialect.unroll_hint.
  virtual std::string loop_hint(const ForNode& loop);
  ///   for i in n thread axis("threadIdx.x"): S   →   { const int64_t i = <dialect.thread_axes>; S }
  virtual void print_thread_loop(const ForNode& loop);
  /// A local array, qualified as dialect.scopes says. A size that is not constant is refused.
  virtual void print_allocate(const AllocateNode& allocation);
  virtual void print_call(const CallFuncNode& call);
  virtual void print_evaluate(const EvaluateNode& node);
  /// One element; a store of a vector is refused.
  virtual void print_store(const StoreNode& store);

  // --- for them ---

  void print(const Stmt& stmt);
  /// `stmt` in braces behind `head`: "for (…)", "if (…)" or nothing; then, after "else", another.
  void print_braced(const std::string& head, const Stmt& stmt, const Stmt& otherwise = nullptr);
  void line(const std::string& text);
  /// "head {", and what follows further in; then "}".
  void open(const std::string& head = "");
  void close();
  Text expr(const Expr& e);
  /// The text of `e`, in parentheses if it binds less tightly than `level`.
  std::string expr(const Expr& e, Level level);
  /// `value` as memory of this type has it. An element of 16 bits that is only copied stays as it is.
  std::string stored(const Expr& value, DType type);
  /// Without a rounding to 16 bits that is the last thing done: what is rounded when it is stored need not be before.
  std::string unrounded(const Expr& value);
  /// The lvalue of an element: "A[i * 4 + 1]".
  std::string element(const Buffer& buffer, const std::vector<Expr>& indices);
  /// A call of a helper function, which is then printed too.
  Text use_helper(const std::string& name, const std::vector<std::string>& args);
  void need_helper(const std::string& name);
  /// For indices: adds `var` to what is plain arithmetic, and perhaps to what is not negative.
  void note_index(const VarNode* var, bool not_negative);
  bool is_index(const Expr& e) const;
  bool is_not_negative(const Expr& e) const;
  /// Names a variable from here on; the name is free again after forget().
  const std::string& name_var(const Var& var);
  const std::string& name_buffer(const Buffer& buffer, bool is_constant);
  void forget(const VarNode* var);
  void forget(const BufferNode* buffer);
  const Place& place(const BufferNode* buffer);
  /// Declarations of a Func's parameters, whose names are then known: pointers, then integers.
  std::vector<std::string> parameters(const Func& func);
  /// True if no statement of `func` may write the parameter.
  static bool only_read(const Func& func, const BufferNode* buffer);
  void fail_with(std::string message);
  /// The same, where an expression is wanted.
  Text refused(std::string message) {
    fail_with(std::move(message));
    return {"0"};
  }
  bool failed() const { return error_.code != ErrorCode::kNone; }

  const Dialect& dialect_;
  const IrModule& module_;
  const Func* func_ = nullptr;  // being printed
  Names names_;
  std::string out_;  // of the function being printed
  std::vector<std::string> functions_;
  int depth_ = 0;
  std::unordered_map<const VarNode*, std::string> vars_;
  std::unordered_map<const BufferNode*, Place> places_;

 private:
  // print_expr.cpp
  Text binary(const BinaryNode& node);
  Text int_binary(const BinaryNode& node, DType type);
  Text float_binary(const BinaryNode& node, DType type);
  Text cast_text(const CastNode& node);
  Text call_text(const CallNode& node);
  Text load_text(const LoadNode& node);
  Text infix(const BinaryNode& node);
  std::string value(const Expr& e);  // as an argument

  void print_seq(const SeqNode& seq);
  void print_for(const ForNode& loop);
  void print_let(const LetNode& let);
  void declare_array(const Buffer& buffer, const Stmt& body);

  std::unordered_map<const VarNode*, bool> index_vars_;  // → not negative
  std::set<std::string> helpers_;                        // known to be in helper_text_
  std::string helper_text_;
  Diagnostic error_;
};

/// The text of a constant of any type, as an operand.
std::string literal(const Expr& constant, const Dialect& dialect, bool typed = false);

}  // namespace fettle::c_family
