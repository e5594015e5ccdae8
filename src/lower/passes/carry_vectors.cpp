#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ir/rewrite.h"
#include "lower/passes/lane_runs.h"
#include "lower/passes/passes.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// A vector that an iteration stores and the next one reads.
struct Carried {
  const StoreNode* store = nullptr;
  LaneRun written;
  const LoadNode* read = nullptr;  // of what the iteration before has stored
  Buffer before, now;              // register buffers, of what that one and this one store
};

// Whether an iteration writes none of the elements that the one before has.
bool is_apart(const LaneRun& run) {
  if (run.step == 0 || run.stride == 0) return false;
  return run.step % run.stride != 0 || std::abs(run.step / run.stride) >= run.lanes;
}

// Reads of what is carried give way to registers. What a choice reads stays, for it may read nothing.
class Replacer : public Mutator {
 public:
  Replacer(std::vector<Carried>& all, const Var& loop) : all_(all), loop_(loop) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* read = e.as<LoadNode>();
    if (!read) return !e || e.kind() == ExprKind::kSelect ? e : Mutator::rewrite(e);
    for (Carried& carried : all_) {
      if (!(read->buffer == carried.store->buffer) || read->mask) continue;
      const auto run = lane_run(read->indices, loop_);
      const auto behind = run ? elements_between(carried.written, *run) : std::nullopt;
      if (!behind || run->step != carried.written.step) continue;
      if (*behind == carried.written.step) {
        carried.read = read;
        return load(carried.before, {ramp(Expr(0), Expr(1), run->lanes)});
      }
      if (*behind == 0 && is_stored_.contains(carried.store))
        return load(carried.now, {ramp(Expr(0), Expr(1), run->lanes)});
    }
    return e;
  }
  void note_stored(const StoreNode* store) { is_stored_[store] = true; }

 private:
  std::vector<Carried>& all_;
  const Var& loop_;
  PointerMap<const StoreNode*, bool> is_stored_;  // by this iteration
};

// What may be carried: vectors of buffers that nothing else in the loop writes.
std::vector<Carried> candidates(const ForNode& loop, const std::vector<const StoreNode*>& stores) {
  std::vector<Carried> found;
  for (const StoreNode* store : stores) {
    if (is_in_registers(*store->buffer) || store->buffer->dtype.is_bool()) continue;
    const auto is_other = [&](const StoreNode* s) { return s != store && s->buffer == store->buffer; };
    if (std::ranges::any_of(stores, is_other)) continue;
    const auto run = lane_run(store->indices, loop.var);
    if (!run || !is_apart(*run)) continue;
    const auto made = [&](const char* suffix) {
      return make_buffer(store->buffer->name + suffix, {Expr(run->lanes)}, store->buffer->dtype, kScopeRegister);
    };
    found.push_back({.store = store, .written = *run, .before = made("_before"), .now = made("_now")});
  }
  return found;
}

Stmt with_carried(const ForNode& loop) {
  if (loop.loop_kind != ForKind::kSerial || reads_memory(loop.extent) || reads_memory(loop.min)) return Stmt();
  const auto stores = plain_stores(loop.body);
  std::vector<Carried> all = candidates(loop, stores);
  if (all.empty()) return Stmt();
  {
    Replacer finder(all, loop.var);
    for (const StoreNode* store : stores) finder.rewrite(store->value);
    std::erase_if(all, [](const Carried& carried) { return carried.read == nullptr; });
  }
  if (all.empty()) return Stmt();
  Replacer replacer(all, loop.var);
  std::vector<Stmt> body, first, last;
  std::vector<Buffer> buffers;
  for (const StoreNode* store : stores) {
    Expr value = replacer.rewrite(store->value);
    for (const Carried& carried : all) {
      if (carried.store != store) continue;
      const Expr here = ramp(Expr(0), Expr(1), carried.written.lanes);
      body.push_back(fettle::store(carried.now, {here}, value));
      value = load(carried.now, {here});
      first.push_back(fettle::store(carried.before, {here},
                                    substitute(Expr(Ref<const LoadNode>(carried.read)), {{loop.var.get(), loop.min}})));
      last.push_back(fettle::store(carried.before, {here}, value));
      buffers.insert(buffers.end(), {carried.before, carried.now});
    }
    body.push_back(fettle::store(store->buffer, store->indices, value));
    replacer.note_stored(store);
  }
  body.insert(body.end(), last.begin(), last.end());
  first.push_back(with_body(loop, seq(std::move(body))));
  const Stmt made = allocate_all(buffers, seq(std::move(first)));
  // Of no iterations nothing is known, nor whether there is what the first one would read.
  const int64_t* extent = as_int(loop.extent);
  return extent && *extent > 0 ? made : if_then(lt(Expr(0), loop.extent), made);
}

}  // namespace

Stmt carry_vectors(const Stmt& body) { return rewrite_each<ForNode>(body, with_carried); }

}  // namespace fettle
