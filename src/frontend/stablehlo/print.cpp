// Modules in MLIR's generic form.

#include <fmt/format.h>

#include <unordered_map>

#include "frontend/stablehlo/elements.h"
#include "frontend/stablehlo/read.h"
#include "frontend/stablehlo/types.h"

namespace fettle::stablehlo {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\' || byte < 32 || byte > 126)
      result += c == '\\' ? "\\\\" : fmt::format("\\{:02X}", byte);
    else
      result += c;
  }
  return result + "\"";
}

bool is_bare(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
          c == '$'))
      return false;
  return name[0] != '.' && name[0] != '$';
}

std::string symbol_text(std::string_view name) {
  std::string text;
  while (true) {
    const size_t end = name.find("::");
    const std::string_view part = name.substr(0, end);
    text += "@" + (is_bare(part) ? std::string(part) : quoted(part));
    if (end == std::string_view::npos) return text;
    text += "::";
    name.remove_prefix(end + 2);
  }
}

class Printer {
 public:
  std::string print(const Module& module);

 private:
  std::string attribute(const Attribute& attribute);
  std::string dictionary(const Attributes& attributes);
  std::string field(const Attribute& attribute);
  std::string structure(const StructValue& value);
  void op(const Op& op, int indent);
  void block(const Block& block, bool has_label, int indent);
  void function(const Function& function);
  void line(int indent, std::string_view text) {
    out_ += std::string(static_cast<size_t>(indent), ' ') + std::string(text);
  }
  std::string name(ValueId value) { return fmt::format("%{}", names_.try_emplace(value, names_.size()).first->second); }

  std::string out_;
  std::unordered_map<ValueId, size_t> names_;
  std::string_view dialect_ = "stablehlo";
};

template <class T, class F>
std::string joined(const T& items, F text) {
  std::string result;
  for (const auto& item : items) {
    if (!result.empty()) result += ", ";
    result += text(item);
  }
  return result;
}

std::string list_of(const std::vector<int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string conv_text(const StructValue& value) {
  std::string text;
  for (const std::string_view part : {"input", "kernel", "output"}) {
    const bool is_kernel = part == "kernel";
    const auto at = [&](std::string_view dim) {
      const Attribute* found = find_attribute(value.fields, fmt::format("{}_{}_dimension", part, dim));
      return found && found->get_if<int64_t>() ? *found->get_if<int64_t>() : -1;
    };
    std::vector<std::string> dims(2);
    const Attribute* found = find_attribute(value.fields, fmt::format("{}_spatial_dimensions", part));
    const auto* spatial = found ? found->get_if<std::vector<int64_t>>() : nullptr;
    if (spatial) dims.resize(2 + spatial->size());
    const auto put = [&](int64_t where, std::string what) {
      if (where >= 0 && where < std::ssize(dims)) dims[static_cast<size_t>(where)] = std::move(what);
    };
    put(at(is_kernel ? "input_feature" : "batch"), is_kernel ? "i" : "b");
    put(at(is_kernel ? "output_feature" : "feature"), is_kernel ? "o" : "f");
    for (size_t i = 0; spatial && i < spatial->size(); ++i) put((*spatial)[i], fmt::format("{}", i));
    text += (is_kernel ? "x[" : part == "output" ? "->[" : "[") + fmt::format("{}", fmt::join(dims, ", ")) + "]";
  }
  return text;
}

std::string Printer::field(const Attribute& attribute) {
  if (const auto* ints = attribute.get_if<std::vector<int64_t>>()) return list_of(*ints);
  if (const auto* number = attribute.get_if<int64_t>()) return fmt::format("{}", *number);
  if (const auto* number = attribute.get_if<double>()) return float_text(kF64, *number);
  return this->attribute(attribute);
}

std::string Printer::structure(const StructValue& value) {
  if (value.kind == "conv") return "<" + conv_text(value) + ">";
  return "<" + joined(value.fields, [&](const auto& f) { return f.first + " = " + field(f.second); }) + ">";
}

std::string Printer::dictionary(const Attributes& attributes) {
  return joined(attributes, [&](const auto& entry) {
    std::string text = is_bare(entry.first) ? entry.first : quoted(entry.first);
    if (!entry.second.template get_if<UnitValue>()) text += " = " + attribute(entry.second);
    return text;
  });
}

std::string Printer::attribute(const Attribute& attribute) {
  struct Text {
    Printer& p;
    std::string operator()(const UnitValue&) const { return "unit"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return fmt::format("{} : i64", value); }
    std::string operator()(double value) const { return float_text(kF64, value) + " : f64"; }
    std::string operator()(const std::string& value) const { return quoted(value); }
    std::string operator()(const std::vector<int64_t>& value) const {
      return value.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(value, ", "));
    }
    std::string operator()(const std::vector<double>& value) const {
      const std::string text = joined(value, [](double x) { return float_text(kF64, x); });
      return value.empty() ? "array<f64>" : "array<f64: " + text + ">";
    }
    std::string operator()(const std::vector<bool>& value) const {
      const std::string text = joined(value, [](bool x) { return std::string(x ? "true" : "false"); });
      return value.empty() ? "array<i1>" : "array<i1: " + text + ">";
    }
    std::string operator()(const std::vector<Attribute>& value) const {
      return "[" + joined(value, [&](const Attribute& item) { return p.attribute(item); }) + "]";
    }
    std::string operator()(const Attributes& value) const { return "{" + p.dictionary(value) + "}"; }
    std::string operator()(const DenseElements& value) const { return to_text(value); }
    std::string operator()(const Type& value) const { return value.to_string(); }
    std::string operator()(const EnumValue& value) const {
      return fmt::format("#{}<{} {}>", p.dialect_, value.kind, value.value);
    }
    std::string operator()(const StructValue& value) const {
      return fmt::format("#{}.{}", p.dialect_, value.kind) + p.structure(value);
    }
    std::string operator()(const SymbolRef& value) const { return symbol_text(value.name); }
    std::string operator()(const OpaqueValue& value) const { return value.text; }
  };
  return std::visit(Text{*this}, attribute.value);
}

void Printer::block(const Block& block, bool has_label, int indent) {
  if (has_label) {
    line(indent - 2, "^bb0");
    if (!block.arguments.empty()) {
      std::vector<std::string> arguments;
      for (size_t i = 0; i < block.arguments.size(); ++i)
        arguments.push_back(name(block.arguments[i]) + ": " + block.argument_types[i].to_string());
      out_ += fmt::format("({})", fmt::join(arguments, ", "));
    }
    out_ += ":\n";
  }
  for (const Op& each : block.ops) op(each, indent);
}

void Printer::op(const Op& op, int indent) {
  dialect_ = op.name.starts_with("chlo.") ? "chlo" : "stablehlo";
  const std::string_view dialect = dialect_;
  // The name of several results is that of the first, so each has one of its own here.
  line(indent, joined(op.results, [&](ValueId value) { return name(value); }));
  if (!op.results.empty()) out_ += " = ";
  out_ += quoted(op.name) + "(" + joined(op.operands, [&](ValueId value) { return name(value); }) + ")";
  if (!op.attributes.empty()) out_ += " <{" + dictionary(op.attributes) + "}>";
  for (size_t i = 0; i < op.regions.size(); ++i) {
    out_ += i == 0 ? " ({\n" : ", {\n";
    for (const Block& each : op.regions[i].blocks) block(each, !each.arguments.empty() || each.ops.empty(), indent + 2);
    line(indent, i + 1 == op.regions.size() ? "})" : "}");
  }
  dialect_ = dialect;
  Type type;
  type.kind = Type::Kind::kFunction;
  type.inputs = op.operand_types;
  type.results = op.result_types;
  out_ += " : " + type.to_string() + "\n";
}

void Printer::function(const Function& function) {
  names_.clear();
  dialect_ = "stablehlo";
  Type type;
  type.kind = Type::Kind::kFunction;
  type.inputs = function.body.argument_types;
  type.results = function.result_types;
  const auto all = [&](const std::vector<Attributes>& list) {
    return "[" + joined(list, [&](const Attributes& attributes) { return "{" + dictionary(attributes) + "}"; }) + "]";
  };
  line(2, fmt::format("\"func.func\"() <{{arg_attrs = {}, function_type = {}, res_attrs = {}, sym_name = {}, "
                      "sym_visibility = {}}}> ({{\n",
                      all(function.argument_attributes), type.to_string(), all(function.result_attributes),
                      quoted(function.name), function.is_public ? "\"public\"" : "\"private\""));
  if (!function.body.ops.empty()) block(function.body, !function.body.arguments.empty(), 4);
  line(2, "}) : () -> ()\n");
}

std::string Printer::print(const Module& module) {
  out_ = "\"builtin.module\"()";
  if (!module.name.empty()) out_ += " <{sym_name = " + quoted(module.name) + "}>";
  out_ += " ({\n";
  for (const Function& each : module.functions) function(each);
  out_ += "})";
  if (!module.attributes.empty()) out_ += " {" + dictionary(module.attributes) + "}";
  return out_ + " : () -> ()\n";
}

}  // namespace

std::string to_text(const Module& module) { return Printer().print(module); }

}  // namespace fettle::stablehlo
