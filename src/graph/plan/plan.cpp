#include "graph/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "graph/control.h"
#include "graph/late_sizes.h"
#include "graph/loop_kernel.h"
#include "graph/op_util.h"
#include "graph/plan/growing.h"
#include "graph/plan/memory.h"
#include "graph/plan/nest.h"
#include "graph/plan/placement.h"
#include "graph/plan/size_classes.h"
#include "graph/plan/workload.h"
#include "ir/compare.h"
#include "ir/visit.h"

namespace fettle {
namespace {

/// Costs are estimates: one kernel of several must promise this much of their time; less where what lies between would
/// stay in the caches anyway, so that only estimates speak for it.
constexpr double kWorthFusing = 0.95, kWorthFusingInCaches = 0.75;
/// Attention of an open number of keys may cost this much more at the typical one: its scores grow with the square.
constexpr double kWorthFusingOpenKeys = 1.1;

/// At the model's edges images lie as the model says, channels first. A kernel that shall work on them otherwise takes
/// vectors apart; from so many channels on a copy that transposes tiles costs less. Where lanes cannot be pixels (of a
/// transposed convolution, neighbours read other weights), from two.
constexpr int64_t kChannelsWorthACopy = 8, kChannelsOfPhases = 2, kPixelsWorthACopy = 16;

/// Moves by more than a pixel in some direction.
bool has_strides(const Node& node) {
  return std::ranges::any_of(node.attrs.get_ints("strides", {}), [](int64_t stride) { return stride > 1; });
}

/// One that is worth turning images for: pooling step by step along rows works on them as the model says, too.
bool wants_channels_last(const Node& node) {
  const ImageWork work = node.op->image;
  if (work == ImageWork::kNone || work == ImageWork::kGlobalPooling) return false;
  return work != ImageWork::kPooling || has_strides(node);
}

/// Every pixel becomes a block of equal ones.
bool repeats_pixels(const Node& node) {
  if (node.op->image != ImageWork::kResampling || !node.op->maps_pixels || !node.op->maps_pixels(node)) return false;
  const Value &from = *node.input(0), &to = *node.output();
  for (size_t d = 0; d < from.shape().size(); ++d)
    if (from.shape()[d] == Dim(0) || !exact_quotient(to.shape()[d], from.shape()[d])) return false;
  return true;
}

/// Neighbouring pixels of what it writes are multiplied by other weights.
bool writes_by_phase(const Node& node) {
  return node.op->image == ImageWork::kTransposedConvolution && has_strides(node);
}

std::vector<int> channels_last(size_t rank) {
  std::vector<int> order{0};
  for (size_t d = 2; d < rank; ++d) order.push_back(static_cast<int>(d));
  order.push_back(1);
  return order;
}

/// The order in memory of the weights of a convolution whose image lies in this order: where both walk through the same
/// terms, they do so side by side.
std::vector<int> weights_order(const Node& convolution, const std::vector<int>& of_image) {
  const bool by_channel = convolution.attrs.get_int("group", 1) > 1 && convolution.input(1)->shape()[1] == Dim(1);
  std::vector<int> order{by_channel ? 1 : 0};
  for (const int d : of_image)
    if (d != 0) order.push_back(d == 1 && by_channel ? 0 : d);
  return order;
}

/// How many there usually are.
int64_t usual_elems(const Value& value) { return element_count(value.shape()).typical(); }
Dim bytes_of(const Value& value) { return element_count(value.shape()) * value.dtype().element_bytes(); }

/// What the body of a node is given: where its inputs lie, and where its outputs shall.
struct BodyPlaces {
  std::string name;
  std::vector<View> inputs;
  std::vector<int> outputs;              // storages of dense values; -1: nobody reads it
  int loop = -1;                         // of a loop: which counter counts its iterations
  Dim limit = kMaxDim;                   // and how many there are at most
  std::set<const Node*> appending = {};  // concatenations that are made outside, behind what the loop carries
};

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options)
      : graph_(graph),
        layout_(options.layout),
        weights_(options.weights),
        own_(std::make_unique<Plan>()),
        plan_(*own_),
        steps_(&plan_.steps) {
    plan_.layout = options.layout;
    plan_.fused = options.fused;
    for (const Value* input : graph.inputs())
      for (const Dim& dim : input->shape())
        if (!dim.symbol_name().empty()) sizes_.given.emplace(dim.symbol_name());
    for (const SizeCheck& check : graph.size_checks())
      check.value.for_each_symbol([&](const Dim& size) { sizes_.ruled.emplace(size.symbol_name()); });
  }
  /// Of a body: its calls join the plan, its steps `steps`.
  Planner(const Graph& body, const Planner& outside, std::vector<PlanStep>& steps, BodyPlaces places)
      : graph_(body),
        layout_(outside.layout_),
        weights_(outside.weights_),
        plan_(outside.plan_),
        steps_(&steps),
        places_(std::move(places)),
        first_storage_(outside.plan_.storages.size()),
        sizes_(outside.sizes_) {}

  /// Groups, and where each value lies.
  void prepare() {
    for (size_t i = 0; i < graph_.outputs().size(); ++i)
      output_index_.emplace(graph_.outputs()[i].value, static_cast<int>(i));
    if (!places_)
      for (const Value* input : graph_.inputs())
        if (is_worth_a_copy(*input) && is_read_by_spatial_operators(*input)) transposed_inputs_.push_back(input);
    if (places_ && places_->loop >= 0) iterations_ = {graph_.inputs()[0], places_->limit};
    groups_ = partition(graph_, fused_nodes(), iterations_);
    if (places_) {
      const auto is_appended = [&](const Group& group) { return places_->appending.contains(group.anchor); };
      for (const Group& group : groups_)
        if (is_appended(group)) plan_.groups.push_back({group, PlannedGroup::Kind::kAppended, {}});
      plan_.views += static_cast<int>(std::erase_if(groups_, is_appended));
    }
    lay_out();
    placement_ = place_values(graph_, groups_, views_, [&](const Value& part, const Value& whole, const View& place) {
      return is_there_with(part, whole, place);
    });
    if (!placement_.places.empty()) lay_out();
    if (weights_ == WeightOrder::kAsImages) turn_weights();
  }

  const std::vector<Group>& groups() const { return groups_; }

  /// After prepare().
  Result<GroupProgram> program_of(const Group& group) const {
    std::vector<std::pair<const Value*, View>> views;
    for (const Value* input : group.inputs)
      if (const auto view = views_.find(input); view != views_.end()) views.emplace_back(input, view->second);
    for (const Value* output : group.outputs) views.emplace_back(output, views_.at(output));
    return group_program(group, views);
  }

  Result<Plan> run() {
    FETTLE_TRY_VOID(plan_all());
    return std::move(plan_);
  }

  /// Adds what computes the group, and says what that is.
  Result<PlannedGroup::Kind> plan_group(const Group& group) {
    using Kind = PlannedGroup::Kind;
    const Node& node = *group.anchor;
    if (is_view_[&node]) {
      ++plan_.views;
      return Kind::kView;
    }
    if (group.is_concatenation && is_made_of_parts(group)) {
      concatenate(group);
      return Kind::kConcatenation;
    }
    if (is_branch(node)) {
      FETTLE_TRY_VOID(branch(node));
      return Kind::kControl;
    }
    if (is_loop(node) && !is_loop_kernel(node)) {
      FETTLE_TRY_VOID(loop(node));
      return Kind::kControl;
    }
    if (is_size_definition(node)) {
      define(node);
      return Kind::kSizes;
    }
    if (is_host(node)) {
      call_host(node);
      return Kind::kHost;
    }
    FETTLE_TRY_VOID(compute(group));
    return Kind::kKernel;
  }

  /// Adds the graph's calls to the plan.
  Result<> plan_all() {
    prepare();
    for (const Value* input : transposed_inputs_) transpose_input(*input);
    for (const Group& group : groups_) {
      const size_t number = plan_.groups.size();
      plan_.groups.push_back({group, PlannedGroup::Kind::kKernel, {}});
      FETTLE_TRY(plan_.groups[number].kind, plan_group(group));
      if (plan_.groups[number].kind == PlannedGroup::Kind::kKernel) plan_.groups[number].call = plan_.calls.back().name;
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) finish_output(static_cast<int>(i));
    return {};
  }

 private:
  std::vector<const Node*> fused_nodes() const {
    std::vector<const Node*> nodes;
    if (plan_.fused.empty() || places_) return nodes;
    const std::vector<const Node*> fusible = fusible_nodes(graph_);
    for (int number : plan_.fused)
      if (number >= 0 && static_cast<size_t>(number) < fusible.size())
        nodes.push_back(fusible[static_cast<size_t>(number)]);
    return nodes;
  }

  // Whether kernels work on an image in another order than the model says, and it is large enough for that to matter.
  bool is_worth_a_copy(const Value& value, int64_t least_channels = kChannelsWorthACopy) const {
    if (layout_ != ImageLayout::kChannelsLast || value.rank() < 3) return false;
    const Shape& shape = value.shape();
    const Dim pixels = element_count(Shape(shape.begin() + 2, shape.end()));
    return shape[1].typical() >= least_channels && pixels.typical() >= kPixelsWorthACopy;
  }
  // Of an input of the model.
  bool is_read_by_spatial_operators(const Value& value) const {
    return !value.users.empty() && std::ranges::all_of(value.users, [&](const Node* user) {
      return wants_channels_last(*user) && !stays_channels_first(*user) && user->input(0) == &value;
    });
  }

  // What comes in channels first may go out so.
  bool stays_channels_first(const Node& node) const {
    if (std::ranges::find(graph_.inputs(), node.input(0)) == graph_.inputs().end()) return false;
    return is_matrix_product(node) || (repeats_pixels(node) && output_index_.contains(node.output()));
  }

  /// Decides where every value lies.
  void lay_out() {
    plan_.storages.resize(first_storage_);
    state_storages_.clear();
    views_.clear();
    view_origins_.clear();
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value& value = *graph_.inputs()[i];
      if (places_) {
        views_[&value] = places_->inputs[i];
        continue;
      }
      if (const int state = state_of(value); state >= 0) {
        views_[&value] = view_of_state(state);
        continue;
      }
      const int storage = add_storage(Storage::Kind::kInput, value);
      plan_.storages.back().index = static_cast<int>(i);
      views_[&value] = {storage, 0, dense_strides(value.shape())};
    }
    for (const Value* input : transposed_inputs_) {
      given_[input] = views_.at(input);
      const Shape& shape = input->shape();
      views_[input] = {add_storage(Storage::Kind::kArena, *input), 0,
                       dense_strides(shape, channels_last(shape.size()))};
    }
    placed_storages_.clear();
    for (const Value* whole : placement_.wholes) placed_storages_.push_back(add_storage(*whole));
    for (const Group& group : groups_) {
      is_view_[group.anchor] = (group.may_be_view && try_view(group)) || group.is_row;
      if (group.is_row) place_row(*group.anchor);
      if (is_view_[group.anchor]) continue;
      for (const Value* output : group.outputs) views_[output] = lay_out(group, *output);
      if (group.is_concatenation) view_origins_[group.outputs[0]] = group.anchor->provenance;
    }
  }

  /// Weights that convolutions alone read lie as the images that these read, where they agree.
  void turn_weights() {
    std::unordered_map<const Value*, std::vector<int>> orders;
    std::unordered_set<const Value*> differing;
    for (const Group& group : groups_)
      for (const Node* node : group.nodes) {
        if (node->op->image != ImageWork::kConvolution || !node->op->weights) continue;
        const Value* weights = node->input(1);
        const auto image = views_.find(node->input(0));
        if (!weights->is_constant() || image == views_.end()) continue;
        const auto reads_weights = [&](const Node* user) {
          return user->op == node->op && std::ranges::count(user->inputs, weights) == 1 && user->input(1) == weights;
        };
        const std::vector<int> order =
            weights_order(*node, memory_order(node->input(0)->shape(), image->second.strides));
        const bool is_first = orders.emplace(weights, order).second;
        if (output_index_.contains(weights) || !std::ranges::all_of(weights->users, reads_weights) ||
            (!is_first && orders.at(weights) != order))
          differing.insert(weights);
      }
    for (const auto& [weights, order] : orders) {
      if (differing.contains(weights)) continue;
      std::vector<Dim> strides = dense_strides(weights->shape(), order);
      if (is_row_major(weights->shape(), strides)) continue;
      views_[weights] = {-1, 0, std::move(strides)};
      turned_.emplace(weights, order);
    }
  }

  // Which of the graph's states begins with the value; -1: none.
  int state_of(const Value& input) const {
    for (size_t s = 0; s < graph_.states().size(); ++s)
      if (graph_.states()[s].input == &input) return static_cast<int>(s);
    return -1;
  }
  // Which of them the model's output is; -1: none.
  int state_of_output(int output) const {
    for (size_t s = 0; !places_ && s < graph_.states().size(); ++s)
      if (graph_.states()[s].output == output) return static_cast<int>(s);
    return -1;
  }

  /// A state fills a part of its memory.
  View view_of_state(int number) {
    const GraphState& state = graph_.states()[static_cast<size_t>(number)];
    const Shape capacity(state.capacity.begin(), state.capacity.end());
    const auto [found, is_new] = state_storages_.emplace(number, 0);
    if (is_new) {
      const DType dtype = state.input->dtype();
      plan_.storages.push_back(
          {Storage::Kind::kState, dtype, element_count(capacity) * dtype.element_bytes(), number, nullptr, 0});
      found->second = static_cast<int>(plan_.storages.size()) - 1;
    }
    return {found->second, 0, dense_strides(capacity)};
  }

  /// What is put behind a state, to be the next, is written there: nothing that was there moves.
  bool appends_to_state(const Group& group, const Value& output) const {
    const auto index = output_index_.find(&output);
    if (!group.is_concatenation || index == output_index_.end()) return false;
    const int state = state_of_output(index->second);
    if (state < 0) return false;
    const GraphState& grown = graph_.states()[static_cast<size_t>(state)];
    const int64_t axis = group.anchor->attrs.get_int("axis", 0);
    return group.anchor->input(0) == grown.input && (axis < 0 ? axis + output.rank() : axis) == grown.axis;
  }

  // --- sizes that come to be known while the model runs

  bool is_late(const Dim& dim) const {
    bool late = false;
    dim.for_each_symbol([&](const Dim& size) { late = late || !sizes_.given.contains(size.symbol_name()); });
    return late;
  }
  bool is_late(const Shape& shape) const {
    return std::ranges::any_of(shape, [&](const Dim& dim) { return is_late(dim); });
  }

  /// Whether the sizes of `whole`, and of what lies in it before `place`, are known where `part` is made.
  bool is_there_with(const Value& part, const Value& whole, const View& place) const {
    std::set<std::string, std::less<>> sizes = sizes_.given;
    for (const Dim& dim : part.shape())
      dim.for_each_symbol([&](const Dim& size) { sizes.emplace(size.symbol_name()); });
    bool all = true;
    const auto look_at = [&](const Dim& dim) {
      dim.for_each_symbol([&](const Dim& size) { all = all && sizes.contains(size.symbol_name()); });
    };
    std::ranges::for_each(whole.shape(), look_at);
    look_at(place.offset_elems);
    return all;
  }

  int add_stage(std::vector<Dim> sizes, bool keeps = false) {
    plan_.stages.push_back({.sizes = std::move(sizes), .keeps = keeps});
    return static_cast<int>(plan_.stages.size());
  }
  static PlanStep reach(int stage, std::vector<PlannedInteger> read) {
    return {.kind = PlanStep::Kind::kSizes, .stage = stage, .read = std::move(read)};
  }
  int add_integers(size_t count) {
    plan_.storages.push_back(
        {.kind = Storage::Kind::kArena, .dtype = kI64, .size_bytes = 8 * static_cast<int64_t>(count)});
    return static_cast<int>(plan_.storages.size()) - 1;
  }
  /// Those that write_dims put there.
  static std::vector<PlannedInteger> integers_at(int storage, size_t count) {
    std::vector<PlannedInteger> read;
    for (size_t i = 0; i < count; ++i) read.push_back({.at = {storage, 8 * static_cast<int64_t>(i)}});
    return read;
  }
  /// A call that puts the dims to a storage of integers.
  void write_dims(const std::vector<Dim>& dims, const std::string& name, int storage) {
    PlannedCall call;
    SizedFunc program = dims_program(dims);
    call.workload = add_workload(program.func);
    call.sizes = std::move(program.sizes);
    call.name = name + ": Sizes";
    call.operands = {{storage, 0}};
    add_call(std::move(call));
  }

  /// Where the host program may read the value: in memory that does not move.
  View readable(const Value& value) {
    const View at = place_of(value);
    if (!is_late(plan_.storages[static_cast<size_t>(whole_of(plan_, at.storage))].size_bytes)) return at;
    const View dense{add_storage(Storage::Kind::kArena, value), 0, dense_strides(value.shape())};
    copy_to(value, value.name, dense.storage, {});
    return dense;
  }

  void define(const Node& node) {
    const Value& value = *node.input(0);
    const View at = readable(value);
    std::vector<Dim> sizes = dims_of_attr(node, kDefinesKey);
    std::vector<PlannedInteger> read;
    const int bytes = value.dtype().element_bytes();
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Dim place = at.offset_elems + (value.rank() > 0 ? at.strides[0] * static_cast<int64_t>(i) : Dim(0));
      read.push_back({.at = {at.storage, place * bytes}, .bytes = bytes});
    }
    const int stage = add_stage(std::move(sizes));
    plan_.stages.back().reason = node.attrs.get_string(kReasonKey, "");
    steps_->push_back(reach(stage, std::move(read)));
  }

  /// A value as host functions read it.
  Operand dense_operand(const Value& value) {
    if (value.is_constant() || is_row_major(value.shape(), views_.at(&value).strides)) return operand(value);
    const int storage = add_storage(Storage::Kind::kArena, value);
    copy_to(value, value.name, storage, view_origins_[&value]);
    return {storage, 0};
  }

  void call_host(const Node& node) {
    PlannedHostCall call{.function = node.op->host->function, .integers = host_integers(node)};
    call.name = places_ ? fmt::format("{}/{}", places_->name, node.name) : node.name;
    call.name += ": " + std::string(node.op->name);
    for (const Value* input : node.inputs)
      if (input) call.operands.push_back(dense_operand(*input));
    call.n_inputs = call.operands.size();
    for (const Value* output : node.outputs)
      call.operands.push_back(views_.contains(output) ? operand(*output) : Operand{storage_of(*output), 0});
    for (const Value* input : node.inputs)
      if (input) call.provenance.merge(view_origins_[input]);
    call.provenance.merge(node.provenance);
    steps_->push_back({.kind = PlanStep::Kind::kHost, .call = static_cast<int>(plan_.host_calls.size())});
    plan_.host_calls.push_back(std::move(call));
  }

  /// What must hold where a body runs is looked at when it does.
  void note_run(const Node& node, size_t body, std::vector<PlanStep>& steps) {
    const std::vector<Dim> runs = dims_of_attr(node, kRunsKey);
    if (body < runs.size() && sizes_.ruled.contains(runs[body].symbol_name()))
      steps.push_back(reach(add_stage({runs[body]}), {{.at = {}, .number = 1}}));
  }

  View lay_out(const Group& group, const Value& output) {
    if (const auto memory = growing(*group.anchor, output))
      return {add_storage(output.dtype(), *memory), 0, dense_strides(output.shape())};
    if (appends_to_state(group, output)) return view_of_state(state_of_output(output_index_.at(&output)));
    if (const auto place = placement_.places.find(&output); place != placement_.places.end()) {
      View view = place->second;
      view.storage = placed_storages_[static_cast<size_t>(view.storage)];
      return view;
    }
    const Shape& shape = output.shape();
    const bool is_output = output_index_.contains(&output);
    // finish_output copies it to where the model wants it.
    const int64_t least_channels = writes_by_phase(*group.anchor) ? kChannelsOfPhases : kChannelsWorthACopy;
    const bool copied = is_output && wants_channels_last(*group.anchor) && is_worth_a_copy(output, least_channels) &&
                        !stays_channels_first(*group.anchor);
    const int storage = copied ? add_storage(Storage::Kind::kArena, output) : add_storage(output);
    const bool as_given = is_output && !copied;
    return {storage, 0, as_given ? dense_strides(shape) : dense_strides(shape, order_for(group, output))};
  }

  int add_storage(Storage::Kind kind, const Value& value) {
    plan_.storages.push_back({kind, value.dtype(), bytes_of(value), 0, nullptr, 0});
    return static_cast<int>(plan_.storages.size()) - 1;
  }

  /// Memory for a value that is computed: the model's output, or a place in the arena.
  int add_storage(const Value& value) {
    const auto output = output_index_.find(&value);
    if (output == output_index_.end()) return add_storage(Storage::Kind::kArena, value);
    if (places_) {
      const int place = places_->outputs[static_cast<size_t>(output->second)];
      return place >= 0 ? place : add_storage(Storage::Kind::kArena, value);
    }
    const int storage = add_storage(Storage::Kind::kOutput, value);
    plan_.storages.back().index = output->second;
    return storage;
  }

  /// A call that copies a value, for its own sake.
  void copy(const Value& value, const std::string& name, const View& from, const View& to,
            std::vector<Operand> operands, Provenance provenance) {
    PlannedCall call;
    SizedFunc program = copy_program(value, from, to);
    call.workload = add_workload(program.func);
    call.sizes = std::move(program.sizes);
    call.name = name + ": Copy";
    call.operands = std::move(operands);
    call.provenance = std::move(provenance);
    add_call(std::move(call));
  }

  void add_call(PlannedCall call) {
    if (places_) call.name = fmt::format("{}/{}", places_->name, call.name);
    steps_->push_back({.call = static_cast<int>(plan_.calls.size())});
    plan_.calls.push_back(std::move(call));
  }

  /// Where the value lies; a constant is copied, so that it lies anywhere.
  View place_of(const Value& value) {
    if (!value.is_constant()) return views_.at(&value);
    const View dense{add_storage(Storage::Kind::kArena, value), 0, dense_strides(value.shape())};
    copy_to(value, value.name, dense.storage, {});
    return dense;
  }

  /// Copies a value to a storage, dense.
  void copy_to(const Value& value, const std::string& name, int storage, Provenance provenance) {
    const View dense{storage, 0, dense_strides(value.shape())};
    const View from = value.is_constant() ? View{-1, 0, dense.strides} : views_.at(&value);
    copy(value, name, from, dense, {operand(value), operand_at(value, dense)}, std::move(provenance));
  }

  /// Where a node's output lies: of one that nobody reads, anywhere.
  int storage_of(const Value& output) {
    if (const auto found = views_.find(&output); found != views_.end()) return found->second.storage;
    const auto memory = growing(*output.producer, output);
    return memory ? add_storage(output.dtype(), *memory) : add_storage(Storage::Kind::kArena, output);
  }

  Result<> branch(const Node& node) {
    PlanStep step{.kind = PlanStep::Kind::kBranch,
                  .node = &node,
                  .condition = operand_at(*node.inputs[0], readable(*node.inputs[0]))};
    BodyPlaces places{node.name, {}, {}};
    for (size_t i = kFirstArgument; i < node.inputs.size(); ++i) places.inputs.push_back(place_of(*node.inputs[i]));
    // What has a size of its own gets its memory when this is known: after the branch, which a second one follows.
    const std::vector<Dim> defines = dims_of_attr(node, kDefinesKey);
    std::vector<Dim> sizes;
    std::vector<size_t> late, dims_of_late;  // outputs; dims of theirs, among all
    size_t next = 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const size_t before = sizes.size();
      for (int d = 0; d < node.outputs[i]->rank(); ++d, ++next)
        if (next < defines.size() && !(defines[next] == Dim(-1))) {
          sizes.push_back(defines[next]);
          dims_of_late.push_back(static_cast<size_t>(d));
        }
      const bool is_own = sizes.size() > before;
      for (size_t k = before; k < sizes.size(); ++k) late.push_back(i);
      places.outputs.push_back(is_own ? -1 : storage_of(*node.outputs[i]));
    }
    const int integers = sizes.empty() ? -1 : add_integers(sizes.size());
    PlanStep copies{.kind = PlanStep::Kind::kBranch, .condition = step.condition};
    for (const size_t b : {0, 1}) {
      std::vector<PlanStep>& steps = b == 0 ? step.body : step.otherwise;
      note_run(node, b, steps);
      Planner body(*node.bodies[b], *this, steps, places);
      FETTLE_TRY_VOID(body.plan_all());
      if (sizes.empty()) continue;
      const auto returned = [&](size_t i) -> const Value& { return *node.bodies[b]->outputs()[i].value; };
      std::vector<Dim> dims;
      for (size_t k = 0; k < sizes.size(); ++k) dims.push_back(returned(late[k]).shape()[dims_of_late[k]]);
      body.write_dims(dims, "return", integers);
      body.steps_ = b == 0 ? &copies.body : &copies.otherwise;
      for (size_t k = 0; k < late.size(); ++k)
        if (k == 0 || late[k] != late[k - 1])
          body.copy_to(returned(late[k]), "return", storage_of(*node.outputs[late[k]]), node.provenance);
    }
    steps_->push_back(std::move(step));
    if (sizes.empty()) return {};
    const size_t count = sizes.size();
    steps_->push_back(reach(add_stage(std::move(sizes)), integers_at(integers, count)));
    steps_->push_back(std::move(copies));
    return {};
  }

  /// Memory of a value that grows while the loop runs; nothing for others.
  static std::optional<Growing> growing(const Node& node, const Value& output) {
    if (const auto appended = appended_value(node, output.producer_output)) return appended->memory;
    return growing_rows(node, output);
  }
  int add_storage(DType dtype, const Growing& memory) {
    plan_.storages.push_back({.kind = Storage::Kind::kArena, .dtype = dtype, .size_bytes = memory.bytes});
    return static_cast<int>(plan_.storages.size()) - 1;
  }

  /// What a loop carries has two places: one that an iteration reads, where the first finds what it begins with and
  /// the node's users what the last one left; and one that it writes, which is copied there at its end.
  Result<> loop(const Node& node) {
    const LoopParts loop(node);
    PlanStep step{.kind = PlanStep::Kind::kLoop, .node = &node, .loop = plan_.n_loops++};
    BodyPlaces places{node.name, {}, {}, step.loop};
    if (const Value* limit = loop.limit()) {
      if (const auto known = ops::content_of(*limit)) {
        step.limit = known->front();
        places.limit = *step.limit;
      }
      if (!step.limit) step.limit_at = operand_at(*limit, readable(*limit));
    }
    const int counter = add_storage(Storage::Kind::kCounter, *loop.iteration());
    plan_.storages.back().index = step.loop;
    places.inputs.push_back({counter, 0, {}});

    std::vector<std::pair<const Value*, int>> carried;  // what an iteration returns, and where the next one finds it
    const auto carry = [&](const Value* initial, const Value* returned, int place) {
      copy_to(*initial, node.name, place, node.provenance);
      places.inputs.push_back({place, 0, dense_strides(returned->shape())});
      places.outputs.push_back(add_storage(Storage::Kind::kArena, *returned));
      carried.emplace_back(returned, place);
      step.kept.push_back(place);
    };
    if (loop.is_counted()) {
      places.inputs.push_back({});  // nobody reads it
      places.outputs.push_back(-1);
    } else {
      const int place = add_storage(Storage::Kind::kArena, *loop.condition_out());
      carry(loop.first_condition(), loop.condition_out(), place);
      step.condition = {place, 0};
    }
    LateCarries late = late_carries(loop);
    if (!late.values.empty()) {
      step.kept.push_back(late.integers);
      std::vector<Dim> dims;
      for (const auto& [value, d] : late.dims) dims.push_back(loop.initial(value)->shape()[d]);
      write_dims(dims, node.name, late.integers);
      late.stage = add_stage(late.outside);
      steps_->push_back(reach(late.stage, integers_at(late.integers, dims.size())));
    }
    for (int i = 0; i < loop.n_carried; ++i) {
      const int place = storage_of(*node.outputs[static_cast<size_t>(i)]);
      if (std::ranges::find(late.values, i) == late.values.end()) {
        carry(loop.initial(i), loop.carried_out(i), place);
        continue;
      }
      if (const auto appended = appended_value(node, i)) {
        const int stage = add_stage({appended->memory.extent}, /*keeps=*/true);
        late.appended.emplace(i, LateCarries::Behind{*appended, stage});
        places.appending.insert(appended->concats.begin(), appended->concats.end());
        steps_->push_back(reach(stage, {late.integer_of(i, appended->axis)}));
      }
      copy_to(*loop.initial(i), node.name, place, node.provenance);
      places.inputs.push_back({place, 0, dense_strides(loop.carried_in(i)->shape())});
      places.outputs.push_back(-1);
      late.places.push_back(place);
      step.kept.push_back(place);
    }
    for (size_t i = loop.first_captured(); i < node.inputs.size(); ++i)
      places.inputs.push_back(place_of(*node.inputs[i]));
    for (int i = 0; i < loop.n_scans; ++i) {
      const Value& output = *node.outputs[static_cast<size_t>(loop.n_carried + i)];
      const int whole = storage_of(output);
      if (const auto rows = growing_rows(node, output)) {
        const int stage = add_stage({rows->extent}, /*keeps=*/true);
        steps_->push_back(reach(stage, {{.at = {}, .number = -1}}));
        step.body.push_back(reach(stage, {{.at = {counter, 0}}}));
      }
      places.outputs.push_back(add_storage(Storage::Kind::kWindow, *loop.scan_out(i)));
      Storage& row = plan_.storages.back();
      row.base = whole;
      row.loop = step.loop;
      row.step_bytes = row.size_bytes;
      if (const auto placed = views_.find(&output); placed != views_.end()) {
        const int64_t bytes = output.dtype().element_bytes();
        row.offset_bytes = placed->second.offset_elems * bytes;
        row.step_bytes = placed->second.strides[0] * bytes;
      }
      step.kept.push_back(whole);
    }

    std::vector<int> returned_to = places.outputs;
    std::erase(returned_to, -1);
    note_run(node, 0, step.body);
    if (!late.values.empty())
      step.body.push_back(reach(add_stage(late.inside), integers_at(late.integers, late.inside.size())));
    Planner body(loop.body(), *this, step.body, std::move(places));
    FETTLE_TRY_VOID(body.plan_all());
    for (size_t i = 0; i < carried.size(); ++i) {
      const auto& [value, place] = carried[i];
      const View dense = {-1, 0, dense_strides(value->shape())};
      step.carries.push_back(static_cast<int>(plan_.calls.size()));
      body.copy(*value, "carry", dense, dense, {{returned_to[i], 0}, {place, 0}}, {});
    }
    if (!late.values.empty()) body.carry_late(loop, late);
    steps_->push_back(std::move(step));
    // Rules over what the loop leaves need not hold before it is left.
    if (std::ranges::any_of(late.outside, [&](const Dim& size) { return sizes_.ruled.contains(size.symbol_name()); }))
      steps_->push_back(reach(add_stage({0}), {{.at = {}, .number = 0}}));
    if (const std::vector<Dim> defines = dims_of_attr(node, kDefinesKey);
        !defines.empty() && !(defines.back() == Dim(-1)))
      steps_->push_back(reach(add_stage({defines.back()}), {{.at = {counter, 0}}}));
    return {};
  }

  /// Values whose shapes an iteration may change. Their dims that are sizes of their own go by integers in memory: an
  /// iteration begins with reading them, and ends with writing those of the next. Then what it leaves goes to memory
  /// that is as large as that.
  struct LateCarries {
    std::vector<int> values;                   // which the loop carries
    std::vector<std::pair<int, size_t>> dims;  // of which value, and which of its dims
    std::vector<Dim> inside, outside;          // as sizes in the body, and after the loop
    int integers = -1;                         // the storage
    int stage = 0;                             // of `outside`
    std::vector<int> places;                   // where the values are kept
    struct Behind {
      Appended appended;
      int stage;  // of its memory
    };
    std::map<int, Behind> appended;  // by value

    PlannedInteger integer_of(int value, size_t dim) const {
      const auto k = std::ranges::find(dims, std::pair(value, dim)) - dims.begin();
      return {.at = {integers, 8 * static_cast<int64_t>(k)}};
    }
  };
  LateCarries late_carries(const LoopParts& loop) {
    LateCarries late;
    const std::vector<Dim> inside = dims_of_attr(loop.node, kCarriedSizesKey);
    const std::vector<Dim> outside = dims_of_attr(loop.node, kDefinesKey);
    size_t next = 0;
    for (int i = 0; i < loop.n_carried; ++i)
      for (size_t d = 0; d < loop.initial(i)->shape().size(); ++d, ++next) {
        if (next >= inside.size() || inside[next] == Dim(-1)) continue;
        if (late.values.empty() || late.values.back() != i) late.values.push_back(i);
        late.dims.emplace_back(i, d);
        late.inside.push_back(inside[next]);
        late.outside.push_back(outside[next]);
      }
    if (!late.values.empty()) late.integers = add_integers(late.dims.size());
    return late;
  }

  /// Of the body: the end of an iteration.
  void carry_late(const LoopParts& loop, const LateCarries& late) {
    std::vector<Dim> dims;
    for (const auto& [value, d] : late.dims) dims.push_back(loop.carried_out(value)->shape()[d]);
    // What lies where such values are kept moves away before these get their new sizes.
    const auto kept = [&](const Value& value) {
      View view = value.is_constant() ? View{-1, 0, dense_strides(value.shape())} : views_.at(&value);
      if (view.storage >= 0 && std::ranges::find(late.places, whole_of(plan_, view.storage)) != late.places.end()) {
        const int storage = add_storage(Storage::Kind::kArena, value);
        copy_to(value, "carry", storage, {});
        view = {storage, 0, dense_strides(value.shape())};
      }
      return view;
    };
    struct Carry {
      const Value* value;
      View from, to;
      Provenance provenance = {};
    };
    std::vector<Carry> carries;
    for (size_t k = 0; k < late.values.size(); ++k) {
      const Value& value = *loop.carried_out(late.values[k]);
      View to{late.places[k], 0, dense_strides(value.shape())};
      const auto behind = late.appended.find(late.values[k]);
      if (behind == late.appended.end()) {
        carries.push_back({&value, kept(value), to});
        continue;
      }
      const Appended& appended = behind->second.appended;
      const Dim& stride = to.strides[appended.axis];
      to.offset_elems = loop.carried_in(late.values[k])->shape()[appended.axis] * stride;
      for (const auto& [part, concat] : appended.parts) {
        if (!(element_count(part->shape()) == Dim(0))) carries.push_back({part, kept(*part), to, concat->provenance});
        to.offset_elems = to.offset_elems + part->shape()[appended.axis] * stride;
      }
    }
    write_dims(dims, "carry", late.integers);
    steps_->push_back(reach(late.stage, integers_at(late.integers, dims.size())));
    for (const auto& [value, behind] : late.appended)
      steps_->push_back(reach(behind.stage, {late.integer_of(value, behind.appended.axis)}));
    for (Carry& carry : carries) {
      const Operand from = carry.value->is_constant() ? operand(*carry.value) : operand_at(*carry.value, carry.from);
      copy(*carry.value, "carry", carry.from, carry.to, {from, operand_at(*carry.value, carry.to)},
           std::move(carry.provenance));
    }
  }

  /// Copies an input of the model to where kernels read it.
  void transpose_input(const Value& input) {
    const View &from = given_.at(&input), &to = views_.at(&input);
    copy(input, input.name, from, to, {operand_at(input, from), operand_at(input, to)}, {});
  }

  bool is_in_part(const Group& group, size_t i) const {
    const Value& input = *group.anchor->input(i);
    if (input.is_constant()) return false;
    const View have = views_.at(&input), want = part_of(*group.anchor, i, views_.at(group.outputs[0]));
    bool same = have.storage == want.storage && have.offset_elems == want.offset_elems;
    for (int d = 0; same && d < input.rank(); ++d)
      same = input.shape()[static_cast<size_t>(d)] == Dim(1) ||
             have.strides[static_cast<size_t>(d)] == want.strides[static_cast<size_t>(d)];
    return same;
  }

  bool is_made_of_parts(const Group& group) const {
    for (size_t i = 0; i < group.anchor->inputs.size(); ++i)
      if (is_in_part(group, i)) return true;
    return false;
  }

  /// Copies the parts that were not made where they belong.
  void concatenate(const Group& group) {
    const Node& node = *group.anchor;
    bool copies = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& input = *node.input(i);
      const Shape& shape = input.shape();
      if (is_in_part(group, i) || element_count(shape) == Dim(0)) continue;
      copies = true;
      const View from = input.is_constant() ? View{-1, 0, dense_strides(shape)} : views_.at(&input);
      const View to = part_of(node, i, views_.at(node.output()));
      copy(input, input.name, from, to, {operand(input), operand_at(input, to)}, node.provenance);
    }
    if (!copies) ++plan_.views;
  }

  Result<> compute(const Group& group) {
    FETTLE_TRY(const GroupProgram program, program_of(group));
    PlannedCall call;
    call.workload = add_workload(program.func);
    call.sizes = program.sizes;
    call.name = fmt::format("{}: {}", group.anchor->name, group.name());
    call.anchor = group.anchor;
    for (const Value* input : group.inputs) call.provenance.merge(view_origins_[input]);
    for (const Node* node : group.nodes) call.provenance.merge(node->provenance);
    for (const Value* value : program.params) call.operands.push_back(operand(*value));
    add_call(std::move(call));
    return {};
  }

  bool try_view(const Group& group) {
    const Node& node = *group.anchor;
    if (node.inputs.size() != 1 || !node.input(0) || node.input(0)->is_constant()) return false;
    const auto made = view_outputs(node, views_.at(node.input(0)));
    if (!made) return false;
    for (size_t i = 0; i < made->size(); ++i) {
      views_[node.outputs[i]] = (*made)[i];
      view_origins_[node.outputs[i]] = view_origins_[node.input(0)];
      view_origins_[node.outputs[i]].merge(node.provenance);
    }
    return true;
  }

  /// A window that moves with the iterations; of what only says where rows are, nothing is left.
  void place_row(const Node& node) {
    if (!is_row(node, iterations_)) return;
    const RowView row = row_view(node, views_.at(node.input(0)));
    View view = row.first;
    view.storage = add_storage(Storage::Kind::kWindow, *node.output());
    Storage& window = plan_.storages.back();
    window.size_bytes = plan_.storages[static_cast<size_t>(row.first.storage)].size_bytes;  // rows may have strides
    window.base = row.first.storage;
    window.loop = places_->loop;
    window.step_bytes = row.step_elems * node.output()->dtype().element_bytes();
    views_[node.output()] = view;
    view_origins_[node.output()] = node.provenance;
  }

  std::vector<int> order_for(const Group& group, const Value& output) const {
    const Shape& shape = output.shape();
    std::vector<int> row_major(shape.size());
    std::iota(row_major.begin(), row_major.end(), 0);
    if (shape.size() >= 3 && group.anchor->op->image != ImageWork::kNone)
      return layout_ == ImageLayout::kChannelsLast ? channels_last(shape.size()) : row_major;
    if (group.kind == FusionKind::kComplexOutFusable || group.kind == FusionKind::kOpaque || group.may_be_view)
      return row_major;
    const Value* widest = nullptr;
    for (const Value* input : group.inputs)
      if (!input->is_constant() && input->shape().size() == shape.size() &&
          (!widest || usual_elems(*input) > usual_elems(*widest)))
        widest = input;
    return widest ? memory_order(widest->shape(), views_.at(widest).strides) : row_major;
  }

  int add_workload(const Func& func) {
    const Digest hash = canonical_hash(func);
    for (size_t i = 0; i < plan_.workloads.size(); ++i)
      if (plan_.workloads[i].hash == hash && structural_equal(plan_.workloads[i].func, func)) {
        ++plan_.workloads[i].count;
        return static_cast<int>(i);
      }
    plan_.workloads.push_back({func, hash, 1});
    return static_cast<int>(plan_.workloads.size()) - 1;
  }

  static Operand operand_at(const Value& value, const View& view) {
    return {view.storage, view.offset_elems * value.dtype().element_bytes()};
  }

  Operand operand(const Value& value) {
    if (value.is_constant()) {
      const auto [found, fresh] = constants_.emplace(&value, -1);
      if (fresh) {
        found->second = add_storage(Storage::Kind::kConstant, value);
        plan_.storages.back().constant = &value;
        if (const auto order = turned_.find(&value); order != turned_.end())
          plan_.storages.back().turned =
              std::make_shared<const ConstantTensor>(transposed(*value.constant, order->second));
      }
      return {found->second, 0};
    }
    return operand_at(value, views_.at(&value));
  }

  /// Output `index` is where the caller wants it: made there, or copied there.
  void finish_output(int index) {
    if (places_ && places_->outputs[static_cast<size_t>(index)] < 0) return;
    const Value& value = *graph_.outputs()[static_cast<size_t>(index)].value;
    const View dense{-1, 0, dense_strides(value.shape())};
    const View view = value.is_constant() ? dense : views_.at(&value);
    if (const int state = state_of_output(index); state >= 0) {
      const View place = view_of_state(state);
      if (view.storage == place.storage) return;
      copy(value, graph_.outputs()[static_cast<size_t>(index)].name, view, place,
           {operand(value), operand_at(value, place)}, view_origins_[&value]);
      return;
    }
    if (places_) {
      const int place = places_->outputs[static_cast<size_t>(index)];
      if (view.storage == place) return;
      const bool is_own = view.storage >= static_cast<int>(first_storage_);
      if (is_own && is_all_of_arena(value, view)) {  // make it there in the first place
        Storage& storage = plan_.storages[static_cast<size_t>(view.storage)];
        storage.kind = Storage::Kind::kWindow;
        storage.base = place;
        return;
      }
      copy_to(value, graph_.outputs()[static_cast<size_t>(index)].name, place, view_origins_[&value]);
      return;
    }
    if (!value.is_constant()) {
      Storage& storage = plan_.storages[static_cast<size_t>(view.storage)];
      if (storage.kind == Storage::Kind::kOutput && storage.index == index) return;
      if (is_all_of_arena(value, view)) {  // make it there in the first place
        storage.kind = Storage::Kind::kOutput;
        storage.index = index;
        return;
      }
    }
    std::vector<Operand> operands = {operand(value)};
    operands.push_back({add_storage(Storage::Kind::kOutput, value), 0});
    plan_.storages.back().index = index;
    copy(value, graph_.outputs()[static_cast<size_t>(index)].name, view, dense, std::move(operands),
         view_origins_[&value]);
  }

  /// Whether a value is a view of all of a storage in the arena, in order.
  bool is_all_of_arena(const Value& value, const View& view) const {
    if (view.storage < 0) return false;
    const Storage& storage = plan_.storages[static_cast<size_t>(view.storage)];
    return storage.kind == Storage::Kind::kArena && view.offset_elems == Dim(0) &&
           is_row_major(value.shape(), view.strides) && storage.size_bytes == bytes_of(value);
  }

  const Graph& graph_;
  ImageLayout layout_;
  WeightOrder weights_;
  std::unique_ptr<Plan> own_;  // null: of a body
  Plan& plan_;
  std::vector<PlanStep>* steps_;
  std::optional<BodyPlaces> places_;  // of a body
  size_t first_storage_ = 0;
  Iterations iterations_;  // of a loop's body
  std::vector<Group> groups_;
  Placement placement_;
  std::vector<int> placed_storages_;
  std::vector<const Value*> transposed_inputs_;    // read in another order than they are given in
  std::unordered_map<const Value*, View> given_;   // as these are given
  std::unordered_map<const Node*, bool> is_view_;  // of anchors
  std::unordered_map<const Value*, View> views_;
  std::unordered_map<const Value*, Provenance> view_origins_;  // of values that are views: the nodes that made them so
  std::unordered_map<const Value*, int> output_index_;
  std::map<int, int> state_storages_;  // by the number of the state
  struct {
    std::set<std::string, std::less<>> given;  // sizes that the model's inputs tell
    std::set<std::string, std::less<>> ruled;  // sizes that rules speak of
  } sizes_;
  std::unordered_map<const Value*, int> constants_;
  std::unordered_map<const Value*, std::vector<int>> turned_;  // constants that lie in another order than their own
};

/// A parameter that an elementwise program may write an output over: by their numbers.
struct Overwrite {
  size_t input = 0, output = 0;
  friend bool operator==(const Overwrite&, const Overwrite&) = default;
};

/// One store of each element of a buffer.
struct ElementwiseBlock {
  const BlockNode* block = nullptr;
  const StoreNode* store = nullptr;
};

/// The blocks of a program of elementwise blocks; of others none.
std::vector<ElementwiseBlock> elementwise_blocks(const Func& func) {
  std::vector<ElementwiseBlock> blocks;
  for (const Stmt& stmt : nests_of(func)) {
    const BlockNode* block = open_nest(stmt).block;
    const auto* store = block && !block->init ? block->body.as<StoreNode>() : nullptr;
    if (!store) return {};
    blocks.push_back({block, store});
  }
  return blocks;
}

bool same_shape(const BufferNode& a, const BufferNode& b) {
  return a.strides.empty() && b.strides.empty() &&
         std::ranges::equal(a.shape, b.shape, [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
}

/// All pairs of which the input is read only where the output, or an array of its shape before it, is written, element
/// by element.
std::vector<Overwrite> overwritable(const Func& func) {
  const std::vector<ElementwiseBlock> blocks = elementwise_blocks(func);
  std::vector<Overwrite> found;
  for (size_t o = 0; o < func->params.size() && !blocks.empty(); ++o) {
    const Param& output = func->params[o];
    if (output.kind != ParamKind::kOutput) continue;
    const auto writes = [&](const ElementwiseBlock& b) { return b.store->buffer == output.buffer; };
    const auto writer = std::ranges::find_if(blocks, writes);
    if (writer == blocks.end() || std::ranges::count_if(blocks, writes) != 1) continue;
    for (size_t i = 0; i < func->params.size(); ++i) {
      const BufferNode& input = *func->params[i].buffer;
      bool fits = func->params[i].kind == ParamKind::kInput && input.dtype == output.buffer->dtype &&
                  same_shape(input, *output.buffer);
      for (auto at = blocks.begin(); fits && at != blocks.end(); ++at)
        walk(at->store->value, [&](const Expr& e) {
          const auto* read = e.as<LoadNode>();
          if (!read || read->buffer.get() != &input) return fits;
          fits = fits && at <= writer && same_shape(*at->store->buffer, input) &&
                 std::ranges::equal(read->indices, at->store->indices,
                                    [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
          return fits;
        });
      if (fits) found.push_back({i, o});
    }
  }
  return found;
}

}  // namespace

std::string label_of(const PlannedCall& call) {
  constexpr size_t kNamed = 6;
  return call.provenance.empty() ? call.name : call.name + ", from " + to_text(call.provenance, kNamed);
}

std::string_view to_string(ImageLayout layout) {
  return layout == ImageLayout::kChannelsLast ? "channels last" : "channels first";
}

int stage_of(const Plan& plan, const Dim& dim) {
  int stage = 0;
  dim.for_each_symbol([&](const Dim& size) {
    for (size_t k = plan.stages.size(); k > static_cast<size_t>(stage); --k) {
      const SizeStage& candidate = plan.stages[k - 1];
      if (std::ranges::find(candidate.sizes, size) != candidate.sizes.end() ||
          std::ranges::find(candidate.places, size, &ArenaPlace::offset) != candidate.places.end())
        stage = static_cast<int>(k);
    }
  });
  return stage;
}

int whole_of(const Plan& plan, int storage) {
  while (plan.storages[static_cast<size_t>(storage)].kind == Storage::Kind::kWindow)
    storage = plan.storages[static_cast<size_t>(storage)].base;
  return storage;
}

bool copies_to_itself(const Plan& plan, const PlannedCall& call) {
  if (call.anchor || call.operands.size() != 2) return false;
  const int from = call.operands[0].storage, to = call.operands[1].storage;
  return from != to && plan.storages[static_cast<size_t>(from)].in_place_of == to;
}

Result<Plan> make_plan(const Graph& graph, const PlanOptions& options) {
  FETTLE_TRY(Plan plan, Planner(graph, options).run());
  FETTLE_TRY_VOID(add_size_classes(plan, graph));
  return plan;
}

double plan_seconds(const Plan& plan, int threads, KernelCosts& costs) {
  double seconds = 0;
  for (const PlannedWorkload& workload : plan.workloads)
    seconds += workload.count * costs.seconds(workload.func, threads);
  return seconds;
}

Result<const Plan*> Plans::get(const PlanOptions& options) {
  const std::tuple key{options.layout, options.weights, options.fused};
  if (const auto found = plans_.find(key); found != plans_.end()) return &found->second;
  FETTLE_TRY(Plan plan, make_plan(*graph_, options));
  return &plans_.emplace(key, std::move(plan)).first->second;
}

Result<const Plan*> choose_plan(Plans& plans, int threads, KernelCosts& costs, double worth_leaving) {
  FETTLE_TRY(const Plan* best, plans.get());
  double least = plan_seconds(*best, threads, costs);
  for (const ImageLayout layout : {ImageLayout::kChannelsFirst}) {
    FETTLE_TRY(const Plan* const other, plans.get({.layout = layout, .fused = {}}));
    const double seconds = plan_seconds(*other, threads, costs);
    if (seconds >= worth_leaving * least) continue;
    least = seconds;
    best = other;
  }
  FETTLE_TRY(std::vector<int> fused, choose_fused(*plans.graph(), best->layout, threads, costs));
  return plans.get({.layout = best->layout, .fused = std::move(fused)});
}

Result<std::vector<Func>> fused_programs(const Graph& graph, ImageLayout layout) {
  const std::vector<const Node*> fusible = fusible_nodes(graph);
  std::vector<Func> programs(fusible.size());
  if (fusible.empty()) return programs;
  std::vector<int> all(fusible.size());
  std::iota(all.begin(), all.end(), 0);
  Planner together(graph, {.layout = layout, .fused = all});
  together.prepare();
  for (const Group& group : together.groups())
    for (size_t i = 0; i < fusible.size(); ++i)
      if (group.anchor == fusible[i]) {
        FETTLE_TRY(GroupProgram program, together.program_of(group));
        programs[i] = std::move(program.func);
      }
  return programs;
}

Result<std::vector<int>> choose_fused(const Graph& graph, ImageLayout layout, int threads, KernelCosts& costs,
                                      std::vector<FusionCost>* compared) {
  const std::vector<const Node*> fusible = fusible_nodes(graph);
  std::vector<int> chosen;
  if (fusible.empty()) return chosen;
  FETTLE_TRY(const std::vector<Func> together, fused_programs(graph, layout));
  Planner apart(graph, {.layout = layout, .fused = {}});
  apart.prepare();
  for (const Group& group : partition(graph, fusible)) {
    const auto node = std::ranges::find(fusible, group.anchor);
    const auto number = static_cast<size_t>(node - fusible.begin());
    if (node == fusible.end() || !together[number] || !may_pay_in_caches(**node)) continue;
    double parts = 0, intermediate = 0;
    for (const Group& part : apart.groups()) {
      if (std::ranges::find(group.nodes, part.anchor) == group.nodes.end()) continue;
      FETTLE_TRY(const GroupProgram program, apart.program_of(part));
      parts += costs.seconds(program.func, threads);
      if (part.anchor != group.anchor)
        intermediate += costs.intermediate_seconds(bytes_of(*part.nodes.back()->output()).typical(), threads);
    }
    const bool has_open_keys =
        group.anchor->op->image == ImageWork::kNone && !group.anchor->input(0)->shape().back().is_number();
    const double worth = has_open_keys ? kWorthFusingOpenKeys : intermediate > 0 ? kWorthFusing : kWorthFusingInCaches;
    const double one = costs.seconds(together[number], threads);
    const bool is_worth_it = one < worth * (parts + intermediate);
    if (is_worth_it) chosen.push_back(static_cast<int>(number));
    if (compared) compared->push_back({fusible[number], parts, intermediate, one, is_worth_it});
  }
  std::ranges::sort(chosen);
  return chosen;
}

namespace {

/// When storages are in use, in numbers of steps: of calls in order, and of the ends of loops.
class Lives {
 public:
  struct Life {
    int first = INT32_MAX, last = -1;
  };

  explicit Lives(const Plan& plan)
      : plan_(plan),
        lives_(plan.storages.size()),
        step_of_call_(plan.calls.size()),
        step_of_host_call_(plan.host_calls.size()) {
    go(plan.steps);
  }
  Life& of(int storage) { return lives_[static_cast<size_t>(storage)]; }
  int step_of(size_t call) const { return step_of_call_[call]; }
  int step_of_host_call(size_t call) const { return step_of_host_call_[call]; }

 private:
  void use(int storage) {
    if (storage < 0) return;
    Life& life = of(whole_of(plan_, storage));
    life.first = std::min(life.first, next_);
    life.last = std::max(life.last, next_);
  }

  void go(const std::vector<PlanStep>& steps) {
    for (const PlanStep& step : steps) {
      if (step.kind == PlanStep::Kind::kSections) {
        go_at_once(step);
        continue;
      }
      const int begin = next_;
      use(step.condition.storage);
      use(step.limit_at.storage);
      for (const PlannedInteger& integer : step.read) use(integer.at.storage);
      if (step.kind == PlanStep::Kind::kCall) {
        for (const Operand& operand : plan_.calls[static_cast<size_t>(step.call)].operands) use(operand.storage);
        step_of_call_[static_cast<size_t>(step.call)] = next_;
      }
      if (step.kind == PlanStep::Kind::kHost) {
        for (const Operand& operand : plan_.host_calls[static_cast<size_t>(step.call)].operands) use(operand.storage);
        step_of_host_call_[static_cast<size_t>(step.call)] = next_;
      }
      ++next_;
      if (step.kind == PlanStep::Kind::kLoop) {
        for (int storage : step.kept) use(storage);
        use(step.condition.storage);
      }
      go(step.body);
      go(step.otherwise);
      if (step.kind != PlanStep::Kind::kLoop) continue;
      // What an iteration finds there lives until the last one has ended; so does the limit, which each one reads.
      for (int storage : step.kept) use(storage);
      use(step.limit_at.storage);
      for (Life& life : lives_)
        if (life.first <= begin && life.last > begin) life.last = std::max(life.last, next_);
      ++next_;
    }
  }

  /// What one section uses others must not overwrite: it lives from the beginning to the end of all.
  void go_at_once(const PlanStep& sections) {
    const int begin = next_;
    go(sections.body);
    for (Life& life : lives_) {
      if (life.last < begin) continue;
      life.first = std::min(life.first, begin);
      life.last = next_;
    }
    ++next_;
  }

  const Plan& plan_;
  std::vector<Life> lives_;
  std::vector<int> step_of_call_, step_of_host_call_;
  int next_ = 0;
};

}  // namespace

namespace {

/// The operand by which a call writes a storage, or a part of it.
std::optional<size_t> output_at(const Plan& plan, const PlannedCall& call, int storage) {
  const std::vector<Param>& params = plan.workloads[static_cast<size_t>(call.workload)].func->params;
  for (size_t o = 0; o < call.operands.size(); ++o)
    if (params[o].kind == ParamKind::kOutput && call.operands[o].storage >= 0 &&
        whole_of(plan, call.operands[o].storage) == storage)
      return o;
  return {};
}

std::vector<Overwrite> overwritable(const Plan& plan, const PlannedCall& call,
                                    const std::function<bool(int workload)>& may_run_in_place) {
  if (!may_run_in_place(call.workload)) return {};
  return overwritable(plan.workloads[static_cast<size_t>(call.workload)].func);
}

/// Finds what loops carry that may be written where it is read.
class Carries {
 public:
  Carries(Plan& plan, const std::function<bool(int workload)>& may_run_in_place)
      : plan_(plan), may_run_in_place_(may_run_in_place) {
    for (Storage& storage : plan.storages) storage.in_place_of = -1;
    go(plan.steps);
  }

 private:
  void go(const std::vector<PlanStep>& steps) {
    for (const PlanStep& step : steps) {
      for (int copy : step.carries) place(step, plan_.calls[static_cast<size_t>(copy)]);
      go(step.body);
      go(step.otherwise);
    }
  }

  bool is(const Operand& operand, int storage) const {
    return operand.storage >= 0 && whole_of(plan_, operand.storage) == storage;
  }
  const PlannedCall& call_of(const PlanStep& step) const { return plan_.calls[static_cast<size_t>(step.call)]; }

  void place(const PlanStep& loop, const PlannedCall& copy) {
    const int next = copy.operands[0].storage, kept = copy.operands[1].storage;
    if (plan_.storages[static_cast<size_t>(next)].kind != Storage::Kind::kArena) return;
    // The one call that writes it, not inside of a body.
    const PlannedCall* writer = nullptr;
    size_t output = 0;  // among its operands
    bool is_read_after = false;
    for (const PlanStep& step : loop.body) {
      if (step.kind != PlanStep::Kind::kCall) {
        if (mentions(step, next) || (writer && mentions(step, kept))) return;
        continue;
      }
      const PlannedCall& call = call_of(step);
      if (&call == &copy) continue;
      if (const auto made = output_at(plan_, call, next)) {
        if (writer || !(call.operands[*made].offset_bytes == Dim(0))) return;
        writer = &call;
        output = *made;
      } else if (writer) {
        is_read_after =
            is_read_after || std::ranges::any_of(call.operands, [&](const Operand& o) { return is(o, kept); });
      }
    }
    if (!writer || is_read_after) return;
    const std::vector<Overwrite> may = overwritable(plan_, *writer, may_run_in_place_);
    for (size_t i = 0; i < writer->operands.size(); ++i) {
      if (i == output || !is(writer->operands[i], kept)) continue;
      if (std::ranges::find(may, Overwrite{i, output}) == may.end() || !(writer->operands[i].offset_bytes == Dim(0)))
        return;
    }
    plan_.storages[static_cast<size_t>(next)].in_place_of = kept;
  }

  // Whether the step, or one inside of it, uses the storage.
  bool mentions(const PlanStep& step, int storage) const {
    if (step.kind == PlanStep::Kind::kCall)
      return std::ranges::any_of(call_of(step).operands, [&](const Operand& o) { return is(o, storage); });
    if (step.kind == PlanStep::Kind::kHost)
      return std::ranges::any_of(plan_.host_calls[static_cast<size_t>(step.call)].operands,
                                 [&](const Operand& o) { return is(o, storage); });
    const auto inside = [&](const PlanStep& inner) { return mentions(inner, storage); };
    return is(step.condition, storage) || is(step.limit_at, storage) || std::ranges::any_of(step.body, inside) ||
           std::ranges::any_of(step.otherwise, inside) ||
           std::ranges::any_of(step.read, [&](const PlannedInteger& i) { return is(i.at, storage); });
  }

  Plan& plan_;
  const std::function<bool(int workload)>& may_run_in_place_;
};

}  // namespace

void assign_memory(Plan& plan, const std::function<bool(int workload)>& may_run_in_place) {
  Lives lives(plan);
  Carries(plan, may_run_in_place);

  // Storages that became one, the later pointing to the earlier.
  std::vector<int> same_as(plan.storages.size());
  std::iota(same_as.begin(), same_as.end(), 0);
  plan.in_place = 0;
  const auto is_arena = [&](int s) {
    const Storage& storage = plan.storages[static_cast<size_t>(s)];
    return storage.kind == Storage::Kind::kArena && storage.in_place_of < 0;
  };
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const PlannedCall& call = plan.calls[c];
    const int step = lives.step_of(c);
    std::set<int> taken;  // by outputs of this call
    for (const Overwrite& pair : overwritable(plan, call, may_run_in_place)) {
      const Operand &read = call.operands[pair.input], &written = call.operands[pair.output];
      const int out = written.storage;
      if (!is_arena(out) || same_as[static_cast<size_t>(out)] != out || read.storage < 0) continue;
      const int in = same_as[static_cast<size_t>(read.storage)];
      const bool whole =
          is_arena(in) && read.offset_bytes == Dim(0) && written.offset_bytes == Dim(0) &&
          plan.storages[static_cast<size_t>(in)].size_bytes == plan.storages[static_cast<size_t>(out)].size_bytes;
      int readers = 0;
      for (const Operand& operand : call.operands)
        readers += same_as[static_cast<size_t>(whole_of(plan, operand.storage))] == in;
      if (!whole || readers != 1 || lives.of(out).first != step || lives.of(in).last != step ||
          !taken.insert(in).second)
        continue;
      same_as[static_cast<size_t>(out)] = in;
      lives.of(in).last = lives.of(out).last;
      ++plan.in_place;
    }
  }

  for (Storage& storage : plan.storages) storage.stage = stage_of(plan, storage.size_bytes);
  std::vector<Lifetime> all;
  for (int stage = 0; stage <= static_cast<int>(plan.stages.size()); ++stage) {
    std::vector<Lifetime> lifetimes;
    std::vector<size_t> owners;
    for (size_t s = 0; s < plan.storages.size(); ++s) {
      const Lives::Life& life = lives.of(static_cast<int>(s));
      if (!is_arena(static_cast<int>(s)) || same_as[s] != static_cast<int>(s) || life.last < 0 ||
          plan.storages[s].stage != stage)
        continue;
      lifetimes.push_back({plan.storages[s].size_bytes, life.first, life.last});
      owners.push_back(s);
    }
    ArenaPlan arena = plan_arena(lifetimes, stage == 0 ? "place" : fmt::format("place{}.", stage));
    for (size_t k = 0; k < owners.size(); ++k) plan.storages[owners[k]].offset_bytes = arena.offsets[k];
    all.insert(all.end(), lifetimes.begin(), lifetimes.end());
    if (stage == 0) {
      plan.places = std::move(arena.places);
      plan.arena_bytes = arena.size_bytes;
    } else {
      SizeStage& of_stage = plan.stages[static_cast<size_t>(stage) - 1];
      of_stage.places = std::move(arena.places);
      of_stage.arena_bytes = arena.size_bytes;
    }
  }
  for (size_t s = 0; s < plan.storages.size(); ++s)
    if (same_as[s] != static_cast<int>(s))
      plan.storages[s].offset_bytes = plan.storages[static_cast<size_t>(same_as[s])].offset_bytes;
  for (size_t c = 0; c < plan.calls.size(); ++c) plan.calls[c].live_bytes = live_bytes(all, lives.step_of(c));
  for (size_t c = 0; c < plan.host_calls.size(); ++c)
    plan.host_calls[c].live_bytes = live_bytes(all, lives.step_of_host_call(c));
}

std::vector<OverwrittenInput> overwritten_inputs(const Plan& plan,
                                                 const std::function<bool(int workload)>& may_run_in_place) {
  Lives lives(plan);
  const auto kept = [&](int storage) {
    while (plan.storages[static_cast<size_t>(storage)].in_place_of >= 0)
      storage = plan.storages[static_cast<size_t>(storage)].in_place_of;
    return storage;
  };
  // What is written over an output in a loop is that output.
  for (size_t s = 0; s < plan.storages.size(); ++s) {
    const int to = whole_of(plan, kept(static_cast<int>(s)));
    const Lives::Life& life = lives.of(static_cast<int>(s));
    lives.of(to).first = std::min(lives.of(to).first, life.first);
    lives.of(to).last = std::max(lives.of(to).last, life.last);
  }
  // Whether the step that ends the input's life and begins the output's is a call that may write over it.
  const auto writes_over = [&](int in, int out) {
    for (size_t c = 0; c < plan.calls.size(); ++c) {
      const PlannedCall& call = plan.calls[c];
      if (lives.step_of(c) != lives.of(out).first) continue;
      const auto is_of = [&](const Operand& operand, int s) { return whole_of(plan, operand.storage) == s; };
      const auto output = output_at(plan, call, out);
      if (!output || call.operands[*output].storage != out || !(call.operands[*output].offset_bytes == Dim(0)))
        return false;
      const std::vector<Overwrite> may = overwritable(plan, call, may_run_in_place);
      for (size_t i = 0; i < call.operands.size(); ++i)
        if (is_of(call.operands[i], in) &&
            (call.operands[i].storage != in || !(call.operands[i].offset_bytes == Dim(0)) ||
             std::ranges::find(may, Overwrite{i, *output}) == may.end()))
          return false;
      return true;
    }
    return false;
  };
  std::vector<OverwrittenInput> found;
  for (size_t out = 0; out < plan.storages.size(); ++out) {
    const Storage& written = plan.storages[out];
    const int first = lives.of(static_cast<int>(out)).first;
    if (written.kind != Storage::Kind::kOutput) continue;
    for (size_t in = 0; in < plan.storages.size(); ++in) {
      const Storage& read = plan.storages[in];
      if (read.kind != Storage::Kind::kInput || !(read.size_bytes == written.size_bytes)) continue;
      const int last = lives.of(static_cast<int>(in)).last;
      if (last < first || (last == first && writes_over(static_cast<int>(in), static_cast<int>(out))))
        found.push_back({read.index, written.index});
    }
  }
  const auto has_several = [&](Storage::Kind kind, int index) {
    return std::ranges::count_if(plan.storages, [&](const Storage& s) { return s.kind == kind && s.index == index; }) >
           1;
  };
  std::erase_if(found, [&](const OverwrittenInput& pair) {
    return has_several(Storage::Kind::kInput, pair.input) || has_several(Storage::Kind::kOutput, pair.output);
  });
  std::ranges::sort(found, {}, [](const OverwrittenInput& pair) { return std::pair(pair.output, pair.input); });
  return found;
}

namespace {

std::string operand_text(const Plan& plan, Operand operand) {
  const Storage& storage = plan.storages[static_cast<size_t>(operand.storage)];
  if (storage.in_place_of >= 0) return operand_text(plan, {storage.in_place_of, operand.offset_bytes});
  const std::string offset = operand.offset_bytes == Dim(0) ? "" : fmt::format("+{}", operand.offset_bytes.to_string());
  switch (storage.kind) {
    case Storage::Kind::kInput:
      return fmt::format("in{}{}", storage.index, offset);
    case Storage::Kind::kOutput:
      return fmt::format("out{}{}", storage.index, offset);
    case Storage::Kind::kState:
      return fmt::format("state{}{}", storage.index, offset);
    case Storage::Kind::kConstant:
      return fmt::format("const{}{}", operand.storage, offset);
    case Storage::Kind::kCounter:
      return fmt::format("i{}", storage.index);
    case Storage::Kind::kWindow: {
      const std::string moving =
          storage.loop < 0 ? "" : fmt::format("+{}*i{}", storage.step_bytes.to_string(), storage.loop);
      return operand_text(plan, {storage.base, storage.offset_bytes + operand.offset_bytes}) + moving;
    }
    case Storage::Kind::kArena:
      break;
  }
  const std::string arena = storage.stage == 0 ? "@" : fmt::format("@{}:", storage.stage);
  return arena + (storage.offset_bytes + operand.offset_bytes).to_string();
}

void add_steps(std::string& text, const Plan& plan, const std::vector<PlanStep>& steps, const std::string& indent) {
  for (const PlanStep& step : steps) {
    const std::string condition = step.condition.storage < 0 ? "" : operand_text(plan, step.condition);
    if (step.kind == PlanStep::Kind::kCall) {
      const PlannedCall& call = plan.calls[static_cast<size_t>(step.call)];
      if (copies_to_itself(plan, call)) continue;
      text += fmt::format("{}{}  task {}", indent, call.name, call.workload);
      for (const Operand& operand : call.operands) text += "  " + operand_text(plan, operand);
      for (const Dim& size : call.sizes) text += "  [" + size.to_string() + "]";
      text += '\n';
      continue;
    }
    if (step.kind == PlanStep::Kind::kHost) {
      const PlannedHostCall& call = plan.host_calls[static_cast<size_t>(step.call)];
      text += fmt::format("{}{}  {}", indent, call.name, call.function);
      for (const Operand& operand : call.operands) text += "  " + operand_text(plan, operand);
      text += '\n';
      continue;
    }
    if (step.kind == PlanStep::Kind::kSizes) {
      text += fmt::format("{}stage {}:", indent, step.stage);
      const std::vector<Dim>& sizes = plan.stages[static_cast<size_t>(step.stage) - 1].sizes;
      for (size_t i = 0; i < sizes.size(); ++i) {
        const PlannedInteger& read = step.read[i];
        text += fmt::format("  {} = {}", sizes[i].to_string(),
                            read.at.storage < 0 ? std::to_string(read.number) : operand_text(plan, read.at));
      }
      text += '\n';
      continue;
    }
    if (step.kind == PlanStep::Kind::kBranch) {
      text += fmt::format("{}if {}\n", indent, condition);
    } else if (step.kind == PlanStep::Kind::kSections || step.kind == PlanStep::Kind::kSection) {
      text += indent + (step.kind == PlanStep::Kind::kSections ? "at once\n" : "section\n");
    } else {
      const std::string limit = step.limit                   ? step.limit->to_string()
                                : step.limit_at.storage >= 0 ? operand_text(plan, step.limit_at)
                                                             : "";
      text += fmt::format("{}for i{}{}{}\n", indent, step.loop, limit.empty() ? "" : " < " + limit,
                          condition.empty() ? "" : " while " + condition);
    }
    add_steps(text, plan, step.body, indent + "  ");
    if (step.kind == PlanStep::Kind::kBranch) {
      text += indent + "else\n";
      add_steps(text, plan, step.otherwise, indent + "  ");
    }
  }
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string text;
  Dim constants = 0, separate = 0;
  for (const Storage& storage : plan.storages) {
    if (storage.kind == Storage::Kind::kConstant) constants = constants + storage.size_bytes;
    if (storage.kind == Storage::Kind::kArena) separate = separate + storage.size_bytes;
  }
  add_steps(text, plan, plan.steps, "");
  size_t task = plan.workloads.size();
  for (size_t w = 0; w < plan.workloads.size(); ++w)
    for (const SizeClass& of : plan.workloads[w].classes)
      text += fmt::format("task {} where {} <= {}: task {}\n", w,
                          plan.workloads[w].func->int_params[static_cast<size_t>(of.param)].var->name, of.most, task++);
  text += fmt::format(
      "{} calls of {} workloads, {} views, {} in place; arena {} bytes ({} without reuse), constants {} bytes\n",
      plan.calls.size(), plan.workloads.size(), plan.views, plan.in_place, plan.arena_bytes.to_string(),
      separate.to_string(), constants.to_string());
  return text;
}

}  // namespace fettle
