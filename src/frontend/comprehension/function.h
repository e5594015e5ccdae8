#pragma once
// A function's statements → nodes of a graph.

#include <map>
#include <string>
#include <vector>

#include "frontend/comprehension/statement.h"
#include "graph/limits.h"
#include "ir/func.h"

namespace fettle::comprehension {

/// A tensor of a function that is being built: what its statements say of it so far.
struct Tensor {
  TensorInfo info;
  fettle::Value* value = nullptr;
};

/// The functions of a text, by name.
using Functions = std::map<std::string, const FunctionTree*, std::less<>>;

/// A graph of one function, whose calls of others are in it. Errors' `where` is "line:column".
Result<Graph> function_graph(const Functions& functions, const FunctionTree& function, const Limits& limits);

/// Every problem of the function that does not follow from another one of it; likewise.
std::vector<Diagnostic> function_problems(const Functions& functions, const FunctionTree& function,
                                          const Limits& limits);

/// A node of one loop program: its inputs are `read`, in this order, its outputs are those of the program.
struct ProgramNode {
  std::string_view op;  // fettle.MapProgram, …
  std::string name;
  Func program;
  std::vector<Dim> sizes;  // its integer parameters
  std::vector<fettle::Value*> read;
  std::vector<std::string> outputs;  // names
};
Node* add_program(Graph& graph, ProgramNode node);

/// The statement, which is in no loop, as a program that makes the tensor anew: its parameters are the tensors that it
/// reads, in the order of `read`, and its result. `tensors`: as they are before.
struct Compiled {
  std::string_view op;
  Func program;
  std::vector<Dim> sizes;
  std::vector<std::string> read, written;
  std::vector<TensorInfo> made;  // one for each of `written`
};
Result<Compiled> compile_statement(Statement& statement, const Scope& scope);

/// A statement that is a sum of products of two tensors, each of whose dims has an index of its own: the general
/// operator of that name, and then a Transpose.
///   C(m, n) +=! A(m, k) * B(k, n)
struct Contraction {
  std::string a, b;
  Attrs attrs;
  std::vector<int64_t> permutation;  // of its result's dims: those of the statement
  TensorInfo info;
};
std::optional<Contraction> as_contraction(const Statement& statement, const Scope& scope);

/// Statements in loops as one program, in their order: `for` or a statement over domains that are no boxes. `checks`
/// gets what must hold of the sizes.
Result<Compiled> compile_loops(const StatementTree& tree, const Scope& scope, std::vector<SizeCheck>& checks);

}  // namespace fettle::comprehension
