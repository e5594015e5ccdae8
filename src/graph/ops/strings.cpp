// Operators on strings. What only moves or compares them is elsewhere: it is work on their numbers.

#include <fmt/format.h>

#include "graph/passes/lowering.h"
#include "graph/regex.h"
#include "graph/strings.h"
#include "rt/host_strings.h"

namespace fettle {
namespace {

using namespace ops;
using passes::check_attributes;
using passes::composite;
using passes::Lowering;

Result<> check_is_string(const Node& node, size_t i) {
  if (dtype_of(node, i).is_string()) return {};
  return bad_types(node, fmt::format("input {} is of {}, not of strings", i, dtype_of(node, i).to_string()));
}

constexpr OpDef on_host(std::string_view name, InputCount inputs, Infer infer, const HostRule& rule,
                        int n_outputs = 1) {
  return define(kOpaque, name, inputs, infer, nullptr, {.n_outputs = n_outputs, .host = &rule});
}

// --- StringConcat

Types concat_type(const Node& node) {
  FETTLE_TRY_VOID(check_is_string(node, 0));
  FETTLE_TRY_VOID(check_is_string(node, 1));
  FETTLE_TRY(Shape shape, broadcast(node, shape_of(node, 0), shape_of(node, 1)));
  return one_type(kString, std::move(shape));
}
constexpr HostRule concat_rule{.function = "fettle_host_string_concat"};

// --- StringSplit: how many parts there are is told by the strings.

Types count_parts_type(const Node& node) { return std::vector<TensorType>{{kI64, shape_of(node, 0)}, {kI64, {}}}; }
Types split_parts_type(const Node& node) {
  FETTLE_TRY(const auto most, dims_param(node, kAny, "most"));
  if (!most || most->size() != 1) return bad_attribute(node, "it has no width");
  return one_type(kString, joined(shape_of(node, 0), *most));
}
std::vector<int64_t> split_numbers(const Node& node) { return {node.attrs.get_int("maxsplit", -1)}; }
constexpr HostRule count_parts_rule{.function = "fettle_host_string_count_parts", .numbers = split_numbers};
constexpr HostRule split_parts_rule{.function = "fettle_host_string_split", .numbers = split_numbers};

Result<std::vector<Value*>> string_split(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"delimiter", "maxsplit"}));
  FETTLE_TRY_VOID(check_is_string(node, 0));
  const int64_t most = std::clamp<int64_t>(node.attrs.get_int("maxsplit", -1), -1, kMaxDim);
  Value* delimiter = g.constant(string_scalar(node.attrs.get_string("delimiter", "")));
  const std::vector<Value*> parts = g.many("StringCountParts", {node.inputs[0], delimiter}, {{{"maxsplit", most}}}, 2);
  FETTLE_TRY_VOID(g.status());
  Attrs attrs{{"maxsplit", most}};
  attrs.set("most", dims_attr(g.sizes_of(parts[1], 0, most < 0 ? kMaxDim : std::min(most + 1, kMaxDim))));
  Value* split = g("StringSplitParts", {node.inputs[0], delimiter}, std::move(attrs));
  return std::vector{split, parts[0]};
}

// --- StringNormalizer

std::vector<int64_t> normalize_numbers(const Node& node) {
  const std::string change = node.attrs.get_string("case_change_action", "NONE");
  return {change == "LOWER"   ? rt::kToLower
          : change == "UPPER" ? rt::kToUpper
                              : rt::kAsIs,
          node.attrs.get_int("is_case_sensitive", 0)};
}
constexpr HostRule normalize_rule{.function = "fettle_host_string_normalize", .numbers = normalize_numbers};

Types normalize_type(const Node& node) {
  return std::vector<TensorType>{{kString, {max(shape_of(node, 0)[0], 1)}}, {kI64, {}}};
}

Result<std::vector<Value*>> string_normalizer(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"case_change_action", "is_case_sensitive", "locale", "stopwords"}));
  FETTLE_TRY_VOID(check_is_string(node, 0));
  FETTLE_TRY_VOID(check_rank(node, 0, 1, 2));
  const std::string change = node.attrs.get_string("case_change_action", "NONE");
  if (change != "NONE" && change != "LOWER" && change != "UPPER")
    return bad_attribute(node, "case_change_action is " + change);
  Value* x = node.inputs[0];
  const bool is_row = x->rank() == 2;
  if (is_row) {
    note_equal(node, x->shape()[0], 1, "the first extent of two");
    if (x->shape()[0].is_number() && x->shape()[0].value() != 1)
      return bad_types(node, fmt::format("its input is [{}, …], and must be [C] or [1, C]", x->shape()[0].value()));
    x = g.reshape(x, {x->shape()[1]});
  }
  std::vector<std::string> words;
  if (const AttrValue* given = node.attrs.find("stopwords")) {
    const auto* list = std::get_if<std::vector<std::string>>(given);
    if (!list) return bad_attribute(node, "stopwords are no strings");
    words = *list;
  }
  FETTLE_TRY(ConstantTensor stops, string_tensor(words, {std::ssize(words)}));
  const auto all =
      g.many("StringNormalizeAll", {x, g.constant(std::move(stops))},
             {{{"case_change_action", change}, {"is_case_sensitive", node.attrs.get_int("is_case_sensitive", 0)}}}, 2);
  FETTLE_TRY_VOID(g.status());
  Value* y = all[0];
  if (!words.empty()) {
    y = g("Slice", {y},
          {{{"starts", std::vector<int64_t>{0}},
            {"ends", dims_attr(g.sizes_of(all[1], 1, y->shape()[0].max()))},
            {"axes", std::vector<int64_t>{0}}}});
  }
  return std::vector{is_row ? g.unsqueeze(y, {0}) : y};
}

// --- RegexFullMatch

Types regex_match_type(const Node& node) { return one_type(kBool, shape_of(node, 0)); }
constexpr HostRule regex_match_rule{.function = "fettle_host_regex_match"};

Result<std::vector<Value*>> regex_full_match(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"pattern"}));
  FETTLE_TRY_VOID(check_is_string(node, 0));
  if (!node.attrs.has("pattern")) return bad_attribute(node, "it has no pattern");
  auto program = compile_regex(node.attrs.get_string("pattern", ""));
  if (!program) return bad_attribute(node, program.error().message);
  return std::vector{g("RegexMatchProgram", {node.inputs[0], g.ints(*program)})};
}

constexpr OpDef strings_defs[] = {
    on_host("StringConcat", 2, concat_type, concat_rule),
    composite<string_split>("StringSplit", 1, 2),
    on_host("StringCountParts", 2, count_parts_type, count_parts_rule, 2),
    on_host("StringSplitParts", 2, split_parts_type, split_parts_rule),
    composite<string_normalizer>("StringNormalizer", 1),
    on_host("StringNormalizeAll", 2, normalize_type, normalize_rule, 2),
    composite<regex_full_match>("RegexFullMatch", 1),
    on_host("RegexMatchProgram", 2, regex_match_type, regex_match_rule),
};

}  // namespace

extern constinit const OpFamily strings_ops{"strings", strings_defs};

}  // namespace fettle
