#include "schedule/reformulate/online_states.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "base/check.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/inlining.h"

namespace fettle {

const BlockNode* only_writer(const Func& func, const BlockNode& scope, const LoadNode& e) {
  if (is_param(func, e.buffer.get())) return nullptr;
  const std::vector<const BlockNode*> writers = producers_of(scope, e.buffer.get());
  return writers.size() == 1 ? writers.front() : nullptr;
}

namespace {

// What a load of an elementwise block's result is, in the loading block's iterators; the block joins `stored`.
std::optional<Expr> stored_value(const Func& func, const BlockNode& scope, const LoadNode& element, Analyzer& analyzer,
                                 const BlockNode** stored) {
  *stored = only_writer(func, scope, element);
  if (!*stored || !why_not_inlinable(func, **stored, scope, false).empty()) return {};
  const StoreNode& write = *single_store(**stored);
  const auto at = solve((*stored)->iters, write.indices, element.indices, analyzer);
  if (!at) return {};
  return substitute(write.value, *at);
}

}  // namespace

Result<Exponential> match_exponential(const Func& func, const BlockNode& scope, const BlockNode& reader, Expr term) {
  Exponential e;
  Analyzer analyzer = analyzer_in(func, reader);
  if (const auto* element = term.as<LoadNode>()) {
    const auto value = stored_value(func, scope, *element, analyzer, &e.stored);
    if (!value) return pattern_differs("what is added is no exponential, or stored in another order");
    term = *value;
  }
  const auto* power = term.as<CallNode>();
  const auto* difference = power && power->name == "exp" ? power->args[0].as<BinaryNode>() : nullptr;
  const auto* highest = difference && difference->op == BinaryOp::kSub ? difference->b.as<LoadNode>() : nullptr;
  e.maximum = highest ? only_writer(func, scope, *highest) : nullptr;
  if (!e.maximum) return pattern_differs("what is added is not exp(x - M)");
  FETTLE_TRY(e.m, match_reduction(func, *e.maximum, /*several=*/false, /*open=*/true));
  if (!is_maximum(e.m.combine->op)) return pattern_differs("M is no maximum");
  if (!e.m.update->buffer->dtype.is_float()) return pattern_differs("the maximum is not of floating-point numbers");
  e.x = difference->a;
  e.at = highest->indices;
  return e;
}

Result<VarMap> iters_in_maximum(const Func& func, const Exponential& e, const BlockNode& reader, size_t reduce) {
  VarMap to_maximum;
  const std::vector<Expr>& written = e.m.update->indices;
  if (e.at.size() != written.size()) return pattern_differs("maximum and sum run over different iterators");
  to_maximum[reader.iters[reduce].var.get()] = e.maximum->iters[e.m.reduce].var;
  for (size_t d = 0; d < e.at.size(); ++d) {
    const auto* of_reader = e.at[d].as<VarNode>();
    const auto* of_maximum = written[d].as<VarNode>();
    if (!of_reader || !of_maximum) {
      if (structural_equal(e.at[d], written[d])) continue;  // a constant
      return pattern_differs("the indices of M are no iterators");
    }
    to_maximum[of_reader] = written[d];
  }
  if (to_maximum.size() != e.maximum->iters.size())
    return pattern_differs("maximum and sum run over different iterators");
  for (const auto& [var, target] : to_maximum) {
    const auto own = std::ranges::find_if(reader.iters, [&](const IterVar& i) { return i.var.get() == var; });
    const auto other =
        std::ranges::find_if(e.maximum->iters, [&](const IterVar& i) { return i.var.get() == target.get(); });
    if (own == reader.iters.end() || other == e.maximum->iters.end() || own->kind != other->kind ||
        !structural_equal(own->extent, other->extent))
      return pattern_differs("maximum and sum run over different iterators");
  }
  Analyzer of_maximum = analyzer_in(func, *e.maximum);
  if (!structural_equal(of_maximum.simplify(substitute(e.x, to_maximum)), of_maximum.simplify(e.m.term)))
    return pattern_differs("the exponent has another x than the maximum");
  return to_maximum;
}

namespace {

// The parts of softmax(x) v, all in the maximum's iterators but for those of the product that are its own.
struct Weighted {
  Exponential e;
  const BlockNode* sum = nullptr;
  std::vector<const BlockNode*> gone;  // what the new blocks replace, the product's nest apart
  Expr value;                          // v
  std::vector<IterVar> rows, own;      // iterators of the maximum; further ones of the product
  const StoreNode* update = nullptr;
  size_t reduce = 0;
  bool zero_for_nan = false;  // a share that is no number counts as 0
};

// q, where the share is select(isnan(q), 0, q).
std::optional<Expr> guarded_share(const Expr& share) {
  const auto* choice = share.as<SelectNode>();
  const auto* asked = choice ? choice->condition.as<CallNode>() : nullptr;
  if (!asked || asked->name != "isnan" || !is_const_zero(choice->if_true) ||
      !structural_equal(asked->args[0], choice->if_false))
    return {};
  return choice->if_false;
}

Result<Weighted> match_weighted(const Func& func, const BlockNode& scope, const BlockNode& block) {
  FETTLE_TRY(const ReductionPattern p, match_reduction(func, block, /*several=*/false, /*open=*/true));
  const auto* product = p.term.as<BinaryNode>();
  if (p.combine->op != BinaryOp::kAdd || !product || product->op != BinaryOp::kMul)
    return pattern_differs("the block is no sum of products");
  Weighted w;
  w.update = p.update;
  w.reduce = p.reduce;
  Analyzer analyzer = analyzer_in(func, block);
  const BinaryNode* quotient = nullptr;
  Expr share;  // keeps what `quotient` points into
  for (const bool swapped : {false, true}) {
    share = swapped ? product->b : product->a;
    w.value = swapped ? product->a : product->b;
    const BlockNode* stored = nullptr;
    if (const auto* element = share.as<LoadNode>())
      share = stored_value(func, scope, *element, analyzer, &stored).value_or(share);
    const auto inside = guarded_share(share);
    w.zero_for_nan = inside.has_value();
    share = inside.value_or(share);
    quotient = share.as<BinaryNode>();
    if (!quotient || quotient->op != BinaryOp::kDiv) continue;
    if (stored) w.gone.push_back(stored);
    break;
  }
  if (!quotient || quotient->op != BinaryOp::kDiv) return pattern_differs("neither factor is divided by a sum");
  const auto* total = quotient->b.as<LoadNode>();
  w.sum = total ? only_writer(func, scope, *total) : nullptr;
  if (!w.sum) return pattern_differs("neither factor is divided by a sum");
  FETTLE_TRY(w.e, match_exponential(func, scope, block, quotient->a));
  FETTLE_TRY(const VarMap to_maximum, iters_in_maximum(func, w.e, block, w.reduce));

  // The sum is of the same exponentials.
  FETTLE_TRY(const ReductionPattern s, match_reduction(func, *w.sum, /*several=*/false, /*open=*/true));
  if (s.combine->op != BinaryOp::kAdd) return pattern_differs("the divisor is no sum");
  FETTLE_TRY(const Exponential of_sum, match_exponential(func, scope, *w.sum, s.term));
  if (of_sum.maximum != w.e.maximum) return pattern_differs("numerator and divisor have different maxima");
  FETTLE_TRY(const VarMap sum_to_maximum, iters_in_maximum(func, of_sum, *w.sum, s.reduce));
  if (total->indices.size() != s.update->indices.size()) return pattern_differs("the divisor is of another row");
  for (size_t d = 0; d < total->indices.size(); ++d)
    if (!structural_equal(substitute(total->indices[d], to_maximum), substitute(s.update->indices[d], sum_to_maximum)))
      return pattern_differs("the divisor is of another row");
  if (!(w.update->buffer->dtype == w.e.m.update->buffer->dtype) ||
      !(s.update->buffer->dtype == w.update->buffer->dtype))
    return pattern_differs("maximum, sum and product are of different types");

  for (const BlockNode* b : {w.e.stored, of_sum.stored, w.sum, w.e.maximum})
    if (b && std::ranges::find(w.gone, b) == w.gone.end()) w.gone.push_back(b);
  for (const BlockNode* b : w.gone)
    for (const Region& write : b->writes)
      for (const BlockNode* reader : consumers_of(scope, write.buffer.get()))
        if (reader != &block && std::ranges::find(w.gone, reader) == w.gone.end())
          return pattern_differs("block " + reader->name + " reads " + write.buffer->name + ", too");
  const std::vector<const BlockNode*> order = blocks_of(scope);
  for (const Region& read : w.e.maximum->reads)
    for (const BlockNode* writer : producers_of(scope, read.buffer.get()))
      if (writer != w.e.maximum && std::ranges::find(order, writer) > std::ranges::find(order, w.e.maximum))
        return pattern_differs(read.buffer->name + " is written again after the maximum");

  for (size_t i = 0; i < w.e.maximum->iters.size(); ++i)
    if (i != w.e.m.reduce) w.rows.push_back(w.e.maximum->iters[i]);
  for (const IterVar& iter : block.iters)
    if (!to_maximum.contains(iter.var.get())) w.own.push_back(iter);
  w.value = substitute(w.value, to_maximum);
  return w;
}

using Iters = std::vector<IterVar>;

// One step of the construction: blocks are added in program order.
class States {
 public:
  States(const Func& func, const Weighted& w, std::string product, int64_t size)
      : func_(func), w_(w), product_(std::move(product)), size_(size) {
    keys_ = w.e.maximum->iters[w.e.m.reduce].extent;
    Analyzer analyzer = analyzer_in(func, *w.e.maximum);
    may_be_none_ = !analyzer.can_prove(lt(0, keys_));
    blocks_ = analyzer.simplify(floordiv(keys_ + Expr(size - 1), Expr(size)));
    is_whole_ = analyzer.can_prove(eq(blocks_ * Expr(size), keys_));
    const auto most = static_cast<double>(analyzer.int_bounds(keys_).max);
    error_bound_ = 2 * most + 16 * (std::ceil(most / static_cast<double>(size)) + 1);
    dtype_ = w.update->buffer->dtype;
  }

  const Expr& keys() const { return keys_; }
  const Expr& blocks() const { return blocks_; }
  bool may_be_none() const { return may_be_none_; }
  double error_bound() const { return error_bound_; }
  const std::vector<std::string>& names() const { return names_; }

  // Iterators of the rows, then of the product's own dimensions, all new; values[old] = new.
  Iters rows(VarMap& values, bool own = false) const {
    Iters result;
    for (const auto* list : {&w_.rows, &w_.own})
      if (list == &w_.rows || own)
        for (const IterVar& iter : *list) {
          result.push_back({make_var(iter.var->name, iter.var->dtype), iter.extent, IterKind::kSpatial, nullptr});
          values[iter.var.get()] = result.back().var;
        }
    return result;
  }
  IterVar step(IterKind kind) const { return {make_var("vb"), blocks_, kind, nullptr}; }
  IterVar within(IterKind kind) const { return {make_var("vk"), size_, kind, nullptr}; }
  // `of_key` where block `step`, element `within` is one, else `otherwise`.
  Expr guarded(const IterVar& step, const IterVar& within, const Expr& of_key, double otherwise) const {
    if (is_whole_) return of_key;
    return select(call("likely", {lt(step.var * size_ + within.var, keys_)}, kBool), of_key,
                  constant(otherwise, dtype_));
  }
  void bind_key(VarMap& values, const IterVar& step, const IterVar& within) const {
    values[w_.e.maximum->iters[w_.e.m.reduce].var.get()] = step.var * size_ + within.var;
  }

  Buffer buffer(const std::string& name, std::optional<Expr> first, const Iters& iters, std::optional<Expr> last = {}) {
    std::vector<Expr> shape;
    if (first) shape.push_back(*first);
    for (const IterVar& iter : iters) shape.push_back(iter.extent);
    if (last) shape.push_back(*last);
    allocated_.push_back(make_buffer(unique_buffer_name(func_, name), shape, dtype_));
    return allocated_.back();
  }
  void add(const std::string& name, const Iters& iters, const Stmt& init, const Stmt& body, bool takes_name = false) {
    auto fresh = make_ref<BlockNode>();
    fresh->name = takes_name ? name : unique_block_name(func_, name);
    if (!takes_name) fresh->annotations.set(kPartOfKey, product_);
    fresh->iters = iters;
    fresh->init = init;
    fresh->body = body;
    Analyzer analyzer = analyzer_in(func_, *fresh);
    infer_regions(*fresh, analyzer);
    names_.push_back(fresh->name);
    nests_.push_back(fresh_nest(fresh));
  }
  Stmt nests() const { return seq(nests_); }
  const std::vector<Buffer>& allocated() const { return allocated_; }
  DType dtype() const { return dtype_; }

 private:
  const Func& func_;
  const Weighted& w_;
  std::string product_;
  int64_t size_;
  Expr keys_, blocks_;
  bool may_be_none_ = false, is_whole_ = false;
  double error_bound_ = 0;
  DType dtype_;
  std::vector<Buffer> allocated_;
  std::vector<Stmt> nests_;
  std::vector<std::string> names_;
};

std::vector<Expr> indices(std::optional<Expr> first, const Iters& iters, std::optional<Expr> last = {}) {
  std::vector<Expr> result;
  if (first) result.push_back(*first);
  for (const IterVar& iter : iters) result.push_back(iter.var);
  if (last) result.push_back(*last);
  return result;
}

Iters concatenated(Iters a, const Iters& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// x = of * factor, where factor > 0: maxima need not see it.
struct Scaled {
  Expr of;
  double factor = 1;
};
Scaled scaled_of(const Expr& x) {
  const auto* node = x.as<BinaryNode>();
  const auto* right = node ? node->b.as<FloatImmNode>() : nullptr;
  if (!right || !(right->value > 0)) return {x};
  if (node->op == BinaryOp::kMul) return {node->a, right->value};
  return node->op == BinaryOp::kDiv ? Scaled{node->a, 1 / right->value} : Scaled{x};
}

// Whether log2(e) can be multiplied in before maxima are subtracted: of sums, and of what -inf hides. Masks that add
// the lowest finite number, or choose it, would become infinite then, and a row of which all is masked NaN.
bool takes_factors(const Func& func, const BlockNode& scope, const Expr& x) {
  if (const auto* chosen = x.as<SelectNode>())
    return takes_factors(func, scope, chosen->if_true) && takes_factors(func, scope, chosen->if_false);
  if (const auto* number = x.as<FloatImmNode>()) return std::isinf(number->value);
  const auto* element = x.as<LoadNode>();
  const BlockNode* writer = element ? only_writer(func, scope, *element) : nullptr;
  return writer && writer->init;
}

}  // namespace

Result<Reformulated> apply_online_states(const Func& func, const BlockNode& block, int64_t block_size, bool of_two) {
  if (block_size < 1) return pattern_differs("a block has at least one element");
  const BlockNode* scope = enclosing_block(func, &block);
  if (!scope) return pattern_differs("the block is no sum");
  FETTLE_TRY(const Weighted w, match_weighted(func, *scope, block));
  States make(func, w, block.name, block_size);
  const double lowest = -std::numeric_limits<double>::infinity();
  const auto maximum = [&](const Expr& a, const Expr& b) { return accumulated(w.e.m.combine->op, a, b); };
  const auto infinite = [&] { return constant(lowest, make.dtype()); };
  const std::string &of_max = w.e.maximum->name, &of_sum = w.sum->name;
  // Of powers of two all exponents have log2(e) in them, and so has the running maximum where that is safe.
  const Scaled x = of_two ? scaled_of(w.e.m.term) : Scaled{w.e.m.term};
  const bool early = of_two && takes_factors(func, *scope, x.of);
  const auto times_log2e = [&](const Expr& of) { return of * constant(x.factor * std::numbers::log2e, make.dtype()); };
  const auto exponent = [&](const Expr& of) { return early ? times_log2e(of) : of; };
  // No exponent is above 0, but by rounding. Powers of two take fewer instructions where that is known.
  const auto power = [&](const Expr& difference) {
    if (!of_two) return math("exp", {difference});
    const Expr of = early ? difference : times_log2e(difference);
    const Expr zero = constant(0, make.dtype());
    return math("exp", {select(lt(zero, of), zero, of) * constant(std::numbers::ln2, make.dtype())});
  };

  // The maximum of each block of keys, then of all up to there.
  VarMap values;
  Iters rows = make.rows(values);
  IterVar step = make.step(IterKind::kSpatial), within = make.within(IterKind::kReduce);
  make.bind_key(values, step, within);
  const Buffer highest = make.buffer(of_max + "_block", make.blocks(), rows);
  Expr at = load(highest, indices(step.var, rows));
  make.add(of_max + "_block", concatenated(concatenated(rows, {step}), {within}),
           store(highest, indices(step.var, rows), infinite()),
           store(highest, indices(step.var, rows),
                 maximum(at, make.guarded(step, within, substitute(x.of, values), lowest))));

  // What exponents are relative to: where all is -inf so far, 0, so that such elements count as 0.
  const auto shift = [&](const Expr& run) { return select(eq(run, infinite()), constant(0, make.dtype()), run); };
  rows = make.rows(values);
  step = make.step(IterKind::kScan);
  const Buffer state_m = make.buffer(of_max + "_run", {}, rows);
  const Buffer runs = make.buffer(of_max + "_runs", make.blocks(), rows);
  const Buffer factors = make.buffer(of_max + "_scale", make.blocks(), rows);
  const std::vector<Expr> here = indices(Expr(step.var), rows);
  const Expr before = select(eq(step.var, 0), infinite(), load(state_m, indices({}, rows)));
  const Expr after = maximum(before, exponent(load(highest, here)));
  make.add(of_max + "_run", concatenated({step}, rows), nullptr,
           seq({store(factors, here, power(before - shift(after))), store(runs, here, shift(after)),
                store(state_m, indices({}, rows), after)}));

  rows = make.rows(values);
  step = make.step(IterKind::kSpatial);
  within = make.within(IterKind::kSpatial);
  make.bind_key(values, step, within);
  const std::string of_power = w.e.stored ? w.e.stored->name : of_sum + "_exp";
  const Buffer powers = make.buffer(of_power + "_block", make.blocks(), rows, Expr(block_size));
  make.add(
      of_power + "_block", concatenated(concatenated({step}, rows), {within}), nullptr,
      store(powers, indices(step.var, rows, within.var),
            make.guarded(step, within,
                         power(exponent(substitute(x.of, values)) - load(runs, indices(Expr(step.var), rows))), 0)));

  // For the sum, then for the product: what a block of keys adds, and the state.
  Buffer states[2];
  for (const bool product : {false, true}) {
    const std::string& name = product ? block.name : of_sum;
    VarMap here;
    const Iters own_rows = make.rows(here, product);
    step = make.step(IterKind::kSpatial);
    within = make.within(IterKind::kReduce);
    make.bind_key(here, step, within);
    const Iters only_rows(own_rows.begin(), own_rows.begin() + static_cast<std::ptrdiff_t>(w.rows.size()));
    const Buffer parts = make.buffer(name + "_block", make.blocks(), own_rows);
    Expr term = load(powers, indices(step.var, only_rows, within.var));
    if (product) term = make.guarded(step, within, term * substitute(w.value, here), 0);
    const std::vector<Expr> element = indices(step.var, own_rows);
    make.add(name + "_block", concatenated(concatenated({step}, own_rows), {within}),
             store(parts, element, constant(0, make.dtype())), store(parts, element, load(parts, element) + term));

    VarMap there;
    const Iters all = make.rows(there, product);
    const Iters first(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(w.rows.size()));
    step = make.step(IterKind::kScan);
    Buffer& state = states[product];
    state = make.buffer(name + "_run", {}, all);
    const Expr part = load(parts, indices(step.var, all));
    // What is read of this block stays outside of the selection: inside, nothing tells that there is a first block.
    const Expr before = select(eq(step.var, 0), constant(0, make.dtype()),
                               load(state, indices({}, all)) * load(factors, indices(Expr(step.var), first)));
    make.add(name + "_run", concatenated({step}, all), nullptr, store(state, indices({}, all), before + part));
  }

  VarMap last;
  const Iters all = make.rows(last, true);
  const Iters first(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(w.rows.size()));
  FETTLE_TRY(const VarMap to_maximum, iters_in_maximum(func, w.e, block, w.reduce));
  std::vector<Expr> target = w.update->indices;
  for (Expr& index : target) index = substitute(substitute(index, to_maximum), last);
  // The loops in the order of the old block's iterators.
  Iters in_order;
  for (const IterVar& iter : block.iters) {
    const auto mapped = to_maximum.find(iter.var.get());
    const auto* old = mapped == to_maximum.end() ? iter.var.get() : mapped->second.as<VarNode>();
    const auto now = last.find(old);
    if (now == last.end()) continue;
    in_order.push_back(*std::ranges::find_if(all, [&](const IterVar& i) { return i.var.get() == now->second.get(); }));
  }
  Reformulated result;
  result.func = func;
  std::vector<const BufferNode*> release;
  for (const BlockNode* b : w.gone) {
    for (const Region& write : b->writes) release.push_back(write.buffer.get());
    result.func = replace_in(result.func, find_block(result.func->body, b->name), nullptr);
  }
  const Expr total = load(states[0], indices({}, first));
  Expr share = load(states[1], indices({}, all)) / total;
  const Expr nothing = constant(0, make.dtype());
  if (w.zero_for_nan) share = select(lt(nothing, total), share, nothing);
  if (make.may_be_none()) share = select(lt(0, make.keys()), share, nothing);  // no states have begun
  make.add(block.name, in_order, nullptr, store(w.update->buffer, target, share), true);
  const StmtNode* nest =
      anchor_of(*find_block(result.func->body, scope->name), find_block(result.func->body, block.name), {});
  result.func =
      edit_scope(result.func, scope->name,
                 {.anchor = nest, .replacement = make.nests(), .allocate = make.allocated(), .release = release});
  result.blocks = make.names();
  result.error_bound = make.error_bound();
  return result;
}

}  // namespace fettle
