#include "graph/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/control.h"
#include "graph/node_program.h"
#include "graph/op.h"
#include "graph/size_vars.h"
#include "ir/query.h"

namespace fettle {

void SizedCount::add(double factor, const std::vector<Dim>& extents) {
  Dim product = 1;
  for (const Dim& extent : extents) {
    if (extent.is_number())
      factor *= static_cast<double>(extent.value());
    else
      product = product * extent;
  }
  if (factor == 0) return;
  const auto add_term = [&](double more, const Dim& sizes) {
    Term& term = terms_[sizes.is_number() ? std::string() : sizes.to_string()];
    term.factor += more;
    term.product = sizes;
  };
  if (product.is_number()) return add_term(factor * static_cast<double>(product.value()), 1);
  for (const DimTerm& term : product.terms()) {
    Dim sizes = 1;
    for (const DimFactor& part : term.factors) sizes = sizes * part.whole;
    add_term(factor * static_cast<double>(term.coefficient), sizes);
  }
  if (product.constant() != 0) add_term(factor * static_cast<double>(product.constant()), 1);
}

void SizedCount::add(const SizedCount& other, const Dim& times) {
  for (const auto& [name, term] : other.terms_) add(term.factor, {term.product, times});
}

bool SizedCount::is_number() const {
  return std::ranges::all_of(terms_, [](const auto& entry) { return entry.second.product.is_number(); });
}

double SizedCount::typical() const {
  double sum = 0;
  for (const auto& [name, term] : terms_) sum += term.typical();
  return sum;
}

namespace {
void add_term(std::string& text, double factor, const std::string& product) {
  const std::string number = fmt::format("{:.0f}", std::abs(factor));
  text += text.empty() ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + ");
  text += product.empty() ? number : number == "1" ? product : number + " * " + product;
}
}  // namespace

std::string SizedCount::to_string() const {
  std::string text;
  for (auto it = terms_.rbegin(); it != terms_.rend(); ++it)  // the number comes last
    if (it->second.factor != 0) add_term(text, it->second.factor, it->first);
  return text.empty() ? "0" : text;
}

std::string SizedCount::summary() const {
  constexpr size_t kMostTerms = 4, kMostChars = 60;
  std::vector<std::pair<std::string, Term>> terms(terms_.rbegin(), terms_.rend());
  std::erase_if(terms, [](const auto& entry) { return entry.second.factor == 0; });
  if (terms.size() > kMostTerms)
    std::ranges::stable_sort(terms, std::ranges::greater(),
                             [](const auto& entry) { return std::abs(entry.second.typical()); });
  std::string text;
  for (size_t i = 0; i < std::min(terms.size(), kMostTerms); ++i) {
    std::string name = terms[i].first;
    if (name.size() > kMostChars) name = name.substr(0, kMostChars) + "…";
    add_term(text, terms[i].second.factor, name);
  }
  if (terms.size() > kMostTerms) text += fmt::format(" + … ({} smaller terms)", terms.size() - kMostTerms);
  return text.empty() ? "0" : text;
}

void GraphWork::add(const GraphWork& other, const Dim& times) {
  operations.add(other.operations, times);
  bytes.add(other.bytes, times);
}

namespace {

// Operations below `e` on what is read: numbers and indices are none.
int operations_of(const Expr& e) {
  int count = 0;
  walk(e, [&](const Expr& x) {
    if (x.kind() == ExprKind::kLoad) return false;
    const bool works = x.kind() == ExprKind::kBinary || x.kind() == ExprKind::kNot || x.kind() == ExprKind::kCall;
    count += works && contains(x, {ExprKind::kLoad});
    return true;
  });
  return count;
}

class Counter {
 public:
  explicit Counter(const SizeVars& vars) : vars_(vars) {}

  void count(const Stmt& s) {
    if (!s) return;
    if (const auto* loop = s.as<ForNode>()) {
      extents_.push_back(vars_.dim_of(loop->extent).value_or(1));
      count(loop->body);
      extents_.pop_back();
    } else if (const auto* list = s.as<SeqNode>()) {
      for (const Stmt& part : list->stmts) count(part);
    } else if (const auto* block = s.as<BlockNode>()) {
      count(block->body);
    } else if (const auto* branch = s.as<IfNode>()) {
      add(operations_of(branch->condition));
      count(branch->then_body);
      count(branch->else_body);
    } else if (const auto* named = s.as<LetNode>()) {
      add(operations_of(named->value));
      count(named->body);
    } else if (const auto* until = s.as<WhileNode>()) {
      add(operations_of(until->condition));
      count(until->body);
    } else if (const auto* store = s.as<StoreNode>()) {
      add(operations_of(store->value));
    }
  }

  SizedCount operations;

 private:
  void add(int n) {
    if (n > 0) operations.add(n, extents_);
  }

  const SizeVars& vars_;
  std::vector<Dim> extents_;
};

void add_bytes(SizedCount& bytes, const Value& value) { bytes.add(value.dtype().element_bytes(), value.shape()); }

Result<GraphWork> work_of(const Node& node) {
  GraphWork work;
  if (is_loop(node)) {
    FETTLE_TRY(const GraphWork body, work_of(*node.bodies[0]));
    work.add(body, LoopParts(node).iterations());
    return work;
  }
  if (!node.bodies.empty()) {
    for (const auto& body : node.bodies) {
      FETTLE_TRY(const GraphWork inside, work_of(*body));
      work.add(inside);
    }
    return work;
  }
  if (!node.op->compute || is_host(node) || node.op->view) return work;
  FETTLE_TRY(const SizedFunc sized, sized_node_func(node));
  SizeVars vars;
  VarMap sizes;
  for (size_t i = 0; i < sized.sizes.size(); ++i)
    sizes[sized.func->int_params[i].var.get()] = vars.expr_of(sized.sizes[i]);
  Counter counter(vars);
  counter.count(substitute(sized.func->body, sizes));
  work.operations = std::move(counter.operations);
  std::vector<const Value*> seen;
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const Value* value : *list) {
      if (!value || std::ranges::count(seen, value)) continue;
      seen.push_back(value);
      add_bytes(work.bytes, *value);
    }
  return work;
}

}  // namespace

Result<GraphWork> work_of(const Graph& graph) {
  GraphWork work;
  for (const Node* node : graph.nodes()) {
    FETTLE_TRY(const GraphWork one, work_of(*node));
    work.add(one);
  }
  return work;
}

}  // namespace fettle
