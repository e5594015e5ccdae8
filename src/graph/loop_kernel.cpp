#include "graph/loop_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "arith/analyzer.h"
#include "base/check.h"
#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/size_vars.h"
#include "ir/compare.h"
#include "ir/fold.h"

namespace fettle {
namespace {

using ops::Indices;

/// What lies between the steps of two loops of one kernel stays in the first-level cache.
constexpr int64_t kMostBetweenBytes = 32 << 10;
/// A kernel of more nodes keeps too little in registers.
constexpr size_t kMostNodes = 64;

/// What all iterations carry and make anew stays in the first-level cache. Of more, a kernel for each group of nodes
/// takes longer than its call.
constexpr int64_t kMostCarriedBytes = 32 << 10;

bool is_worth_a_kernel(const LoopParts& loop) {
  if (loop.node.attrs.has(kFoldKey)) return true;
  Dim bytes = 0;
  for (int i = 0; i < loop.n_carried; ++i)
    bytes = bytes + element_count(loop.carried_in(i)->shape()) * loop.carried_in(i)->dtype().element_bytes();
  return bytes.typical() <= kMostCarriedBytes;
}

bool same(const Indices& a, const Indices& b) {
  return std::ranges::equal(a, b, [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
}

tl::unexpected<Diagnostic> no_kernel(const Node& node, std::string why) {
  return fail(ErrorCode::E604, fmt::format("Loop: {}", why), node.name);
}

/// Values of one step at one element, by the tensor expressions of the body's nodes.
class StepWriter : public Folder {
 public:
  /// What is read where: of a tensor that stands for a body's input.
  using Leaf = std::function<Expr(const Indices& indices)>;

  StepWriter(const std::unordered_map<const BufferNode*, Leaf>& leaves, const std::vector<Var>& axes,
             const std::vector<Expr>& shape, const Expr& t, const Expr& steps)
      : leaves_(leaves), own_(axes.begin(), axes.end()) {
    for (size_t d = 0; d < axes.size(); ++d) analyzer_.bind(axes[d], 0, shape[d]);
    if (const auto* var = t.as<VarNode>()) analyzer_.bind(Var(var), 0, steps);
  }

  using Folder::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* read = e.as<LoadNode>();
    if (!read) return Folder::rewrite(e);
    Indices indices;
    ++in_index_;
    for (const Expr& index : read->indices) indices.push_back(analyzer_.simplify(rewrite(index)));
    --in_index_;
    return element(read->buffer, indices);
  }

  Expr element(const Buffer& buffer, const Indices& indices) {
    if (const auto leaf = leaves_.find(buffer.get()); leaf != leaves_.end()) return leaf->second(indices);
    const auto* tensor = dynamic_cast<const TensorNode*>(buffer.get());
    const te::OpNode* op = tensor ? tensor->op.get() : nullptr;
    if (!op) return load(buffer, indices);
    if (op->kind != te::OpNode::Kind::kCompute || op->body[0].reduction) {
      problem = op->name + " is more than elementwise work";
      return constant(0, buffer->dtype);
    }
    // Places are plain expressions.
    const bool has_name = in_index_ == 0 && is_element(indices);
    for (const Known& known : known_)
      if (has_name && known.tensor == tensor && same(known.indices, indices)) return known.value;
    VarMap here;
    for (size_t d = 0; d < indices.size(); ++d) here[op->axes[d].get()] = indices[d];
    Expr value = rewrite(substitute(op->body[0].values[static_cast<size_t>(tensor->output)], here));
    if (has_name) {
      // A name of its own. Other places are perhaps guarded, and none that may be read ahead of the guard.
      const Var name = make_var(fmt::format("x{}", lets.size()), value.dtype());
      lets.emplace_back(name, value);
      value = name;
      known_.push_back({tensor, indices, value});
    }
    return value;
  }

  std::vector<std::pair<Var, Expr>> lets;
  std::string problem;  // empty: none

 private:
  using TensorNode = te::TensorNode;
  struct Known {
    const TensorNode* tensor;
    Indices indices;
    Expr value;
  };

  bool is_element(const Indices& indices) const {
    return std::ranges::all_of(indices, [&](const Expr& index) {
      return is_zero(index) || std::ranges::any_of(own_, [&](const Expr& own) { return structural_equal(own, index); });
    });
  }

  const std::unordered_map<const BufferNode*, Leaf>& leaves_;
  const Indices own_;
  int in_index_ = 0;
  Analyzer analyzer_;
  std::vector<Known> known_;
};

/// Names that are read once give way to what they name.
void inline_single_uses(te::Step& step) {
  std::unordered_map<const VarNode*, int> uses;
  const auto count = [&](const Expr& e) {
    walk(e, [&](const Expr& x) {
      if (const auto* var = x.as<VarNode>()) ++uses[var];
      return true;
    });
  };
  for (const auto& [var, value] : step.lets) count(value);
  for (const auto* list : {&step.states, &step.rows})
    for (const Expr& e : *list) count(e);
  VarMap values;
  std::vector<std::pair<Var, Expr>> left;
  for (auto& [var, value] : step.lets) {
    value = substitute(value, values);
    if (uses[var.get()] > 1)
      left.emplace_back(var, value);
    else
      values[var.get()] = value;
  }
  step.lets = std::move(left);
  for (auto* list : {&step.states, &step.rows})
    for (Expr& e : *list) e = substitute(e, values);
}

class LoopWriter {
 public:
  LoopWriter(const Node& node, std::span<const te::Tensor> inputs) : node_(node), loop_(node), inputs_(inputs) {}

  Result<std::vector<te::Tensor>> run() {
    if (!loop_.is_counted() || !loop_.limit()) return no_kernel(node_, "a condition ends it");
    steps_ = size_expr(loop_.iterations());
    FETTLE_TRY_VOID(read_body());
    FETTLE_TRY_VOID(order_shapes());
    outputs_.resize(node_.outputs.size());
    for (const Part& part : parts_) FETTLE_TRY_VOID(write(part));
    return std::move(outputs_);
  }

 private:
  /// What is carried, and stacked, in one shape.
  struct Part {
    Shape shape;
    std::vector<int> carried, scans;
    std::set<int> needed;  // what is carried in other shapes
  };

  Result<> read_body() {
    const Graph& body = loop_.body();
    if (body.nodes().size() > kMostNodes)
      return no_kernel(node_, fmt::format("it is of {} nodes, too many for one kernel", body.nodes().size()));
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      const bool captured = i >= loop_.first_captured();
      tensors_[body.inputs()[i]] = captured ? inputs_[i] : placeholder_for(*body.inputs()[i]);
    }
    for (int i = 0; i < loop_.n_carried; ++i) needs_[loop_.carried_in(i)] = {i};
    for (const Node* node : body.nodes()) {
      if (node->erased) continue;
      if (is_host(*node)) return no_kernel(node_, node->name + " is a host function");
      if (!node->op->compute) return no_kernel(node_, node->name + " is control flow");
      std::vector<te::Tensor> arguments;
      std::set<int> needs;
      for (const Value* input : node->inputs) {
        arguments.push_back(input ? tensor_of(*input) : te::Tensor());
        if (const auto found = needs_.find(input); found != needs_.end())
          needs.insert(found->second.begin(), found->second.end());
      }
      FETTLE_TRY(const std::vector<te::Tensor> made, node_compute(*node, arguments));
      for (size_t i = 0; i < made.size(); ++i) {
        tensors_[node->outputs[i]] = made[i];
        needs_[node->outputs[i]] = needs;
      }
    }
    return {};
  }

  const te::Tensor& tensor_of(const Value& value) {
    te::Tensor& tensor = tensors_[&value];
    if (!tensor) tensor = placeholder_for(value);  // a constant, see passes::fuse_loops
    return tensor;
  }

  Part& part_of(const Shape& shape) {
    const auto found = std::ranges::find(parts_, shape, &Part::shape);
    if (found != parts_.end()) return *found;
    parts_.push_back({shape, {}, {}, {}});
    return parts_.back();
  }

  /// The parts in an order in which they can run.
  Result<> order_shapes() {
    const auto note = [&](Part& part, const Value* value) {
      if (const auto found = needs_.find(value); found != needs_.end())
        part.needed.insert(found->second.begin(), found->second.end());
    };
    for (int i = 0; i < loop_.n_carried; ++i) {
      if (!(loop_.carried_in(i)->shape() == loop_.carried_out(i)->shape()))
        return no_kernel(node_, "the shape of what it carries changes");
      Part& part = part_of(loop_.carried_in(i)->shape());
      part.carried.push_back(i);
      note(part, loop_.carried_out(i));
    }
    for (int i = 0; i < loop_.n_scans; ++i) {
      Part& part = part_of(loop_.scan_out(i)->shape());
      part.scans.push_back(i);
      note(part, loop_.scan_out(i));
    }
    Dim between = 0;
    for (Part& part : parts_) {
      for (int i : part.carried) part.needed.erase(i);
      for (int i : part.needed) {
        if (!is_stacked_.insert(i).second) continue;
        const Value& value = *loop_.carried_in(i);
        between = between + loop_.iterations() * element_count(value.shape()) * value.dtype().element_bytes();
      }
    }
    if (between.typical() > kMostBetweenBytes)
      return no_kernel(node_, fmt::format("values of other shapes take {} bytes", between.to_string()));
    std::deque<Part> ordered;
    std::set<int> known;
    while (!parts_.empty()) {
      const auto next =
          std::ranges::find_if(parts_, [&](const Part& part) { return std::ranges::includes(known, part.needed); });
      if (next == parts_.end()) return no_kernel(node_, "values of two shapes need each other");
      known.insert(next->carried.begin(), next->carried.end());
      ordered.push_back(std::move(*next));
      parts_.erase(next);
    }
    parts_ = std::move(ordered);
    return {};
  }

  Result<> write(const Part& part) {
    const std::vector<Expr> shape = size_exprs(part.shape);
    std::string problem;
    const auto step = [&](const std::vector<Expr>& states, const Expr& t, const std::vector<Var>& axes) {
      const Indices own(axes.begin(), axes.end());
      std::unordered_map<const BufferNode*, StepWriter::Leaf> leaves;
      leaves[tensors_.at(loop_.iteration()).get()] = [&](const Indices&) { return t; };
      leaves[tensors_.at(loop_.condition_in()).get()] = [&](const Indices&) { return bool_imm(true); };
      for (int i = 0; i < loop_.n_carried; ++i) {
        StepWriter::Leaf& leaf = leaves[tensors_.at(loop_.carried_in(i)).get()];
        if (const auto mine = std::ranges::find(part.carried, i); mine != part.carried.end())
          leaf = [&, state = states[static_cast<size_t>(mine - part.carried.begin())]](const Indices& indices) {
            for (size_t d = 0; d < own.size(); ++d)
              if (!is_one(shape[d]) && !structural_equal(indices[d], own[d]))
                problem = "an iteration moves elements of what it carries";
            return state;
          };
        else if (is_stacked_.contains(i) && stacked_.contains(i))
          leaf = [&, rows = stacked_.at(i)](const Indices& indices) {
            return load(rows.buffer(), ops::joined({t}, indices));
          };
      }
      StepWriter writer(leaves, axes, shape, t, steps_);
      const auto value = [&](const Value& v) {
        const te::Tensor& tensor = tensor_of(v);
        return cast(v.dtype(), writer.rewrite(tensor(own)));
      };
      te::Step made;
      for (int i : part.carried) made.states.push_back(value(*loop_.carried_out(i)));
      for (int i : part.scans) made.rows.push_back(value(*loop_.scan_out(i)));
      for (size_t k = 0; k < part.carried.size(); ++k)
        if (is_stacked_.contains(part.carried[k])) made.rows.push_back(states[k]);
      made.lets = std::move(writer.lets);
      if (problem.empty()) problem = writer.problem;
      inline_single_uses(made);
      return made;
    };
    const auto begin = [&](const std::vector<Var>& axes) {
      std::vector<Expr> values;
      for (int i : part.carried) values.push_back(inputs_[static_cast<size_t>(2 + i)](axes));
      return te::Body(std::move(values));
    };
    const std::string name = ops::tensor_name(node_);
    std::vector<te::Tensor> made;
    if (part.carried.empty()) {  // rows alone do not wait for each other
      made = te::compute_many(
          ops::joined({steps_}, shape),
          [&](const std::vector<Var>& axes) {
            te::Step rows = step({}, axes[0], {axes.begin() + 1, axes.end()});
            VarMap values;
            for (auto& [var, value] : rows.lets) values[var.get()] = substitute(value, values);
            for (Expr& row : rows.rows) row = substitute(row, values);
            return te::Body(std::move(rows.rows));
          },
          name);
    } else {
      made = te::recur(steps_, shape, begin, step, name);
    }
    if (!problem.empty()) return no_kernel(node_, problem);
    size_t next = 0;
    for (int i : part.carried) outputs_[static_cast<size_t>(i)] = made[next++];
    for (int i : part.scans) outputs_[static_cast<size_t>(loop_.n_carried + i)] = made[next++];
    for (int i : part.carried)
      if (is_stacked_.contains(i)) stacked_.emplace(i, made[next++]);
    return {};
  }

  const Node& node_;
  const LoopParts loop_;
  const std::span<const te::Tensor> inputs_;
  Expr steps_;
  std::unordered_map<const Value*, te::Tensor> tensors_;
  std::unordered_map<const Value*, std::set<int>> needs_;  // which carried values, by their numbers
  std::deque<Part> parts_;
  std::set<int> is_stacked_;           // carried values that parts of other shapes need
  std::map<int, te::Tensor> stacked_;  // what each step began with
  std::vector<te::Tensor> outputs_;
};

}  // namespace

bool is_loop_kernel(const Node& node) { return is_loop(node) && node.attrs.has(kStepsKey); }

bool can_be_loop_kernel(const Node& node) {
  if (!is_worth_a_kernel(LoopParts(node))) return false;
  const SizeVars vars;
  std::vector<te::Tensor> inputs;
  for (const Value* input : node.inputs) inputs.push_back(input ? placeholder_for(*input) : te::Tensor());
  return loop_compute(node, inputs).has_value();
}

Result<std::vector<te::Tensor>> loop_compute(const Node& node, std::span<const te::Tensor> inputs) {
  return LoopWriter(node, inputs).run();
}

}  // namespace fettle
