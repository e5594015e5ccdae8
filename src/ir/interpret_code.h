#pragma once
// What the interpreter runs: a program compiled to nodes in which variables and buffers are numbered slots.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "ir/interpret_value.h"

namespace fettle::interp {

struct Machine;

/// A buffer while its program runs. Element 0 is at `base`; accesses stay within [begin, end).
struct BufferSlot {
  char* base = nullptr;
  char* begin = nullptr;
  char* end = nullptr;
  std::vector<int64_t> shape, strides;
  std::vector<char> owned;
};

struct Frame {
  Machine* machine = nullptr;
  std::vector<Value> vars;
  std::vector<BufferSlot> buffers;
};

/// An expression. scalar() where lanes is 1; vector() writes `lanes` values. After a failure the value means nothing.
struct ExprCode {
  int lanes = 1;
  virtual ~ExprCode() = default;
  virtual Value scalar(Frame& frame) const = 0;
  virtual void vector(Frame& frame, Value* out) const { *out = scalar(frame); }
};
using ExprPtr = std::unique_ptr<ExprCode>;

/// Returns false after a failure.
struct StmtCode {
  virtual ~StmtCode() = default;
  virtual bool run(Frame& frame) const = 0;
};
using StmtPtr = std::unique_ptr<StmtCode>;

/// A scalar i64 as constant + sum of slot * factor + sum of code * factor: most indices need no node at all.
struct Index {
  struct Term {
    int slot;
    int64_t factor;
  };
  struct Rest {
    ExprPtr code;
    int64_t factor;
  };
  int64_t constant = 0;
  Term first{0, 0};         // factor 0: none
  std::vector<Term> terms;  // the others
  std::vector<Rest> rest;

  bool is_constant() const { return first.factor == 0 && terms.empty() && rest.empty(); }
  int64_t eval(Frame& frame) const {
    int64_t value = constant;
    if (first.factor == 0 && rest.empty()) return value;
    value += frame.vars[static_cast<size_t>(first.slot)].i * first.factor;
    for (const Term& t : terms) value += frame.vars[static_cast<size_t>(t.slot)].i * t.factor;
    for (const Rest& r : rest) value += r.code->scalar(frame).i * r.factor;
    return value;
  }
};

/// Lanes of one evaluation, on the stack where they are few.
class Lanes {
 public:
  explicit Lanes(int n)
      : heap_(n > 32 ? new Value[static_cast<size_t>(n)] : nullptr), data_(heap_ ? heap_.get() : inline_) {}
  Value* get() { return data_; }
  Value& operator[](int i) { return data_[i]; }

 private:
  Value inline_[32];
  std::unique_ptr<Value[]> heap_;
  Value* data_;
};

/// An element's place: one index a dimension, or one flat index.
struct Place {
  const BufferNode* node = nullptr;
  int slot = 0;
  int lanes = 1;
  int element_bytes = 4;
  Storage storage = Storage::kF32;
  bool flat = false;
  bool contiguous = false;       // a flat vector access of neighbours: indices has its first
  std::vector<Index> indices;    // where lanes is 1
  std::vector<ExprPtr> vectors;  // else; a scalar index among them is the same in each lane
  ExprPtr mask;

  /// The address of a scalar access; null and a diagnostic if it is outside.
  char* address(Frame& frame) const;
  /// Those of a vector access; null where the mask is off. False and a diagnostic if one is outside.
  bool addresses(Frame& frame, Value* out) const;

 private:
  char* checked(Frame& frame, const int64_t* index) const;
  char* fail_at(Frame& frame, const int64_t* index) const;
};

struct Program {
  struct BufferShape {
    const BufferNode* node;
    std::vector<ExprPtr> shape, strides;
  };
  std::string name;
  int vars = 0;
  std::vector<BufferShape> buffers;  // params first
  size_t params = 0;
  std::vector<int> int_slots;
  std::vector<DType> int_types;
  StmtPtr body;
  std::vector<std::unique_ptr<Frame>> idle;

  /// Evaluates shape and strides of buffer `slot`; returns its elements' span, or -1 after a failure.
  int64_t shape_buffer(Frame& frame, size_t slot) const;
};

struct Machine {
  std::map<std::string, std::unique_ptr<Program>> programs;
  std::optional<Diagnostic> error;
  int depth = 0;
  int64_t unlimited = INT64_MAX;
  int64_t* steps_left = &unlimited;

  /// Before each iteration of a loop.
  bool may_step() {
    if ((*steps_left)-- > 0) return true;
    fail(ErrorCode::E608, "it takes more steps than are left");
    return false;
  }

  /// Keeps the first.
  void fail(ErrorCode code, std::string message) {
    if (!error) error = Diagnostic(code, std::move(message));
  }
  bool call(Program& program, std::vector<BufferSlot> buffers, const std::vector<int64_t>& ints);
};

/// Turns one function's expressions into code, and numbers its variables and buffers.
class Compiler {
 public:
  Compiler(Machine& machine, Program& program) : machine_(machine), program_(program) {}

  ExprPtr expr(const Expr& e);
  Index index(const Expr& e);
  Place place(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask);
  int bind(const Var& var);
  int declare(const Buffer& buffer);
  StmtPtr stmt(const Stmt& s);

  /// True inside blocks, where a single index of a one-dimensional buffer is no flat offset.
  bool in_block = false;

 private:
  ExprPtr call(const CallNode& n);
  void add_terms(const Expr& e, int64_t factor, Index& index);
  StmtPtr block(const BlockNode& n);
  StmtPtr unsupported(const std::string& what);

  Machine& machine_;
  Program& program_;
  std::unordered_map<const VarNode*, int> vars_;
  std::unordered_map<const BufferNode*, int> buffers_;
};

}  // namespace fettle::interp
