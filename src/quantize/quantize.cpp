#include "quantize/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "frontend/onnx/importer.h"
#include "quantize/histogram.h"
#include "quantize/model_index.h"
#include "quantize/rewriting.h"

namespace fettle::quantize {
namespace {

using onnx::NodeProto;
using onnx_reader::node_label;
using onnx_reader::op_label;

/// What QuantizeLinear needs, and its `axis`.
constexpr int kQuantizeOpset = 10, kPerAxisOpset = 13;

/// Power of a signal, and of what another differs from it.
class SignalToNoise {
 public:
  void add(double signal, double other) {
    signal_ += signal * signal;
    noise_ += (signal - other) * (signal - other);
  }
  double decibels() const { return noise_ == 0 ? INFINITY : 10 * std::log10(signal_ / noise_); }

 private:
  double signal_ = 0, noise_ = 0;
};

const NamedTensor* find(const std::vector<NamedTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

class Quantizer {
 public:
  Quantizer(const OnnxModel& model, const Samples& samples, const Options& options)
      : model_(model), samples_(samples), options_(options), open_(options.open), index_(model) {}

  Result<QuantizedModel> run() {
    if (samples_.count == 0) return fail(ErrorCode::E709, "there are no samples to calibrate on");
    FETTLE_TRY_VOID(check_opset());
    FETTLE_TRY_VOID(check_excluded());
    FETTLE_TRY_VOID(look_at_weights());
    FETTLE_TRY(open_.shapes, common_shapes(samples_));
    selection_ = selected();
    if (selection_.n_products > 0) FETTLE_TRY_VOID(observe());
    selection_ = selected();  // without what turned out to be no floats
    if (selection_.n_products == 0) return fail(ErrorCode::E709, "nothing of it can become bytes" + reasons());
    FETTLE_TRY(rewritten_,
               rewrite(index_, model_, selection_, parameters(), options_.activations, options_.per_channel));
    if (options_.measures_errors) FETTLE_TRY_VOID(measure());
    return result();
  }

 private:
  void say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  Result<> check_opset() const {
    const int64_t opset = index_.opset(), least = options_.per_channel ? kPerAxisOpset : kQuantizeOpset;
    if (opset >= least) return {};
    return fail(ErrorCode::E609,
                fmt::format("opset {}, and {} needs {}: convert it with onnx.version_converter{}", opset,
                            options_.per_channel ? "a scale for each channel" : "QuantizeLinear", least,
                            opset >= kQuantizeOpset ? ", or take one scale for each tensor" : ""),
                model_.label);
  }

  Result<> check_excluded() const {
    for (const std::string& name : options_.exclude)
      if (std::ranges::none_of(index_.graph().node(), [&](const NodeProto& node) { return is_called(node, name); }))
        return fail(ErrorCode::E709, fmt::format("there is no node \"{}\" to exclude", name), model_.label);
    return {};
  }

  static bool is_called(const NodeProto& node, const std::string& name) {
    return node_label(node) == name || op_label(node) == name || std::ranges::count(node.output(), name) > 0;
  }

  /// Weights that are not finite stay float.
  Result<> look_at_weights() {
    for (const WeightUse& use : selected().weights)
      for (const int input : {use.input, use.bias}) {
        if (input < 0) continue;
        const std::string& name = index_.node(use.node).input(input);
        FETTLE_TRY(const ConstantTensor content, index_.content(*index_.constant(name)));
        if (!std::ranges::all_of(content.elems<float>(), [](float w) { return std::isfinite(w); }))
          refused_[name] = fmt::format("\"{}\" is not finite everywhere", name);
      }
    return {};
  }

  Selection selected() const {
    return select(
        index_,
        [&](const NodeProto& node) {
          return std::ranges::any_of(options_.exclude, [&](const auto& name) { return is_called(node, name); });
        },
        [&](const std::string& value) {
          const auto found = refused_.find(value);
          return found == refused_.end() ? std::string() : found->second;
        });
  }

  std::string reasons() const {
    std::map<std::string, int> counts;
    for (const LeftNode& node : selection_.left) ++counts[node.reason];
    std::string text;
    for (const auto& [reason, count] : counts)
      text += fmt::format("{} {} ({} node{})", text.empty() ? ":" : ";", reason, count, count == 1 ? "" : "s");
    return text;
  }

  /// Values in the model's order.
  std::vector<std::string> values_in_order() const {
    std::vector<std::string> names;
    const auto add = [&](const std::string& name) {
      if (selection_.groups.contains(name)) names.push_back(name);
    };
    for (const auto& input : index_.graph().input()) add(input.name());
    for (const NodeProto& node : index_.graph().node())
      for (const std::string& output : node.output()) add(output);
    return names;
  }

  Result<> observe() {
    say(fmt::format("{} values are observed on {} sample{}", selection_.groups.size(), samples_.count,
                    samples_.count == 1 ? "" : "s"));
    FETTLE_TRY(observed_, group_observed(model_, values_in_order(), open_));
    for (const std::string& name : observed_.lost) refused_[name] = fmt::format("\"{}\" is no tensor", name);
    for (const std::vector<std::string>& names : observed_.groups) {
      FETTLE_TRY(const Model model, open_observed(model_, names, open_));
      for (size_t i = 0; i < samples_.count; ++i) {
        FETTLE_TRY(const std::vector<NamedTensor> outputs, run_sample(model, i));
        for (const std::string& name : names) take(name, find(outputs, name));
      }
      if (observed_.groups.size() == 1 && options_.measures_errors) floats_ = model;
    }
    for (const auto& [name, histogram] : histograms_)
      if (histogram.has_nonfinite()) refused_[name] = fmt::format("\"{}\" is not finite on the samples", name);
    return {};
  }

  Result<std::vector<NamedTensor>> run_sample(const Model& model, size_t i) const {
    FETTLE_TRY(const std::vector<NamedTensor> inputs, samples_.read(i));
    auto outputs = model.run(inputs);
    if (!outputs) {
      std::string& where = outputs.error().where;
      where = fmt::format("sample {}{}{}", i + 1, where.empty() ? "" : ": ", where);
    }
    return outputs;
  }

  void take(const std::string& name, const NamedTensor* output) {
    if (!output)
      refused_[name] = fmt::format("\"{}\" is not computed", name);
    else if (output->tensor.dtype() != FETTLE_F32)
      refused_[name] = fmt::format("\"{}\" is {}", name, output->tensor.type_to_string());
    else
      histograms_[name].add(output->tensor.elems<float>());
  }

  Range range_of(const std::string& name) const {
    const Histogram& histogram = histograms_.at(name);
    return options_.method == RangeMethod::kPercentile ? histogram.percentile(options_.percentile)
                                                       : histogram.extremes();
  }

  /// Values of one group have the range that holds all of theirs.
  std::map<int, Affine> parameters() const {
    std::map<int, Range> ranges;
    for (const auto& [name, group] : selection_.groups) {
      const Range range = range_of(name);
      const auto [place, is_new] = ranges.emplace(group, range);
      place->second = {std::min(place->second.least, range.least), std::max(place->second.most, range.most)};
    }
    std::map<int, Affine> made;
    for (const auto& [group, range] : ranges) made[group] = affine_of(range, options_.activations);
    return made;
  }

  /// Both models run on all samples, with the values in the same groups as before.
  Result<> measure() {
    say("the errors are measured");
    for (const std::vector<std::string>& names : observed_.groups) {
      std::vector<std::string> theirs;
      for (const std::string& name : names)
        if (const auto found = rewritten_.dequantized.find(name); found != rewritten_.dequantized.end())
          theirs.push_back(found->second);
      if (!floats_) {
        FETTLE_TRY(floats_, open_observed(model_, names, open_));
      }
      FETTLE_TRY(const Model bytes, open_observed(rewritten_.model, theirs, open_));
      for (size_t i = 0; i < samples_.count; ++i) {
        FETTLE_TRY(const std::vector<NamedTensor> exact, run_sample(*floats_, i));
        FETTLE_TRY(const std::vector<NamedTensor> made, run_sample(bytes, i));
        compare(names, exact, made, &names == &observed_.groups.front());
      }
      floats_.reset();
    }
    return {};
  }

  void compare(const std::vector<std::string>& names, const std::vector<NamedTensor>& exact,
               const std::vector<NamedTensor>& made, bool with_outputs) {
    for (const std::string& name : names)
      if (const auto theirs = rewritten_.dequantized.find(name); theirs != rewritten_.dequantized.end())
        add_errors(find(exact, name), find(made, theirs->second), errors_[name]);
    if (!with_outputs) return;
    for (const auto& output : index_.graph().output())
      if (const NamedTensor* tensor = find(exact, output.name()); tensor && tensor->tensor.dtype() == FETTLE_F32)
        add_errors(tensor, find(made, output.name()), output_errors_[output.name()]);
  }

  static void add_errors(const NamedTensor* exact, const NamedTensor* made, SignalToNoise& errors) {
    if (!exact || !made || exact->tensor.shape() != made->tensor.shape()) return;
    const auto a = exact->tensor.elems<float>(), b = made->tensor.elems<float>();
    for (size_t i = 0; i < a.size(); ++i) errors.add(a[i], b[i]);
  }

  QuantizedModel result() {
    QuantizedModel made{.model = rewritten_.model, .left = selection_.left, .n_products = selection_.n_products};
    const std::map<int, Affine> affines = parameters();
    for (const std::string& name : values_in_order()) {
      QuantizedValue value{.name = name, .range = range_of(name), .affine = affines.at(selection_.groups.at(name))};
      if (const int producer = index_.producer(name); producer >= 0)
        value.node = {op_label(index_.node(producer)), node_label(index_.node(producer)), {}};
      if (const auto errors = errors_.find(name); errors != errors_.end())
        value.signal_to_noise_db = errors->second.decibels();
      made.values.push_back(std::move(value));
    }
    for (const auto& output : index_.graph().output())
      if (const auto errors = output_errors_.find(output.name()); errors != output_errors_.end())
        made.outputs.push_back({output.name(), errors->second.decibels()});
    std::set<std::string> weights;
    for (const WeightUse& use : selection_.weights) weights.insert(index_.node(use.node).input(use.input));
    made.n_weights = static_cast<int>(weights.size());
    return made;
  }

  const OnnxModel& model_;
  const Samples& samples_;
  const Options& options_;
  OpenOptions open_;
  ModelIndex index_;
  Selection selection_;
  std::map<std::string, std::string> refused_;  // values and weights: why they stay float
  ObservedGroups observed_;
  std::map<std::string, Histogram> histograms_;
  std::optional<Model> floats_;  // with the one group of values as outputs
  RewrittenModel rewritten_;
  std::map<std::string, SignalToNoise> errors_, output_errors_;
};

}  // namespace

Result<QuantizedModel> quantize_model(const OnnxModel& model, const Samples& samples, const Options& options) {
  return Quantizer(model, samples, options).run();
}

}  // namespace fettle::quantize
