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

constexpr int64_t kMostRows = 256;      // of a box
constexpr size_t kMostDimensions = 5;   // of a tensor map
constexpr int64_t kStrideBytes = 16;    // of which strides are multiples
constexpr int64_t kSwizzledRows = 8;    // after which the order of 16-byte pieces repeats

class Reader {
 public:
  Reader(const ForNode& nest, const std::vector<Param>& params, const Var& block, int64_t cluster)
      : nest_(nest), params_(params), block_(block), cluster_(cluster) {}

  Result<BulkCopy> read() {
    FETTLE_TRY_VOID(take_apart());
    FETTLE_TRY_VOID(take_target());
    FETTLE_TRY_VOID(take_source());
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
    const auto* target = inside.as<StoreNode>();
    if (!target || target->mask) return refuse("its loops hold more than one store, or a guard that leaves elements out");
    store_ = inside;
    Expr value = target->value;
    if (const auto* choice = value.as<SelectNode>(); choice && is_const_zero(choice->if_false)) {
      guard_ = choice->condition;
      value = choice->if_true;
    }
    const auto* source = value.as<LoadNode>();
    if (!source || source->mask || !(source->dtype == target->value.dtype()) || source->dtype.lanes != 1)
      return refuse("it stores something else than what it reads");
    from_ = source->buffer;
    indices_ = source->indices;
    return {};
  }

  // Lines of elements, all of the buffer.
  Result<> take_target() {
    const auto& target = *store_.as<StoreNode>();
    copy_.to = target.buffer;
    if (copy_.to->scope != "shared" || !copy_.to->strides.empty())
      return refuse(fmt::format("buffer {} is no dense buffer of scope \"shared\"", copy_.to->name));
    std::vector<size_t> used;  // loops, outer dimension first
    for (size_t d = 0; d < target.indices.size(); ++d) {
      const Expr index = analyzer_.simplify(target.indices[d]);
      if (is_one(copy_.to->shape[d])) continue;
      const auto loop = std::ranges::find_if(loops_, [&](const auto& l) { return index.get() == l.first.get(); });
      if (loop == loops_.end() || !is_int(copy_.to->shape[d], loop->second))
        return refuse(fmt::format("index {} of buffer {} is no loop over all of it", to_text(index), copy_.to->name));
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
    const int64_t panel = kPanelBytes / copy_.to->dtype.element_bytes();
    if (copy_.columns % panel != 0 || copy_.rows % kSwizzledRows != 0 || copy_.rows > kMostRows)
      return refuse(fmt::format("it takes {} rows of {} elements: rows must be a multiple of {}, at most {}, and columns "
                                "a multiple of {}",
                                copy_.rows, copy_.columns, kSwizzledRows, kMostRows, panel));
    return {};
  }

  Result<> take_source() {
    const auto param = std::ranges::find(params_, from_, &Param::buffer);
    if (param == params_.end()) return refuse(fmt::format("buffer {} is not in memory", from_->name));
    copy_.map.param = static_cast<size_t>(param - params_.begin());
    const int64_t bytes = from_->dtype.element_bytes();
    const size_t rank = from_->shape.size();
    if (rank < 2 || rank > kMostDimensions)
      return refuse(fmt::format("buffer {} has {} dimensions, and tensor maps 2 to {}", from_->name, rank,
                                kMostDimensions));
    Expr stride = Expr(1);
    bool has_row = false;
    for (size_t d = rank; d-- > 0;) {
      const bool innermost = d + 1 == rank;
      if (!from_->strides.empty()) stride = from_->strides[d];
      if (innermost && !is_one(stride)) return refuse("the innermost stride of what it reads is not 1");
      if (!innermost) {
        if (analyzer_.modular(stride * bytes).coeff % kStrideBytes != 0 ||
            analyzer_.modular(stride * bytes).base % kStrideBytes != 0)
          return refuse(fmt::format("rows of buffer {} lie {} elements apart, which is no multiple of {} bytes",
                                    from_->name, to_text(stride), kStrideBytes));
        copy_.map.strides.push_back(analyzer_.simplify(stride));
      }
      copy_.map.extents.push_back(from_->shape[d]);
      stride = analyzer_.simplify(stride * from_->shape[d]);
      // base + i, base + j, or base
      LinearForm form = analyzer_.linear(indices_[d]);
      const Var& moves = innermost ? column_ : row_;
      int64_t box = 1;
      if (moves && form.coeff_of(moves) == 1 && (innermost || !has_row)) {
        form.add_term(moves, -1);
        box = innermost ? kPanelBytes / bytes : copy_.rows;
        has_row |= !innermost;
      } else if (innermost) {
        return refuse(fmt::format("buffer {} is not read along its innermost dimension", from_->name));
      }
      const Expr base = analyzer_.to_expr(form);
      for (const auto& [var, extent] : loops_)
        if (uses_var(base, var.get()))
          return refuse(fmt::format("index {} of buffer {} is no place plus a loop", to_text(indices_[d]), from_->name));
      copy_.map.box.push_back(box);
      copy_.coordinates.push_back(base);
    }
    if (row_ && !has_row) return refuse(fmt::format("no dimension of buffer {} has the rows", from_->name));
    return {};
  }

  // Zero is what lies outside of the buffer, and nothing else is zero.
  Result<> check_guard() {
    if (!guard_) return {};
    std::vector<Expr> within;
    for (size_t d = 0; d < indices_.size(); ++d) {
      within.push_back(analyzer_.simplify(lt(indices_[d], from_->shape[d])));
      within.push_back(analyzer_.simplify(le(Expr(0), indices_[d])));
    }
    for (const Expr& conjunct : conjuncts(guard_)) {
      const Expr simple = analyzer_.simplify(conjunct);
      if (is_true(simple)) continue;
      if (std::ranges::none_of(within, [&](const Expr& e) { return structural_equal(e, simple); }))
        return refuse(fmt::format("zeros stand not only outside of buffer {}: {}", from_->name, to_text(conjunct)));
    }
    return {};
  }

  // What all blocks of the cluster copy: its place does not depend on which of them it is.
  void share() {
    if (cluster_ < 2 || !block_ || copy_.rows % (kSwizzledRows * cluster_) != 0) return;
    const Var group = make_var("group"), rank = make_var("rank");
    analyzer_.bind(group, 0, INT32_MAX);
    analyzer_.bind(rank, 0, cluster_);
    for (const Expr& at : copy_.coordinates)
      if (uses_var(analyzer_.simplify(substitute(at, {{block_.get(), Expr(group) * cluster_ + Expr(rank)}})), rank.get()))
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
  Stmt store_;
  Expr guard_;
  Buffer from_;
  std::vector<Expr> indices_;
  Var row_, column_;
  BulkCopy copy_;
};

}  // namespace

bool has_bulk_copies(const Target& target) { return target.kind == "cuda" && target.cpu == "sm_90a"; }

Result<BulkCopy> bulk_copy_of(const ForNode& nest, const std::vector<Param>& params, const Var& block,
                              int64_t cluster) {
  return Reader(nest, params, block, cluster).read();
}

}  // namespace fettle
