// ONNX files whose bytes, versions, names or declarations are wrong.

#include <array>

#include "base/random.h"
#include "hostile/models.h"

namespace fettle::hostile {
namespace {

using onnx::ModelProto;
using onnx::TensorProto;

/// The file's bytes are spoilt, not the message.
Kind bytes_kind(std::string name, std::function<std::string(std::string bytes, int variant)> spoil, int variants = 3) {
  return {std::move(name), variants, [spoil = std::move(spoil)](int variant, const std::filesystem::path& folder) {
            write(folder / "model.onnx", spoil(small_model().SerializeAsString(), variant));
            return read_model(folder / "model.onnx");
          }};
}

onnx::TensorShapeProto* shape_of(onnx::ValueInfoProto* value) {
  return value->mutable_type()->mutable_tensor_type()->mutable_shape();
}

}  // namespace

std::vector<Kind> model_kinds() {
  return {
      bytes_kind("no bytes, or a few",
                 [](const std::string& bytes, int v) { return bytes.substr(0, static_cast<size_t>(v)); }),
      bytes_kind(
          "cut off",
          [](const std::string& bytes, int v) {
            return bytes.substr(0, bytes.size() * static_cast<size_t>(v + 1) / 8);
          },
          7),
      bytes_kind("text", [](const std::string&, int v) { return std::string(static_cast<size_t>(100 * v + 1), 'x'); }),
      bytes_kind(
          "noise",
          [](const std::string&, int v) {
            RandomStream random{static_cast<uint64_t>(v)};
            std::string noise(4096, '\0');
            for (char& c : noise) c = static_cast<char>(random.below(256));
            return noise;
          },
          8),
      bytes_kind("messages nested without end",
                 [](const std::string&, int v) {
                   std::string bytes;
                   for (int i = 0; i < 5000 * (v + 1); ++i) bytes += "\x3a\xff\xff\xff\x7f";
                   return bytes;
                 }),
      bytes_kind("a length beyond the file",
                 [](const std::string& bytes, int v) {
                   return bytes + std::array<std::string, 3>{"\x3a\x7f", std::string("\x3a\xff\xff\xff\xff\x07"),
                                                             "\x3a\x01"}[static_cast<size_t>(v)];
                 }),
      model_kind("no graph",
                 [](ModelProto& m, int v) {
                   m.clear_graph();
                   if (v == 1) m.clear_opset_import();
                   if (v == 2) m.set_producer_name("nobody");
                 }),
      model_kind(
          "an IR version that is none",
          [](ModelProto& m, int v) {
            m.set_ir_version(std::array<int64_t, 4>{0, -1, 1 << 20, INT64_MIN}[static_cast<size_t>(v)]);
          },
          4),
      model_kind(
          "an opset that is none",
          [](ModelProto& m, int v) {
            m.mutable_opset_import(0)->set_version(
                std::array<int64_t, 4>{0, -7, 1000, INT64_MAX}[static_cast<size_t>(v)]);
          },
          4),
      model_kind("an opset of another domain that is none",
                 [](ModelProto& m, int v) {
                   auto* entry = m.add_opset_import();
                   entry->set_domain(std::array<const char*, 3>{"ai.onnx.ml", "ai.onnx.preview",
                                                                "ai.onnx.preview.training"}[static_cast<size_t>(v)]);
                   entry->set_version(1000);
                 }),
      model_kind("two opsets of one domain",
                 [](ModelProto& m, int v) {
                   auto* entry = m.add_opset_import();
                   entry->set_domain(v == 0 ? "" : "ai.onnx");
                   entry->set_version(v == 2 ? 20 : 17);
                 }),
      model_kind("no opset",
                 [](ModelProto& m, int v) {
                   m.clear_opset_import();
                   if (v > 0) m.add_opset_import()->set_domain(v == 1 ? "com.example" : "ai.onnx.ml");
                 }),
      model_kind("a domain that nobody knows",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()->mutable_node(v % 2)->set_domain(v == 2 ? std::string(1 << 16, 'd')
                                                                             : "org.nowhere");
                 }),
      model_kind("an operator of a domain without opset",
                 [](ModelProto& m, int v) {
                   auto* node = m.mutable_graph()->mutable_node(0);
                   node->set_domain("ai.onnx.ml");
                   node->set_op_type(
                       std::array<const char*, 3>{"Binarizer", "Scaler", "TreeEnsemble"}[static_cast<size_t>(v)]);
                 }),
      model_kind("an operator that nobody knows",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()->mutable_node(0)->set_op_type(v == 0   ? ""
                                                                   : v == 1 ? "Frobnicate"
                                                                            : std::string(1 << 20, 'F'));
                 }),
      model_kind("an operator of a later opset",
                 [](ModelProto& m, int v) {
                   m.mutable_opset_import(0)->set_version(10);
                   m.mutable_graph()->mutable_node(0)->set_op_type(
                       std::array<const char*, 3>{"Gelu", "Mish", "HardSwish"}[static_cast<size_t>(v)]);
                 }),
      model_kind("an operator that is of no file",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()->mutable_node(0)->set_op_type(std::array<const char*, 3>{
                       "CausalMask", "ResizeByTables", "MaxPoolWithIndices"}[static_cast<size_t>(v)]);
                 }),
      model_kind("no outputs",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()->clear_output();
                   if (v == 1) m.mutable_graph()->clear_node();
                   if (v == 2) m.mutable_graph()->clear_input();
                 }),
      model_kind("an output that nothing makes",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()->add_output()->set_name(
                       std::array<std::string, 3>{"nowhere", "", std::string("y\0", 2)}[static_cast<size_t>(v)]);
                 }),
      model_kind("an output twice",
                 [](ModelProto& m, int v) {
                   add_value(m.mutable_graph()->add_output(), "y", {2, 3});
                   if (v == 1) m.mutable_graph()->mutable_output(1)->clear_type();
                   if (v == 2) add_value(m.mutable_graph()->add_output(), "y", {});
                 }),
      model_kind("an input twice",
                 [](ModelProto& m, int v) {
                   add_value(m.mutable_graph()->add_input(), "x",
                             v == 0 ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{v});
                 }),
      model_kind("an input without a name",
                 [](ModelProto& m, int v) {
                   add_value(m.mutable_graph()->add_input(), "", std::vector<int64_t>(static_cast<size_t>(v), 1));
                 }),
      model_kind("an input that nothing makes",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()->mutable_node(v % 2)->set_input(0, v == 2 ? std::string("x\0", 2) : "nowhere");
                 }),
      model_kind("a cycle",
                 [](ModelProto& m, int v) {
                   auto* relu = m.mutable_graph()->mutable_node(0);
                   if (v == 0) relu->set_input(0, "h");
                   if (v == 1) relu->set_input(0, "y");
                   if (v == 2) m.mutable_graph()->mutable_node()->SwapElements(0, 1);
                 }),
      model_kind("a value made twice",
                 [](ModelProto& m, int v) {
                   if (v == 0) add_node(m.mutable_graph(), "Relu", {"x"}, {"h"});
                   if (v == 1) m.mutable_graph()->mutable_node(0)->set_output(0, "x");
                   if (v == 2) m.mutable_graph()->mutable_node(1)->set_output(0, "w");
                 }),
      model_kind("an initializer twice",
                 [](ModelProto& m, int v) {
                   *m.mutable_graph()->add_initializer() = m.graph().initializer(0);
                   if (v == 1) m.mutable_graph()->mutable_initializer(1)->set_float_data(0, 9);
                   if (v == 2) m.mutable_graph()->mutable_initializer(0)->set_name("");
                 }),
      model_kind("an input unlike its initializer",
                 [](ModelProto& m, int v) {
                   add_value(m.mutable_graph()->add_input(), "w",
                             v == 0 ? std::vector<int64_t>{4, 4} : std::vector<int64_t>{12},
                             v == 2 ? TensorProto::INT64 : TensorProto::FLOAT);
                 }),
      model_kind("an output unlike its declaration",
                 [](ModelProto& m, int v) {
                   auto* output = m.mutable_graph()->mutable_output(0);
                   if (v == 0) shape_of(output)->mutable_dim(1)->set_dim_value(4);
                   if (v == 1) shape_of(output)->add_dim()->set_dim_value(1);
                   if (v == 2) output->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::DOUBLE);
                 }),
      model_kind("a value unlike its declaration",
                 [](ModelProto& m, int v) {
                   add_value(m.mutable_graph()->add_value_info(), "h",
                             v == 0   ? std::vector<int64_t>{4, 2}
                             : v == 1 ? std::vector<int64_t>{8}
                                      : std::vector<int64_t>{2, 4},
                             v == 2 ? TensorProto::INT32 : TensorProto::FLOAT);
                 }),
      model_kind("an input of a type that is none",
                 [](ModelProto& m, int v) {
                   auto* type = m.mutable_graph()->mutable_input(0)->mutable_type();
                   if (v == 0) type->clear_tensor_type();
                   if (v == 1) type->mutable_tensor_type()->set_elem_type(0);
                   if (v == 2) type->mutable_tensor_type()->set_elem_type(1 << 30);
                 }),
      model_kind("an input of unknown rank",
                 [](ModelProto& m, int v) {
                   auto* type = m.mutable_graph()->mutable_input(0)->mutable_type();
                   type->mutable_tensor_type()->clear_shape();
                   if (v == 1) m.mutable_graph()->mutable_input(0)->clear_type();
                   if (v == 2) type->mutable_sparse_tensor_type()->set_elem_type(1);
                 }),
      model_kind(
          "an initializer of the wrong length",
          [](ModelProto& m, int v) {
            auto* w = m.mutable_graph()->mutable_initializer(0);
            if (v == 0) w->add_float_data(1);
            if (v == 1) w->clear_float_data();
            if (v >= 2) {
              w->clear_float_data();
              w->set_raw_data(std::string(v == 2 ? 47 : 49, '\0'));
            }
          },
          4),
      model_kind("an initializer with its data twice",
                 [](ModelProto& m, int v) {
                   auto* w = m.mutable_graph()->mutable_initializer(0);
                   w->set_raw_data(std::string(48, '\0'));
                   if (v == 1) w->add_int64_data(1);
                   if (v == 2) {
                     w->clear_float_data();
                     w->set_data_location(TensorProto::EXTERNAL);
                   }
                 }),
      model_kind("an initializer with data of another type",
                 [](ModelProto& m, int v) {
                   auto* w = m.mutable_graph()->mutable_initializer(0);
                   w->set_data_type(std::array<int, 3>{TensorProto::INT64, TensorProto::DOUBLE,
                                                       TensorProto::FLOAT16}[static_cast<size_t>(v)]);
                 }),
      model_kind("an initializer of a type that is none",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()->mutable_initializer(0)->set_data_type(
                       std::array<int, 3>{0, -1, 12345}[static_cast<size_t>(v)]);
                 }),
      model_kind(
          "an initializer of extents that are none",
          [](ModelProto& m, int v) {
            m.mutable_graph()->mutable_initializer(0)->set_dims(
                0, std::array<int64_t, 4>{-1, INT64_MAX, INT64_MIN, int64_t{1} << 62}[static_cast<size_t>(v)]);
          },
          4),
      model_kind("sparse initializers",
                 [](ModelProto& m, int v) {
                   for (int i = 0; i <= v; ++i) m.mutable_graph()->add_sparse_initializer()->add_dims(v);
                 }),
      model_kind(
          "an If whose bodies do not fit",
          [](ModelProto& m, int v) {
            auto* graph = m.mutable_graph();
            add_value(graph->add_input(), "c", {}, TensorProto::BOOL);
            auto* branch = add_node(graph, "If", {"c"}, {"z"});
            add_body(branch, "then_branch", "a");
            if (v == 0) return;
            auto* other = add_body(branch, "else_branch", "b");
            if (v == 1) other->add_output()->set_name("b");
            if (v == 2) add_value(other->add_input(), "i", {2});
            if (v == 3) other->mutable_node(0)->set_input(0, "a");
          },
          4),
      model_kind(
          "a Loop whose body does not fit",
          [](ModelProto& m, int v) {
            auto* graph = m.mutable_graph();
            add_ints_tensor(graph, "n", {3})->clear_dims();
            auto* loop = add_node(graph, "Loop", {"n", "", "x"}, {"z"});
            auto* body = add_body(loop, "body", "out");
            if (v > 0) add_value(body->add_input(), "i", {}, TensorProto::INT64);
            if (v > 1) add_value(body->add_input(), "go", {}, TensorProto::BOOL);
            if (v > 2) add_value(body->add_input(), "s", {2, 4});
          },
          4),
  };
}

}  // namespace fettle::hostile
