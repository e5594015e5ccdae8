#pragma once
// Reads the instructions of a task once. They are then written down for every iteration of the loops around it.

#include <unordered_map>
#include <vector>

#include "arith/int_eval.h"
#include "base/result.h"
#include "codegen/dae/instruction.h"
#include "ir/stmt.h"

namespace fettle::dae {

/// Where buffers lie: in which memory of the program, and from which byte.
struct Place {
  int memory = -1;
  int64_t offset_bytes = 0;
};
using Places = std::unordered_map<const BufferNode*, Place>;

/// A task: a nest of loops around one store, read into what the units do.
class Task {
 public:
  /// An access: index == base + Σ coefficient * loop.
  struct Access {
    Buffer buffer;
    Expr base;
    std::vector<Expr> coefficients;  // in elements, one a loop
  };
  /// One operation of the task; a task of sums may be several, over the same loops.
  struct Operation {
    Opcode op = Opcode::kNop;
    Unit unit = Unit::kCompute;
    AluOp alu = AluOp::kFill;
    int64_t immediate = 0;
    Access dst;
    std::vector<Access> src;
  };

  /// Appends its instructions, given the values of the loops around it.
  Result<> instantiate(IntEnv& values, const Places& places, const AcceleratorUnits& units, Program& program) const;

  std::vector<Expr> conditions;       // all must hold, else it does nothing; over the loops outside
  std::vector<const ForNode*> loops;  // around the operation, outermost first; those of a tensor intrinsic left out
  std::vector<Operation> operations;

 private:
  Result<> append(const Operation& operation, const std::vector<int64_t>& mins, const std::vector<int64_t>& extents,
                  const IntEnv& values, const Places& places, const AcceleratorUnits& units, Program& program) const;
};

/// What an expression is when instructions are issued. E301 where that is not known.
Result<int64_t> issued_value(const Expr& e, const IntEnv& values);

/// Reads the body of an issued task:
///  - inp or wgt = memory, or acc = memory: a load (those to acc are done by the compute unit)
///  - a tile annotated tensorize = "dae_gemm_16x16": gemm
///  - acc = an expression over sums at the same place, of additions, subtractions, products, max, min and right shifts,
///  where the
///    right operand of each is a sum or a number: one ALU operation each
///  - memory = acc, perhaps converted to a narrower integer: a store
/// E301 for everything else.
Result<Task> read_task(const Stmt& body);

}  // namespace fettle::dae
