#include "schedule/refs.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "ir/text.h"
#include "ir/text_rules.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// x becomes the value where it is a T.
template <class T>
bool take(const ArgValue& a, T& x) {
  const T* value = std::get_if<T>(&a.value);
  if (value) x = *value;
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "(a, f(b, c))" → {"a", "f(b, c)"}; false where the parentheses do not match.
bool split_tuple(std::string_view text, std::vector<std::string_view>& items) {
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return false;
  text = text.substr(1, text.size() - 2);
  if (trimmed(text).empty()) return true;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[')
      ++depth;
    else if (text[i] == ')' || text[i] == ']')
      --depth;
    else if (text[i] == ',' && depth == 0) {
      items.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
    if (depth < 0) return false;
  }
  items.push_back(trimmed(text.substr(begin)));
  return depth == 0;
}

// A name without dots: of an input of an index map.
bool is_simple(std::string_view name) { return text::is_identifier(name) && name.find('.') == name.npos; }

}  // namespace

IntRef operator*(IntRef a, const IntRef& b) {
  a.literal *= b.literal;
  a.factors.insert(a.factors.end(), b.factors.begin(), b.factors.end());
  return a;
}

std::string_view tail_name(Tail tail) { return text::tail_name(tail); }

// --- to_arg -------------------------------------------------------------------------------------------------------

ArgValue to_arg(bool x) { return {x}; }
ArgValue to_arg(int64_t x) { return {x}; }
ArgValue to_arg(int x) { return {static_cast<int64_t>(x)}; }
ArgValue to_arg(double x) { return {x}; }
ArgValue to_arg(const std::string& x) { return {x}; }
ArgValue to_arg(const StepRef& x) { return {StepRef{x}}; }

ArgValue to_arg(const IntRef& x) {
  if (x.factors.empty()) return {x.literal};
  if (x.factors.size() == 1 && x.literal == 1) return {StepRef{x.factors.front()}};
  return {ArgValue::Product{x.literal, {x.factors.begin(), x.factors.end()}}};
}

ArgValue to_arg(Tail x) { return {std::string(tail_name(x))}; }
ArgValue to_arg(IterKind x) { return {std::string(text::iter_kind_name(x))}; }

ArgValue to_arg(const IndexMap& x) {
  // Inputs are numbered where two share a name, so that the text says which is meant.
  VarMap renamed;
  std::vector<std::string> names;
  for (const Var& input : x.inputs) {
    std::string name = input->name;
    if (!is_simple(name) || text::is_reserved(name)) name = "d" + std::to_string(names.size());
    while (std::ranges::find(names, name) != names.end()) name += "_" + std::to_string(names.size());
    if (name != input->name) renamed[input.get()] = make_var(name, input->dtype);
    names.push_back(std::move(name));
  }
  std::string text = "(";
  for (size_t i = 0; i < names.size(); ++i) text.append(i ? ", " : "").append(names[i]);
  text += ") -> (";
  for (size_t i = 0; i < x.outputs.size(); ++i)
    text.append(i ? ", " : "").append(to_text(substitute(x.outputs[i], renamed)));
  return {text + ")"};
}

ArgValue to_arg(const Attribute& x) {
  return std::visit([](const auto& value) { return to_arg(value); }, x);
}

// --- from_arg -----------------------------------------------------------------------------------------------------

bool from_arg(const ArgValue& a, bool& x) { return take(a, x); }

bool from_arg(const ArgValue& a, int64_t& x) { return take(a, x); }

bool from_arg(const ArgValue& a, int& x) {
  const auto* value = std::get_if<int64_t>(&a.value);
  if (!value || *value < INT32_MIN || *value > INT32_MAX) return false;
  x = static_cast<int>(*value);
  return true;
}

bool from_arg(const ArgValue& a, double& x) {
  if (const auto* value = std::get_if<double>(&a.value))
    x = *value;
  else if (const auto* integer = std::get_if<int64_t>(&a.value))
    x = static_cast<double>(*integer);
  else
    return false;
  return true;
}

bool from_arg(const ArgValue& a, std::string& x) { return take(a, x); }

bool from_arg(const ArgValue& a, StepRef& x) { return take(a, x); }

bool from_arg(const ArgValue& a, IntRef& x) {
  if (const auto* value = std::get_if<int64_t>(&a.value)) {
    x = IntRef(*value);
  } else if (const auto* ref = std::get_if<StepRef>(&a.value)) {
    x = IntRef(ValueRef(*ref));
  } else if (const auto* product = std::get_if<ArgValue::Product>(&a.value)) {
    x = IntRef(product->literal);
    for (const StepRef& factor : product->factors) x.factors.emplace_back(factor);
  } else {
    return false;
  }
  return true;
}

bool from_arg(const ArgValue& a, Tail& x) {
  std::string name;
  return take(a, name) && text::find_tail(name, &x);
}
bool from_arg(const ArgValue& a, IterKind& x) {
  std::string name;
  return take(a, name) && text::find_iter_kind(name, &x);
}

bool from_arg(const ArgValue& a, IndexMap& x) {
  const auto* text = std::get_if<std::string>(&a.value);
  if (!text) return false;
  const size_t arrow = text->find("->");
  if (arrow == std::string::npos) return false;
  std::vector<std::string_view> inputs, outputs;
  if (!split_tuple(std::string_view(*text).substr(0, arrow), inputs) ||
      !split_tuple(std::string_view(*text).substr(arrow + 2), outputs))
    return false;
  IndexMap map;
  for (std::string_view name : inputs) {
    const bool repeated = std::ranges::any_of(map.inputs, [&](const Var& var) { return var->name == name; });
    if (!is_simple(name) || repeated) return false;
    map.inputs.push_back(make_var(std::string(name)));
  }
  for (std::string_view output : outputs) {
    auto parsed = parse_expr(output);
    if (!parsed || !parsed->dtype().is_int() || contains(*parsed, {ExprKind::kLoad, ExprKind::kAddress})) return false;
    VarMap bound;
    for (const Var& free : collect_vars(*parsed)) {
      const auto input = std::ranges::find_if(map.inputs, [&](const Var& var) { return var->name == free->name; });
      if (input == map.inputs.end()) return false;
      bound[free.get()] = *input;
    }
    map.outputs.push_back(substitute(*parsed, bound));
  }
  x = std::move(map);
  return true;
}

bool from_arg(const ArgValue& a, Attribute& x) {
  if (const auto* integer = std::get_if<int64_t>(&a.value))
    x = *integer;
  else if (const auto* real = std::get_if<double>(&a.value))
    x = *real;
  else if (const auto* text = std::get_if<std::string>(&a.value))
    x = *text;
  else {
    std::vector<int64_t> list;
    if (!from_arg(a, list)) return false;
    x = std::move(list);
  }
  return true;
}

}  // namespace fettle
