#pragma once
// What the programs of statements are made with: the tensors that they read, and their sizes.

#include <string>
#include <vector>

#include "frontend/comprehension/function.h"
#include "graph/size_vars.h"
#include "te/tensor.h"

namespace fettle::comprehension {

/// The tensors of a scope that a program reads, in the order in which it first does; and the sizes, while it is made.
class Reads {
 public:
  explicit Reads(const Scope& scope) : scope_(scope) {}

  const te::Tensor& tensor(const std::string& name);
  ExpressionReader::ReadFn element();
  const std::vector<std::string>& names() const { return names_; }
  /// `compiled` with the program that makes `made`, and its sizes. where: of errors.
  Result<Compiled> finish(Compiled compiled, const std::string& name, const std::vector<te::Tensor>& made,
                          const std::string& where);

 private:
  const Scope& scope_;
  SizeVars sizes_;
  std::vector<std::string> names_;
  std::vector<te::Tensor> tensors_;
};

/// An extent of a loop: what is negative is 0.
Expr extent_expr(const Dim& extent);
/// Of a tensor, which are not negative.
std::vector<Expr> extents(const std::vector<Dim>& dims);
/// before op value
Expr combined(Assignment assignment, const Expr& before, const Expr& value);

}  // namespace fettle::comprehension
