// HostCall: what a function of the program that runs the model computes, by its name.

#include <fmt/format.h>

#include <algorithm>

#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

bool has_effect(const Node& node) { return node.attrs.get_int("has_effect", 0) != 0; }
bool always(const Node& node) {
  (void)node;
  return true;
}

/// Input 0 is the function's name and its config, a zero behind each; the others are its own. Attributes: dtypes,
/// ranks and dims of the outputs; has_effect: the last input and the last output are a token, a u8 that orders calls.
Types host_call_type(const Node& node) {
  const Value* name = node.inputs[0];
  if (!name->is_constant() || name->constant->dtype != kU8 || name->constant->n_elems() < 2)
    return bad_types(node, "input 0 is not the name of a function, as constant bytes");
  const auto bytes = name->constant->elems<uint8_t>();
  if (std::ranges::count(bytes, 0) != 2 || bytes.back() != 0)
    return bad_types(node, "input 0 is not a name and a config with a zero behind each");
  const AttrValue* listed = node.attrs.find("dtypes");
  const auto* names = listed ? std::get_if<std::vector<std::string>>(listed) : nullptr;
  const std::vector<std::string> dtypes = names ? *names : std::vector<std::string>();
  const std::vector<int64_t> ranks = node.attrs.get_ints("ranks"), dims = node.attrs.get_ints("dims");
  if (dtypes.size() != node.outputs.size() || ranks.size() != dtypes.size())
    return bad_attribute(node, fmt::format("it has {} outputs, {} dtypes and {} ranks", node.outputs.size(),
                                           dtypes.size(), ranks.size()));
  std::vector<TensorType> types;
  size_t at = 0;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    FETTLE_TRY(const DType dtype, parse_dtype(dtypes[i]));
    Shape shape;
    for (int64_t d = 0; d < ranks[i]; ++d) {
      if (at == dims.size() || dims[at] < 0) return bad_attribute(node, "dims are none of the outputs'");
      shape.push_back(Dim(dims[at++]));
    }
    types.push_back({dtype, std::move(shape)});
  }
  if (at != dims.size()) return bad_attribute(node, "there are more dims than the outputs have");
  const TensorType token{kU8, {}};
  if (has_effect(node) &&
      (node.inputs.size() < 2 || *node.inputs.back()->type != token || types.empty() || types.back() != token))
    return bad_types(node, "it has an effect, and takes and gives no token");
  return types;
}

/// How many inputs the function has, and how many tokens there are.
std::vector<int64_t> host_call_numbers(const Node& node) {
  const int64_t tokens = has_effect(node) ? 1 : 0;
  return {std::ssize(node.inputs) - 1 - tokens, tokens};
}

constexpr HostRule host_call_rule{.function = "fettle_host_call", .numbers = host_call_numbers, .only_runs = true};

constexpr OpDef host_call_defs[] = {
    define(kOpaque, "fettle.HostCall", {1, -1}, host_call_type, nullptr,
           {.n_outputs = -1, .host = &host_call_rule, .is_partial = always}),
};

}  // namespace

extern constinit const OpFamily host_call_ops{"host_call", host_call_defs};

}  // namespace fettle
