// Tree ensembles of ai.onnx.ml.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "graph/ops/forest.h"
#include "graph/ops/heap.h"
#include "graph/ops/scores.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;

// --- TreeTraversal(x: [n, features], features, splits, children, trees, weights, outcomes) {rows} → f64[groups, rows,
// targets]: what the leaves that trees lead to say of each target, as ForestArrays has them. Rows go in groups, the
// last of which repeats the last row. "outcomes" is an attribute where all branches compare alike; "first_leaf" is the
// first node that is a leaf.

enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

// Without a leaf that says anything.
double identity_of(Aggregate how) {
  const double infinity = std::numeric_limits<double>::infinity();
  return how == Aggregate::kMin ? infinity : how == Aggregate::kMax ? -infinity : 0;
}

Types traversal_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 2));
  const int64_t targets = node.attrs.get_int("targets", 1), most = node.attrs.get_int("most_feature", -1);
  const Dim& features = shape_of(node, 0)[1];
  if (features.max() <= most)
    return bad_types(node, fmt::format("its trees ask for feature {}, and there are {}", most, features.to_string()));
  note_not_negative(node, features - (most + 1), "features beyond those that trees ask for");
  const int64_t rows = node.attrs.get_int("rows", 1);
  return one_type(kF64, {floordiv(shape_of(node, 0)[0] + (rows - 1), rows), rows, targets});
}

// Which child: 0, the true branch, or 1.
struct Comparison {
  const Node& node;
  std::span<const te::Tensor> in;

  Expr operator()(const Expr& x, const Expr& at) const {
    const Expr split = in[2](at);
    const auto either = [](const Expr& condition, int64_t if_true) {
      return select(condition, Expr(if_true), Expr(1 - if_true));
    };
    // Comparisons with NaN do not hold.
    switch (node.attrs.get_int("outcomes", -1)) {
      case kLess:
        return either(lt(x, split), 0);
      case kLess | kSame:
        return either(le(x, split), 0);
      case kGreater:
        return either(lt(split, x), 0);
      case kSame | kGreater:
        return either(le(split, x), 0);
      case kLess | kUnordered:
        return either(le(split, x), 1);
      case kLess | kSame | kUnordered:
        return either(lt(split, x), 1);
      case kGreater | kUnordered:
        return either(le(x, split), 1);
      case kSame | kGreater | kUnordered:
        return either(lt(x, split), 1);
      default:
        break;
    }
    // The bit of the outcome.
    const Expr outcome =
        select(lt(x, split), Expr(0), select(lt(split, x), Expr(2), select(eq(x, split), Expr(1), Expr(3))));
    const Expr outcomes = has_tensor(in, 6) ? cast(kI64, in[6](at)) : Expr(node.attrs.get_int("outcomes", 0));
    const Expr bit = binary(BinaryOp::kBitAnd, binary(BinaryOp::kShr, outcomes, outcome), Expr(1));
    return either(ne(bit, Expr(0)), 0);
  }
};

// Rows of a group: enough to use a tree many times while it is at hand, and few enough for all threads.
constexpr int64_t kStepsBetweenChecks = 4;
constexpr int64_t kWalks = 4;  // at once, so that one need not wait for what the other reads
int64_t rows_of_group(const Dim& rows) {
  const int64_t typical = rows.is_number() ? rows.value() : rows.typical();
  if (rows.is_number() && typical < kWalks) return std::max<int64_t>(typical, 1);
  return std::clamp<int64_t>(typical / 8 / kWalks, 1, 16) * kWalks;
}

Tensors traversal(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor &x = in[0], &features = in[1], &children = in[3], &trees = in[4], &weights = in[5];
  const auto how = static_cast<Aggregate>(node.attrs.get_int("aggregate", 1));
  const int64_t n_rows = output_shape(node)[1].value(), walks = std::min(kWalks, n_rows);
  const Expr n_targets = size_expr(output_shape(node)[2]), first_leaf(node.attrs.get_int("first_leaf", 0));
  const te::BlockAxis group{make_var("group"), size_expr(output_shape(node)[0])};
  const Comparison which{node, in};
  const auto combined = [&](const Expr& state, const Expr& weight) {
    return how == Aggregate::kMin ? min(state, weight) : how == Aggregate::kMax ? max(state, weight) : state + weight;
  };
  const auto body = [&](const std::vector<Buffer>& out) -> te::Statements {
    std::vector<Buffer> at;  // where each walk is
    for (int64_t k = 0; k < walks; ++k) at.push_back(make_buffer("at" + std::to_string(k), {1}, kU32, kScopeRegister));
    const auto place_of = [&](size_t k) { return cast(kI64, get(at[k])); };
    const Stmt clear = count_up("r", Expr(n_rows), [&](const Expr& r) {
      return count_up("t", n_targets, [&](const Expr& t) {
        return store(out[0], {group.var, r, t}, float_imm(identity_of(how), kF64));
      });
    });
    const auto row_at = [&](const Expr& r, size_t k) {
      return min(group.var * Expr(n_rows) + r * Expr(walks) + Expr(static_cast<int64_t>(k)), x.dim(0) - Expr(1));
    };
    // What the arrays say is always inside. A condition that says so is cheap, for nothing waits for it; and of numbers
    // without a sign it is one comparison.
    const auto if_below = [](const char* name, const Expr& index, const Expr& extent,
                             const std::function<Stmt(const Expr&)>& then) {
      return let_be(name, index, [&](const Expr& i) { return if_then(lt(i, extent), then(i)); });
    };
    const auto step = [&](const Expr& r) {
      std::vector<Stmt> all;
      for (size_t k = 0; k < at.size(); ++k)
        all.push_back(if_below("here", place_of(k), features.dim(0), [&](const Expr& here) {
          return if_below("feature", cast(kI64, features(here)), x.dim(1), [&](const Expr& feature) {
            return let_be("value", x(row_at(r, k), feature),
                          [&](const Expr& value) { return set(at[k], children(here, which(value, here))); });
          });
        }));
      return seq(std::move(all));
    };
    const auto take = [&](const Expr& r, const Expr& first_target) {
      std::vector<Stmt> all;
      for (size_t k = 0; k < at.size(); ++k)
        all.push_back(let_be("leaf", place_of(k) - first_leaf, [&](const Expr& leaf) {
          const Stmt added = count_up("t", weights.dim(1), [&](const Expr& t) {
            return if_below("target", cast(kI64, first_target) + t, n_targets, [&](const Expr& target) {
              const Indices place{group.var, r * Expr(walks) + Expr(static_cast<int64_t>(k)), target};
              return store(out[0], place, combined(load(out[0], place), cast(kF64, weights(leaf, t))));
            });
          });
          return if_then(inside(leaf, weights.dim(0)), added);
        }));
      return seq(std::move(all));
    };
    const auto walk = [&](const Expr& r, const Expr& root, const Expr& steps, const Expr& first_target) {
      Expr is_under_way = lt(place_of(0), first_leaf);
      for (size_t k = 1; k < at.size(); ++k) is_under_way = logical_or(is_under_way, lt(place_of(k), first_leaf));
      const auto few_steps = [&](const Expr& n) { return count_up("step", n, [&](const Expr&) { return step(r); }); };
      std::vector<Stmt> begin;
      for (const Buffer& walk : at) begin.push_back(set(walk, root));
      return seq({seq(std::move(begin)), few_steps(cast(kI64, steps)),
                  repeat_while(is_under_way, few_steps(Expr(kStepsBetweenChecks))), take(r, first_target)});
    };
    const Stmt all_trees = count_up("tree", trees.dim(0), [&](const Expr& tree) {
      const auto part = [&](const char* name, int64_t k, const std::function<Stmt(const Expr&)>& then) {
        return let_be(name, trees(tree, Expr(k)), then);
      };
      return part("root", 0, [&](const Expr& root) {
        return part("steps", 1, [&](const Expr& steps) {
          return part("first_target", 2, [&](const Expr& first_target) {
            return count_up("r", Expr(n_rows / walks),
                            [&](const Expr& r) { return walk(r, root, steps, first_target); });
          });
        });
      });
    });
    return {seq({clear, if_then(lt(Expr(0), x.dim(0)), all_trees)}), at};
  };
  return te::opaque({{{group.extent, Expr(n_rows), n_targets}, kF64}}, {group}, body, tensor_name(node));
}

// --- what the operators are made of

ConstantTensor table(const std::vector<double>& values, DType dtype, std::vector<int64_t> shape) {
  return to_tensor(values, dtype, std::move(shape)).value();
}
ConstantTensor table(const std::vector<int64_t>& values, DType dtype, std::vector<int64_t> shape) {
  return table(std::vector<double>(values.begin(), values.end()), dtype, std::move(shape));
}

/// Whether a target has a score: a row goes to a leaf that speaks of it.
enum class Presence : uint8_t { kAlways, kNever, kByRow };

std::set<int64_t> targets_of(const TreeLeaf& leaf) {
  std::set<int64_t> targets;
  for (const auto& [target, weight] : leaf) targets.insert(target);
  return targets;
}

std::vector<Presence> presence_of(const Forest& forest) {
  std::vector<Presence> all(static_cast<size_t>(forest.n_targets), Presence::kNever);
  for (const TreeRef& root : forest.roots) {
    std::map<int64_t, size_t> leaves;  // by target
    size_t n_leaves = 0;
    std::vector<TreeRef> open{root};
    while (!open.empty()) {
      const TreeRef next = open.back();
      open.pop_back();
      if (!next.is_leaf) {
        open.push_back(forest.branches[next.index].on_true);
        open.push_back(forest.branches[next.index].on_false);
        continue;
      }
      ++n_leaves;
      for (const int64_t target : targets_of(forest.leaves[next.index])) ++leaves[target];
    }
    for (const auto& [target, count] : leaves) {
      Presence& own = all[static_cast<size_t>(target)];
      if (own != Presence::kAlways) own = count == n_leaves ? Presence::kAlways : Presence::kByRow;
    }
  }
  return all;
}

// Each leaf has a weight of 1 for each target that it speaks of, too: those are targets n, …
Forest with_presence(Forest forest) {
  for (TreeLeaf& leaf : forest.leaves)
    for (const int64_t target : targets_of(leaf)) leaf.emplace_back(forest.n_targets + target, 1);
  forest.n_targets *= 2;
  return forest;
}

/// What trees say of each row's targets.
struct Scores {
  Value* values;                   // [n, targets], in the type of the trees; 0 where there is none
  std::vector<Presence> presence;  // of targets
  Value* is_there;                 // bool[n, targets], where that of a target is kByRow; else null

  // bool[n, 1], or null where it is the same in all rows
  Value* is_there_at(Lowering& g, int64_t target) const {
    if (presence[static_cast<size_t>(target)] != Presence::kByRow) return nullptr;
    return g.slice(is_there, 1, target, target + 1);
  }
};

Value* first_rows(Lowering& g, Value* x, const Dim& n) {
  if (x->shape()[0] == n) return x;
  Attrs part;
  part.set("starts", std::vector<int64_t>{0});
  part.set("ends", dims_attr({n}));
  part.set("axes", std::vector<int64_t>{0});
  return g("Slice", {x}, std::move(part));
}

Result<Scores> scores_of(Lowering& g, const Node& node, Forest forest, Aggregate how) {
  FETTLE_TRY(Value * x, feature_rows(g, node, forest.dtype));
  Scores scores{.values = nullptr, .presence = presence_of(forest), .is_there = nullptr};
  const int64_t n = forest.n_targets;
  const bool by_row = std::ranges::find(scores.presence, Presence::kByRow) != scores.presence.end();
  if (by_row) forest = with_presence(std::move(forest));
  FETTLE_TRY(const ForestArrays arrays, lay_out(node, forest, identity_of(how)));
  const int64_t n_nodes = std::ssize(arrays.features), n_leaves = n_nodes - arrays.first_leaf;

  Attrs attrs;
  attrs.set("aggregate", static_cast<int64_t>(how));
  attrs.set("first_leaf", arrays.first_leaf);
  attrs.set("most_feature", arrays.most_feature);
  attrs.set("rows", rows_of_group(x->shape()[0]));
  attrs.set("targets", forest.n_targets);
  const std::span of_branches = std::span(arrays.outcomes).first(static_cast<size_t>(arrays.first_leaf));
  const bool alike = std::ranges::adjacent_find(of_branches, std::ranges::not_equal_to()) == of_branches.end();
  if (alike) attrs.set("outcomes", of_branches.empty() ? int64_t{kLess} : of_branches.front());
  std::vector<Value*> inputs{x,
                             g.constant(table(arrays.features, kU32, {n_nodes})),
                             g.constant(table(arrays.splits, forest.dtype, {n_nodes})),
                             g.constant(table(arrays.children, kU32, {n_nodes, 2})),
                             g.constant(table(arrays.trees, kU32, {std::ssize(forest.roots), 3})),
                             g.constant(table(arrays.weights, forest.dtype, {n_leaves, arrays.width}))};
  if (!alike) inputs.push_back(g.constant(table(arrays.outcomes, kU8, {n_nodes})));
  Value* y = g("TreeTraversal", std::move(inputs), std::move(attrs));
  FETTLE_TRY_VOID(g.status());
  y = g.reshape(y, {y->shape()[0] * y->shape()[1], forest.n_targets});
  y = first_rows(g, y, x->shape()[0]);

  if (by_row) {
    Value* marks = g.slice(y, 1, n, 2 * n);
    scores.is_there = how == Aggregate::kSum || how == Aggregate::kAverage ? g("Greater", {marks, g.number(0, kF64)})
                                                                           : g("Equal", {marks, g.number(1, kF64)});
    y = g("Where", {scores.is_there, g.slice(y, 1, 0, n), g.number(0, kF64)});
  }
  if (how == Aggregate::kAverage) y = g("Div", {y, g.number(static_cast<double>(forest.roots.size()), kF64)});
  scores.values = g.cast(y, forest.dtype);
  if ((how == Aggregate::kMin || how == Aggregate::kMax) && !by_row) {
    // A target that no leaf speaks of
    std::vector<double> spoken(static_cast<size_t>(n), 1);
    for (size_t t = 0; t < spoken.size(); ++t) spoken[t] = scores.presence[t] == Presence::kNever ? 0 : 1;
    if (std::ranges::find(spoken, 0) != spoken.end())
      scores.values = g("Where", {g.constant(table(spoken, kBool, {1, n})), scores.values, g.number(0, forest.dtype)});
  }
  return scores;
}

// Splits and weights are of double precision where x is, or a tensor of the attributes.
DType dtype_of_trees(const Node& node) {
  bool is_double = dtype_of(node, 0) == kF64;
  for (const auto& [name, value] : node.attrs.entries)
    if (const auto* data = std::get_if<ConstantTensor>(&value)) is_double |= data->dtype == kF64;
  return is_double ? kF64 : kF32;
}

Result<std::vector<double>> base_values(const Node& node, int64_t most) {
  FETTLE_TRY(std::vector<double> values, number_list(node, "base_values"));
  if (values.empty() || std::ssize(values) == most || (std::ssize(values) == 1 && most == 2)) return values;
  return bad_attribute(node, fmt::format("base_values has {} elements, and there are {} targets", values.size(), most));
}

// Targets of no score stay 0, whatever the base values are.
Value* with_base(Lowering& g, const Scores& scores, const std::vector<double>& base) {
  if (base.empty()) return scores.values;
  const DType dtype = scores.values->dtype();
  std::vector<double> added = base;
  for (size_t t = 0; t < added.size(); ++t)
    if (scores.presence[t] == Presence::kNever) added[t] = 0;
  Value* sum = g("Add", {scores.values, g.constant(table(added, dtype, {1, std::ssize(added)}))});
  return scores.is_there ? g("Where", {scores.is_there, sum, g.number(0, dtype)}) : sum;
}

constexpr std::string_view kNodeAttributes[] = {"aggregate_function",
                                                "base_values",
                                                "base_values_as_tensor",
                                                "nodes_falsenodeids",
                                                "nodes_featureids",
                                                "nodes_hitrates",  // says nothing of the result
                                                "nodes_hitrates_as_tensor",
                                                "nodes_missing_value_tracks_true",
                                                "nodes_modes",
                                                "nodes_nodeids",
                                                "nodes_treeids",
                                                "nodes_truenodeids",
                                                "nodes_values",
                                                "nodes_values_as_tensor",
                                                "post_transform"};
Result<> check_tree_attributes(const Node& node, std::initializer_list<std::string_view> own) {
  std::vector<std::string_view> known(std::begin(kNodeAttributes), std::end(kNodeAttributes));
  known.insert(known.end(), own);
  return check_attributes(node, known);
}

// --- TreeEnsembleRegressor, TreeEnsemble

// One target is transformed by PROBIT alone.
Value* regression(Lowering& g, const Scores& scores, const std::vector<double>& base, PostTransform transform) {
  Value* y = with_base(g, scores, base);
  const bool is_one = scores.presence.size() == 1;
  return is_one && transform != PostTransform::kProbit ? y : transformed(g, y, transform);
}

Values tree_regressor(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_tree_attributes(node, {"n_targets", "target_ids", "target_nodeids", "target_treeids",
                                               "target_weights", "target_weights_as_tensor"}));
  const int64_t n = node.attrs.get_int("n_targets", 0);
  if (n < 1 || n > kMostTargets) return bad_attribute(node, fmt::format("n_targets is {}", n));
  constexpr std::string_view names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string name = node.attrs.get_string("aggregate_function", "SUM");
  const auto* how = std::ranges::find(names, name);
  if (how == std::end(names)) return bad_attribute(node, fmt::format("aggregate_function is \"{}\"", name));
  FETTLE_TRY(const PostTransform transform, post_transform(node));
  FETTLE_TRY(const std::vector<double> base, base_values(node, n));
  if (!base.empty() && std::ssize(base) != n) return bad_attribute(node, "base_values are fewer than the targets");
  FETTLE_TRY(Forest forest, read_forest(node, "target", n, dtype_of_trees(node)));
  FETTLE_TRY(const Scores scores,
             scores_of(g, node, std::move(forest), static_cast<Aggregate>(how - std::begin(names))));
  return std::vector{g.cast(regression(g, scores, base, transform), kF32)};
}

Values tree_ensemble(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(
      node,
      {"aggregate_function", "leaf_targetids", "leaf_weights", "membership_values", "n_targets", "nodes_falseleafs",
       "nodes_falsenodeids", "nodes_featureids", "nodes_hitrates", "nodes_missing_value_tracks_true", "nodes_modes",
       "nodes_splits", "nodes_trueleafs", "nodes_truenodeids", "post_transform", "tree_roots"}));
  const int64_t how = node.attrs.get_int("aggregate_function", 1), transform = node.attrs.get_int("post_transform", 0);
  if (how < 0 || how > 3) return bad_attribute(node, fmt::format("aggregate_function is {}", how));
  if (transform < 0 || transform > 4) return bad_attribute(node, fmt::format("post_transform is {}", transform));
  FETTLE_TRY(Forest forest, read_forest_of_leaves(node, dtype_of_trees(node)));
  FETTLE_TRY(const Scores scores, scores_of(g, node, std::move(forest), static_cast<Aggregate>(how)));
  return std::vector{g.cast(regression(g, scores, {}, static_cast<PostTransform>(transform)), dtype_of(node, 0))};
}

// --- TreeEnsembleClassifier → (labels: [n], scores: f32[n, classes]), as ONNX Runtime has it

class TreeClassifier {
 public:
  TreeClassifier(Lowering& g, const Node& node, ClassLabels labels) : g_(g), node_(node), labels_(std::move(labels)) {}

  Values run() {
    const int64_t n = labels_.size();
    FETTLE_TRY(transform_, post_transform(node_));
    FETTLE_TRY(base_, base_values(node_, n));
    if (node_.attrs.get_string("aggregate_function", "SUM") != "SUM")
      return bad_attribute(node_, "aggregate_function is not SUM");
    dtype_ = dtype_of_trees(node_);
    FETTLE_TRY(Forest forest, read_forest(node_, "class", n, dtype_));
    FETTLE_TRY(scores_, scores_of(g_, node_, std::move(forest), Aggregate::kSum));
    return n == 1 ? one_class() : n == 2 ? two_classes() : many_classes();
  }

 private:
  Value* number(double value) { return g_.number(value, dtype_); }
  Value* column(int64_t k) { return g_.slice(scores_.values, 1, k, k + 1); }
  Value* is_positive(Value* x) { return g_("Greater", {x, number(0)}); }
  // [n, 1] → [n]
  Value* flat(Value* x) { return g_.reshape(x, {x->shape()[0]}); }
  Value* base(size_t k) { return number(base_[k]); }

  // The labels are 1 and 0, not that of the class.
  Values one_class() {
    if (labels_.are_strings()) return bad_attribute(node_, "classlabels_strings has one element: a label is 0 or 1");
    Value* score = base_.empty() ? scores_.values : g_("Add", {scores_.values, base(0)});
    Value* label = g_.cast(flat(is_positive(score)), kI64);
    score = g_.cast(score, kF32);
    return std::vector{label, transform_ == PostTransform::kProbit ? probit(g_, score) : score};
  }

  Values two_classes() {
    const auto ids = node_.attrs.get_ints("class_ids");
    const bool is_binary = std::set(ids.begin(), ids.end()).size() == 1;
    FETTLE_TRY(const std::vector<double> weights, number_list(node_, "class_weights"));
    const bool all_positive = is_binary && std::ranges::none_of(weights, [](double w) { return w < 0; });

    // Where class 1 has a score, this is the positive one, and there are two.
    const Presence second = scores_.presence[1];
    Value *deciding = nullptr, *y = nullptr;
    if (second != Presence::kNever) {
      Value *first = column(0), *other = column(1);
      if (base_.size() == 1) first = where_first(g_("Add", {first, base(0)}));
      if (base_.size() == 2) {
        other = g_("Add", {first, base(1)});
        first = where_first(g_("Neg", {other}));
      }
      deciding = other;
      y = transformed(g_, both(first, other), transform_);
    }
    if (second != Presence::kAlways) {
      FETTLE_TRY(const auto alone, first_alone(is_binary, all_positive));
      Value* has_two = scores_.is_there_at(g_, 1);
      deciding = has_two ? g_("Where", {has_two, deciding, alone.first}) : alone.first;
      y = has_two ? g_("Where", {has_two, y, alone.second}) : alone.second;
    }
    Value* positive = flat(g_("Greater", {deciding, number(all_positive ? 0.5 : 0)}));
    Value* index = g_.cast(positive, kI64);
    // Of classes that both have scores, the labels are 1 and 0, whatever numbers they are called by.
    return std::vector{is_binary || labels_.are_strings() ? labels_.at(g_, index) : index, y};
  }

  // Class 0 has the only score: what decides, and both scores.
  Result<std::pair<Value*, Value*>> first_alone(bool is_binary, bool all_positive) {
    Value* first = column(0);
    if (base_.size() == 2) {
      first = g_("Add", {first, base(0)});
      return std::pair{first, transformed(g_, both(first, g_("Sub", {first, first})), transform_)};
    }
    if (base_.size() == 1) {
      if (!is_binary)
        return bad_attribute(node_,
                             "base_values has one element, and weights are of two classes, but not in all leaves");
      first = g_("Add", {first, base(0)});
    }
    FETTLE_TRY(Value * y, of_two_classes(g_, node_, g_.cast(first, kF32), all_positive, transform_));
    return std::pair{first, y};
  }

  // x where class 0 has a score, else 0
  Value* where_first(Value* x) {
    if (scores_.presence[0] == Presence::kNever) return column(0);
    Value* is_there = scores_.is_there_at(g_, 0);
    return is_there ? g_("Where", {is_there, x, number(0)}) : x;
  }
  Value* both(Value* first, Value* other) {
    return g_.cast(g_("Concat", {first, other}, {{{"axis", int64_t{1}}}}), kF32);
  }

  // The first of the greatest.
  Values many_classes() {
    Value* scores = scores_.values;
    Value* compared = scores;
    if (!base_.empty()) {
      compared = scores = g_("Add", {scores, g_.constant(table(base_, dtype_, {1, labels_.size()}))});
    } else {
      // Classes without a score are not asked.
      Value* lowest = number(-std::numeric_limits<double>::infinity());
      if (scores_.is_there) {
        compared = g_("Where", {scores_.is_there, compared, lowest});
      } else if (std::ranges::find(scores_.presence, Presence::kNever) != scores_.presence.end()) {
        std::vector<double> asked;
        for (const Presence own : scores_.presence) asked.push_back(own == Presence::kNever ? 0 : 1);
        compared = g_("Where", {g_.constant(table(asked, kBool, {1, labels_.size()})), compared, lowest});
      }
    }
    Value* index = g_("ArgMax", {compared}, {{{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}});
    return std::vector{labels_.at(g_, index), transformed(g_, g_.cast(scores, kF32), transform_)};
  }

  Lowering& g_;
  const Node& node_;
  ClassLabels labels_;
  PostTransform transform_ = PostTransform::kNone;
  DType dtype_;
  std::vector<double> base_;
  Scores scores_{};
};

Values tree_classifier(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(
      check_tree_attributes(node, {"class_ids", "class_nodeids", "class_treeids", "class_weights",
                                   "class_weights_as_tensor", "classlabels_int64s", "classlabels_strings"}));
  FETTLE_TRY(ClassLabels labels, ClassLabels::read(node, "classlabels_int64s"));
  return TreeClassifier(g, node, std::move(labels)).run();
}

constexpr OpDef ml_trees_defs[] = {
    define(kOpaque, "TreeTraversal", {6, 7}, traversal_type, traversal),
    composite<tree_regressor>("ai.onnx.ml.TreeEnsembleRegressor", 1),
    composite<tree_classifier>("ai.onnx.ml.TreeEnsembleClassifier", 1, 2),
    composite<tree_ensemble>("ai.onnx.ml.TreeEnsemble", 1),
};

}  // namespace

extern constinit const OpFamily ml_trees_ops{"ml_trees", ml_trees_defs};

}  // namespace fettle
