// Modules, functions and operators in MLIR's text; the generic form of operators.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/defaults.h"
#include "frontend/stablehlo/functions.h"
#include "frontend/stablehlo/read.h"
#include "frontend/stablehlo/refused.h"
#include "frontend/stablehlo/text_reader.h"
#include "frontend/stablehlo/types.h"

namespace fettle::stablehlo {

ValueId define_value(TextReader& r, const Type& type) {
  r.types.push_back(type);
  return static_cast<ValueId>(r.types.size() - 1);
}

std::string_view read_value_name(TextReader& r) {
  r.in.expect("%");
  return r.in.suffix();
}

void name_values(TextReader& r, std::string_view name, NamedValues values) {
  const auto found = r.values.find(name);
  r.shadowed.emplace_back(name, found == r.values.end() ? std::nullopt : std::optional(found->second));
  r.values[name] = values;
}

ValueId read_value(TextReader& r) {
  r.in.skip_blanks();
  const size_t at = r.in.position();
  const std::string_view name = read_value_name(r);
  const bool has_index = r.in.consume_here('#');
  const int64_t index = has_index ? r.in.digits_here().value_or(0) : 0;
  const auto found = r.values.find(name);
  if (r.in.ok() && found == r.values.end())
    r.in.fail_at(at, ErrorCode::E602, fmt::format("no value %{} is there before this", name));
  if (!r.in.ok()) return 0;
  if (index >= static_cast<int64_t>(found->second.count))
    r.in.fail_at(at, ErrorCode::E602, fmt::format("%{} has {} values", name, found->second.count));
  return found->second.first + static_cast<ValueId>(index);
}

std::vector<ValueId> read_values(TextReader& r) {
  std::vector<ValueId> values;
  if (r.in.peek() != '%') return values;
  do values.push_back(read_value(r));
  while (r.in.ok() && r.in.consume(","));
  return values;
}

void forget_values(TextReader& r) {
  r.values.clear();
  r.types.clear();
  r.shadowed.clear();
}

void read_arguments(TextReader& r, Block& block, std::vector<Attributes>* attributes) {
  r.in.list("(", ")", [&] {
    const std::string_view name = read_value_name(r);
    r.in.expect(":");
    Type type = read_type(r);
    if (attributes) attributes->push_back(r.in.peek() == '{' ? read_dictionary(r) : Attributes());
    read_location(r);
    const ValueId id = define_value(r, type);
    name_values(r, name, {id, 1});
    block.arguments.push_back(id);
    block.argument_types.push_back(std::move(type));
  });
}

Region read_region(TextReader& r, const std::vector<std::string_view>& argument_names,
                   const std::vector<Type>& argument_types) {
  Region region;
  r.in.skip_blanks();
  const size_t start = r.in.position();
  r.in.expect("{");
  r.check(&Limits::nesting, r.region_depth++);
  if (r.region_depth > kMaxDepth) r.in.fail_at(start, ErrorCode::E608, "regions are too deep within one another");
  const size_t mark = r.shadowed.size();
  Block block;
  for (size_t i = 0; i < argument_names.size(); ++i) {
    block.arguments.push_back(define_value(r, argument_types[i]));
    name_values(r, argument_names[i], {block.arguments.back(), 1});
    block.argument_types.push_back(argument_types[i]);
  }
  const bool has_label = r.in.peek() == '^';
  if (has_label) {
    r.in.expect("^");
    r.in.suffix();
    if (r.in.peek() == '(') read_arguments(r, block);
    r.in.expect(":");
  }
  while (r.in.ok() && !r.in.at_end() && r.in.peek() != '}' && r.in.peek() != '^') block.ops.push_back(read_op(r));
  if (r.in.peek() == '^') r.in.fail_at(r.in.position(), ErrorCode::E603, "a region of several blocks is not supported");
  r.in.expect("}");
  if (has_label || !block.ops.empty() || !block.arguments.empty()) region.blocks.push_back(std::move(block));
  while (r.shadowed.size() > mark) {
    const auto& [name, before] = r.shadowed.back();
    if (before)
      r.values[name] = *before;
    else
      r.values.erase(name);
    r.shadowed.pop_back();
  }
  --r.region_depth;
  return region;
}

namespace {

// Those in braces, if there are any, beside properties.
void read_more_attributes(TextReader& r, Attributes& attributes) {
  if (r.in.peek() != '{') return;
  for (auto& attribute : read_dictionary(r)) attributes.push_back(std::move(attribute));
  sort_attributes(r, attributes);
}

// The operator's name, already read, up to its type.
void read_generic(TextReader& r, Op& op) {
  r.in.expect("(");
  op.operands = read_values(r);
  r.in.expect(")");
  if (r.in.peek() == '[')
    r.in.fail_at(r.in.position(), ErrorCode::E603, "operators that go to blocks are not supported");
  if (r.in.starts_with("<{")) op.attributes = read_dictionary(r, "<{", "}>");
  if (r.in.peek() == '(') r.in.list("(", ")", [&] { op.regions.push_back(read_region(r)); });
  read_more_attributes(r, op.attributes);
  r.in.expect(":");
  Type type = read_function_type(r);
  op.operand_types = std::move(type.inputs);
  op.result_types = std::move(type.results);
}

// What is said of the operands is what they are.
void check_operands(TextReader& r, const Op& op, size_t at) {
  if (!r.in.ok()) return;
  if (op.operands.size() != op.operand_types.size())
    return r.in.fail_at(at, ErrorCode::E602,
                        fmt::format("{} has {} operands and {} types of operands", op.name, op.operands.size(),
                                    op.operand_types.size()));
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Type& made = r.types[static_cast<size_t>(op.operands[i])];
    if (!same_type(made, op.operand_types[i]))
      return r.in.fail_at(at, ErrorCode::E602,
                          fmt::format("operand {} of {} is of {}, not of {}", i, op.name, made.to_string(),
                                      op.operand_types[i].to_string()));
  }
}

// One thing of a module: a function, or what is left out.
void read_member(TextReader& r, Module& module) {
  const char c = r.in.peek();
  if (c == '#' || c == '!') {
    r.in.rest_of_line();
    return;
  }
  forget_values(r);
  const size_t at = r.in.position();
  if (r.in.consume("func.func") || r.in.consume("func")) {
    Function function = read_function(r);
    if (r.in.ok()) module.functions.push_back(std::move(function));
  } else if (r.in.consume("sdy.mesh")) {
    read_symbol(r);
    r.in.expect("=");
    r.in.balanced();
    if (r.in.peek() == '{') read_dictionary(r);
    read_location(r);
  } else {
    Op op = read_op(r);
    if (!r.in.ok()) return;
    if (op.name == "builtin.module") r.in.fail_at(at, ErrorCode::E603, "a module within a module is not supported");
    if (op.name != "func.func" || !r.in.ok()) return;
    if (auto function = to_function(std::move(op)))
      module.functions.push_back(*std::move(function));
    else
      r.in.fail_at(at, function.error().code, function.error().message);
  }
}

// "{…}" of a module.
void read_members(TextReader& r, Module& module) {
  r.in.expect("{");
  if (r.in.consume("^")) {
    r.in.suffix();
    r.in.expect(":");
  }
  while (r.in.ok() && !r.in.at_end() && r.in.peek() != '}') read_member(r, module);
  r.in.expect("}");
}

void read_module_of(TextReader& r, Module& module) {
  while (r.in.peek() == '#' || r.in.peek() == '!') r.in.rest_of_line();
  if (r.in.consume("\"builtin.module\"")) {
    r.in.expect("(");
    r.in.expect(")");
    Attributes attributes;
    if (r.in.starts_with("<{")) attributes = read_dictionary(r, "<{", "}>");
    r.in.expect("(");
    read_members(r, module);
    r.in.expect(")");
    read_more_attributes(r, attributes);
    r.in.expect(":");
    read_function_type(r);
    read_location(r);
    name_module(module, std::move(attributes));
  } else if (r.in.consume("module") || r.in.consume("builtin.module")) {
    if (r.in.peek() == '@') module.name = read_symbol(r);
    if (r.in.consume("attributes")) module.attributes = read_dictionary(r);
    read_members(r, module);
    read_location(r);
  } else {
    if (!r.in.starts_with("\"func.func\"") && !r.in.starts_with("func"))
      r.in.expected("'module', \"builtin.module\" or a function of StableHLO's text");
    while (r.in.ok() && !r.in.at_end() && !r.in.starts_with("{-#")) read_member(r, module);
  }
  while (r.in.peek() == '#' || r.in.peek() == '!') r.in.rest_of_line();
  if (!r.in.at_end() && !r.in.starts_with("{-#")) r.in.expected("the end");
}

// Lines of `#name = …` and `!name = …`, before or after their uses.
void find_aliases(TextReader& r) {
  const std::string_view text = r.in.text();
  for (size_t start = 0; start < text.size(); start = std::min(text.find('\n', start), text.size() - 1) + 1) {
    if (text[start] != '#' && text[start] != '!') continue;
    r.in.seek(start + 1);
    const std::string_view line = text.substr(start, text.find('\n', start) - start);
    if (line.find('=') == std::string_view::npos || line.size() < 3 || line[1] == ' ') continue;
    r.in.suffix();
    const std::string_view name = text.substr(start, r.in.position() - start);
    if (!r.in.consume("=")) continue;
    r.in.skip_blanks();
    r.aliases.try_emplace(name, Alias{.position = r.in.position()});
  }
  r.in.seek(0);
}

// {-# dialect_resources: { builtin: { name: "0x…" } } #-}
void find_resources(TextReader& r) {
  const size_t start = r.in.text().rfind("\n{-#");
  if (start == std::string_view::npos) return;
  const auto key = [&] {
    const std::string_view name = r.in.peek() == '"' ? r.in.string_source() : r.in.suffix();
    r.in.expect(":");
    return name;
  };
  r.in.seek(start);
  r.in.expect("{-#");
  do {
    key();
    r.in.list("{", "}", [&] {
      key();
      r.in.list("{", "}", [&] {
        const std::string_view name = key();
        if (r.in.peek() == '"')
          r.resources[name] = r.in.string_source();
        else if (!r.in.consume("true") && !r.in.consume("false"))
          r.in.integer();
      });
    });
  } while (r.in.ok() && r.in.consume(","));
  r.in.expect("#-}");
  r.in.seek(0);
}

}  // namespace

Op read_op(TextReader& r) {
  Op op;
  r.check(&Limits::nodes, ++r.n_ops);
  std::vector<std::pair<std::string_view, int64_t>> names;
  int64_t n_results = 0;
  if (r.in.peek() == '%') {
    do {
      const std::string_view name = read_value_name(r);
      const int64_t count = r.in.consume(":") ? r.in.integer() : 1;
      if (r.in.ok() && (count < 1 || count > r.limits.outputs)) r.in.expected("a number of results before this");
      names.emplace_back(name, count);
      n_results += count;
    } while (r.in.ok() && r.in.consume(","));
    r.in.expect("=");
  }
  r.in.skip_blanks();
  const size_t at = r.in.position();
  op.place = r.in.place_of(at);
  const bool is_generic = r.in.peek() == '"';
  op.name = is_generic ? r.in.string() : std::string(r.in.word());
  if (op.name.empty()) r.in.expected("an operator");
  const std::string_view outer = std::exchange(
      r.op, is_generic ? r.in.text().substr(at + 1, op.name.size()) : r.in.text().substr(at, op.name.size()));
  if (op.name == "func.func" && is_generic) forget_values(r);
  if (is_generic)
    read_generic(r, op);
  else if (r.in.ok() && !read_pretty(r, op, n_results))
    r.in.fail_at(at, ErrorCode::E603,
                 is_operator(op.name)
                     ? fmt::format("the operator {} has no form that is known: print it generically", op.name)
                     : fmt::format("{}: {}", op.name, why_refused(op)));
  check_operands(r, op, at);
  if (r.in.ok() && !names.empty() && n_results != std::ssize(op.result_types))
    r.in.fail_at(at, ErrorCode::E602,
                 fmt::format("{} has {} results, not {}", op.name, op.result_types.size(), n_results));
  if (!r.in.ok()) return op;
  complete(op);
  for (const Type& type : op.result_types) op.results.push_back(define_value(r, type));
  size_t next = 0;
  for (const auto& [name, count] : names) {
    name_values(r, name, {op.results[next], static_cast<size_t>(count)});
    next += static_cast<size_t>(count);
  }
  op.location = read_location(r);
  if (op.location.empty()) op.location = op.place;
  r.op = outer;
  return op;
}

Result<Module> parse_text(std::string_view text, const std::string& label, const Limits& limits) {
  TextReader r = {.in = Scanner(text, label), .limits = limits};
  Module module;
  find_aliases(r);
  find_resources(r);
  read_module_of(r, module);
  if (!r.in.ok()) return fail(r.in.error());
  FETTLE_TRY_VOID(check_names(module, label));
  return module;
}

Result<Module> read_module(std::span<const std::byte> bytes, const std::string& label, const Limits& limits) {
  if (is_bytecode(bytes)) return parse_bytecode(bytes, label, limits);
  return parse_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, label, limits);
}

bool is_bytecode(std::span<const std::byte> bytes) {
  constexpr std::byte kMagic[] = {std::byte{'M'}, std::byte{'L'}, std::byte{0xef}, std::byte{'R'}};
  return bytes.size() >= std::size(kMagic) && std::ranges::equal(bytes.first(std::size(kMagic)), kMagic);
}

}  // namespace fettle::stablehlo
