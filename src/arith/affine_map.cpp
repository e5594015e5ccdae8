#include "arith/affine_map.h"

#include "arith/mixed_radix.h"
#include "arith/plain_map.h"
#include "base/check.h"
#include "base/function_ref.h"
#include "ir/query.h"
#include "ir/visit.h"

namespace fettle {
namespace {

struct Use {
  int source;
  int64_t lower;
  Expr extent;
  bool top;
  size_t binding;
};

// Every digit in use: those of the bindings, and those that make up each composite in use.
std::vector<Use> all_uses(const std::vector<Source>& sources, const std::vector<DigitSum>& sums) {
  std::vector<Use> uses;
  std::vector<char> seen(sources.size(), 0);
  std::vector<int> pending;
  const auto use = [&](const Digit& d, size_t binding) {
    if (is_one(d.extent)) return;
    uses.push_back({d.source, d.lower, d.extent, d.top, binding});
    if (!seen[static_cast<size_t>(d.source)]) pending.push_back(d.source);
    seen[static_cast<size_t>(d.source)] = 1;
  };
  for (size_t k = 0; k < sums.size(); ++k)
    for (const SumTerm& t : sums[k].terms) use(t.digit, k);
  while (!pending.empty()) {
    const int id = pending.back();
    pending.pop_back();
    // Parts of a composite count as one user of their own.
    for (const SumTerm& t : sources[static_cast<size_t>(id)].parts) use(t.digit, sums.size() + static_cast<size_t>(id));
  }
  std::stable_sort(uses.begin(), uses.end(), [](const Use& x, const Use& y) {
    return x.source != y.source ? x.source < y.source : x.lower < y.lower;
  });
  return uses;
}

// How the digits in use make up one source.
struct Makeup {
  bool disjoint = true;
  bool complete = true;  // they determine the source's value
  bool ragged = false;   // not all combinations of them occur
};

Makeup makeup_of(const Source& source, const Use* begin, const Use* end, Analyzer& analyzer) {
  Makeup m;
  int64_t reached = 1;  // the product of the digits below
  for (const Use* u = begin; u != end; ++u) {
    if (reached == 0 || u->lower % reached != 0) {
      m.disjoint = m.complete = false;
      return m;
    }
    if (u->lower != reached) m.complete = false;
    if (u->top) {
      if (end - begin > 1 && !analyzer.modular(source.extent).divisible_by(u->lower)) m.ragged = true;
      reached = 0;  // nothing may lie above
    } else {
      reached = u->lower * *as_int(u->extent);
    }
  }
  if (reached != 0) {
    // No top digit: complete only if what lies above is a single value.
    const Interval extent = analyzer.int_bounds(source.extent);
    if (extent.max > reached) m.complete = false;
    if (extent.min < reached) m.ragged = true;
  }
  return m;
}

// Visits each source in use with its makeup, until that fails. Tells which are in use.
Result<std::vector<char>> visit_makeups(const std::vector<Source>& sources, const std::vector<DigitSum>& sums,
                                        Analyzer& analyzer, FunctionRef<Result<>(size_t source, const Makeup&)> visit) {
  const std::vector<Use> uses = all_uses(sources, sums);
  std::vector<char> used(sources.size(), 0);
  for (size_t i = 0; i < uses.size();) {
    size_t j = i;
    while (j < uses.size() && uses[j].source == uses[i].source) ++j;
    const auto at = static_cast<size_t>(uses[i].source);
    used[at] = 1;
    FETTLE_TRY_VOID(visit(at, makeup_of(sources[at], &uses[i], &uses[i] + (j - i), analyzer)));
    i = j;
  }
  return used;
}

// The map of plain sums, if it is a bijection.
std::optional<AffineMap> plain_bijection(const std::vector<Expr>& bindings, const std::vector<Expr>& extents,
                                         const std::vector<VarDomain>& loops, const Expr& predicate) {
  PlainLoops plain_loops;
  for (const VarDomain& d : loops)
    if (!add_plain_loop(plain_loops, d.var.get(), d.range.min, d.range.extent)) return std::nullopt;
  const auto plain = plain_map(bindings, plain_loops, predicate);
  if (!plain || !plain->injective || !plain->covers(extents)) return std::nullopt;
  AffineMap map;
  map.affine = map.independent = map.injective = map.covers = true;
  for (const PlainBinding& b : plain->bindings)
    map.bindings.push_back({int_imm(b.base.constant), int_imm(b.extent), true, true});
  return map;
}

// x + e / c beside e % c, where the simplifier has taken whole turns out of e: (9 i + j) / 7 is i + (2 i + j) / 7. With
// the turns that e's own variables make put back, both are parts of one number again. Nothing if there is no such pair.
std::optional<std::vector<Expr>> with_turns(const std::vector<Expr>& bindings, Analyzer& analyzer) {
  std::vector<Expr> whole = bindings;
  bool found = false;
  for (size_t j = 0; j < bindings.size(); ++j) {
    const auto* part = bindings[j].as<BinaryNode>();
    const int64_t* c = part && part->op == BinaryOp::kFloorMod ? as_int(part->b) : nullptr;
    if (!c || *c <= 0) continue;
    const Expr quotient = floordiv(part->a, Expr(*c));
    LinearForm number = linear_form(part->a);
    for (size_t i = 0; i < bindings.size(); ++i) {
      LinearForm form = linear_form(bindings[i]);
      if (i == j || form.coeff_of(quotient) != 1) continue;
      LinearForm turns;
      for (const LinearTerm& t : form.terms)
        if (number.coeff_of(t.expr) != 0) turns.add_term(t.expr, t.coeff);
      if (turns.terms.empty()) continue;
      form.add_term(quotient, -1);
      form.add(turns, -1);
      number.add(turns, *c);
      const Expr joined = analyzer.to_expr(number);
      whole[i] = analyzer.to_expr(form) + floordiv(joined, Expr(*c));
      whole[j] = floormod(joined, Expr(*c));
      found = true;
      break;
    }
  }
  if (!found) return std::nullopt;
  return whole;
}

// As detect_affine_map, of loops from 0 that `analyzer` knows, and simplified expressions.
AffineMap detect(const std::vector<Expr>& bindings, const std::vector<Expr>& extents,
                 const std::vector<VarDomain>& domains, const Expr& predicate, Analyzer& analyzer) {
  AffineMap map;
  MixedRadix radix(domains, analyzer);
  for (const VarDomain& d : domains) {
    if (!radix.uses_loops(d.range.extent)) continue;
    map.reason = "the extent of loop " + d.var->name + " depends on another loop";
    return map;
  }
  if (predicate) radix.set_predicate(predicate);

  std::vector<DigitSum> sums;
  map.covers = map.injective = true;
  for (size_t k = 0; k < bindings.size(); ++k) {
    auto sum = radix.parse(bindings[k]);
    const auto range = sum ? radix.range_of(*sum, true) : std::nullopt;
    if (!range) {
      map = {};
      map.reason = "binding " + std::to_string(k) + " is not quasi-affine in the loops";
      return map;
    }
    BindingInfo info;
    info.min = analyzer.simplify(analyzer.to_expr(sum->base) + range->low);
    info.extent = range->extent;
    info.dense = range->dense;
    info.injective = range->injective;
    map.injective &= info.injective;
    const bool reached =
        info.dense && analyzer.can_prove(le(info.min, 0)) && analyzer.can_prove(le(extents[k], info.min + info.extent));
    if (!reached && map.covers) {
      map.covers = false;
      map.reason = "binding " + std::to_string(k) + " does not reach its whole domain";
    }
    map.bindings.push_back(std::move(info));
    sums.push_back(std::move(*sum));
  }
  map.affine = map.independent = true;
  for (const RadixCondition& c : radix.conditions()) {
    if (c.used) continue;
    if (map.covers) map.reason = "a condition of the predicate bounds no binding";
    map.covers = false;
  }

  const auto used = *visit_makeups(radix.sources(), sums, analyzer, [&](size_t, const Makeup& m) -> Result<> {
    if (!m.disjoint) {
      map.independent = map.covers = map.injective = false;
      map.reason = "two bindings use the same part of a loop";
    }
    if (!m.complete) map.injective = false;
    if (m.ragged) {
      if (map.covers) map.reason = "a split that leaves a remainder goes to different bindings";
      map.covers = map.independent = false;
    }
    return {};
  });
  // A loop that no binding uses repeats every instance.
  for (size_t i = 0; i < domains.size(); ++i)
    if (!used[i] && !is_one(domains[i].range.extent)) map.injective = false;
  return map;
}

}  // namespace

OpenBalance open_balance(const Expr& outer, const Expr& inner, const Expr& count, int64_t tile) {
  const auto begin = [&](int64_t later) { return (outer + later) * tile; };
  const auto shared = [&](int64_t later) { return floordiv(begin(later) - count, 2); };
  const Expr is_inside = lt(begin(1), count), back = select(le(1, outer), shared(1), 0);
  return {begin(0) + inner - select(is_inside, 0, back),
          select(is_inside, select(lt(begin(2), count), tile, tile - shared(2)), count - begin(0) + back)};
}

AffineMap detect_affine_map(const std::vector<Expr>& bindings, const std::vector<Expr>& extents,
                            const std::vector<VarDomain>& loops, const Expr& predicate, Analyzer& analyzer) {
  FETTLE_CHECK(bindings.size() == extents.size());
  if (auto plain = plain_bijection(bindings, extents, loops, predicate)) return std::move(*plain);
  const auto scope = analyzer.enter();
  // Loops are taken to start at 0: x → x + min.
  std::vector<VarDomain> domains;
  domains.reserve(loops.size());
  VarMap shifted;
  for (const VarDomain& d : loops) {
    Expr extent = d.range.extent, first = d.range.min;
    if (!shifted.empty()) {
      extent = substitute(extent, shifted);
      first = substitute(first, shifted);
    }
    if (!is_zero(first)) shifted[d.var.get()] = Expr(d.var) + first;
    extent = analyzer.simplify(extent);
    analyzer.bind(d.var, 0, extent);
    domains.push_back({d.var, {0, extent}});
  }
  const auto prepared = [&](const Expr& e) { return analyzer.simplify(shifted.empty() ? e : substitute(e, shifted)); };
  const Expr condition = predicate ? prepared(predicate) : predicate;
  std::vector<Expr> simple;
  for (const Expr& binding : bindings) simple.push_back(prepared(binding));

  AffineMap map = detect(simple, extents, domains, condition, analyzer);
  if (!map.injective)
    if (const auto whole = with_turns(simple, analyzer)) {
      AffineMap other = detect(*whole, extents, domains, condition, analyzer);
      if (other.injective && other.covers >= map.covers) return other;
    }
  return map;
}

namespace {

// The part (input / lower) % extent of an input that an output is; the modulus left out where `top`.
struct InputPart {
  size_t input = 0, output = 0;
  int64_t lower = 1, extent = 0;
  bool top = true;
};

std::optional<InputPart> part_of_input(const Expr& output, const std::vector<Var>& inputs) {
  InputPart part;
  const Expr* rest = &output;
  const auto take = [&](BinaryOp op, int64_t* by) {
    const auto* n = rest->as<BinaryNode>();
    const int64_t* c = n && n->op == op ? as_int(n->b) : nullptr;
    if (!c || *c <= 1) return false;
    *by = *c;
    rest = &n->a;
    return true;
  };
  part.top = !take(BinaryOp::kFloorMod, &part.extent);
  take(BinaryOp::kFloorDiv, &part.lower);
  while (part.input < inputs.size() && inputs[part.input].get() != rest->get()) ++part.input;
  if (part.input == inputs.size()) return std::nullopt;
  return part;
}

// Where every output is such a part, and the parts make up the extents exactly, the first perhaps an open one: what
// invert gives in general.
std::optional<IndexMapInverse> invert_parts(const IndexMap& map, const std::vector<Expr>& shape, Analyzer& analyzer) {
  SmallVector<InputPart, 8> parts;
  for (size_t k = 0; k < map.outputs.size(); ++k) {
    auto part = part_of_input(map.outputs[k], map.inputs);
    if (!part) return std::nullopt;
    part->output = k;
    parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const InputPart& x, const InputPart& y) {
    return x.input != y.input ? x.input < y.input : x.lower > y.lower;
  });
  IndexMapInverse result;
  result.physical_shape.resize(parts.size());
  for (size_t k = 0; k < parts.size(); ++k) result.inverse.inputs.push_back(make_var("p" + std::to_string(k)));
  size_t next = 0;
  const bool open = std::ranges::any_of(shape, [](const Expr& extent) { return !as_int(extent); });
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t* extent = as_int(shape[i]);
    if (extent && *extent <= 1 && !open) return std::nullopt;
    LinearForm value;
    int64_t above = extent ? *extent : 0;  // parts so far make up input / above
    if (!extent || *extent == 1) {
      if (next == parts.size() || parts[next].input != i || !parts[next].top) return std::nullopt;
      InputPart& part = parts[next++];
      if (!analyzer.modular(shape[i]).divisible_by(part.lower)) return std::nullopt;
      result.physical_shape[part.output] = analyzer.simplify(floordiv(shape[i], Expr(part.lower)));
      value.terms.push_back({result.inverse.inputs[part.output], part.lower});
      above = part.lower;
    }
    for (; next < parts.size() && parts[next].input == i; ++next) {
      InputPart& part = parts[next];
      if (above % part.lower != 0 || above == part.lower) return std::nullopt;
      if (part.top ? !extent || above != *extent
                   : part.extent != above / part.lower || (extent && above == *extent && part.lower == 1))
        return std::nullopt;
      result.physical_shape[part.output] = int_imm(above / part.lower);
      value.terms.push_back({result.inverse.inputs[part.output], part.lower});
      above = part.lower;
    }
    if (above != 1) return std::nullopt;
    result.inverse.outputs.push_back(to_expr(value));
  }
  return result;
}

}  // namespace

Result<IndexMapInverse> invert(const IndexMap& map, const std::vector<Expr>& shape, Analyzer& analyzer) {
  FETTLE_CHECK(map.inputs.size() == shape.size());
  if (auto parts = invert_parts(map, shape, analyzer)) return std::move(*parts);
  const auto scope = analyzer.enter();
  std::vector<VarDomain> domains;
  for (size_t i = 0; i < shape.size(); ++i) {
    domains.push_back({map.inputs[i], {0, analyzer.simplify(shape[i])}});
    analyzer.bind(map.inputs[i], 0, domains.back().range.extent);
  }
  MixedRadix radix(domains, analyzer);
  IndexMapInverse result;
  std::vector<DigitSum> sums;
  for (size_t k = 0; k < map.outputs.size(); ++k) {
    auto sum = radix.parse(analyzer.simplify(map.outputs[k]));
    const auto range = sum ? radix.range_of(*sum, false) : std::nullopt;
    if (!range || !range->dense || !range->injective || !sum->base.is_zero())
      return fail(ErrorCode::E217,
                  "output " + std::to_string(k) + " of the index map is no dense number of its inputs");
    result.physical_shape.push_back(range->extent);
    result.inverse.inputs.push_back(make_var("p" + std::to_string(k)));
    analyzer.bind(result.inverse.inputs.back(), 0, range->extent);
    sums.push_back(std::move(*sum));
  }
  std::vector<char> ragged(radix.sources().size(), 0);
  const auto visit = [&](size_t at, const Makeup& m) -> Result<> {
    if (!m.disjoint || !m.complete)
      return fail(ErrorCode::E217,
                  "the outputs do not determine " +
                      (at < domains.size() ? "input " + domains[at].var->name : std::string("a fused input")));
    ragged[at] = m.ragged;
    return {};
  };
  FETTLE_TRY(const std::vector<char> used, visit_makeups(radix.sources(), sums, analyzer, visit));
  for (size_t i = 0; i < domains.size(); ++i)
    if (!used[i] && !is_one(domains[i].range.extent))
      return fail(ErrorCode::E217, "no output uses input " + domains[i].var->name);

  // Values of the sources: sums of lower * digit, a digit being (number / scale) % extent of the output or of the
  // composite that holds it. A composite comes after its parts, so from the last to the first.
  std::vector<Expr> values(radix.sources().size(), Expr(0));
  const auto take_apart = [&](const Expr& number, const std::vector<SumTerm>& terms) {
    for (size_t i = 0; i < terms.size(); ++i) {
      const SumTerm& t = terms[i];
      if (is_one(t.digit.extent)) continue;
      Expr digit = floordiv(number, Expr(t.scale));
      if (i + 1 < terms.size()) digit = floormod(digit, t.digit.extent);
      Expr& value = values[static_cast<size_t>(t.digit.source)];
      value = value + digit * Expr(t.digit.lower);
    }
  };
  for (size_t k = 0; k < sums.size(); ++k) take_apart(result.inverse.inputs[k], sums[k].terms);
  for (size_t s = radix.sources().size(); s-- > 0;) {
    values[s] = analyzer.simplify(values[s]);
    if (ragged[s]) result.valid = logical_and(result.valid, lt(values[s], radix.sources()[s].extent));
    take_apart(values[s], radix.sources()[s].parts);
  }
  for (size_t i = 0; i < domains.size(); ++i) result.inverse.outputs.push_back(values[i]);
  if (result.valid) result.valid = analyzer.simplify(result.valid);
  if (is_true(result.valid)) result.valid = nullptr;
  return result;
}

Result<IndexMapInverse> invert_rounded(const IndexMap& map, std::vector<Expr> shape, Analyzer& analyzer) {
  std::vector<size_t> rounded;
  const std::vector<Expr> logical = shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t* extent = as_int(shape[i]);
    int64_t block = 1;
    for (const Expr& output : map.outputs)
      each_node<BinaryNode>(output, [&](const BinaryNode& n) {
        const int64_t* by = n.op == BinaryOp::kFloorDiv ? as_int(n.b) : nullptr;
        if (by && n.a.get() == map.inputs[i].get()) block = std::max(block, *by);
      });
    if (extent ? *extent % block == 0 : analyzer.can_prove(eq(floormod(shape[i], block), 0))) continue;
    shape[i] = analyzer.simplify(floordiv(shape[i] + Expr(block - 1), block) * block);
    rounded.push_back(i);
  }
  FETTLE_TRY(IndexMapInverse result, invert(map, shape, analyzer));
  for (size_t i : rounded) result.valid = logical_and(result.valid, lt(result.inverse.outputs[i], logical[i]));
  return result;
}

}  // namespace fettle
