// Model files as they are: what they say of their inputs, outputs and origin, and the same model with changes.

#include <memory>
#include <span>
#include <variant>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/output_file.h"
#include "binding.h"
#include "driver/open.h"
#include "frontend/onnx/description.h"
#include "frontend/onnx/import.h"
#include "frontend/saved/saved.h"
#include "model_source.h"

namespace fettle::python {
namespace {

/// The model of a source, read where it is a path.
OnnxModel model_of(const PySource& source, Result<OnnxModel> (&read)(const std::string&)) {
  if (const auto* file = std::get_if<ModelFile>(&source.source)) return take(read(file->path));
  return std::get<OnnxModel>(source.source);
}

nb::list listed(const std::vector<DescribedValue>& values) {
  nb::list list;
  for (const DescribedValue& value : values) {
    nb::list dims;
    for (const DescribedDim& dim : value.dims) {
      if (dim.extent >= 0)
        dims.append(dim.extent);
      else if (!dim.name.empty())
        dims.append(dim.name);
      else
        dims.append(nb::none());
    }
    nb::object shape = nb::none();
    if (value.has_shape) shape = dims;
    list.append(nb::make_tuple(value.name, value.type, shape));
  }
  return list;
}

nb::dict describe(const PySource& source) {
  const ModelDescription made = describe_model(model_of(source, read_onnx_outline));
  nb::dict dict;
  dict["producer"] = made.producer;
  dict["producer_version"] = made.producer_version;
  dict["domain"] = made.domain;
  dict["description"] = made.description;
  dict["graph_name"] = made.graph_name;
  dict["graph_description"] = made.graph_description;
  dict["version"] = made.version;
  dict["ir_version"] = made.ir_version;
  nb::dict opsets, metadata;
  for (const auto& [domain, version] : made.opsets) opsets[nb::str(domain.c_str())] = version;
  for (const auto& [key, value] : made.metadata) metadata[nb::str(key.c_str())] = value;
  dict["opsets"] = opsets;
  dict["metadata"] = metadata;
  dict["inputs"] = listed(made.inputs);
  dict["outputs"] = listed(made.outputs);
  dict["overridable"] = listed(made.overridable);
  nb::list nodes;
  for (const DescribedNode& node : made.nodes) nodes.append(nb::make_tuple(node.name, node.op_type, node.domain));
  dict["nodes"] = nodes;
  return dict;
}

std::string text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

/// initializers: name → (TensorProto's number of the type, shape, bytes or a list of strings' bytes, whether models may
/// be without it).
std::map<std::string, GivenInitializer> given_initializers(nb::dict initializers) {
  std::map<std::string, GivenInitializer> made;
  for (const auto& [name, content] : initializers) {
    GivenInitializer& given = made[nb::cast<std::string>(name)];
    given.type = nb::cast<int32_t>(content[0]);
    given.shape = nb::cast<std::vector<int64_t>>(content[1]);
    const nb::object data = content[2];
    given.is_optional = nb::cast<bool>(content[3]);
    if (nb::isinstance<nb::bytes>(data)) {
      given.bytes = text_of(nb::borrow<nb::bytes>(data));
      continue;
    }
    for (nb::handle text : data) given.strings.push_back(text_of(nb::cast<nb::bytes>(text)));
  }
  return made;
}

PySource changed(const PySource& source, std::map<std::string, int64_t> named, std::map<std::string, int64_t> denoted,
                 std::map<std::string, std::vector<int64_t>> shapes, nb::dict initializers, nb::dict files) {
  ModelChanges changes{.named_dims = std::move(named),
                       .denoted_dims = std::move(denoted),
                       .input_shapes = std::move(shapes),
                       .initializers = given_initializers(std::move(initializers))};
  for (const auto& [location, content] : files) {
    const auto kept = std::make_shared<std::string>(text_of(nb::cast<nb::bytes>(content)));
    changes.files[nb::cast<std::string>(location)] = {{kept, reinterpret_cast<const std::byte*>(kept->data())},
                                                      static_cast<int64_t>(kept->size())};
  }
  return {take(changed_model(model_of(source, read_onnx), changes))};
}

void save(const PySource& source, const std::string& path) {
  const Graph graph = take(import_onnx(std::get<OnnxModel>(source.source)));
  OutputFile file = take(OutputFile::create(path));
  take(save_graph(graph, [&](std::string_view bytes) { return file.write(bytes); }));
  take(file.commit());
}

}  // namespace

void bind_model_files(nb::module_& m) {
  m.def("_is_library_path", &is_library_path, nb::arg("path"));
  m.def("_save_graph", &save, nb::arg("source"), nb::arg("path"), "As `fettle convert` writes it.");
  m.def(
      "_lacks_graph",
      [](const nb::bytes& model) { return lacks_graph(std::as_bytes(std::span(model.c_str(), model.size()))); },
      nb::arg("model"), "Whether these bytes can be read as ONNX's, and have no graph.");
  m.def("_describe_model", &describe, nb::arg("source"),
        "What a model's file says of its inputs, outputs and origin; shapes are lists of int, name or None, or None.");
  m.def("_model_with", &changed, nb::arg("source"), nb::arg("named_dims") = std::map<std::string, int64_t>{},
        nb::arg("denoted_dims") = std::map<std::string, int64_t>{},
        nb::arg("shapes") = std::map<std::string, std::vector<int64_t>>{}, nb::arg("initializers") = nb::dict{},
        nb::arg("files") = nb::dict{}, "The model with that in it; see frontend/onnx/description.h.");
}

}  // namespace fettle::python
