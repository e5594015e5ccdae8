#include "codegen/llvm/registers.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "ir/rewrite.h"

namespace fettle::llvm_backend {
namespace {

/// Constant run of elements, or lanes == 0.
struct Run {
  int64_t first = 0;
  int lanes = 0;
};

Run constant_run(const Expr& index, IndexForms& forms) {
  if (const auto* ramp = index.as<RampNode>()) {
    const IndexForm base = forms.form(ramp->base);
    if (!base.is_constant() || !is_one(ramp->stride)) return {};
    return {base.constant, ramp->dtype.lanes};
  }
  if (index.dtype().lanes != 1) return {};
  const IndexForm form = forms.form(index);
  return form.is_constant() ? Run{form.constant, 1} : Run{};
}

/// Collects the runs of every register buffer.
class Accesses : public AccessVisitor {
 public:
  explicit Accesses(IndexForms& forms) : forms_(forms) {}

  std::map<const BufferNode*, std::map<int64_t, int>> runs;  // first → most lanes
  std::vector<const BufferNode*> order;
  std::unordered_map<const BufferNode*, bool> unfit;

  using AccessVisitor::visit;
  void visit(const Stmt& s) override {
    if (const auto* let = s.as<LetNode>(); let && let->var->dtype == kI64 && !reads_memory(let->value))
      forms_.define(let->var.get(), forms_.form(let->value));
    if (const auto* allocation = s.as<AllocateNode>()) home_[allocation->buffer.get()] = parallel_;
    if (const auto* loop = s.as<ForNode>(); loop && loop->loop_kind == ForKind::kParallel) {
      const ForNode* outer = std::exchange(parallel_, loop);
      AccessVisitor::visit(s);
      parallel_ = outer;
      return;
    }
    AccessVisitor::visit(s);
  }

 private:
  void access(const Buffer& accessed, const std::vector<Expr>& indices, AccessKind kind) override {
    const BufferNode* buffer = accessed.get();
    if (buffer->scope != kScopeRegister) return;
    if (kind == AccessKind::kAddress) return void(unfit[buffer] = true);
    if (runs.find(buffer) == runs.end()) order.push_back(buffer);
    auto& mine = runs[buffer];
    const Run run = indices.size() == 1 ? constant_run(indices[0], forms_) : Run{};
    const auto home = home_.find(buffer);
    if (run.lanes == 0 || home == home_.end() || home->second != parallel_) {
      unfit[buffer] = true;
      return;
    }
    int& lanes = mine[run.first];
    lanes = std::max(lanes, run.lanes);
  }

  IndexForms& forms_;
  const ForNode* parallel_ = nullptr;
  std::unordered_map<const BufferNode*, const ForNode*> home_;
};

}  // namespace

Registers::Registers(const Stmt& body, IndexForms& forms) {
  Accesses accesses(forms);
  accesses.visit(body);
  for (const BufferNode* buffer : accesses.order) {
    if (accesses.unfit.count(buffer)) continue;
    std::vector<RegisterSlot> slots;
    bool fits = true;
    for (const auto& [first, lanes] : accesses.runs[buffer]) {
      if (!slots.empty() && first < slots.back().first + slots.back().lanes) {
        fits &= first + lanes <= slots.back().first + slots.back().lanes;
      } else {
        slots.push_back({buffer, first, lanes});
      }
    }
    if (!fits) continue;
    auto& mine = by_buffer_[buffer];
    for (const RegisterSlot& slot : slots) {
      mine.push_back(static_cast<int>(slots_.size()));
      slots_.push_back(slot);
    }
  }
}

RegisterAccess Registers::find(const BufferNode* buffer, const Expr& index, IndexForms& forms) const {
  const Run run = constant_run(index, forms);
  const auto& mine = by_buffer_.at(buffer);
  const auto after = std::upper_bound(mine.begin(), mine.end(), run.first, [this](int64_t first, int slot) {
    return first < slots_[static_cast<size_t>(slot)].first;
  });
  FETTLE_CHECK(after != mine.begin());
  const int slot = *std::prev(after);
  const int lane = static_cast<int>(run.first - slots_[static_cast<size_t>(slot)].first);
  FETTLE_CHECK(lane + run.lanes <= slots_[static_cast<size_t>(slot)].lanes);
  return {slot, lane, run.lanes};
}

}  // namespace fettle::llvm_backend
