// The tests that the ONNX package carries, run through importer, passes and interpreter. Those of nodes are called by
// their names, those of its other sets "set/name". conformance_cases.txt lists those that must pass, and
// conformance_fixed.txt those of them that must not with all sizes open.

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "frontend/onnx/import.h"
#include "frontend/onnx/normalize.h"
#include "frontend/onnx/structures.h"
#include "frontend/onnx/tensor_reader.h"
#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "graph/plan/testing.h"
#include "graph/strings.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

fs::path package_tests() {
  const fs::path lib = fs::path(FETTLE_SOURCE_DIR) / "build/python/lib";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(lib, error)) {
    const fs::path data = entry.path() / "site-packages/onnx/backend/test/data";
    if (fs::is_directory(data)) return data;
  }
  return {};
}

fs::path folder_of(const fs::path& root, const std::string& name) {
  return name.find('/') == std::string::npos ? root / "node" / name : root / name;
}

std::vector<std::string> all_cases(const fs::path& root) {
  std::vector<std::string> names;
  for (const std::string set : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    for (const auto& entry : fs::directory_iterator(root / set))
      names.push_back((set == "node" ? "" : set + "/") + entry.path().filename().string());
  return names;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Outcome {
  enum Kind { kPassed, kUnsupported, kFailed } kind;
  std::string why;
};

std::optional<ConstantTensor> read_value(const fs::path& path, onnx_reader::ExternalFiles& files) {
  auto proto = std::make_shared<onnx::TensorProto>();
  if (!proto->ParseFromString(read_file(path))) return std::nullopt;
  auto tensor = onnx_reader::read_tensor(*proto, proto, files);
  if (!tensor) return std::nullopt;
  return std::move(*tensor);
}

using onnx_reader::StructureKind;
using Elements = std::vector<ConstantTensor>;

/// A sequence, an optional of one, or an optional tensor, as the model's type says.
struct StructureValue {
  StructureKind kind;
  bool is_present = true;
  Elements elements;
};

// Fields of a SequenceProto or an OptionalProto (onnx-data.proto).
constexpr int kTensorField = 3, kSequenceField = 5;

/// The bytes of each field of this number, in a message whose fields they are.
std::vector<std::string> fields(const std::string& message, int number) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  std::vector<std::string> found;
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) != number) {
      if (!WireFormatLite::SkipField(&in, tag)) return found;
      continue;
    }
    uint32_t size = 0;
    if (!in.ReadVarint32(&size) || !in.ReadString(&found.emplace_back(), static_cast<int>(size))) return found;
  }
  return found;
}

/// Nothing where it is of another kind, or cannot be read.
std::optional<StructureValue> read_structure(const fs::path& path, const onnx::TypeProto& type,
                                             onnx_reader::ExternalFiles& files) {
  const auto kind = onnx_reader::kind_of(type, "");
  if (!kind || (kind->content != StructureKind::kSequence && kind->content != StructureKind::kTensor)) return {};
  StructureValue value{*kind, true, {}};
  const std::string bytes = read_file(path);
  std::vector<std::string> tensors = fields(bytes, kTensorField);
  if (kind->is_optional) {
    const std::vector<std::string> sequences = fields(bytes, kSequenceField);
    value.is_present = !tensors.empty() || !sequences.empty();
    if (!sequences.empty()) tensors = fields(sequences[0], kTensorField);
  }
  for (const std::string& tensor : tensors) {
    const auto proto = std::make_shared<onnx::TensorProto>();
    if (!proto->ParseFromString(tensor)) return {};
    auto read = onnx_reader::read_tensor(*proto, proto, files);
    if (!read) return {};
    value.elements.push_back(std::move(*read));
  }
  return value;
}

/// As the tensors that the graph's inputs are (docs/structures.md).
std::vector<ConstantTensor> tensors_of(const StructureValue& value, std::span<Value* const> inputs) {
  std::vector<ConstantTensor> tensors;
  const auto zeros = [](const TensorType& type) {
    std::vector<int64_t> shape;
    for (const Dim& dim : type.shape) shape.push_back(dim.is_number() ? dim.value() : 0);
    return std::move(*make_tensor(type.dtype, shape)).finish();
  };
  if (value.kind.is_optional) tensors.push_back(scalar(value.is_present ? 1 : 0, kBool));
  if (!value.is_present) {
    for (const Value* input : inputs.subspan(1)) tensors.push_back(zeros(*input->type));
  } else if (value.kind.content == StructureKind::kTensor) {
    tensors.push_back(value.elements[0]);
  } else {
    const Value &data = *inputs[inputs.size() - 2], &dims = *inputs.back();
    size_t rank = dims.shape()[1].is_number() ? static_cast<size_t>(dims.shape()[1].value()) : 0;
    int64_t total = 0;
    for (const ConstantTensor& element : value.elements) {
      rank = std::max(rank, element.shape.size());
      total += element.n_elems();
    }
    TensorBuilder all = *make_tensor(data.dtype(), std::vector<int64_t>{total});
    TensorBuilder extents =
        *make_tensor(kI64, std::vector<int64_t>{std::ssize(value.elements), static_cast<int64_t>(rank)});
    size_t at = 0, next = 0;
    for (const ConstantTensor& element : value.elements) {
      std::memcpy(all.bytes.get() + at, element.data(), static_cast<size_t>(element.size_bytes));
      at += static_cast<size_t>(element.size_bytes);
      for (size_t d = 0; d < rank; ++d)
        extents.elems<int64_t>()[next++] = d < element.shape.size() ? element.shape[d] : -1;
    }
    tensors.push_back(std::move(all).finish());
    tensors.push_back(std::move(extents).finish());
  }
  return tensors;
}

// steps: by how much a whole number may differ.
std::string compare(const ConstantTensor& got, const ConstantTensor& want, int64_t steps) {
  if (got.dtype != want.dtype || got.shape != want.shape)
    return fmt::format("{} {} instead of {} {}", got.dtype.to_string(),
                       to_string(Shape(got.shape.begin(), got.shape.end())), want.dtype.to_string(),
                       to_string(Shape(want.shape.begin(), want.shape.end())));
  const bool half = want.dtype == kF16 || want.dtype == kBF16;
  // The tolerances of the package's own runner; 16-bit floats are computed at the precision of their type.
  const double relative = half ? 1e-2 : 1e-3, absolute = half ? 1e-3 : 1e-7;
  for (int64_t i = 0; i < want.n_elems(); ++i) {
    if (want.dtype.is_string() && got.int_at(i) != want.int_at(i))
      return fmt::format("element {} is \"{}\", not \"{}\"", i, string_of(got.int_at(i)), string_of(want.int_at(i)));
    if (!want.dtype.is_float() && !want.dtype.is_small_float()) {
      if (std::abs(got.int_at(i) - want.int_at(i)) > steps)
        return fmt::format("element {} is {}, not {}", i, got.int_at(i), want.int_at(i));
      continue;
    }
    const double x = got.at(i), y = want.at(i);
    const bool is_near = want.dtype.is_float() && std::abs(x - y) <= absolute + relative * std::abs(y);
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) || is_near;
    if (!same) return fmt::format("element {} is {}, not {}", i, x, y);
  }
  return {};
}

using Tensors = std::vector<ConstantTensor>;

// Cases whose outputs are random: the package's are one draw of many.
constexpr std::string_view kRandom[] = {"test_bernoulli",
                                        "test_bernoulli_double",
                                        "test_bernoulli_double_expanded",
                                        "test_bernoulli_expanded",
                                        "test_bernoulli_seed",
                                        "test_bernoulli_seed_expanded",
                                        "test_training_dropout",
                                        "test_training_dropout_default",
                                        "test_training_dropout_default_mask",
                                        "test_training_dropout_mask"};
bool is_random(const std::string& name) { return std::ranges::find(kRandom, name) != std::end(kRandom); }

// `count` of events of these probabilities: four deviations from what is expected are too many.
std::string check_count(double count, double expected, double variance) {
  if (std::abs(count - expected) <= 4 * std::sqrt(variance) + 1) return {};
  return fmt::format("{} of {} expected", count, expected);
}

// Ones, about as many as the probabilities say.
std::string compare_bernoulli(const Tensors& in, const Tensors& got) {
  double count = 0, expected = 0, variance = 0;
  for (int64_t i = 0; i < in[0].n_elems(); ++i) {
    const double p = in[0].at(i), x = got[0].at(i);
    if (x != 0 && x != 1) return fmt::format("element {} is {}", i, x);
    count += x;
    expected += p;
    variance += p * (1 - p);
  }
  return check_count(count, expected, variance);
}

// What is kept is scaled, as the mask says, and about as much is dropped as the ratio says.
std::string compare_dropout(const Tensors& in, const Tensors& got) {
  const double ratio = in.size() > 1 && in[1].n_elems() == 1 ? in[1].at(0) : 0.5;
  const int64_t n = in[0].n_elems();
  double dropped = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = got[0].at(i), kept = in[0].at(i) / (1 - ratio);
    if (x != 0 && std::abs(x - kept) > 1e-5 * std::abs(kept)) return fmt::format("element {} is {}", i, x);
    if (got.size() > 1 && (got[1].int_at(i) != 0) != (x != 0)) return fmt::format("the mask of element {}", i);
    dropped += x == 0;
  }
  return check_count(dropped, ratio * static_cast<double>(n), ratio * (1 - ratio) * static_cast<double>(n));
}

std::string compare_random(const std::string& name, const Tensors& in, const Tensors& got, const Tensors& want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (got[i].dtype != want[i].dtype || got[i].shape != want[i].shape) return "the type is another";
  return name.find("dropout") == std::string::npos ? compare_bernoulli(in, got) : compare_dropout(in, got);
}

// What the graph's outputs, from `first` on, are of this value; what is different.
std::string compare_structure(const std::vector<const ConstantTensor*>& outputs, const StructureValue& want,
                              int64_t steps) {
  size_t next = 0;
  if (want.kind.is_optional && (outputs[next++]->int_at(0) != 0) != want.is_present)
    return want.is_present ? "nothing instead of something" : "something instead of nothing";
  if (!want.is_present) return {};
  if (want.kind.content == StructureKind::kTensor) return compare(*outputs[next], want.elements[0], steps);
  const ConstantTensor &data = *outputs[next], &dims = *outputs[next + 1];
  if (dims.shape[0] != std::ssize(want.elements))
    return fmt::format("{} elements instead of {}", dims.shape[0], want.elements.size());
  int64_t begin = 0;
  for (int64_t i = 0; i < dims.shape[0]; ++i) {
    std::vector<int64_t> shape;
    for (int64_t d = 0; d < dims.shape[1]; ++d)
      if (const int64_t extent = dims.int_at(i * dims.shape[1] + d); extent >= 0) shape.push_back(extent);
    TensorBuilder got = *make_tensor(data.dtype, shape);
    std::memcpy(got.bytes.get(), data.bytes.get() + begin, static_cast<size_t>(got.size_bytes));
    begin += got.size_bytes;
    const std::string difference = compare(std::move(got).finish(), want.elements[static_cast<size_t>(i)], steps);
    if (!difference.empty()) return fmt::format("element {}: {}", i, difference);
  }
  return {};
}

// Inputs that must be known when a model is compiled become initializers.
bool is_parameter(const onnx::ModelProto& model, const std::string& name) {
  for (const auto& node : model.graph().node()) {
    const OpDef* op = find_op(onnx_reader::newest_name(node.op_type()));
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i) != name) continue;
      if (node.op_type() == "Range" || (node.op_type() == "OneHot" && i == 1) || (node.op_type() == "Dropout" && i > 0))
        return true;
      if (op)
        for (const ParamInput& param : op->params)
          if (param.index == i) return true;
    }
  }
  return false;
}

/// Sizes of the inputs are given, or open: then the program for all sizes runs with those of the case. Or they are
/// given, and what shapes depend on is data.
enum class Sizes : uint8_t { kFixed, kOpen, kByData };

std::string name_of(Sizes sizes) {
  static constexpr const char* kNames[] = {"fixed", "open", "by_data"};
  return kNames[static_cast<size_t>(sizes)];
}

// Each extent but 1, which broadcasts, becomes a size of its own: "W.2". Those of `fixed` stay.
void open_sizes(Graph& graph, const std::set<std::string>& fixed) {
  for (Value* input : graph.inputs())
    for (size_t d = 0; d < input->type->shape.size(); ++d) {
      Dim& dim = input->type->shape[d];
      const std::string name = fmt::format("{}.{}", input->name, d);
      if (!(dim == Dim(1)) && !fixed.contains(name))
        dim = Dim::symbol(name, 0, kMaxDim, 1, std::max<int64_t>(1, dim.value()));
    }
}

Result<std::map<std::string, ConstantTensor>> outputs_of(const Graph& graph,
                                                         const std::map<std::string, ConstantTensor>& inputs,
                                                         Sizes sizes) {
  const auto is_defined = [](const Node* node) { return is_size_definition(*node) || !defined_sizes(*node).empty(); };
  if (sizes == Sizes::kFixed && std::ranges::none_of(graph.nodes(), is_defined))
    return evaluate(graph, inputs, interpreter_executor());
  FETTLE_TRY_VOID(require_sizes(graph));
  FETTLE_TRY(Plan plan, make_plan(graph));
  assign_memory(plan, [](int) { return true; });
  PlanRunner runner(graph, plan, inputs);
  if (const auto broken = runner.broken_rule()) return fail(ErrorCode::E705, *broken);
  return runner.run();
}

Outcome run_case(const fs::path& folder, Sizes sizes, const std::set<std::string>& fixed = {}, int64_t steps = 0) {
  const std::string name_of_case = folder.filename().string();
  onnx::ModelProto model;
  if (!model.ParseFromString(read_file(folder / "model.onnx")))
    return {Outcome::kUnsupported, "the model cannot be parsed"};
  for (int set = 0;; ++set) {
    const fs::path data = folder / fmt::format("test_data_set_{}", set);
    if (!fs::is_directory(data)) break;
    onnx_reader::ExternalFiles files(data.string());
    onnx::ModelProto bound = model;
    std::map<std::string, ConstantTensor> inputs;
    std::map<std::string, std::vector<int64_t>> shapes;
    Tensors given, got, wanted;
    int n_files = 0;
    for (const auto& input : model.graph().input()) {
      const std::string& name = input.name();
      if (std::ranges::any_of(model.graph().initializer(), [&](const auto& made) { return made.name() == name; }))
        continue;
      const fs::path file = data / fmt::format("input_{}.pb", n_files++);
      if (!input.type().has_tensor_type()) continue;  // read when the graph is known
      auto tensor = read_value(file, files);
      if (!tensor) return {Outcome::kUnsupported, "an input that is no tensor of a known type"};
      given.push_back(*tensor);
      if (sizes != Sizes::kByData && is_parameter(model, name)) {
        auto* initializer = bound.mutable_graph()->add_initializer();
        if (!initializer->ParseFromString(read_file(file)))
          return {Outcome::kUnsupported, "an input that cannot be read"};
        initializer->set_name(name);
        continue;
      }
      shapes[name] = tensor->shape;
      inputs.emplace(name, std::move(*tensor));
    }
    const std::string bytes = bound.SerializeAsString();
    auto graph = import_onnx_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, data.string());
    if (!graph) {
      const bool known = graph.error().code == ErrorCode::E603 || graph.error().code == ErrorCode::E609;
      return {known ? Outcome::kUnsupported : Outcome::kFailed, graph.error().to_string()};
    }
    std::set<std::string> kept = fixed;
    for (const GraphStructure& made : graph->structures()) {
      if (made.is_output) continue;
      int i = 0;
      while (model.graph().input(i).name() != made.name) ++i;
      const auto value = read_structure(data / fmt::format("input_{}.pb", i), model.graph().input(i).type(), files);
      if (!value) return {Outcome::kUnsupported, "an input that is no tensors of a known type"};
      const std::span<Value* const> parts(graph->inputs().begin() + made.first, static_cast<size_t>(made.count));
      std::vector<ConstantTensor> tensors = tensors_of(*value, parts);
      for (size_t k = 0; k < parts.size(); ++k) {
        shapes[parts[k]->name] = tensors[k].shape;
        inputs.emplace(parts[k]->name, std::move(tensors[k]));
      }
      kept.insert(parts.back()->name + ".1");  // a rank is no size
    }
    if (auto bind = bind_shapes(*graph, shapes); !bind) return {Outcome::kFailed, bind.error().to_string()};
    if (sizes == Sizes::kOpen) open_sizes(*graph, kept);
    if (auto done = optimize(*graph); !done) {
      const bool known = done.error().code == ErrorCode::E603 || done.error().code == ErrorCode::E604;
      return {known ? Outcome::kUnsupported : Outcome::kFailed, done.error().to_string()};
    }
    for (const GraphState& state : graph->states())  // which begin as zeros
      inputs.emplace(state.input->name, *filled(0, state.input->dtype(), state.input->extents()));
    auto outputs = outputs_of(*graph, inputs, sizes);
    if (!outputs)
      return {outputs.error().code == ErrorCode::E604 || outputs.error().code == ErrorCode::E705 ? Outcome::kUnsupported
                                                                                                 : Outcome::kFailed,
              outputs.error().to_string()};
    for (int i = 0; i < model.graph().output_size(); ++i) {
      const onnx::ValueInfoProto& output = model.graph().output(i);
      const fs::path file = data / fmt::format("output_{}.pb", i);
      std::string difference;
      const bool is_structure = std::ranges::any_of(graph->structures(), [&](const GraphStructure& made) {
        return made.is_output && made.name == output.name();
      });
      if (!is_structure) {
        const auto want = read_value(file, files);
        if (!want) return {Outcome::kUnsupported, "an output that is no tensor of a known type"};
        got.push_back(outputs->at(output.name()));
        wanted.push_back(*want);
        if (!is_random(name_of_case)) difference = compare(got.back(), wanted.back(), steps);
      } else {
        const auto want = read_structure(file, output.type(), files);
        if (!want) return {Outcome::kUnsupported, "an output that is no tensors of a known type"};
        std::vector<const ConstantTensor*> parts;
        for (const std::string_view suffix : want->kind.suffixes())
          parts.push_back(&outputs->at(output.name() + std::string(suffix)));
        difference = compare_structure(parts, *want, steps);
      }
      if (!difference.empty()) return {Outcome::kFailed, difference};
    }
    if (is_random(name_of_case)) {
      const std::string difference = compare_random(name_of_case, given, got, wanted);
      if (!difference.empty()) return {Outcome::kFailed, difference};
    }
  }
  return {Outcome::kPassed, {}};
}

std::vector<std::string> lines_of(const char* file) {
  std::ifstream in(fs::path(FETTLE_SOURCE_DIR) / "src/frontend/onnx" / file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  return lines;
}

std::set<std::string> expected_cases() {
  const std::vector<std::string> lines = lines_of("conformance_cases.txt");
  return {lines.begin(), lines.end()};
}

/// Why a case is refused where all its sizes are open, and those of its sizes without which it isn't.
struct Refusal {
  std::set<std::string> fixed;
  std::string reason;
};

// "test_basic_conv_with_padding W.2 W.3: kernel extents"
std::map<std::string, Refusal> refused_cases() {
  std::map<std::string, Refusal> cases;
  for (const std::string& line : lines_of("conformance_fixed.txt")) {
    const size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << line;
    std::istringstream words(line.substr(0, colon));
    std::string name;
    words >> name;
    Refusal& refusal = cases[name];
    for (std::string size; words >> size;) refusal.fixed.insert(size);
    refusal.reason = line.substr(colon + 2);
  }
  return cases;
}

// FETTLE_CONFORMANCE_REPORT=FILE writes one line for every case: passed, unsupported or failed, and why.
class OnnxConformance : public testing::TestWithParam<Sizes> {};

TEST_P(OnnxConformance, ListedCasesPass) {
  const fs::path root = package_tests();
  ASSERT_FALSE(root.empty()) << "the ONNX package with its node tests is not installed: make setup";
  const auto expected = expected_cases();
  ASSERT_FALSE(expected.empty());
  const char* report_path = std::getenv("FETTLE_CONFORMANCE_REPORT");
  std::ofstream report;
  if (report_path) report.open(report_path);
  std::set<std::string> names = expected;
  if (report_path)
    for (const std::string& name : all_cases(root)) names.insert(name);
  std::map<std::string, Refusal> refused;
  if (GetParam() == Sizes::kOpen) refused = refused_cases();
  size_t passed = 0, unknown = 0;
  for (const std::string& name : names) {
    Outcome outcome = run_case(folder_of(root, name), GetParam());
    if (const auto refusal = refused.find(name); refusal != refused.end()) {
      const auto& [fixed, reason] = refusal->second;
      const bool is_told = outcome.kind == Outcome::kUnsupported && outcome.why.find(reason) != std::string::npos;
      EXPECT_TRUE(is_told) << name << ": " << outcome.why;
      outcome = fixed.empty() ? Outcome{Outcome::kPassed, {}} : run_case(folder_of(root, name), GetParam(), fixed);
    }
    passed += outcome.kind == Outcome::kPassed;
    // Whether a model is trained, say, must be known.
    const bool may_be_refused = GetParam() == Sizes::kByData && outcome.kind == Outcome::kUnsupported &&
                                outcome.why.find("E60") != std::string::npos;
    unknown += may_be_refused;
    if (expected.count(name) && !may_be_refused) {
      EXPECT_EQ(outcome.kind, Outcome::kPassed) << name << ": " << outcome.why;
    }
    static constexpr const char* kNames[] = {"passed", "unsupported", "failed"};
    if (report_path) report << kNames[outcome.kind] << ' ' << name << ' ' << outcome.why << std::endl;
  }
  RecordProperty("passed", static_cast<int>(passed));
  fmt::print("{} of {} cases passed\n", passed, names.size());
  constexpr size_t kMayBeUnknown = 5;
  EXPECT_TRUE(report_path || unknown <= kMayBeUnknown) << unknown;
}
// Operators of ONNX Runtime's own, against ONNX Runtime (ort_cases.py). Where sums of floats are quantised, a sum near
// the middle may become either neighbour.
TEST(OrtConformance, OperatorsGiveWhatOnnxRuntimeGives) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("fettle_ort_cases_{}", getpid());
  fs::create_directories(folder);
  const std::string command = fmt::format("{0}/build/python/bin/python {0}/src/frontend/onnx/ort_cases.py {1}",
                                          FETTLE_SOURCE_DIR, folder.string());
  ASSERT_EQ(std::system(command.c_str()), 0) << "ONNX Runtime is not installed: make setup";
  int passed = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const Outcome outcome = run_case(entry.path(), Sizes::kFixed, {}, /*steps=*/1);
    EXPECT_EQ(outcome.kind, Outcome::kPassed) << entry.path().filename().string() << ": " << outcome.why;
    passed += outcome.kind == Outcome::kPassed;
  }
  EXPECT_GE(passed, 114);
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Sizes, OnnxConformance, testing::Values(Sizes::kFixed, Sizes::kOpen, Sizes::kByData),
                         [](const auto& sizes) { return name_of(sizes.param); });

}  // namespace
}  // namespace fettle
