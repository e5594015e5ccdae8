#pragma once
// What models of ai.onnx.ml share: lists of numbers, scores and labels.

#include <string_view>
#include <vector>

#include "graph/passes/lowering.h"

namespace fettle::ops {

/// The attribute of floats, or that of a tensor which may stand for it: name_as_tensor. Missing: none.
/// E606 both are given
Result<std::vector<double>> number_list(const Node& node, const std::string& name);

/// The attribute of strings. Missing: none.
std::vector<std::string> string_list(const Node& node, std::string_view name);

enum class PostTransform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

/// The attribute post_transform. E606.
Result<PostTransform> post_transform(const Node& node);

/// sqrt(2) * erfinv(2x - 1), by the formula that ONNX Runtime uses.
Value* probit(passes::Lowering& g, Value* x);

/// scores: [n, classes], two or more, in single precision.
Value* transformed(passes::Lowering& g, Value* scores, PostTransform transform);

/// What one score of two classes becomes: f32[n, 1] → f32[n, 2].
///   all_positive: 1 - s, s, where kLogistic makes s = logistic(s); else -s, s, or logistic(-s), logistic(s)
/// Other transforms change nothing. E606 kProbit: ONNX Runtime leaves one of the two open.
Result<Value*> of_two_classes(passes::Lowering& g, const Node& node, Value* score, bool all_positive,
                              PostTransform transform);

/// Labels of classes.
class ClassLabels {
 public:
  /// ints: the attribute's name, "classlabels_ints" or "classlabels_int64s".
  /// E606 both kinds are given, or none
  static Result<ClassLabels> read(const Node& node, std::string_view ints);

  int64_t size() const { return table_.n_elems(); }
  bool are_strings() const { return table_.dtype.is_string(); }
  /// The labels of the classes with these indices: i64[n].
  Value* at(passes::Lowering& g, Value* indices) const { return g("Gather", {g.constant(table_), indices}); }

 private:
  explicit ClassLabels(ConstantTensor table) : table_(std::move(table)) {}

  ConstantTensor table_;
};

/// x as rows of features, in `dtype`: a list is one row. E605.
Result<Value*> feature_rows(passes::Lowering& g, const Node& node, DType dtype);

}  // namespace fettle::ops
