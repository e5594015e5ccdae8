#include <unordered_map>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/device.h"
#include "lower/device/passes.h"
#include "lower/passes/range_mutator.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr int64_t kLines = kSwizzleBytes / kPanelBytes;  // after which the order of 16-byte pieces repeats

struct Panels {
  int64_t rows = 0, columns = 0;
};

class FactorPlacer : public RangeMutator {
 public:
  explicit FactorPlacer(const Func& func) : RangeMutator(func) {
    each_node<EvaluateNode>(func->body, [&](const EvaluateNode& node) {
      const auto* called = node.value.as<CallNode>();
      if (!called || called->name != kBulkLoadCall) return;
      panels_[called->args[0].as<AddressNode>()->buffer.get()] = {*as_int(called->args[4]), *as_int(called->args[5])};
    });
  }
  using Mutator::rewrite;
  std::string problem;

  Stmt rewrite(const Stmt& s) override {
    const CallNode* called = effect_of(s);
    const TensorIntrinsicDef* intrinsic = called ? find_tensor_intrinsic(called->name) : nullptr;
    if (!intrinsic || intrinsic->threads != kWarpGroupThreads || intrinsic->in_fragments != 4)
      return RangeMutator::rewrite(s);
    const Func meaning = meaning_of(*intrinsic);
    std::vector<Expr> args;
    for (size_t p = 0; p < 2; ++p) {
      // The dimension of k is A's last one, and B's first one or last one.
      const auto& shape = meaning->params[p].buffer->shape;
      place(*called, p, *as_int(shape[0]), *as_int(shape[1]), p == 0 || is_int(shape[1], kDepth), args);
      if (!problem.empty()) return s;
    }
    args.push_back(called->args[4]);
    return evaluate(call(called->name, std::move(args), called->dtype));
  }

 private:
  void place(const CallNode& called, size_t p, int64_t rows, int64_t columns, bool along_k, std::vector<Expr>& args) {
    const auto* pointer = called.args[2 * p].as<AddressNode>();
    const auto known = panels_.find(pointer->buffer.get());
    const auto refuse = [&](std::string_view why) {
      problem = fmt::format("a factor of {} is a tile of {} x {} at {} of buffer {}, {}", called.name, rows, columns,
                            to_text(pointer->indices[0]), pointer->buffer->name, why);
    };
    if (known == panels_.end()) return refuse("which no bulk copy fills");
    const auto& [all_rows, all_columns] = known->second;
    if (!is_int(called.args[2 * p + 1], all_columns)) return refuse("whose rows are not those of a bulk copy");
    const int64_t panel = kPanelBytes / pointer->buffer->dtype.element_bytes();
    const Expr& at = pointer->indices[0];
    const Expr line = floordiv(at, Expr(all_columns));
    const Expr column = analyzer_.simplify(floormod(at, Expr(all_columns)));
    const Expr version = floordiv(line, Expr(all_rows)), row = analyzer_.simplify(floormod(line, Expr(all_rows)));
    const int64_t step = along_k ? columns : panel;
    if (!is_multiple(row, kLines) || !is_multiple(column, step) ||
        (!along_k && columns % panel != 0 && columns > panel))
      return refuse("which does not begin where a panel's lines do");
    args.push_back(address_of(pointer->buffer, {analyzer_.simplify(version * (all_rows * all_columns) +
                                                                   floordiv(column, Expr(panel)) * (all_rows * panel) +
                                                                   row * panel + floormod(column, Expr(panel)))}));
    args.push_back(Expr(all_rows * kPanelBytes));
    args.push_back(Expr(kSwizzleBytes));
  }
  bool is_multiple(const Expr& e, int64_t of) {
    const Modular m = analyzer_.modular(e);
    return m.coeff % of == 0 && m.base % of == 0;
  }

  static constexpr int64_t kDepth = 16;  // of one product
  std::unordered_map<const BufferNode*, Panels> panels_;
};

}  // namespace

Result<Func> place_factors(const Func& func) {
  FactorPlacer placer(func);
  const Stmt body = placer.rewrite(func->body);
  if (!placer.problem.empty()) return fail(ErrorCode::E301, placer.problem, func->name);
  return with_body(func, body);
}

}  // namespace fettle
