// Einsum: sums of products, by the letters of dims. Of more than two operands, two are multiplied at a time; of two
// whose dims lie as those of matrices, it is their product.

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/contraction.h"

namespace fettle {
namespace {

using namespace ops;

/// An equation: for each dim of each operand and of the result, its label. Those of "..." come before the letters.
struct Equation {
  std::vector<std::vector<size_t>> operands;
  std::vector<size_t> result;
  std::vector<Dim> extents;  // of each label
};

constexpr size_t kLetters = 52;

std::optional<size_t> letter(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<size_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<size_t>(c - 'a') + 26;
  return std::nullopt;
}

/// "b...ij" → letters, and where "..." is.
struct Term {
  std::vector<size_t> letters;
  std::optional<size_t> ellipsis;  // before this letter
};
Result<Term> read_term(const Node& node, std::string_view text) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (const auto found = letter(text[i])) {
      term.letters.push_back(*found);
    } else if (text.substr(i, 3) == "..." && !term.ellipsis) {
      term.ellipsis = term.letters.size();
      i += 2;
    } else {
      return bad_attribute(node, fmt::format("\"{}\" is no part of an equation", text));
    }
  }
  return term;
}

Result<Equation> read_equation(const Node& node) {
  std::string text = node.attrs.get_string("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::vector<Term> terms;
  for (size_t begin = 0, end = std::min(arrow, text.size()); begin <= end;) {
    const size_t comma = std::min(text.find(',', begin), end);
    FETTLE_TRY(terms.emplace_back(), read_term(node, std::string_view(text).substr(begin, comma - begin)));
    begin = comma + 1;
  }
  if (terms.size() != node.inputs.size())
    return bad_attribute(node, fmt::format("the equation has {} operands", terms.size()));
  size_t n_dots = 0;  // the most dims that "..." stands for
  for (size_t k = 0; k < terms.size(); ++k) {
    const size_t rank = shape_of(node, k).size(), stated = terms[k].letters.size();
    if (rank < stated || (rank > stated && !terms[k].ellipsis))
      return bad_types(node, fmt::format("operand {} has {} dims, the equation {}", k, rank, stated));
    n_dots = std::max(n_dots, rank - stated);
  }
  Equation e;
  e.extents.assign(n_dots + kLetters, Dim(1));
  std::array<int, kLetters> uses{};
  const auto labels_of = [&](const Term& term, size_t rank) {
    std::vector<size_t> labels;
    for (const size_t l : term.letters) labels.push_back(n_dots + l);
    if (!term.ellipsis) return labels;
    const size_t count = rank - term.letters.size();
    std::vector<size_t> dots;
    for (size_t d = n_dots - count; d < n_dots; ++d) dots.push_back(d);
    labels.insert(labels.begin() + static_cast<std::ptrdiff_t>(*term.ellipsis), dots.begin(), dots.end());
    return labels;
  };
  for (size_t k = 0; k < terms.size(); ++k) {
    for (const size_t l : terms[k].letters) ++uses[l];
    e.operands.push_back(labels_of(terms[k], shape_of(node, k).size()));
    for (size_t d = 0; d < e.operands[k].size(); ++d) {
      Dim& extent = e.extents[e.operands[k][d]];
      const Dim& own = shape_of(node, k)[d];
      if (own == Dim(1)) continue;
      if (extent == Dim(1)) {
        extent = own;
      } else {
        FETTLE_TRY(extent, common_dim(node, extent, own, fmt::format("dim {} of operand {}", d, k)));
      }
    }
  }
  if (arrow != std::string::npos) {
    FETTLE_TRY(const Term result, read_term(node, std::string_view(text).substr(arrow + 2)));
    for (size_t i = 0; i < result.letters.size(); ++i)
      if (uses[result.letters[i]] == 0 || std::ranges::count(result.letters, result.letters[i]) > 1)
        return bad_attribute(node, "a letter of the result is no operand's, or there twice");
    e.result = labels_of(result, result.letters.size() + n_dots);
  } else {  // "..." and the letters that stand once, in their order
    for (size_t d = 0; d < n_dots; ++d) e.result.push_back(d);
    for (size_t l = 0; l < kLetters; ++l)
      if (uses[l] == 1) e.result.push_back(n_dots + l);
  }
  return e;
}

Types einsum_type(const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node));
  FETTLE_TRY(const Equation e, read_equation(node));
  Shape shape;
  for (const size_t label : e.result) shape.push_back(e.extents[label]);
  return same_dtype(node, std::move(shape));
}

Tensors einsum(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Equation e, read_equation(node));
  std::vector<size_t> summed;
  std::vector<Expr> extents;
  for (size_t label = 0; label < e.extents.size(); ++label) {
    const bool is_read =
        std::ranges::any_of(e.operands, [&](const auto& o) { return std::ranges::count(o, label) > 0; });
    if (!is_read || std::ranges::count(e.result, label) > 0) continue;
    summed.push_back(label);
    extents.push_back(size_expr(e.extents[label]));
  }
  return one(reduce_over(
      te::sum, size_exprs(output_shape(node)), reduce_axes(extents),
      [&](const Indices& i, const Indices& reduced) {
        std::vector<Expr> place(e.extents.size());
        for (size_t d = 0; d < e.result.size(); ++d) place[e.result[d]] = i[d];
        for (size_t d = 0; d < summed.size(); ++d) place[summed[d]] = reduced[d];
        Expr product;
        for (size_t k = 0; k < in.size(); ++k) {
          Indices at;
          for (size_t d = 0; d < e.operands[k].size(); ++d)
            at.push_back(is_one(in[k].dim(static_cast<int>(d))) ? Expr(0) : place[e.operands[k][d]]);
          const Expr x = in[k](std::move(at));
          product = product ? product * x : x;
        }
        return product;
      },
      tensor_name(node)));
}

// --- more than two operands: two at a time, those first whose product takes the least work

/// A factor, and the labels of its dims.
struct Factor {
  Value* value;
  std::vector<size_t> labels;
};

// The sum of one or two factors' product over what `kept` leaves out.
Result<Factor> summed_product(passes::Lowering& g, const Node& node, const std::vector<Factor>& factors,
                              const std::vector<size_t>& kept) {
  std::vector<size_t> letters;  // which label each stands for
  std::string text;
  std::vector<Value*> operands;
  const auto add = [&](size_t label) {
    auto found = std::ranges::find(letters, label);
    if (found == letters.end()) found = letters.insert(letters.end(), label);
    const auto number = static_cast<size_t>(found - letters.begin());
    text += static_cast<char>(number < 26 ? 'a' + number : 'A' + number - 26);
  };
  for (const Factor& factor : factors) {
    if (!operands.empty()) text += ',';
    for (const size_t label : factor.labels) add(label);
    operands.push_back(factor.value);
  }
  text += "->";
  for (const size_t label : kept) add(label);
  if (letters.size() > kLetters) return bad_attribute(node, "a product of two operands has too many dims");
  return Factor{g("Einsum", std::move(operands), {{{"equation", text}}}), kept};
}

Result<std::vector<Value*>> product_by_pairs(passes::Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node));
  FETTLE_TRY(const Equation e, read_equation(node));
  std::vector<Factor> factors;
  for (size_t k = 0; k < node.inputs.size(); ++k) factors.push_back({node.inputs[k], e.operands[k]});
  // Labels of some factors, each once, that the result or another factor has; or all of them.
  const auto labels_of = [&](const std::vector<size_t>& some, bool needed_alone) {
    std::vector<size_t> labels;
    const auto is_needed = [&](size_t label) {
      if (std::ranges::count(e.result, label) > 0) return true;
      for (size_t k = 0; k < factors.size(); ++k)
        if (std::ranges::count(some, k) == 0 && std::ranges::count(factors[k].labels, label) > 0) return true;
      return false;
    };
    for (const size_t k : some)
      for (const size_t label : factors[k].labels)
        if (std::ranges::count(labels, label) == 0 && (!needed_alone || is_needed(label))) labels.push_back(label);
    return labels;
  };
  for (size_t k = 0; k < factors.size(); ++k) {
    const std::vector<size_t> kept = labels_of({k}, true);
    if (kept == factors[k].labels) continue;
    FETTLE_TRY(factors[k], summed_product(g, node, {factors[k]}, kept));
  }
  while (factors.size() > 2) {
    std::pair<size_t, size_t> best;
    double least = HUGE_VAL;
    for (size_t a = 0; a < factors.size(); ++a)
      for (size_t b = a + 1; b < factors.size(); ++b) {
        double work = 1;
        for (const size_t label : labels_of({a, b}, false))
          work *= static_cast<double>(std::max<int64_t>(e.extents[label].typical(), 1));
        if (work < least) {
          least = work;
          best = {a, b};
        }
      }
    const auto [a, b] = best;
    FETTLE_TRY(Factor product, summed_product(g, node, {factors[a], factors[b]}, labels_of({a, b}, true)));
    factors = without(with_replaced(std::move(factors), static_cast<int64_t>(a), std::move(product)),
                      static_cast<int64_t>(b));
  }
  FETTLE_TRY(const Factor result, summed_product(g, node, factors, e.result));
  return std::vector{result.value};
}
// --- two operands whose dims lie as those of matrices

// The factors of a product of matrices that the equation is, in the order of the result's dims.
std::optional<std::pair<Contracted, Contracted>> as_product(const Node& node, const Equation& e) {
  const DType dtype = dtype_of(node, 0);
  if (node.inputs.size() != 2 || dtype_of(node, 1) != dtype || (!dtype.is_int() && !dtype.is_float())) return {};
  Contracted factors[2]{{node.inputs[0], {}, {}, {}}, {node.inputs[1], {}, {}, {}}};
  const auto place = [&](size_t k, size_t label) {
    const auto found = std::ranges::find(e.operands[k], label);
    return found == e.operands[k].end() ? int64_t{-1} : static_cast<int64_t>(found - e.operands[k].begin());
  };
  std::vector<size_t> batch, others[2];
  for (const size_t label : e.result)
    if (place(0, label) >= 0 && place(1, label) >= 0) {
      batch.push_back(label);
      for (const size_t k : {0, 1}) factors[k].batch.push_back(place(k, label));
    }
  for (const size_t k : {0, 1})
    for (size_t d = 0; d < e.operands[k].size(); ++d) {
      const size_t label = e.operands[k][d];
      const bool is_shared = place(1 - k, label) >= 0, stays = std::ranges::count(e.result, label) > 0;
      // Diagonals, what broadcasts, and what one operand alone sums are no product's.
      if (std::ranges::count(e.operands[k], label) > 1 || (!is_shared && !stays)) return {};
      if (is_shared && (shape_of(node, k)[d] == Dim(1)) != (e.extents[label] == Dim(1))) return {};
      if (!is_shared) {
        factors[k].others.push_back(static_cast<int64_t>(d));
        others[k].push_back(label);
      } else if (!stays && k == 0) {
        factors[0].contracting.push_back(static_cast<int64_t>(d));
        factors[1].contracting.push_back(place(1, label));
      }
    }
  if (!is_product(factors[0], factors[1])) return {};
  if (e.result == joined(joined(batch, others[0]), others[1])) return std::pair{factors[0], factors[1]};
  if (e.result == joined(joined(batch, others[1]), others[0]) && is_product(factors[1], factors[0]))
    return std::pair{factors[1], factors[0]};
  return {};
}

Result<std::vector<Value*>> lower_einsum(passes::Lowering& g, const Node& node) {
  if (node.inputs.size() > 2) return product_by_pairs(g, node);
  FETTLE_TRY(const Equation e, read_equation(node));
  const auto factors = as_product(node, e);
  Shape shape;
  for (const size_t label : e.result) shape.push_back(e.extents[label]);
  return std::vector{product_of_matrices(g, factors->first, factors->second, "MatMul", shape)};
}
bool is_lowered(const Node& node) {
  if (node.inputs.size() > 2) return true;
  const auto e = read_equation(node);
  return e && as_product(node, *e);
}

constexpr OpDef einsum_defs[] = {
    passes::by_data<lower_einsum, is_lowered>(define(kComplexOutFusable, "Einsum", {1, kAny}, einsum_type, einsum)),
};

}  // namespace

extern constinit const OpFamily einsum_ops{"einsum", einsum_defs};

}  // namespace fettle
