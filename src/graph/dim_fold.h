#pragma once
// Dims computed in another arithmetic: as numbers for given sizes, as expressions of a loop program.

#include <utility>

#include "graph/dim.h"

namespace fettle {

/// The dim in the arithmetic of `T`, which has + and *. `number` makes a T of an int64_t, `size` one of a symbol, and
/// `operation` one of a quotient, a maximum or a minimum: operation(DimFactor::Kind, T, T).
template <class T, class Number, class Size, class Operation>
T fold_dim(const Dim& dim, const Number& number, const Size& size, const Operation& operation) {
  const auto of = [&](const Dim& d) { return fold_dim<T>(d, number, size, operation); };
  const auto of_factor = [&](const DimFactor& factor) -> T {
    if (factor.kind == DimFactor::Kind::kSymbol) return size(factor.whole);
    if (factor.kind == DimFactor::Kind::kProduct) return of(factor.a) * of(factor.b);
    return operation(factor.kind, of(factor.a), of(factor.b));
  };
  std::optional<T> sum;
  for (const DimTerm& term : dim.terms()) {
    std::optional<T> product;
    for (const DimFactor& factor : term.factors)
      product = product ? std::move(*product) * of_factor(factor) : of_factor(factor);
    if (term.coefficient != 1) product = std::move(*product) * number(term.coefficient);
    sum = sum ? std::move(*sum) + std::move(*product) : std::move(*product);
  }
  if (!sum) return number(dim.constant());
  return dim.constant() == 0 ? std::move(*sum) : std::move(*sum) + number(dim.constant());
}

}  // namespace fettle
