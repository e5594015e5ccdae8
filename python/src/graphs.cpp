// Models that Python builds, node after node (frontend/onnx/model_builder.h).

#include <fmt/format.h>

#include <optional>
#include <tuple>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "binding.h"
#include "frontend/onnx/model_builder.h"
#include "frontend/onnx/schema.h"
#include "model_source.h"
#include "model_types.h"
#include "runtime/host_calls.h"

namespace fettle::python {
namespace {

struct PyGraph {
  std::shared_ptr<ModelBuilder> builder;
};

/// As the package gives attributes: what kind the value is of, and the value.
BuilderAttribute attribute_of(const std::string& kind, nb::handle value) {
  if (kind == "int") return nb::cast<int64_t>(value);
  if (kind == "float") return nb::cast<double>(value);
  if (kind == "string") {
    const auto bytes = nb::cast<nb::bytes>(value);
    return std::string(bytes.c_str(), bytes.size());
  }
  if (kind == "ints") return nb::cast<std::vector<int64_t>>(value);
  if (kind == "floats") return nb::cast<std::vector<double>>(value);
  if (kind == "strings") {
    std::vector<std::string> texts;
    for (const auto& bytes : nb::cast<std::vector<nb::bytes>>(value)) texts.emplace_back(bytes.c_str(), bytes.size());
    return texts;
  }
  if (kind == "dtype") return graph_dtype(nb::cast<std::string>(value));
  if (kind == "tensor") {
    const auto tensor = nb::cast<nb::tuple>(value);
    return constant_of(nb::cast<std::string>(tensor[0]), tensor[1]);
  }
  return nb::cast<PyGraph&>(value).builder;
}

std::vector<int> add_node(PyGraph& self, const std::string& op, const std::string& domain, nb::list inputs,
                          int n_outputs, nb::list attributes, const std::string& name) {
  BuilderNode node{.op = op, .domain = domain, .inputs = {}, .n_outputs = n_outputs, .attributes = {}, .name = name};
  for (nb::handle input : inputs) {
    if (input.is_none()) {
      node.inputs.emplace_back();
      continue;
    }
    node.inputs.push_back(BuilderValue{nb::cast<PyGraph&>(input[0]).builder, nb::cast<int>(input[1])});
  }
  for (nb::handle given : attributes)
    node.attributes.emplace_back(nb::cast<std::string>(given[0]),
                                 attribute_of(nb::cast<std::string>(given[1]), nb::object(given[2])));
  return take(self.builder->add_node(node));
}

nb::list formals(std::span<const onnx_reader::FormalSchema> list) {
  using onnx_reader::FormalSchema;
  nb::list made;
  for (const FormalSchema& formal : list) {
    nb::list types;
    for (const std::string_view type : formal.types) types.append(std::string(type));
    const char* option = formal.option == FormalSchema::kOptional   ? "optional"
                         : formal.option == FormalSchema::kVariadic ? "variadic"
                                                                    : "";
    made.append(nb::make_tuple(std::string(formal.name), std::string(formal.variable), types, option));
  }
  return made;
}

std::string kind_text(int kind) {
  static constexpr const char* kNames[] = {
      "",        "float",   "int",    "string",        "tensor",         "graph", "floats", "ints",
      "strings", "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type",  "types"};
  return kind >= 0 && static_cast<size_t>(kind) < std::size(kNames) ? kNames[kind] : "";
}

nb::object describe(const std::string& domain, const std::string& name, int64_t opset) {
  const onnx_reader::OperatorSchema* schema = onnx_reader::find_schema(domain, name, opset);
  if (!schema) return nb::none();
  nb::list attributes;
  for (const auto& attribute : schema->attributes)
    attributes.append(nb::make_tuple(std::string(attribute.name), kind_text(attribute.kind), attribute.is_required));
  return nb::make_tuple(schema->since_version, formals(schema->inputs), formals(schema->outputs), attributes);
}

nb::tuple shape_of(const TensorType& type) {
  nb::list shape;
  for (const Dim& dim : type.shape) {
    if (dim.is_number())
      shape.append(dim.value());
    else
      shape.append(dim.to_string());
  }
  return nb::tuple(shape);
}

}  // namespace

void bind_graphs(nb::module_& m) {
  nb::class_<PyGraph>(m, "GraphBase")
      .def(nb::new_([](const std::string& name, const std::optional<int>& opset) {
             return PyGraph{take(ModelBuilder::make(name, opset.value_or(kMaxOpset)))};
           }),
           nb::arg("name"), nb::arg("opset").none())
      .def_prop_ro("opset", [](const PyGraph& g) { return g.builder->opset(); })
      .def_prop_ro("name", [](const PyGraph& g) { return g.builder->name(); })
      .def(
          "_input",
          [](PyGraph& g, const std::string& name, const std::optional<std::string>& dtype,
             const std::optional<std::vector<BuilderDim>>& shape) {
            std::optional<DType> type;
            if (dtype) type = graph_dtype(*dtype);
            return take(g.builder->add_input(name, type, shape));
          },
          nb::arg("name"), nb::arg("dtype").none(), nb::arg("shape").none())
      .def("_constant", [](PyGraph& g, const std::string& name, const std::string& dtype,
                           nb::handle data) { return take(g.builder->add_constant(name, constant_of(dtype, data))); })
      .def("_node", &add_node, nb::arg("op"), nb::arg("domain"), nb::arg("inputs"), nb::arg("n_outputs"),
           nb::arg("attributes"), nb::arg("name"))
      .def("_output", [](PyGraph& g, const std::string& name, const PyGraph& owner,
                         int value) { take(g.builder->add_output(name, {owner.builder, value})); })
      .def("_name", [](const PyGraph& g, int value) { return g.builder->value_name(value); })
      .def(
          "_dtype",
          [](PyGraph& g, int value, bool infer) -> std::optional<std::string> {
            if (const auto dtype = g.builder->dtype_of(value)) return model_dtype_name(*dtype);
            if (!infer) return std::nullopt;
            return model_dtype_name(take(g.builder->type_of(value)).dtype);
          },
          nb::arg("value"), nb::arg("infer"))
      .def("_shape", [](PyGraph& g, int value) { return shape_of(take(g.builder->type_of(value))); })
      .def("_source", [](const PyGraph& g) { return PySource{take(g.builder->finish())}; })
      .def("__str__", [](const PyGraph& g) { return g.builder->to_text(); });
  m.def("_operator_names", [](const std::string& domain, int64_t opset) {
    nb::list names;
    for (const onnx_reader::OperatorSchema* schema : onnx_reader::schemas_of(domain, opset))
      names.append(std::string(schema->name));
    return names;
  });
  m.def("_dtype_text", [](const std::string& name) { return graph_dtype(name).to_string(); }, nb::arg("name"));
  // The address of a function as FettleHostCalls::call is one, which stays.
  m.def(
      "_set_host_calls",
      [](uintptr_t call) {
        using Call = int32_t (*)(void*, const FettleHostCall*);
        set_process_host_calls(reinterpret_cast<Call>(call), nullptr);
      },
      nb::arg("call"));
  m.def("_operator", &describe, nb::arg("domain"), nb::arg("name"), nb::arg("opset"));
}

}  // namespace fettle::python
