#include "graph/passes/lower_recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/passes/node_builder.h"

namespace fettle::passes {
namespace {

using ops::bad_attribute;
using ops::bad_types;

// Of a layer's inputs.
enum Input : size_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  // Of quantised weights.
  kWScale,
  kWZero,
  kRScale,
  kRZero,
};

constexpr std::string_view kQuantizedLstm = "com.microsoft.DynamicQuantizeLSTM";

/// The three layers: their gates, in the order of their weights, and their activations.
struct CellKind {
  std::string_view op;
  int64_t n_gates;
  std::vector<std::string_view> activations;
  std::vector<std::string_view> own_attributes;
  size_t n_states;  // h, c
};

const CellKind* find_cell(std::string_view op) {
  static const CellKind kinds[] = {
      {"RNN", 1, {"Tanh"}, {}, 1},
      {"GRU", 3, {"Sigmoid", "Tanh"}, {"linear_before_reset"}, 1},
      {"LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}, {"input_forget"}, 2},
  };
  const auto* found = std::ranges::find(kinds, op == kQuantizedLstm ? "LSTM" : op, &CellKind::op);
  return found == std::end(kinds) ? nullptr : found;
}

// --- attributes ---------------------------------------------------------------------------------------------------

template <class T>
bool holds(const AttrValue& value) {
  return std::holds_alternative<T>(value);
}

struct KnownAttribute {
  std::string_view name;
  bool (*fits)(const AttrValue& value);
};
constexpr KnownAttribute kKnownAttributes[] = {
    {"activations", holds<std::vector<std::string>>},
    {"activation_alpha", holds<std::vector<double>>},
    {"activation_beta", holds<std::vector<double>>},
    {"clip", holds<double>},
    {"direction", holds<std::string>},
    {"hidden_size", holds<int64_t>},
    {"layout", holds<int64_t>},
    {"linear_before_reset", holds<int64_t>},
    {"input_forget", holds<int64_t>},
};

Result<> check_attributes(const Node& node, const CellKind& cell) {
  for (const auto& [name, value] : node.attrs.entries) {
    const auto* known = std::ranges::find(kKnownAttributes, name, &KnownAttribute::name);
    const bool is_of_one_cell = name == "linear_before_reset" || name == "input_forget";
    if (known == std::end(kKnownAttributes) || (is_of_one_cell && std::ranges::count(cell.own_attributes, name) == 0))
      return bad_attribute(node, fmt::format("it has no attribute \"{}\"", name));
    if (!known->fits(value)) return bad_attribute(node, fmt::format("{} is of another type", name));
  }
  for (std::string_view name : {"layout", "linear_before_reset", "input_forget"})
    if (const int64_t value = node.attrs.get_int(name, 0); value != 0 && value != 1)
      return bad_attribute(node, fmt::format("{} is {}, not 0 or 1", name, value));
  if (node.attrs.has("clip") && !(node.attrs.get_float("clip", 0) > 0))
    return bad_attribute(node, fmt::format("clip is {}, not above 0", node.attrs.get_float("clip", 0)));
  return {};
}

/// An activation by ONNX's name, with the values of alpha and beta where it takes them.
struct ActivationKind {
  std::string_view name;
  bool takes_alpha = false, takes_beta = false;
  std::optional<double> alpha = {}, beta = {};  // where the model gives none; those of ONNX's operators
};
constexpr ActivationKind kActivations[] = {
    {"Sigmoid"},
    {"Tanh"},
    {"Relu"},
    {"Softsign"},
    {"Softplus"},
    {"LeakyRelu", true, false, 0.01},
    {"ThresholdedRelu", true, false, 1.0},
    {"Elu", true, false, 1.0},
    {"HardSigmoid", true, true, 0.2, 0.5},
    {"Affine", true, true},
    {"ScaledTanh", true, true},
};

struct Activation {
  const ActivationKind* kind;
  double alpha = 0, beta = 0;
};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

/// Gives each activation that takes one its value of activation_alpha or activation_beta.
/// Some models state one for every activation; that is read where it means the same.
Result<> give_values(const Node& node, std::string_view attribute, std::vector<Activation>& activations,
                     bool ActivationKind::* takes, std::optional<double> ActivationKind::* otherwise,
                     double Activation::* value) {
  std::vector<double> given;
  if (const AttrValue* found = node.attrs.find(attribute)) given = std::get<std::vector<double>>(*found);
  size_t next = 0;
  bool one_for_each = given.size() == activations.size();
  for (size_t i = 0; i < activations.size(); ++i) {
    Activation& a = activations[i];
    if (!(a.kind->*takes)) continue;
    if (next < given.size()) {
      a.*value = given[next++];
      one_for_each = one_for_each && a.*value == given[i];
    } else if (a.kind->*otherwise) {
      a.*value = *(a.kind->*otherwise);
    } else {
      return bad_attribute(node, fmt::format("{} lacks a value for {}", attribute, a.kind->name));
    }
  }
  if (next < given.size() && !one_for_each)
    return bad_attribute(
        node, fmt::format("{} has {} values, of which its activations take {}", attribute, given.size(), next));
  return {};
}

/// Those of all directions, one after the other.
Result<std::vector<Activation>> read_activations(const Node& node, const CellKind& cell, size_t n_directions) {
  std::vector<std::string> names;
  if (const AttrValue* found = node.attrs.find("activations")) names = std::get<std::vector<std::string>>(*found);
  const size_t count = cell.activations.size() * n_directions;
  if (names.empty())
    for (size_t d = 0; d < n_directions; ++d)
      names.insert(names.end(), cell.activations.begin(), cell.activations.end());
  // ONNX states two for an RNN of one direction.
  if (cell.op == "RNN" && names.size() == 2) names.resize(count);
  if (names.size() != count)
    return bad_attribute(node, fmt::format("activations names {} functions instead of {}", names.size(), count));
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    const auto* kind = std::ranges::find_if(
        kActivations, [&](const ActivationKind& k) { return lower_case(k.name) == lower_case(name); });
    if (kind == std::end(kActivations))
      return fail(ErrorCode::E603, fmt::format("{} with the activation \"{}\"", node.op->name, name), node.name);
    activations.push_back({kind});
  }
  FETTLE_TRY_VOID(give_values(node, "activation_alpha", activations, &ActivationKind::takes_alpha,
                              &ActivationKind::alpha, &Activation::alpha));
  FETTLE_TRY_VOID(give_values(node, "activation_beta", activations, &ActivationKind::takes_beta, &ActivationKind::beta,
                              &Activation::beta));
  return activations;
}

// --- the layer ----------------------------------------------------------------------------------------------------

/// What a direction returns.
struct Results {
  Value* rows = nullptr;       // [steps, batch, hidden], in the order of the steps; null: nobody reads them
  std::vector<Value*> states;  // [batch, hidden] after the last step: h, c
};

class RecurrentLowering {
 public:
  RecurrentLowering(Graph& graph, Node* layer)
      : graph_(graph),
        layer_(*layer),
        cell_(*find_cell(layer->op->name)),
        is_quantized_(layer->op->name == kQuantizedLstm),
        nodes_(graph, layer->name + ".", layer->provenance) {}

  Result<std::vector<Node*>> run() {
    FETTLE_TRY_VOID(check_attributes(layer_, cell_));
    FETTLE_TRY_VOID(read_directions());
    FETTLE_TRY_VOID(check_inputs());
    FETTLE_TRY_VOID(read_lengths());
    FETTLE_TRY(activations_, read_activations(layer_, cell_, reverse_.size()));
    prepare();
    std::vector<Results> results;
    for (size_t d = 0; d < reverse_.size(); ++d) results.push_back(direction(d));
    for (size_t i = 0; i < layer_.outputs.size(); ++i) {
      if (graph_.use_count(layer_.outputs[i]) == 0) continue;
      std::vector<Value*> parts;
      for (const Results& r : results) parts.push_back(i == 0 ? r.rows : r.states[i - 1]);
      Value* whole = side_by_side(parts, i == 0 || batch_first_ ? 1 : 0);
      if (i == 0 && batch_first_) whole = nodes_.transposed(whole, {2, 0, 1, 3});
      graph_.replace_uses(layer_.outputs[i], whole);
    }
    graph_.erase(&layer_);
    return nodes_.added();
  }

 private:
  Value* input(Input i) const { return layer_.input(i); }

  Result<> read_directions() {
    const std::string direction = layer_.attrs.get_string("direction", "forward");
    if (direction == "forward") reverse_ = {false};
    if (direction == "reverse") reverse_ = {true};
    if (direction == "bidirectional") reverse_ = {false, true};
    if (reverse_.empty())
      return bad_attribute(layer_,
                           fmt::format("direction is \"{}\", not forward, reverse or bidirectional", direction));
    batch_first_ = layer_.attrs.get_int("layout", 0) != 0;
    return {};
  }

  Result<> check(Input i, std::string_view name, const Shape& shape) const {
    return ops::check_type(layer_, input(i), name, {i == kLengths ? kI32 : input(kX)->dtype(), shape});
  }

  /// Weights of bytes; a scale and a zero point for each direction, or each column of it.
  Result<> check_quantized(Input i, Input scale, std::string_view name, const Shape& shape) const {
    const DType dtype = input(i)->dtype();
    if (!dtype.is_int() || dtype.bits != 8)
      return bad_types(layer_, fmt::format("{} is {}, not of bytes", name, input(i)->type->to_string()));
    FETTLE_TRY_VOID(ops::check_type(layer_, input(i), name, {dtype, shape}));
    if (!input(scale)) return bad_types(layer_, fmt::format("{} has no scale", name));
    const Shape each = input(scale)->rank() == 1 ? Shape{shape[0]} : Shape{shape[0], shape[2]};
    FETTLE_TRY_VOID(ops::check_type(layer_, input(scale), fmt::format("the scale of {}", name), {kF32, each}));
    return ops::check_type(layer_, layer_.input(scale + 1), fmt::format("the zero point of {}", name), {dtype, each});
  }

  Result<> check_inputs() {
    const Value &x = *input(kX), &r = *input(kR);
    if (!x.dtype().is_float() || x.rank() != 3)
      return bad_types(layer_, fmt::format("X is {}, not of rank 3 and floating point", x.type->to_string()));
    if (r.rank() != 3) return bad_types(layer_, fmt::format("R is {}, not of rank 3", r.type->to_string()));
    const Dim& columns = r.shape()[is_quantized_ ? 1 : 2];
    if (!columns.is_number() && !layer_.attrs.has("hidden_size"))
      return fail(ErrorCode::E604,
                  fmt::format("{}: R is {}: the hidden size must be fixed", layer_.op->name, r.type->to_string()),
                  layer_.name);
    hidden_ = layer_.attrs.get_int("hidden_size", columns.is_number() ? columns.value() : 0);
    if (hidden_ < 1 || !may_equal(columns, hidden_))
      return bad_attribute(layer_, fmt::format("hidden_size is {}, and R is {}", hidden_, r.type->to_string()));
    steps_ = x.shape()[batch_first_ ? 1 : 0];
    const Dim batch = x.shape()[batch_first_ ? 0 : 1], directions = static_cast<int64_t>(reverse_.size());
    const Dim gates = cell_.n_gates * hidden_;
    const Shape states = batch_first_ ? Shape{batch, directions, hidden_} : Shape{directions, batch, hidden_};
    if (is_quantized_) {
      FETTLE_TRY_VOID(check_quantized(kW, kWScale, "W", {directions, x.shape()[2], gates}));
      FETTLE_TRY_VOID(check_quantized(kR, kRScale, "R", {directions, hidden_, gates}));
    } else {
      FETTLE_TRY_VOID(check(kW, "W", {directions, gates, x.shape()[2]}));
      FETTLE_TRY_VOID(check(kR, "R", {directions, gates, hidden_}));
    }
    FETTLE_TRY_VOID(check(kB, "B", {directions, 2 * gates}));
    FETTLE_TRY_VOID(check(kLengths, "sequence_lens", {batch}));
    FETTLE_TRY_VOID(check(kInitialH, "initial_h", states));
    FETTLE_TRY_VOID(check(kInitialC, "initial_c", states));
    return check(kPeepholes, "P", {directions, 3 * hidden_});
  }

  /// Lengths that are known must lie within the steps; those that are all of the steps are none.
  Result<> read_lengths() {
    lengths_ = input(kLengths);
    some_are_empty_ = lengths_ != nullptr;
    if (!lengths_ || !lengths_->is_constant()) return {};
    bool all = steps_.is_number();
    some_are_empty_ = false;
    for (const int64_t length : to_ints(*lengths_->constant)) {
      if (length < 0 || length > steps_.max())
        return bad_types(layer_, fmt::format("sequence_lens has {}, of {} steps", length, steps_.to_string()));
      all = all && Dim(length) == steps_;
      some_are_empty_ = some_are_empty_ || length == 0;
    }
    if (all) lengths_ = nullptr;
    return {};
  }

  /// What both directions read.
  void prepare() {
    x_ = batch_first_ ? nodes_.transposed(input(kX), {1, 0, 2}) : input(kX);
    limit_ = nodes_.extent(input(kX), batch_first_ ? 1 : 0);
    if (!lengths_) return;
    Value* wide = nodes_.value("Cast", "lengths", {lengths_}, {{{"to", int64_t{7}}}});
    lengths_ = unsqueezed(wide, 1);
    if (some_are_empty_) begun_ = nodes_.value("Greater", "begun", {lengths_, nodes_.number("nothing", 0)});
  }

  Value* unsqueezed(Value* x, int64_t axis) {
    return nodes_.value("Unsqueeze", "unsqueezed", {x}, {{{"axes", std::vector<int64_t>{axis}}}});
  }

  Value* side_by_side(const std::vector<Value*>& parts, int64_t axis) {
    std::vector<Value*> wide;
    for (Value* part : parts) wide.push_back(unsqueezed(part, axis));
    return wide.size() == 1 ? wide[0] : nodes_.value("Concat", "directions", wide, {{{"axis", axis}}});
  }

  /// Parts of these sizes along the last axis, which is `axis`.
  static std::vector<Value*> split(NodeBuilder& nodes, std::string_view name, Value* x, int64_t axis,
                                   std::vector<int64_t> sizes) {
    const size_t count = sizes.size();
    return nodes.add("Split", name, {x}, {{{"axis", axis}, {"split", std::move(sizes)}}}, count)->outputs;
  }

  /// Of an input that may be missing: what belongs to the direction.
  Value* part(Input i, std::string_view name, size_t d, int64_t axis = 0) {
    return input(i) ? nodes_.pick(name, input(i), nodes_.number("direction", static_cast<int64_t>(d)), axis) : nullptr;
  }

  Value* initial(Input i, size_t d) {
    if (Value* given = part(i, "initial", d, batch_first_ ? 1 : 0)) {
      if (!begun_) return given;
      Value* zero = nodes_.constant("zero", scalar(0, input(kX)->dtype()));
      return nodes_.value("Where", "initial", {begun_, given, zero});
    }
    const int64_t axis = batch_first_ ? 0 : 1;
    Value* batch = nodes_.value("Shape", "batch", {input(kX)}, {{{"end", axis + 1}, {"start", axis}}});
    Value* hidden = nodes_.constant("hidden", int_list(std::vector<int64_t>{hidden_}));
    Value* shape = nodes_.value("Concat", "state", {batch, hidden}, {{{"axis", int64_t{0}}}});
    ConstantTensor zero = reshaped(scalar(0, input(kX)->dtype()), {1});
    return nodes_.value("ConstantOfShape", "zeros", {shape}, {{{"value", std::move(zero)}}});
  }

  bool resets_after_product() const { return layer_.attrs.get_int("linear_before_reset", 0) != 0; }

  /// Wb + Rb, and what a GRU adds to its hidden gate's recurrent product by itself.
  struct Bias {
    Value *joint = nullptr, *hidden = nullptr;
  };
  Bias bias(size_t d) {
    Value* both = part(kB, "bias", d);
    if (!both) return {};
    const int64_t gates = cell_.n_gates * hidden_;
    const auto wr = split(nodes_, "biases", both, 0, {gates, gates});
    if (!resets_after_product()) return {nodes_.value("Add", "joint", {wr[0], wr[1]}), nullptr};
    const auto w = split(nodes_, "input_biases", wr[0], 0, {2 * hidden_, hidden_});
    const auto r = split(nodes_, "recurrent_biases", wr[1], 0, {2 * hidden_, hidden_});
    Value* joint = nodes_.value("Add", "joint", {w[0], r[0]});
    return {nodes_.value("Concat", "gates_bias", {joint, w[1]}, {{{"axis", int64_t{0}}}}), r[1]};
  }

  /// What multiplies from the right; with a scale and a zero point (or none) where it is quantised.
  struct Weights {
    Value *values = nullptr, *scale = nullptr, *zero = nullptr;
  };
  Weights weights(Input i, std::string_view name, size_t d) {
    Value* values = part(i, name, d);
    if (!is_quantized_) return {nodes_.transposed(values, {1, 0})};
    const Input scale = i == kW ? kWScale : kRScale, zero = i == kW ? kWZero : kRZero;
    return {values, part(scale, "scale", d), part(zero, "zero_point", d)};
  }
  static Value* multiply(NodeBuilder& nodes, std::string_view what, Value* x, const Weights& weights) {
    if (!weights.scale) return nodes.value("MatMul", what, {x, weights.values});
    return nodes.value("com.microsoft.DynamicQuantizeMatMul", what, {x, weights.values, weights.scale, weights.zero});
  }

  /// Whether each step multiplies its own input. One product of all steps reads W once for all of them, but what it
  /// makes goes through memory. Where a step has the rows of a register tile, W is read often enough by itself. What is
  /// quantised has one scale for all steps.
  bool multiplies_in_steps() const {
    constexpr int64_t kTileRows = 8, kCachedBytes = int64_t{1} << 20;
    const Dim batch = input(kX)->shape()[batch_first_ ? 0 : 1];
    if (is_quantized_ || batch.min() < kTileRows) return false;
    const int64_t step_bytes = batch.min() * cell_.n_gates * hidden_ * input(kX)->dtype().element_bytes();
    return steps_.typical() > kCachedBytes / step_bytes;
  }
  /// [batch, gates * hidden]: of the input of step `at` by W, with the bias; in the loop's body.
  Value* input_product(LoopBuilder& loop, Value* at, const Weights& w, Value* bias) {
    const auto product = [&](NodeBuilder& nodes, Value* x, const Weights& by, Value* added) {
      Value* made = multiply(nodes, "inputs", x, by);
      return added ? nodes.value("Add", "inputs_bias", {made, added}) : made;
    };
    if (!multiplies_in_steps())
      return loop.body().pick("input", loop.capture("inputs", product(nodes_, x_, w, bias)), at);
    Value* x = loop.body().pick("input", loop.capture("X", x_), at);
    return product(loop.body(), x, {loop.capture("W", w.values)}, bias ? loop.capture("bias", bias) : nullptr);
  }

  /// One direction's loop and what a step of it has at hand; all values are the body's.
  struct Step {
    LoopBuilder& loop;
    NodeBuilder& nodes;
    const Activation* activations;
    std::vector<Value*> states;
    Value* product;   // [batch, gates * hidden]: of this step's input, with the bias
    Weights weights;  // outside: Rᵀ, [hidden, gates * hidden]
    Value* bias;      // outside, or null: Bias::hidden
    size_t direction;
  };

  Results direction(size_t d) {
    const Bias added = bias(d);
    LoopBuilder loop(nodes_, limit_);
    static constexpr std::string_view kStates[] = {"h", "c"};
    Step step{.loop = loop,
              .nodes = loop.body(),
              .activations = &activations_[d * cell_.activations.size()],
              .states = {},
              .product = nullptr,
              .weights = weights(kR, "R", d),
              .bias = added.hidden,
              .direction = d};
    for (size_t i = 0; i < cell_.n_states; ++i)
      step.states.push_back(loop.carry(std::string(kStates[i]), initial(i == 0 ? kInitialH : kInitialC, d)));
    Value* at = reverse_[d] ? loop.backwards() : loop.iteration();
    step.product = input_product(loop, at, weights(kW, "W", d), added.joint);

    std::vector<Value*> states = cell_.op == "LSTM" ? lstm(step) : cell_.op == "GRU" ? gru(step) : rnn(step);
    Value* row = states[0];
    if (lengths_) {
      Value* active = step.nodes.value("Less", "active", {at, loop.capture("lengths", lengths_)});
      row = step.nodes.value("Where", "row", {active, row, number(step, 0)});
      for (size_t i = 0; i < states.size(); ++i)
        states[i] = step.nodes.value("Where", "state", {active, states[i], step.states[i]});
    }
    std::vector<LoopBuilder::Result> results, rows;
    for (size_t i = 0; i < states.size(); ++i) results.push_back({std::string(kStates[i]), states[i]});
    if (graph_.use_count(layer_.outputs[0]) > 0) rows.push_back({"row", row});
    const std::string name = reverse_.size() == 1 ? layer_.name : nodes_.name(reverse_[d] ? "reverse" : "forward");
    const Node* made = loop.finish(name, results, rows);

    Results all;
    all.states.assign(made->outputs.begin(), made->outputs.begin() + static_cast<std::ptrdiff_t>(states.size()));
    if (!rows.empty()) all.rows = reverse_[d] ? nodes_.reversed(made->outputs.back()) : made->outputs.back();
    return all;
  }

  Value* number(const Step& step, double value) const {
    return step.nodes.constant("number", scalar(value, input(kX)->dtype()));
  }

  /// f(clip(x)), where f is activation k.
  Value* activate(const Step& step, size_t k, Value* x) const {
    NodeBuilder& nodes = step.nodes;
    if (const double bound = layer_.attrs.get_float("clip", 0); bound > 0)
      x = nodes.value("Clip", "clip", {x}, {{{"max", bound}, {"min", -bound}}});
    return apply(step, k, x);
  }

  Value* apply(const Step& step, size_t k, Value* x) const {
    const Activation& f = step.activations[k];
    NodeBuilder& nodes = step.nodes;
    const std::string_view op = f.kind->name;
    if (op == "Affine") {
      Value* scaled = nodes.value("Mul", "scaled", {x, number(step, f.alpha)});
      return nodes.value("Add", "affine", {scaled, number(step, f.beta)});
    }
    if (op == "ScaledTanh") {
      Value* tanh = nodes.value("Tanh", "tanh", {nodes.value("Mul", "scaled", {x, number(step, f.beta)})});
      return nodes.value("Mul", "scaled_tanh", {tanh, number(step, f.alpha)});
    }
    Attrs attrs;
    if (f.kind->takes_alpha) attrs.set("alpha", f.alpha);
    if (f.kind->takes_beta) attrs.set("beta", f.beta);
    return nodes.value(op, "gate", {x}, std::move(attrs));
  }

  static Value* recurrent(const Step& step, Value* h, const Weights& weights) {
    const auto inside = [&](std::string name, Value* x) { return x ? step.loop.capture(std::move(name), x) : nullptr; };
    const Weights captured{inside("R", weights.values), inside("scale", weights.scale), inside("zero", weights.zero)};
    return multiply(step.nodes, "recurrent", h, captured);
  }

  // H = f(x + h · Rᵀ)
  std::vector<Value*> rnn(const Step& step) const {
    Value* sum = step.nodes.value("Add", "sum", {recurrent(step, step.states[0], step.weights), step.product});
    return {activate(step, 0, sum)};
  }

  // z, r = f(…), H = (1 - z) ⊙ g(…) + z ⊙ h
  std::vector<Value*> gru(const Step& step) {
    NodeBuilder& nodes = step.nodes;
    Value *h = step.states[0], *z = nullptr, *candidate = nullptr;
    if (resets_after_product()) {
      const std::vector<int64_t> sizes(3, hidden_);
      const auto x = split(nodes, "input_gates", step.product, 1, sizes);
      const auto y = split(nodes, "recurrent_gates", recurrent(step, h, step.weights), 1, sizes);
      z = activate(step, 0, nodes.value("Add", "sum", {y[0], x[0]}));
      Value* r = activate(step, 0, nodes.value("Add", "sum", {y[1], x[1]}));
      Value* own = step.bias ? nodes.value("Add", "biased", {y[2], step.loop.capture("hidden_bias", step.bias)}) : y[2];
      candidate = nodes.value("Add", "sum", {nodes.value("Mul", "reset", {r, own}), x[2]});
    } else {
      const auto weights = split(nodes_, "recurrent_weights", step.weights.values, 1, {2 * hidden_, hidden_});
      const auto x = split(nodes, "input_gates", step.product, 1, {2 * hidden_, hidden_});
      Value* sum = nodes.value("Add", "sum", {recurrent(step, h, {weights[0]}), x[0]});
      const auto gates = split(nodes, "gates", sum, 1, {hidden_, hidden_});
      z = activate(step, 0, gates[0]);
      Value* reset = nodes.value("Mul", "reset", {activate(step, 0, gates[1]), h});
      candidate = nodes.value("Add", "sum", {recurrent(step, reset, {weights[1]}), x[1]});
    }
    candidate = activate(step, 1, candidate);
    Value* fresh = nodes.value("Mul", "fresh", {nodes.value("Sub", "rest", {number(step, 1), z}), candidate});
    return {nodes.value("Add", "hidden", {fresh, nodes.value("Mul", "kept", {z, h})})};
  }

  // i, f = f(…), C = f ⊙ c + i ⊙ g(…), o = f(…), H = o ⊙ h(C)
  std::vector<Value*> lstm(const Step& step) {
    NodeBuilder& nodes = step.nodes;
    Value *h = step.states[0], *c = step.states[1];
    Value* sum = nodes.value("Add", "sum", {recurrent(step, h, step.weights), step.product});
    const auto gates = split(nodes, "gates", sum, 1, std::vector<int64_t>(4, hidden_));  // i, o, f, c
    std::vector<Value*> peepholes(3, nullptr);                                           // i, o, f
    if (Value* p = part(kPeepholes, "P", step.direction))
      peepholes = split(nodes_, "peepholes", p, 0, {hidden_, hidden_, hidden_});
    const auto gate = [&](size_t k, Value* cell) {
      Value* x = gates[k];
      if (peepholes[k]) {
        Value* seen = nodes.value("Mul", "seen", {cell, step.loop.capture("P", peepholes[k])});
        x = nodes.value("Add", "peephole", {x, seen});
      }
      return activate(step, 0, x);
    };
    Value* i = gate(0, c);
    const bool coupled = layer_.attrs.get_int("input_forget", 0) != 0;
    Value* f = coupled ? nodes.value("Sub", "forget", {number(step, 1), i}) : gate(2, c);
    Value* fresh = nodes.value("Mul", "fresh", {i, activate(step, 1, gates[3])});
    Value* cell = nodes.value("Add", "cell", {nodes.value("Mul", "kept", {f, c}), fresh});
    Value* hidden = nodes.value("Mul", "hidden", {gate(1, cell), apply(step, 2, cell)});
    return {hidden, cell};
  }

  Graph& graph_;
  Node& layer_;
  const CellKind& cell_;
  bool is_quantized_;  // the weights are integers, and lie with the gates last
  NodeBuilder nodes_;
  std::vector<bool> reverse_;  // of each direction
  bool batch_first_ = false;
  int64_t hidden_ = 0;
  Dim steps_;
  std::vector<Activation> activations_;
  Value *x_ = nullptr, *limit_ = nullptr;
  Value* lengths_ = nullptr;     // null: all are of the steps
  bool some_are_empty_ = false;  // of the lengths; perhaps
  Value* begun_ = nullptr;       // null: no sequence is empty. The last states of one that is are 0, as engines have it
};

}  // namespace

Result<std::vector<Node*>> lower_recurrent(Graph& graph, Node* layer) { return RecurrentLowering(graph, layer).run(); }

}  // namespace fettle::passes
