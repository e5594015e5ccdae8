#include "lower/device/bulk_copy.h"

#include <algorithm>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

constexpr int64_t kMostRows = 256;     // of a box
constexpr size_t kMostDimensions = 5;  // of a tensor map
constexpr int64_t kStrideBytes = 16;   // of which strides are multiples
constexpr int64_t kSwizzledRows = 8;   // after which the order of 16-byte pieces repeats

class Reader {
 public:
  Reader(const ForNode& nest, const std::vector<Param>& params, const Var& block, int64_t cluster,
         const Analyzer& known)
      : nest_(nest), params_(params), block_(block), cluster_(cluster), analyzer_(known) {}

  Result<BulkCopy> read() {
    FETTLE_TRY_VOID(take_apart());
    FETTLE_TRY_VOID(take_near());
    FETTLE_TRY_VOID(take_far());
    FETTLE_TRY_VOID(check_guard());
    share();
    return std::move(copy_);
  }

 private:
  tl::unexpected<Diagnostic> refuse(std::string why) const {
    return fail(ErrorCode::E301,
                fmt::format("the copy at loop {} is annotated \"{}\", and {}", nest_.var->name, kBulkCopyKey, why));
  }

  // Loops of more than one iteration, and the store inside.
  Result<> take_apart() {
    Stmt inside = Stmt(make_ref<ForNode>(nest_));
    VarMap once;
    for (const auto* loop = inside.as<ForNode>(); loop; loop = inside.as<ForNode>()) {
      if (!as_int(loop->extent) || !is_zero(loop->min))
        return refuse(fmt::format("loop {} has no constant extent from 0", loop->var->name));
      if (is_one(loop->extent))
        once[loop->var.get()] = loop->min;
      else
        loops_.push_back({loop->var, *as_int(loop->extent)});
      analyzer_.bind(loop->var, loop->min, loop->extent);
      const Stmt next = loop->body;
      inside = next;
    }
    inside = once.empty() ? inside : substitute(inside, once);
    Expr left_out, zero;
    if (const auto* choice = inside.as<IfNode>(); choice && !choice->else_body) {
      left_out = choice->condition;
      const Stmt next = choice->then_body;
      inside = next;
    }
    const auto* target = inside.as<StoreNode>();
    if (!target || target->mask) return refuse("its loops hold more than one store");
    Expr value = target->value;
    if (const auto* choice = value.as<SelectNode>(); choice && is_const_zero(choice->if_false)) {
      zero = choice->condition;
      value = choice->if_true;
    }
    const auto* source = value.as<LoadNode>();
    if (!source || source->mask || !(source->dtype == target->value.dtype()) || source->dtype.lanes != 1)
      return refuse("it stores something else than what it reads");
    copy_.stores = target->buffer->scope == kScopeGlobal;
    copy_.near = copy_.stores ? source->buffer : target->buffer;
    near_indices_ = copy_.stores ? source->indices : target->indices;
    far_ = copy_.stores ? target->buffer : source->buffer;
    indices_ = copy_.stores ? target->indices : source->indices;
    guard_ = copy_.stores ? left_out : zero;
    if (copy_.stores ? bool(zero) : bool(left_out))
      return refuse("a guard leaves elements of shared memory as they were, or makes zeros in memory");
    return {};
  }

  // Lines of elements: all of the buffer, or some of one that is a panel.
  Result<> take_near() {
    const BufferNode& near = *copy_.near;
    if (near.scope != "shared" || !near.strides.empty())
      return refuse(fmt::format("buffer {} is no dense buffer of scope \"shared\"", near.name));
    const int64_t panel = kPanelBytes / near.dtype.element_bytes();
    std::vector<size_t> used;  // loops, outer dimension first
    for (size_t d = 0; d < near_indices_.size(); ++d) {
      const bool innermost = d + 1 == near_indices_.size();
      LinearForm form = analyzer_.linear(near_indices_[d]);
      const auto loop = std::ranges::find_if(loops_, [&](const auto& l) { return form.coeff_of(l.first) == 1; });
      if (loop == loops_.end()) {
        if (!is_one(near.shape[d]))
          return refuse(fmt::format("no loop goes over dimension {} of buffer {}", d, near.name));
        copy_.from.push_back(Expr(0));
        continue;
      }
      form.add_term(loop->first, -1);
      const Expr base = analyzer_.to_expr(form);
      const bool all = is_zero(base) && is_int(near.shape[d], loop->second);
      const bool part_of_panel = copy_.stores && !innermost && is_int(near.shape.back(), panel) &&
                                 is_multiple(base, kSwizzledRows) && !moves(base);
      if (!all && !part_of_panel)
        return refuse(
            fmt::format("index {} of buffer {} is no loop over all of it", to_text(near_indices_[d]), near.name));
      copy_.from.push_back(base);
      used.push_back(static_cast<size_t>(loop - loops_.begin()));
    }
    if (used.size() != loops_.size() || used.empty() || used.size() > 2)
      return refuse("it is no rectangle of rows and columns");
    column_ = loops_[used.back()].first;
    copy_.columns = loops_[used.back()].second;
    copy_.rows = 1;
    if (used.size() == 2) {
      row_ = loops_[used[0]].first;
      copy_.rows = loops_[used[0]].second;
    }
    if (copy_.columns % panel != 0 || (copy_.stores && copy_.columns != panel) || copy_.rows % kSwizzledRows != 0 ||
        copy_.rows > kMostRows)
      return refuse(fmt::format(
          "it takes {} rows of {} elements: rows must be a multiple of {}, at most {}, and columns "
          "{} {}",
          copy_.rows, copy_.columns, kSwizzledRows, kMostRows, copy_.stores ? "exactly" : "a multiple of", panel));
    return {};
  }

  bool moves(const Expr& e) const {
    return std::ranges::any_of(loops_, [&](const auto& loop) { return uses_var(e, loop.first.get()); });
  }
  bool is_multiple(const Expr& e, int64_t of) {
    const Modular m = analyzer_.modular(e);
    return m.coeff % of == 0 && m.base % of == 0;
  }

  Result<> take_far() {
    const auto param = std::ranges::find(params_, far_, &Param::buffer);
    if (param == params_.end()) return refuse(fmt::format("buffer {} is not in memory", far_->name));
    copy_.map.param = static_cast<size_t>(param - params_.begin());
    const int64_t bytes = far_->dtype.element_bytes();
    const size_t rank = far_->shape.size();
    if (rank < 2 || rank > kMostDimensions)
      return refuse(
          fmt::format("buffer {} has {} dimensions, and tensor maps 2 to {}", far_->name, rank, kMostDimensions));
    Expr stride = Expr(1);
    bool has_row = false;
    for (size_t d = rank; d-- > 0;) {
      const bool innermost = d + 1 == rank;
      if (!far_->strides.empty()) stride = far_->strides[d];
      if (innermost && !is_one(stride))
        return refuse(fmt::format("the innermost stride of buffer {} is not 1", far_->name));
      if (!innermost) {
        if (!is_multiple(stride * bytes, kStrideBytes))
          return refuse(fmt::format("rows of buffer {} lie {} elements apart, which is no multiple of {} bytes",
                                    far_->name, to_text(stride), kStrideBytes));
        copy_.map.strides.push_back(analyzer_.simplify(stride));
      }
      copy_.map.extents.push_back(far_->shape[d]);
      stride = analyzer_.simplify(stride * far_->shape[d]);
      // base + i, base + j, or base
      LinearForm form = analyzer_.linear(indices_[d]);
      const Var& along = innermost ? column_ : row_;
      int64_t box = 1;
      if (along && form.coeff_of(along) == 1 && (innermost || !has_row)) {
        form.add_term(along, -1);
        box = innermost ? kPanelBytes / bytes : copy_.rows;
        has_row |= !innermost;
      } else if (innermost) {
        return refuse(fmt::format("buffer {} is not gone through along its innermost dimension", far_->name));
      }
      const Expr base = analyzer_.to_expr(form);
      if (moves(base))
        return refuse(fmt::format("index {} of buffer {} is no place plus a loop", to_text(indices_[d]), far_->name));
      copy_.map.box.push_back(box);
      copy_.coordinates.push_back(base);
    }
    if (row_ && !has_row) return refuse(fmt::format("no dimension of buffer {} has the rows", far_->name));
    return {};
  }

  // Zero, or left out, is what lies outside of the buffer, and nothing else.
  Result<> check_guard() {
    if (!guard_) return {};
    std::vector<Expr> within;
    for (size_t d = 0; d < indices_.size(); ++d) {
      within.push_back(analyzer_.simplify(lt(indices_[d], far_->shape[d])));
      within.push_back(analyzer_.simplify(le(Expr(0), indices_[d])));
    }
    for (const Expr& conjunct : conjuncts(guard_)) {
      const Expr simple = analyzer_.simplify(conjunct);
      if (is_true(simple)) continue;
      if (std::ranges::none_of(within, [&](const Expr& e) { return structural_equal(e, simple); }) &&
          !leaves_out_what_lies_outside(simple))
        return refuse(
            fmt::format("a guard says something else than what lies in buffer {}: {}", far_->name, to_text(conjunct)));
    }
    return {};
  }

  // Where the condition does not hold, no element lies in the buffer.
  bool leaves_out_what_lies_outside(const Expr& condition) {
    const auto scope = analyzer_.assume(analyzer_.simplify(logical_not(condition)));
    for (size_t d = 0; d < indices_.size(); ++d)
      if (analyzer_.can_prove(le(far_->shape[d], indices_[d]))) return true;
    return false;
  }

  // What all blocks of the cluster copy: its place does not depend on which of them it is.
  void share() {
    if (copy_.stores || cluster_ < 2 || !block_ || copy_.rows % (kSwizzledRows * cluster_) != 0) return;
    const Var group = make_var("group"), rank = make_var("rank");
    analyzer_.bind(group, 0, INT32_MAX);
    analyzer_.bind(rank, 0, cluster_);
    for (const Expr& at : copy_.coordinates)
      if (uses_var(analyzer_.simplify(substitute(at, {{block_.get(), Expr(group) * cluster_ + Expr(rank)}})),
                   rank.get()))
        return;
    copy_.blocks = cluster_;
    for (size_t d = 1; d < copy_.map.box.size(); ++d)
      if (copy_.map.box[d] > 1) copy_.map.box[d] /= cluster_;
  }

  const ForNode& nest_;
  const std::vector<Param>& params_;
  const Var& block_;
  const int64_t cluster_;
  Analyzer analyzer_;
  std::vector<std::pair<Var, int64_t>> loops_;
  Expr guard_;
  std::vector<Expr> near_indices_;
  Buffer far_;
  std::vector<Expr> indices_;
  Var row_, column_;
  BulkCopy copy_;
};

}  // namespace

bool has_bulk_copies(const Target& target) { return target.kind == "cuda" && target.cpu == "sm_90a"; }

Result<BulkCopy> bulk_copy_of(const ForNode& nest, const std::vector<Param>& params, const Var& block, int64_t cluster,
                              const Analyzer& known) {
  return Reader(nest, params, block, cluster, known).read();
}

}  // namespace fettle
