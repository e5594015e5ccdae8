#include "driver/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "driver/compile.h"
#include "driver/prepare.h"
#include "driver/reference.h"
#include "frontend/frontend.h"
#include "graph/op.h"
#include "graph/passes/optional_passes.h"
#include "graph/plan/partition.h"

namespace fettle {
namespace {

constexpr double kNoise = 1, kFactor = 16, kEpsilonsOfScale = 4;

struct Difference {
  std::string value;
  double distance = 0, tolerance = 0;
};

Result<ConstantTensor> to_constant(const Tensor& tensor, DType dtype) {
  FETTLE_TRY(TensorBuilder made, make_tensor(dtype, tensor.shape()));
  if (made.size_bytes != tensor.n_bytes()) return fail(ErrorCode::E705, "an input of another type");
  if (made.size_bytes > 0) std::memcpy(made.bytes.get(), tensor.data(), static_cast<size_t>(made.size_bytes));
  return std::move(made).finish();
}

double epsilon_of(DType dtype) {
  return dtype == kF64 ? 0x1p-52 : dtype == kF32 ? 0x1p-23 : dtype == kF16 ? 0x1p-10 : 0x1p-7;
}

bool is_float(const ConstantTensor& tensor) { return tensor.dtype.is_float(); }

// The largest |a - b|; infinite where one is NaN or infinite and the other is not.
double distance_of(const ConstantTensor& a, const ConstantTensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.n_elems(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double gap = std::abs(x - y);
    most = std::max(most, std::isnan(gap) ? INFINITY : gap);
  }
  return most;
}

double scale_of(const ConstantTensor& tensor) {
  double most = 0;
  for (int64_t i = 0; i < tensor.n_elems(); ++i)
    if (std::isfinite(tensor.at(i))) most = std::max(most, std::abs(tensor.at(i)));
  return most;
}

class Verifier {
 public:
  Verifier(const ModelFile& model, std::span<const NamedTensor> inputs, const ModelVerifyOptions& options)
      : model_(model), inputs_(inputs), options_(options) {
    for (const NamedTensor& input : inputs) shapes_[input.name] = input.tensor.shape();
  }

  Result<Verification> run() {
    FETTLE_TRY(file_, import());
    note_function(model_, file_, options_.progress);
    FETTLE_TRY_VOID(compute_reference());
    Verification verdict;
    for (const Node* node : exact_.left_out) verdict.left_out.push_back(origin_of(*node));
    FETTLE_TRY(const auto made, compiled({}, passes_left_out(options_.open)));
    for (const auto& [name, content] : made) verdict.compared += exact_.values.contains(name);
    const auto found = first_difference(made);
    if (!found) return verdict;
    verdict.value = found->value;
    verdict.distance = found->distance;
    verdict.tolerance = found->tolerance;
    FETTLE_TRY_VOID(find_node(*found, made, verdict));
    return find_passes(std::move(verdict));
  }

 private:
  using Values = std::map<std::string, ConstantTensor>;

  void say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  Result<Graph> import() const {
    return import_model(model_.path, {names_of(shapes_), options_.open.limits, model_.function});
  }

  Result<> compute_reference() {
    std::map<std::string, ConstantTensor> contents;
    for (const Value* input : file_.inputs())
      for (const NamedTensor& given : inputs_)
        if (given.name == input->name) {
          if (input->dtype().is_string()) return fail(ErrorCode::E603, "strings are not verified", input->name);
          FETTLE_TRY(ConstantTensor content, to_constant(given.tensor, input->dtype()));
          contents.emplace(input->name, std::move(content));
        }
    say("the reference");
    ReferenceOptions options{.max_operations = options_.max_operations};
    FETTLE_TRY(exact_, run_reference(file_, contents, options));
    options.noise = kNoise;
    FETTLE_TRY(noisy_, run_reference(file_, contents, options));
    return {};
  }

  static Origin origin_of(const Node& node) {
    return node.provenance.empty() ? Origin{std::string(node.op->name), node.name} : node.provenance[0];
  }

  // The values that the compiled model keeps, by their names in the file; `asked` are among them.
  Result<Values> compiled(const std::vector<std::string>& asked, const PassNames& without) const {
    FETTLE_TRY(Graph graph, import());
    std::set<std::string> names;
    for (const GraphOutput& output : graph.outputs()) names.insert(output.name);
    for (const std::string& name : asked)
      if (Value* value = graph.find_value(name); value && names.insert(name).second) graph.add_output(name, value);
    GraphObserver after;
    if (options_.sabotage) after = [&](std::string_view pass, const Graph&) { options_.sabotage(pass, graph); };
    FETTLE_TRY_VOID(
        prepare_graph(graph, shapes_, options_.open.sizes, options_.open.states, after, without, options_.open.limits));
    std::vector<std::pair<std::string, Value*>> kept;
    for (const Group& group : partition(graph))
      for (Value* value : group.outputs)
        if (exact_.values.contains(value->name) && names.insert(value->name).second)
          kept.emplace_back(value->name, value);
    for (const auto& [name, value] : kept) graph.add_output(name, value);
    CompileOptions compile;
    FETTLE_TRY(compile.target, target_of(options_.open));
    compile.threads = compile.target.threads;
    FETTLE_TRY(const CompiledModel model, compile_model(graph, compile));
    FettleOptions run{};
    run.threads = options_.open.threads;
    FETTLE_TRY(const Model runnable, model.instantiate(run));
    FETTLE_TRY(const std::vector<NamedTensor> outputs, runnable.run(inputs_));
    Values values;
    for (const NamedTensor& output : outputs) {
      const GraphOutput* made = nullptr;
      for (const GraphOutput& other : graph.outputs())
        if (other.name == output.name) made = &other;
      if (!made || made->value->dtype().is_string()) continue;
      FETTLE_TRY(ConstantTensor content, to_constant(output.tensor, made->value->dtype()));
      values.emplace(name_in_file(output.name), std::move(content));
    }
    return values;
  }

  // An output may be called otherwise than the value that it is.
  std::string name_in_file(const std::string& output) const {
    for (const GraphOutput& other : file_.outputs())
      if (other.name == output) return other.value->name;
    return output;
  }

  std::optional<Difference> difference(const std::string& name, const ConstantTensor& made) const {
    const auto exact = exact_.values.find(name), noisy = noisy_.values.find(name);
    if (exact == exact_.values.end() || noisy == noisy_.values.end()) return std::nullopt;
    const ConstantTensor& want = exact->second;
    if (made.dtype != want.dtype || made.shape != want.shape) return Difference{name, INFINITY, 0};
    const double spread = noisy->second.shape == want.shape ? distance_of(noisy->second, want) : INFINITY;
    double tolerance = spread * kFactor * std::sqrt(exact_.depth.at(name));
    if (is_float(want))
      tolerance += kEpsilonsOfScale * epsilon_of(want.dtype) * scale_of(want);
    else if (want.dtype.is_int() && is_rounded(name))
      tolerance += 1;
    const double distance = distance_of(made, want);
    return distance <= tolerance ? std::nullopt : std::optional(Difference{name, distance, tolerance});
  }

  // Whether floats became whole numbers there, one of which may be the other neighbour.
  bool is_rounded(const std::string& name) const {
    const Value* value = file_.find_value(name);
    return value && value->producer && value->producer->op->work == ElementWork::kConverts;
  }

  std::optional<Difference> first_difference(const Values& made) const {
    for (const Node* node : file_.nodes())
      for (const Value* output : node->outputs)
        if (const auto found = made.find(output->name); found != made.end())
          if (auto differs = difference(found->first, found->second)) return differs;
    return std::nullopt;
  }

  // The nodes that may be to blame: those between the value and values that agree, in the model's order.
  std::vector<const Node*> suspects(const std::string& value, const Values& made) const {
    std::set<const Node*> found;
    std::vector<const Value*> left = {file_.find_value(value)};
    while (!left.empty()) {
      const Value* next = left.back();
      left.pop_back();
      if (!next || !next->producer || !found.insert(next->producer).second) continue;
      for (const Value* input : next->producer->inputs)
        if (input && !made.contains(input->name)) left.push_back(input);
    }
    std::vector<const Node*> order;
    for (const Node* node : file_.nodes())
      if (found.contains(node)) order.push_back(node);
    return order;
  }

  Result<> find_node(const Difference& found, Values made, Verification& verdict) const {
    std::string value = found.value;
    std::vector<const Node*> blamed = suspects(value, made);
    // All that lies between: where the difference is still there, the first of these has it.
    std::vector<std::string> asked;
    for (const Node* node : blamed)
      for (const Value* output : node->outputs) asked.push_back(output->name);
    if (blamed.size() > 1) {
      say(fmt::format("{} nodes come into question", blamed.size()));
      FETTLE_TRY(Values more, compiled(asked, passes_left_out(options_.open)));
      if (const auto first = first_difference(more)) {
        blamed = suspects(first->value, more);
        verdict.value = first->value;
        verdict.distance = first->distance;
        verdict.tolerance = first->tolerance;
      } else {
        FETTLE_TRY_VOID(narrow(blamed, found.value));
      }
    }
    for (const Node* node : blamed) verdict.nodes.push_back(origin_of(*node));
    return {};
  }

  // Nodes that differ where they are together alone: each half is tried, as long as one still differs.
  Result<> narrow(std::vector<const Node*>& blamed, const std::string& value) const {
    size_t low = 0, high = blamed.size() - 1;  // up to `high` it differs
    while (high > low) {
      const size_t middle = low + (high - low) / 2;
      const std::string asked = blamed[middle]->outputs[0]->name;
      FETTLE_TRY(const Values made, compiled({asked}, passes_left_out(options_.open)));
      const auto first = first_difference(made);
      if (!first) break;  // what lies on both sides is needed
      if (first->value == asked)
        high = middle;
      else if (first->value == value)
        low = middle + 1;
      else
        break;
    }
    blamed = {blamed.begin() + static_cast<int64_t>(low), blamed.begin() + static_cast<int64_t>(high) + 1};
    return {};
  }

  Result<Verification> find_passes(Verification verdict) const {
    for (const std::string& pass : optional_passes()) {
      if (options_.open.without.contains(pass)) continue;
      say("without " + pass);
      PassNames without = passes_left_out(options_.open);
      without.insert(pass);
      const auto made = compiled({}, without);
      if (made && !first_difference(*made)) verdict.passes.push_back(pass);
    }
    return verdict;
  }

  const ModelFile& model_;
  const std::span<const NamedTensor> inputs_;
  const ModelVerifyOptions& options_;
  InputShapes shapes_;
  Graph file_;  // as it was imported
  ReferenceRun exact_, noisy_;
};

}  // namespace

Result<Verification> verify_model(const ModelFile& file, std::span<const NamedTensor> inputs,
                                  const ModelVerifyOptions& options) {
  return Verifier(file, inputs, options).run();
}

}  // namespace fettle
