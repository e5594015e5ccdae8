#include "graph/passes/pattern.h"

#include <cmath>
#include <functional>

#include "graph/passes/match.h"

namespace fettle::passes {

Pattern Pattern::as(std::string_view given) const {
  Pattern p = *this;
  p.name = given;
  return p;
}
Pattern Pattern::used_once() const {
  Pattern p = *this;
  p.is_only_use = true;
  return p;
}

Pattern any(std::string_view name) { return {.kind = Pattern::Kind::kAny, .name = name}; }
Pattern constant(std::string_view name) { return {.kind = Pattern::Kind::kConstant, .name = name}; }
Pattern number(std::string_view name) { return {.kind = Pattern::Kind::kNumber, .name = name}; }
Pattern number(double value) { return {.kind = Pattern::Kind::kNumber, .number = value}; }
Pattern exactly(double value) { return {.kind = Pattern::Kind::kNumber, .number = value, .is_exact = true}; }
Pattern node(std::string_view op, std::vector<Pattern> inputs) {
  return {.kind = Pattern::Kind::kNode, .op = op, .inputs = std::move(inputs)};
}
Pattern node(std::string_view op) { return {.kind = Pattern::Kind::kNode, .op = op}; }
Pattern node(bool (*accepts)(const OpDef& op)) { return {.kind = Pattern::Kind::kNode, .accepts = accepts}; }
Pattern product(double scale, std::vector<Pattern> factors) {
  return {.kind = Pattern::Kind::kProduct, .number = scale, .inputs = std::move(factors)};
}
Pattern one_of(std::vector<Pattern> choices) { return {.kind = Pattern::Kind::kOneOf, .inputs = std::move(choices)}; }
Pattern same_elements(Pattern pattern) {
  return {.kind = Pattern::Kind::kSameElements, .inputs = std::vector{std::move(pattern)}};
}

Value* Match::operator[](std::string_view name) const {
  for (const auto& [known, value] : values_)
    if (known == name) return value;
  return nullptr;
}
Node* Match::node(std::string_view name) const {
  const Value* value = (*this)[name];
  return value && !value->is_constant() ? value->producer : nullptr;
}
double Match::number(std::string_view name) const { return *as_scalar((*this)[name]); }

namespace {

/// Scalars of one product; each may be off by what its type has no digits for.
struct Factors {
  std::vector<Value*> values;
  double scale = 1, error = 1e-5;
};

/// Whether it multiplies its operands, or divides one by a number.
bool is_product(const Node* node) { return is(node, "Mul") || (is(node, "Div") && as_scalar(node->inputs[1])); }

void collect_factors(const Graph& graph, const Node* product, Factors& factors, int depth) {
  for (Value* input : product->inputs) {
    const Node* inner =
        depth > 0 && graph.use_count(input) == 1 && is_product(input->producer) ? input->producer : nullptr;
    if (const auto scalar = as_scalar(input); scalar && is(product, "Div")) {
      factors.scale /= *scalar;
      factors.error += constant_error(input->constant->dtype);
    } else if (scalar) {
      factors.scale *= *scalar;
      factors.error += constant_error(input->constant->dtype);
    } else if (inner) {
      collect_factors(graph, inner, factors, depth - 1);
    } else {
      factors.values.push_back(input);
    }
  }
}

Value* behind_same_elements(Value* value) {
  while (value->producer && !value->is_constant() && value->type) {
    const Node* node = value->producer;
    if (!(node->op->is_reshape || is(node, "Expand")) || !node->input(0)->type ||
        !(element_count(node->input(0)->shape()) == element_count(value->shape())))
      break;
    value = node->input(0);
  }
  return value;
}

}  // namespace

/// Each step matches its part and goes on with the rest, `next`; where that fails, it takes its next choice.
class Matcher {
 public:
  using Next = std::function<bool()>;

  explicit Matcher(const Graph& graph) : graph_(graph) {}

  std::optional<Match> run(const Pattern& pattern, Node* root) {
    found_.root_ = root;
    if (!match_value(pattern, root->output(), [] { return true; })) return {};
    return std::move(found_);
  }

 private:
  bool match_value(const Pattern& p, Value* value, const Next& next) {
    using Kind = Pattern::Kind;
    if (!value) return false;
    switch (p.kind) {
      case Kind::kAny:
        return bind(p, value, next);
      case Kind::kConstant:
        return value->is_constant() && bind(p, value, next);
      case Kind::kNumber: {
        const auto scalar = as_scalar(value);
        const bool fits = !p.number || (p.is_exact ? scalar == p.number : is_about(value, *p.number));
        return scalar && fits && bind(p, value, next);
      }
      case Kind::kOneOf:
        for (const Pattern& choice : *p.inputs)
          if (match_value(choice, value, [&] { return bind(p, value, next); })) return true;
        return false;
      case Kind::kSameElements:
        return match_value(p.inputs->front(), behind_same_elements(value), [&] { return bind(p, value, next); });
      case Kind::kNode:
        return match_node(p, value, next);
      case Kind::kProduct:
        return match_product(p, value, next);
    }
    return false;
  }

  bool bind(const Pattern& p, Value* value, const Next& next) {
    if (p.name.empty()) return next();
    if (const Value* known = found_[p.name]) return known == value && next();
    found_.values_.emplace_back(p.name, value);
    if (next()) return true;
    found_.values_.pop_back();
    return false;
  }

  bool match_node(const Pattern& p, Value* value, const Next& next) {
    const Node* node = value->is_constant() ? nullptr : value->producer;
    if (!node || node->erased || !(p.accepts ? p.accepts(*node->op) : node->op->name == p.op)) return false;
    if (p.is_only_use && graph_.use_count(value) != 1) return false;
    if (!p.inputs) return bind(p, value, next);
    if (node->inputs.size() != p.inputs->size()) return false;
    const Next bound = [&] { return bind(p, value, next); };
    return match_inputs(p, *node, 0, false, bound) ||
           (node->inputs.size() == 2 && node->op->is_commutative && match_inputs(p, *node, 0, true, bound));
  }

  bool match_inputs(const Pattern& p, const Node& node, size_t i, bool swapped, const Next& next) {
    if (i == p.inputs->size()) return next();
    return match_value((*p.inputs)[i], node.inputs[swapped ? 1 - i : i],
                       [&] { return match_inputs(p, node, i + 1, swapped, next); });
  }

  bool match_product(const Pattern& p, Value* value, const Next& next) {
    constexpr int kDepth = 4;
    Factors factors;
    if (const Node* product = value->producer; product && is_product(product))
      collect_factors(graph_, product, factors, kDepth);
    else
      factors.values.push_back(value);
    if (factors.values.size() != p.inputs->size()) return false;
    if (!(std::abs(factors.scale - *p.number) <= factors.error * std::abs(*p.number))) return false;
    std::vector<bool> taken(factors.values.size());
    return match_factors(p, factors.values, taken, 0, [&] { return bind(p, value, next); });
  }

  bool match_factors(const Pattern& p, const std::vector<Value*>& values, std::vector<bool>& taken, size_t i,
                     const Next& next) {
    if (i == values.size()) return next();
    for (size_t k = 0; k < values.size(); ++k) {
      if (taken[k]) continue;
      taken[k] = true;
      const bool matched =
          match_value((*p.inputs)[i], values[k], [&] { return match_factors(p, values, taken, i + 1, next); });
      taken[k] = false;
      if (matched) return true;
    }
    return false;
  }

  const Graph& graph_;
  Match found_;
};

std::optional<Match> match(const Graph& graph, const Pattern& pattern, Node* node) {
  return Matcher(graph).run(pattern, node);
}

bool apply(Graph& graph, Node* node, const Rewrite& rewrite) {
  if (node->erased || graph.use_count(node->output()) == 0) return false;
  const auto found = match(graph, rewrite.pattern, node);
  return found && (!rewrite.condition || rewrite.condition(*found)) && rewrite.replace(graph, *found);
}

}  // namespace fettle::passes
