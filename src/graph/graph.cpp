#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "graph/late_sizes.h"
#include "graph/op.h"

namespace fettle {

struct Graph::Names {
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, int> suffixes;  // of a name: all suffixes below this one are taken

  std::string unique(std::string name) {
    if (taken.insert(name).second) return name;
    for (int& i = suffixes.emplace(name, 1).first->second;; ++i) {
      std::string candidate = fmt::format("{}.{}", name, i);
      if (taken.insert(candidate).second) return candidate;
    }
  }

  void free(const std::string& name) {
    taken.erase(name);
    const size_t dot = name.rfind('.');
    int suffix = 0;
    if (dot == std::string::npos) return;
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + dot + 1, end, suffix).ptr != end) return;
    if (const auto found = suffixes.find(name.substr(0, dot)); found != suffixes.end())
      found->second = std::min(found->second, std::max(suffix, 1));
  }
};

std::string TensorType::to_string() const { return dtype.to_string() + fettle::to_string(shape); }

std::vector<int64_t> Value::extents() const {
  auto numbers = static_shape(type->shape);
  FETTLE_CHECK_MSG(numbers, "the shape of " + name + " is not static");
  return *numbers;
}

std::string Graph::unique_name(std::string name) {
  if (!names_) names_ = std::make_shared<Names>();
  if (name.empty()) name = "value";
  return names_->unique(std::move(name));
}

Value* Graph::find_value(std::string_view name) const {
  for (const auto& value : value_store_)
    if (value->name == name) return value.get();
  return nullptr;
}

Value* Graph::find_input(std::string_view name) const {
  for (Value* value : inputs_)
    if (value->name == name) return value;
  return nullptr;
}

Value* Graph::add_input(std::string name, TensorType type) {
  Value* input = add_input(std::move(name));
  input->type = std::move(type);
  return input;
}

Value* Graph::add_input(std::string name) {
  auto value = std::make_unique<Value>();
  value->name = unique_name(std::move(name));
  inputs_.push_back(value.get());
  value_store_.push_back(std::move(value));
  return inputs_.back();
}

Value* Graph::add_constant(std::string name, ConstantTensor data) {
  auto value = std::make_unique<Value>();
  value->name = unique_name(std::move(name));
  value->type = TensorType{data.dtype, Shape(data.shape.begin(), data.shape.end())};
  value->constant = std::move(data);
  value_store_.push_back(std::move(value));
  return value_store_.back().get();
}

Node* Graph::add_node(const OpDef* op, std::string name, std::vector<Value*> inputs, Attrs attrs,
                      std::vector<std::string> output_names, size_t n_outputs) {
  FETTLE_CHECK(op);
  auto node = std::make_unique<Node>();
  node->name = name.empty() ? std::string(op->name) : std::move(name);
  node->op = op;
  node->attrs = std::move(attrs);
  node->inputs = std::move(inputs);
  for (Value* input : node->inputs)
    if (input) input->users.push_back(node.get());
  if (!output_names.empty()) n_outputs = output_names.size();
  for (size_t i = 0; i < n_outputs; ++i) {
    auto value = std::make_unique<Value>();
    const bool named = i < output_names.size() && !output_names[i].empty();
    value->name = unique_name(named ? output_names[i] : node->name);
    value->producer = node.get();
    value->producer_output = static_cast<int>(i);
    node->outputs.push_back(value.get());
    value_store_.push_back(std::move(value));
  }
  nodes_.push_back(node.get());
  node_store_.push_back(std::move(node));
  return nodes_.back();
}

Node* Graph::add_copy(const Node& node, std::vector<Value*> inputs) {
  std::vector<std::string> names;
  for (const Value* output : node.outputs) names.push_back(output->name);
  Node* made = add_node(node.op, node.name, std::move(inputs), node.attrs, std::move(names));
  made->provenance = node.provenance;
  for (const auto& body : node.bodies) made->bodies.push_back(std::make_shared<Graph>(body->clone()));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    made->outputs[i]->type = node.outputs[i]->type;
    made->outputs[i]->constant = node.outputs[i]->constant;
    made->outputs[i]->content = node.outputs[i]->content;
    made->outputs[i]->declared = node.outputs[i]->declared;
  }
  return made;
}

void Graph::add_output(std::string name, Value* value) {
  outputs_.push_back({std::move(name), value});
  ++value->output_uses;
}

void Graph::set_output(size_t i, Value* value) {
  --outputs_[i].value->output_uses;
  outputs_[i].value = value;
  ++value->output_uses;
}

namespace {
void drop_user(Value* value, Node* node) {
  if (!value) return;
  const auto it = std::find(value->users.begin(), value->users.end(), node);
  FETTLE_CHECK(it != value->users.end());
  value->users.erase(it);
}
}  // namespace

void Graph::set_input(Node* node, size_t i, Value* value) {
  if (node->inputs.size() <= i) node->inputs.resize(i + 1, nullptr);
  drop_user(node->inputs[i], node);
  node->inputs[i] = value;
  if (value) value->users.push_back(node);
}

void Graph::order_last_inputs(const std::vector<Value*>& last) {
  std::erase_if(inputs_, [&](Value* input) { return std::find(last.begin(), last.end(), input) != last.end(); });
  inputs_.insert(inputs_.end(), last.begin(), last.end());
}

void Graph::remove_input(size_t i) {
  FETTLE_CHECK_MSG(use_count(inputs_[i]) == 0, inputs_[i]->name + " is still used");
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Graph::remove_input(Node* node, size_t i) {
  drop_user(node->inputs[i], node);
  node->inputs.erase(node->inputs.begin() + static_cast<std::ptrdiff_t>(i));
}

void Graph::resize_inputs(Node* node, size_t count) {
  for (size_t i = count; i < node->inputs.size(); ++i) drop_user(node->inputs[i], node);
  if (count < node->inputs.size()) node->inputs.resize(count);
}

void Graph::replace_uses(Value* from, Value* to) {
  FETTLE_CHECK(from != to);
  for (Node* user : std::exchange(from->users, {})) {
    for (Value*& input : user->inputs) {
      if (input != from) continue;
      input = to;
      to->users.push_back(user);
      break;  // the value has one entry for each use
    }
  }
  if (!to->declared) to->declared = std::exchange(from->declared, std::nullopt);
  if (from->output_uses == 0) return;
  for (GraphOutput& output : outputs_)
    if (output.value == from) output.value = to;
  to->output_uses += std::exchange(from->output_uses, 0);
}

void Graph::replace_uses(const std::vector<std::pair<Value*, Value*>>& pairs, const std::vector<Node*>& gone) {
  std::unordered_set<Value*> read;  // by nodes that go
  for (Node* node : gone) {
    node->erased = true;
    read.insert(node->inputs.begin(), node->inputs.end());
    node->inputs.clear();
  }
  read.erase(nullptr);
  for (Value* value : read) std::erase_if(value->users, [](const Node* user) { return user->erased; });
  std::unordered_map<const Value*, Value*> instead;
  for (const auto& [from, to] : pairs) {
    FETTLE_CHECK(from != to);
    instead.emplace(from, to);
    const std::vector<Node*> users = std::exchange(from->users, {});
    to->users.insert(to->users.end(), users.begin(), users.end());
    if (!to->declared) to->declared = std::exchange(from->declared, std::nullopt);
    to->output_uses += std::exchange(from->output_uses, 0);
  }
  const auto replace = [&](Value*& value) {
    if (const auto found = instead.find(value); found != instead.end()) value = found->second;
  };
  for (Node* node : nodes_) std::ranges::for_each(node->inputs, replace);
  for (GraphOutput& output : outputs_) replace(output.value);
}

void Graph::replace_node(Node* node, Value* by) {
  FETTLE_CHECK(node->outputs.size() == 1 || use_count(node->outputs[0]) > 0);
  if (by->producer && !by->is_constant())
    merge_provenance(by->producer, node);
  else
    for (Node* user : node->outputs[0]->users) merge_provenance(user, node);
  if (!by->content) by->content = node->outputs[0]->content;
  replace_uses(node->outputs[0], by);
  for (const Value* output : node->outputs)
    if (use_count(output)) return;
  erase(node);
}

void Graph::erase(Node* node) {
  for (const Value* output : node->outputs) FETTLE_CHECK_MSG(use_count(output) == 0, output->name + " is still used");
  for (Value* input : node->inputs) drop_user(input, node);
  node->inputs.clear();
  node->erased = true;
}

namespace {

/// Of each node that defines sizes: who speaks of them.
std::unordered_map<const Node*, std::vector<Node*>> readers_of_sizes(const std::vector<Node*>& nodes) {
  std::unordered_map<std::string, const Node*> definers;
  for (const Node* node : nodes)
    for (const Dim& size : defined_sizes(*node)) definers.emplace(size.symbol_name(), node);
  std::unordered_map<const Node*, std::vector<Node*>> readers;
  if (definers.empty()) return readers;
  for (Node* node : nodes) {
    std::set<const Node*> before;
    for_each_size(*node, [&](std::string_view size) {
      const auto found = definers.find(std::string(size));
      if (found != definers.end() && found->second != node) before.insert(found->second);
    });
    for (const Node* definer : before) readers[definer].push_back(node);
  }
  return readers;
}

}  // namespace

namespace {

using Readers = std::unordered_map<const Node*, std::vector<Node*>>;

// Whether `nodes`, whose positions are set, are in order.
bool is_sorted(const std::vector<Node*>& nodes, const Readers& readers) {
  for (const Node* node : nodes)
    for (const Value* input : node->inputs) {
      if (!input || !input->producer) continue;
      const size_t made = input->producer->position;
      if (made >= node->position || nodes[made] != input->producer) return false;
    }
  for (const auto& [definer, users] : readers)
    for (const Node* user : users)
      if (definer->position >= user->position) return false;
  return true;
}

// Kahn's algorithm; of the ready nodes, the earliest comes first.
std::vector<Node*> sorted(const std::vector<Node*>& nodes, const Readers& readers) {
  std::vector<size_t> waiting(nodes.size(), 0);
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (const Node* node : nodes)
    for (const Value* input : node->inputs) waiting[node->position] += input && input->producer ? 1 : 0;
  for (const auto& [node, users] : readers)
    for (const Node* user : users) ++waiting[user->position];
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0) ready.push(i);
  std::vector<Node*> order;
  const auto done = [&](const Node* user) {
    if (--waiting[user->position] == 0) ready.push(user->position);
  };
  while (!ready.empty()) {
    Node* node = nodes[ready.top()];
    ready.pop();
    order.push_back(node);
    for (const Value* output : node->outputs) std::ranges::for_each(output->users, done);
    if (const auto found = readers.find(node); found != readers.end()) std::ranges::for_each(found->second, done);
  }
  FETTLE_CHECK_MSG(order.size() == nodes.size(), "the graph has a cycle");
  return order;
}

void set_positions(const std::vector<Node*>& nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->position = i;
}

}  // namespace

void Graph::sort() {
  std::erase_if(nodes_, [](const Node* n) { return n->erased; });
  set_positions(nodes_);
  if (const Readers readers = readers_of_sizes(nodes_); !is_sorted(nodes_, readers)) {
    nodes_ = sorted(nodes_, readers);
    set_positions(nodes_);
  }
  std::vector<const Value*> inputs(inputs_.begin(), inputs_.end());
  std::ranges::sort(inputs);
  std::erase_if(value_store_, [&](const auto& value) {
    const bool gone = use_count(value.get()) == 0 && (!value->producer || value->producer->erased) &&
                      !std::ranges::binary_search(inputs, value.get());
    if (gone) names_->free(value->name);
    return gone;
  });
  std::erase_if(node_store_, [](const auto& node) { return node->erased; });
}

Graph Graph::clone() const {
  Graph copy(name_);
  copy.function_ = function_;
  std::unordered_map<const Value*, Value*> values;
  const auto of = [&](const Value* value) { return value ? values.at(value) : nullptr; };
  for (const Value* input : inputs_) {
    Value* made = copy.add_input(input->name);
    made->type = input->type;
    made->content = input->content;
    values[input] = made;
  }
  for (const auto& value : value_store_)
    if (value->is_constant() && !value->producer && !values.count(value.get()))
      values[value.get()] = copy.add_constant(value->name, *value->constant);
  for (const Node* node : nodes_) {
    if (node->erased) continue;
    std::vector<Value*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(of(input));
    const Node* made = copy.add_copy(*node, std::move(inputs));
    for (size_t i = 0; i < node->outputs.size(); ++i) values[node->outputs[i]] = made->outputs[i];
  }
  for (const GraphOutput& output : outputs_) copy.add_output(output.name, of(output.value));
  copy.size_checks_ = size_checks_;
  copy.check_keys_ = check_keys_;
  copy.size_classes_ = size_classes_;
  if (size_names_) copy.size_names_ = std::make_shared<Names>(*size_names_);
  copy.structures_ = structures_;
  for (GraphState state : states_) {
    state.input = values.at(state.input);
    copy.states_.push_back(std::move(state));
  }
  return copy;
}

void Graph::replace_sizes(const std::function<Dim(const Dim&)>& replaced) {
  check_keys_.clear();
  for (SizeCheck& check : std::exchange(size_checks_, {})) {
    check.value = replaced(check.value);
    const bool holds = check.is_zero ? check.value == Dim(0) : check.value.min() >= 0;
    if (!holds) add_size_check(std::move(check));
  }
  for (SizeClasses& classes : size_classes_) classes.size = replaced(classes.size);
  std::erase_if(size_classes_, [](const SizeClasses& classes) { return classes.size.symbol_name().empty(); });
}

std::string Graph::unique_size_name(const std::string& name) {
  if (!size_names_) size_names_ = std::make_shared<Names>();
  return size_names_->unique(name);
}

void Graph::take_size_names() {
  if (!size_names_) size_names_ = std::make_shared<Names>();
  for (const Value* input : inputs_)
    if (input->type)
      for (const Dim& dim : input->shape())
        if (!dim.symbol_name().empty()) size_names_->taken.emplace(dim.symbol_name());
}

bool Graph::is_size_name(std::string_view name) const {
  return size_names_ && size_names_->taken.contains(std::string(name));
}

namespace {
// Of equal checks it is one.
std::string key_of(const SizeCheck& check) { return (check.is_zero ? "0 = " : "0 <= ") + check.value.to_string(); }
}  // namespace

void Graph::add_size_check(SizeCheck check) {
  if (check_keys_.insert(key_of(check)).second) size_checks_.push_back(std::move(check));
}

void Graph::keep_size_checks(size_t count) {
  for (size_t i = count; i < size_checks_.size(); ++i) check_keys_.erase(key_of(size_checks_[i]));
  size_checks_.resize(std::min(count, size_checks_.size()));
}

void merge_provenance(Node* to, const Node* from) { to->provenance.merge(from->provenance); }

void hand_provenance_to_users(const Node* node) {
  for (const Value* output : node->outputs)
    for (Node* user : output->users) merge_provenance(user, node);
}

}  // namespace fettle
