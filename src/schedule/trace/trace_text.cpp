// The text form of traces: one step a line, results named by kind and a running number.

#include <fmt/format.h>
#include <algorithm>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "schedule/trace/trace.h"

namespace fettle {
namespace {

constexpr int kMaxListDepth = 16;

// --- printing -----------------------------------------------------------------------------------------------------

using Names = std::vector<std::vector<std::string>>;  // of the outputs, by step

std::string name_of(const Names& names, StepRef ref) {
  if (ref.step >= 0 && static_cast<size_t>(ref.step) < names.size()) {
    const auto& outputs = names[static_cast<size_t>(ref.step)];
    if (ref.output >= 0 && static_cast<size_t>(ref.output) < outputs.size())
      return outputs[static_cast<size_t>(ref.output)];
  }
  return "undefined";
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string number_text(double x) {
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";  // "nan" and "inf" have an n
  return text;
}

std::string arg_text(const ArgValue& arg, const Names& names) {
  struct Printer {
    const Names& names;
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const { return number_text(x); }
    std::string operator()(const std::string& x) const { return quoted(x); }
    std::string operator()(const StepRef& x) const { return name_of(names, x); }
    std::string operator()(const ArgValue::Product& x) const {
      std::string text = std::to_string(x.literal);
      for (const StepRef& factor : x.factors) text += "*" + name_of(names, factor);
      return text;
    }
    std::string operator()(const std::vector<ArgValue>& x) const {
      std::string text = "[";
      for (size_t i = 0; i < x.size(); ++i) text.append(i ? ", " : "").append(arg_text(x[i], names));
      return text + "]";
    }
  };
  return std::visit(Printer{names}, arg.value);
}

// --- parsing ------------------------------------------------------------------------------------------------------

// Reads one line. Every function leaves `rest_` behind what it read, or returns false.
class LineParser {
 public:
  LineParser(std::string_view line, const std::unordered_map<std::string, StepRef>& names)
      : rest_(line), names_(names) {}

  bool eat(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }
  std::string_view rest() const { return rest_; }

  bool identifier(std::string& name) {
    skip_blanks();
    size_t n = 0;
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    while (n < rest_.size() && (letter(rest_[n]) || (n > 0 && rest_[n] >= '0' && rest_[n] <= '9'))) ++n;
    name = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return n > 0;
  }

  bool integer(int64_t& x) {
    skip_blanks();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), x);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }

  /// A value; `undefined` is the name that nothing defines, if that is what failed.
  bool value(ArgValue& arg, std::string& undefined, int depth = 0) {
    skip_blanks();
    if (rest_.empty() || depth > kMaxListDepth) return false;
    const char c = rest_.front();
    if (c == '"') return text(arg);
    if (c == '[') return list(arg, undefined, depth);
    if (c == '-' || (c >= '0' && c <= '9')) return number(arg, undefined);
    std::string name;
    if (!identifier(name)) return false;
    if (name == "none")
      arg.value = std::monostate{};
    else if (name == "true" || name == "false")
      arg.value = name == "true";
    else if (name == "inf" || name == "nan")
      arg.value = name == "inf" ? HUGE_VAL : std::nan("");
    else {
      StepRef ref;
      if (!reference(name, ref, undefined)) return false;
      if (skip_blanks(); !rest_.empty() && rest_.front() == '*') return product(1, {ref}, arg, undefined);
      arg.value = ref;
    }
    return true;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r'))
      rest_.remove_prefix(1);
  }

  bool reference(const std::string& name, StepRef& ref, std::string& undefined) {
    const auto found = names_.find(name);
    if (found == names_.end()) {
      undefined = name;
      return false;
    }
    ref = found->second;
    return true;
  }

  bool product(int64_t literal, std::vector<StepRef> factors, ArgValue& arg, std::string& undefined) {
    while (eat('*')) {
      std::string name;
      StepRef ref;
      if (!identifier(name) || !reference(name, ref, undefined)) return false;
      factors.push_back(ref);
    }
    arg.value = ArgValue::Product{literal, std::move(factors)};
    return true;
  }

  bool number(ArgValue& arg, std::string& undefined) {
    size_t n = 0;
    while (n < rest_.size() && std::string_view("+-.0123456789aefin").find(rest_[n]) != std::string_view::npos) ++n;
    const std::string_view token = rest_.substr(0, n);
    const char* end = token.data() + token.size();
    if (token.find_first_of(".einf") == std::string_view::npos) {
      int64_t x = 0;
      const auto [at, error] = std::from_chars(token.data(), end, x);
      if (error != std::errc() || at != end) return false;
      rest_.remove_prefix(n);
      if (skip_blanks(); !rest_.empty() && rest_.front() == '*') return product(x, {}, arg, undefined);
      arg.value = x;
      return true;
    }
    double x = 0;
    const auto [at, error] = std::from_chars(token.data(), end, x);
    if (error != std::errc() || at != end) return false;
    rest_.remove_prefix(n);
    arg.value = x;
    return true;
  }

  bool text(ArgValue& arg) {
    size_t n = 1;
    while (n < rest_.size() && rest_[n] != '"') n += rest_[n] == '\\' ? 2 : 1;
    if (n >= rest_.size()) return false;
    const auto parsed = nlohmann::json::parse(rest_.substr(0, n + 1), nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_string()) return false;
    arg.value = parsed.get<std::string>();
    rest_.remove_prefix(n + 1);
    return true;
  }

  bool list(ArgValue& arg, std::string& undefined, int depth) {
    std::vector<ArgValue> items;
    eat('[');
    if (!eat(']')) {
      do {
        if (!value(items.emplace_back(), undefined, depth + 1)) return false;
      } while (eat(','));
      if (!eat(']')) return false;
    }
    arg.value = std::move(items);
    return true;
  }

  std::string_view rest_;
  const std::unordered_map<std::string, StepRef>& names_;
};

// "# tile/anchor/i: [32, 16]" or "# rule/anchor/tile: 14x2" behind a sampling step.
bool parse_decision(std::string_view note, ParsedStep& step) {
  while (!note.empty() && (note.back() == ' ' || note.back() == '\t' || note.back() == '\r')) note.remove_suffix(1);
  const size_t list_at = note.ends_with(']') ? note.rfind(": [") : std::string_view::npos;
  const size_t colon = list_at != std::string_view::npos ? list_at : note.rfind(": ");
  if (colon == std::string_view::npos) return false;
  std::string_view address = note.substr(0, colon);
  while (!address.empty() && address.front() == ' ') address.remove_prefix(1);
  if (address.empty()) return false;
  step.address = address;
  if (list_at == std::string_view::npos) {
    step.decision = std::string(note.substr(colon + 2));
    return is_value_name(step.decision.value());
  }
  const std::unordered_map<std::string, StepRef> no_names;
  LineParser numbers(note.substr(colon + 1), no_names);
  ArgValue arg;
  std::string undefined;
  Decision::List list;
  if (!numbers.value(arg, undefined) || !from_arg(arg, list) || !numbers.at_end()) return false;
  step.decision = std::move(list);
  return true;
}

}  // namespace

std::string to_text(const Trace& trace) {
  Names names;
  std::string text;
  int counter = 0;
  for (const auto& step : trace.steps) {
    auto& outputs = names.emplace_back();
    for (const StepOutput& output : step->outputs) {
      const char kind = std::holds_alternative<Var>(output)           ? 'l'
                        : std::holds_alternative<std::string>(output) ? 'b'
                                                                      : 'v';
      outputs.push_back(kind + std::to_string(counter++));
    }
    for (size_t i = 0; i < outputs.size(); ++i) text.append(i ? ", " : "").append(outputs[i]);
    if (!outputs.empty()) text += " = ";
    text += step->def->name;
    if (step->def->version != 1) text += "@" + std::to_string(step->def->version);
    text += "(";
    bool first = true;
    for (const NamedArg& arg : step->def->to_args(step->args.get())) {
      if (!first) text += ", ";
      first = false;
      text.append(arg.name).append("=").append(arg_text(arg.value, names));
    }
    text += ")";
    if (step->def->samples) {
      text += "   # " + step->address + ": " + to_text(step->decision);
    }
    text += "\n";
  }
  return text;
}

Result<ParsedTrace> parse_trace(std::string_view text) {
  ParsedTrace trace;
  std::unordered_map<std::string, StepRef> names;
  int line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    const auto refuse = [&](ErrorCode code, std::string message) {
      return fail(code, std::move(message), "line " + std::to_string(line_number));
    };

    LineParser parser(line, names);
    if (parser.at_end() || parser.rest().front() == '#') continue;
    ParsedStep step;
    std::vector<std::string> outputs;
    std::string name;
    if (!parser.identifier(name)) return refuse(ErrorCode::E224, "a step begins with a name");
    if (parser.rest().empty() || (parser.rest().front() != '(' && parser.rest().front() != '@')) {
      outputs.push_back(name);
      while (parser.eat(',')) {
        if (!parser.identifier(outputs.emplace_back())) return refuse(ErrorCode::E224, "a result has no name");
      }
      if (!parser.eat('=')) return refuse(ErrorCode::E224, "an '=' is missing behind the results");
      if (!parser.identifier(name)) return refuse(ErrorCode::E224, "a primitive is missing behind '='");
    }

    step.def = find_primitive(name);
    if (!step.def) return refuse(ErrorCode::E224, "there is no primitive named " + name);
    int64_t version = 1;
    if (parser.eat('@') && !parser.integer(version)) return refuse(ErrorCode::E224, "a version is missing behind '@'");
    if (version != step.def->version)
      return refuse(ErrorCode::E224,
                    fmt::format("{} is of version {}, this Fettle has version {}", name, version, step.def->version));
    if (!parser.eat('(')) return refuse(ErrorCode::E224, "a '(' is missing");
    std::vector<std::string> arg_names;
    std::vector<ArgValue> values;
    if (!parser.eat(')')) {
      do {
        if (!parser.identifier(arg_names.emplace_back()) || !parser.eat('='))
          return refuse(ErrorCode::E224, "an argument is written name=value");
        if (std::ranges::count(arg_names, arg_names.back()) > 1)
          return refuse(ErrorCode::E224, "the argument \"" + arg_names.back() + "\" is given twice");
        std::string undefined;
        if (!parser.value(values.emplace_back(), undefined)) {
          if (!undefined.empty()) return refuse(ErrorCode::E225, "nothing before defines " + undefined);
          return refuse(ErrorCode::E224, "the value of argument \"" + arg_names.back() + "\" cannot be read");
        }
      } while (parser.eat(','));
      if (!parser.eat(')')) return refuse(ErrorCode::E224, "a ')' is missing");
    }
    std::vector<NamedArg> args;
    for (size_t i = 0; i < values.size(); ++i) args.push_back({arg_names[i], std::move(values[i])});
    auto typed = step.def->from_args(args);
    if (!typed) return refuse(typed.error().code, name + ": " + typed.error().message);
    step.args = std::move(*typed);

    if (parser.eat('#')) {
      if (step.def->samples && !parse_decision(parser.rest(), step))
        return refuse(ErrorCode::E224, "a decision is written # address: [integers], or # address: value");
    } else if (!parser.at_end()) {
      return refuse(ErrorCode::E224, "there is more behind the ')'");
    }

    const auto number = static_cast<int32_t>(trace.steps.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const char kind = outputs[i].front();
      if (kind != 'b' && kind != 'l' && kind != 'v')
        return refuse(ErrorCode::E224, "the result " + outputs[i] + " is named neither b… nor l… nor v…");
      if (!names.emplace(outputs[i], StepRef{number, static_cast<int32_t>(i)}).second)
        return refuse(ErrorCode::E224, "the name " + outputs[i] + " is defined twice");
      step.output_kinds += kind;
    }
    trace.steps.push_back(std::move(step));
  }
  return trace;
}

}  // namespace fettle
