// custom_call @fettle.host_call: a function of the program that runs the model, by its name. backend_config is the
// name, a space, and what the function understands. Parts of complex numbers are tensors of their own, side by side.

#include <cstring>

#include "frontend/stablehlo/importer.h"
#include "graph/op_util.h"

namespace fettle::stablehlo {
namespace {

/// "linalg.eigh {…}" → the name and the rest, a zero behind each.
Result<Value*> name_and_config(OpImport& o) {
  const std::string given = o.text("backend_config");
  const size_t space = given.find(' ');
  const std::string name = given.substr(0, space);
  const std::string config = space == std::string::npos ? "" : given.substr(space + 1);
  if (name.empty() || given.find('\0') != std::string::npos)
    return o.mistaken("backend_config is not a function's name, a space, and what it understands");
  std::string text = name + '\0' + config + '\0';
  FETTLE_TRY(TensorBuilder bytes, make_tensor(kU8, {static_cast<int64_t>(text.size())}));
  std::memcpy(bytes.bytes.get(), text.data(), text.size());
  return o.g.constant(std::move(bytes).finish());
}

Result<Tensors> host_call(OpImport& o) {
  FETTLE_TRY(Value * name, name_and_config(o));
  Values inputs{name};
  for (Tensor& tensor : o.in) for_each_part(tensor, [&](Value* part) { inputs.push_back(part); });
  const std::vector<TensorType> types = o.part_types();
  std::vector<std::string> dtypes;
  Ints ranks, dims;
  for (const TensorType& type : types) {
    dtypes.push_back(type.dtype.to_string());
    ranks.push_back(static_cast<int64_t>(type.shape.size()));
    for (const Dim& dim : type.shape) {
      if (!dim.is_number() || dim.value() < 0) return o.refuse("a result has an open extent");
      dims.push_back(dim.value());
    }
  }
  if (is_host_effect(o.op)) {
    inputs.push_back(o.importer.effects());
    dtypes.push_back(inputs.back()->dtype().to_string());
    ranks.push_back(0);
  }
  const size_t n = dtypes.size();
  const bool has_effect = n > types.size();
  Attrs attrs{{"has_effect", int64_t{has_effect}},
              {"dtypes", std::move(dtypes)},
              {"ranks", std::move(ranks)},
              {"dims", std::move(dims)}};
  Values parts = o.g.many("fettle.HostCall", std::move(inputs), std::move(attrs), n);
  FETTLE_TRY_VOID(o.g.status());
  if (has_effect) {
    o.importer.scope().effects = parts.back();
    parts.pop_back();
  }
  return o.as_results(parts);
}

constexpr OpEntry kEntries[] = {{"stablehlo.custom_call @fettle.host_call", host_call}};

}  // namespace

bool is_host_effect(const Op& op) {
  const Attribute* attribute = find_attribute(op.attributes, "has_side_effect");
  const bool* value = attribute ? attribute->get_if<bool>() : nullptr;
  return value && *value && label_of(op) == kEntries[0].name;
}

extern constinit const OpEntries host_call_operators{kEntries};

}  // namespace fettle::stablehlo
