#include <algorithm>
#include <set>
#include <unordered_map>

#include "analysis/dependence.h"
#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/edit/pipelining.h"

namespace fettle {
namespace {

// On a pipelined loop, and on the loop of one iteration around each of its parts.

struct Plan {
  std::vector<int64_t> stages, order;
};
using Plans = std::unordered_map<const ForNode*, Plan>;

const std::vector<int64_t>* list_under(const Annotations& notes, const char* key) {
  return std::get_if<std::vector<int64_t>>(notes.find(key));
}

// Parts that hold a double-buffered block, and those that they need, run one turn ahead of the others.
class DoubleBuffers {
 public:
  explicit DoubleBuffers(const Func& func) : func_(func), sites_(block_sites(func)) {}

  void add(const BlockNode& block, Plans& plans) {
    const int64_t which = block.annotations.get_int(kDoubleBufferKey, -1);
    if (which < 0 || static_cast<size_t>(which) >= block.writes.size()) return;
    const Buffer buffer = block.writes[static_cast<size_t>(which)].buffer;
    const ForNode* loop = loop_around_all(block, buffer.get());
    if (!loop || loop->loop_kind != ForKind::kSerial || list_under(loop->annotations, kPipelineStagesKey)) return;
    const std::vector<Stmt> parts = pipeline_parts(*loop);
    if (parts.size() < 2) return;
    Plan& plan = plans[loop];
    if (plan.stages.empty()) {
      plan.stages.assign(parts.size(), 1);
      for (size_t p = 0; p < parts.size(); ++p) plan.order.push_back(static_cast<int64_t>(p));
    }
    pull_ahead(block, parts, plan);
  }

 private:
  const ForNode* loop_around_all(const BlockNode& block, const BufferNode* buffer) const {
    const BlockNode* scope = enclosing_block(func_, &block);
    const ForNode* innermost = nullptr;
    for (const ForNode* loop : loops_around(func_, &block)) {
      bool around_all = true;
      for (const BlockNode* reader : consumers_of(*scope, buffer)) around_all &= !path_to(loop->body, reader).empty();
      if (around_all) innermost = loop;
    }
    return innermost;
  }

  void pull_ahead(const BlockNode& block, const std::vector<Stmt>& parts, Plan& plan) const {
    for (size_t p = 0; p < parts.size(); ++p) {
      if (plan.stages[p] == 0 || path_to(parts[p], &block).empty()) continue;
      plan.stages[p] = 0;
      for (const BlockNode* member : blocks_under(parts[p])) {
        const BlockSite* site = find_site(sites_, member->name);
        for (const Dependence& d : dependences_in(func_, sites_, site->parent))
          if (sites_[static_cast<size_t>(d.to)].block == member) {
            const BlockNode* needed = sites_[static_cast<size_t>(d.from)].block;
            if (!path_to(seq(parts), needed).empty()) pull_ahead(*needed, parts, plan);
          }
      }
    }
  }

  const Func& func_;
  std::vector<BlockSite> sites_;
};

class PartMarker : public StmtMutator {
 public:
  explicit PartMarker(const Plans& plans) : plans_(plans) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s ? s.as<ForNode>() : nullptr;
    const auto plan = loop ? plans_.find(loop) : plans_.end();
    if (plan == plans_.end()) return Mutator::rewrite(s);
    std::vector<Stmt> parts;
    for (const Stmt& part : pipeline_parts(*loop)) {
      const size_t p = parts.size();
      const Stmt around = make_for(make_var("part"), 0, 1, rewrite(part));
      parts.push_back(with(*around.as<ForNode>(), [&](ForNode& f) {
        f.annotations.set(kStageKey, plan->second.stages[p]);
        f.annotations.set(kOrderKey, plan->second.order[p]);
      }));
    }
    return with(*loop, [&](ForNode& f) {
      f.annotations.erase(kPipelineStagesKey);
      f.annotations.erase(kPipelineOrderKey);
      f.annotations.set(kPipelineKey, int64_t{1});
      f.body = seq(std::move(parts));
    });
  }

 private:
  const Plans& plans_;
};

// --- the pipeline itself -------------------------------------------------------------------------------------------

struct Part {
  Stmt body;
  int64_t stage = 0, order = 0;
  bool before(const Part& other) const { return std::pair(stage, order) < std::pair(other.stage, other.order); }
};

struct Version {
  Buffer buffer;
  int64_t count = 1;
};
using Versions = std::unordered_map<const BufferNode*, Version>;

// Accesses go to the version of one iteration.
class VersionPicker : public AccessMutator {
 public:
  VersionPicker(const Versions& versions, Expr iteration) : versions_(versions), iteration_(std::move(iteration)) {}

 private:
  std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
    const auto found = versions_.find(buffer.get());
    if (found == versions_.end() || found->second.count == 1) return std::nullopt;
    Moved to{found->second.buffer, {floormod(iteration_, Expr(found->second.count))}};
    for (const Expr& index : indices) to.indices.push_back(rewrite(index));
    return to;
  }

  const Versions& versions_;
  Expr iteration_;
};

Buffer with_versions(const Buffer& buffer, int64_t count) {
  if (count == 1) return buffer;
  return edited(buffer, [&](BufferNode& b) {
    if (!b.strides.empty()) b.strides.insert(b.strides.begin(), b.shape.front() * b.strides.front());
    b.shape.insert(b.shape.begin(), Expr(count));
  });
}

class Pipeliner {
 public:
  static Stmt piped(const ForNode& loop) {
    if (!loop.annotations.find(kPipelineKey)) return nullptr;
    std::vector<Buffer> buffers;
    Stmt body = loop.body;
    for (const auto* alloc = body.as<AllocateNode>(); alloc; alloc = body.as<AllocateNode>()) {
      buffers.push_back(alloc->buffer);
      body = alloc->body;
    }
    std::vector<Part> parts;
    std::vector<Stmt> in_order;
    for (const Stmt& s1 : parts_of(body)) {
      const auto* around = s1.as<ForNode>();
      if (!around || !around->annotations.find(kStageKey)) return unpiped(loop, s1);
      parts.push_back(
          {around->body, around->annotations.get_int(kStageKey, 0), around->annotations.get_int(kOrderKey, 0)});
      in_order.push_back(around->body);
    }
    Versions versions;
    for (const Buffer& buffer : buffers) {
      const int64_t count = versions_needed(parts, buffer.get());
      if (count > 1 && buffer->scope == kScopeRegister)
        return unpiped(loop, allocate_all(buffers, seq(std::move(in_order))));
      versions[buffer.get()] = {with_versions(buffer, count), count};
    }
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.order < b.order; });
    for (Buffer& buffer : buffers) buffer = versions[buffer.get()].buffer;
    return allocate_all(buffers, turns(loop, parts, versions));
  }

 private:
  static Stmt unpiped(const ForNode& loop, const Stmt& body) {
    return with(loop, [&](ForNode& f) {
      f.annotations.erase(kPipelineKey);
      f.body = body;
    });
  }

  // Iteration i + count must not touch the buffer before iteration i has done so for the last time.
  static int64_t versions_needed(const std::vector<Part>& parts, const BufferNode* buffer) {
    const Part *first = nullptr, *last = nullptr;
    for (const Part& part : parts) {
      if (!accesses(part.body, buffer)) continue;
      if (!first || part.before(*first)) first = &part;
      if (!last || last->before(part)) last = &part;
    }
    if (!first || first == last) return 1;
    return std::max<int64_t>(1, last->stage - first->stage + (first->order < last->order ? 1 : 0));
  }

  static Stmt run(const ForNode& loop, const Part& part, const Expr& iteration, const Versions& versions, bool copy) {
    Stmt body = substitute(part.body, {{loop.var.get(), loop.min + iteration}});
    body = VersionPicker(versions, iteration).rewrite(body);
    return copy ? rename_bound(body) : body;
  }

  // If the parts of stage 0 come first and copy asynchronously: how many turns later what they copy is used first.
  // Else 0.
  static int64_t copies_ahead(const std::vector<Part>& parts) {
    std::vector<const BufferNode*> copied;
    int64_t ahead = INT64_MAX;
    size_t first_other = 0;
    while (first_other < parts.size() && parts[first_other].stage == 0) ++first_other;
    for (size_t p = 0; p < parts.size(); ++p) {
      bool is_async = false;
      walk(parts[p].body, [&](const Stmt& s) {
        const auto* loop = s.as<ForNode>();
        is_async |= loop && loop->annotations.find(kLanesKey) && loop->annotations.find(kAsyncCopyKey);
        const auto* target = s.as<StoreNode>();
        if (target && p < first_other) copied.push_back(target->buffer.get());
        return true;
      });
      if (is_async != (p < first_other)) return 0;
    }
    for (size_t p = 0; p < parts.size(); ++p)
      for (const BufferNode* buffer : copied)
        if (p >= first_other && accesses(parts[p].body, buffer)) ahead = std::min(ahead, parts[p].stage);
    return ahead == INT64_MAX ? 0 : ahead;
  }

  static Stmt turns(const ForNode& loop, const std::vector<Part>& parts, const Versions& versions) {
    int64_t depth = 0;
    for (const Part& part : parts) depth = std::max(depth, part.stage);
    const int64_t ahead = copies_ahead(parts);
    const Stmt commit = evaluate(call(kAsyncCommitCall, {}, kI32));
    const int64_t* known = as_int(loop.extent);
    std::vector<Stmt> all;
    const auto guarded = [](const Expr& condition, const Stmt& body) {
      return is_true(condition) ? body : is_zero(condition) ? Stmt() : if_then(condition, body);
    };
    // Prologue: turns before all stages are busy.
    for (int64_t turn = 0; turn < depth; ++turn) {
      for (const Part& part : parts)
        if (part.stage <= turn)
          all.push_back(guarded(lt(Expr(turn - part.stage), loop.extent),
                                run(loop, part, Expr(turn - part.stage), versions, true)));
      if (ahead > 1) all.push_back(commit);
    }
    // Steady state.
    const Expr steady = known ? Expr(std::max<int64_t>(*known - depth, 0)) : max(loop.extent - Expr(depth), Expr(0));
    if (!is_zero(steady)) {
      const Var turn = make_var(loop.var->name);
      std::vector<Stmt> body;
      for (size_t p = 0; p < parts.size(); ++p) {
        body.push_back(run(loop, parts[p], Expr(turn) - parts[p].stage, versions, false));
        const bool last_copy = parts[p].stage == 0 && (p + 1 == parts.size() || parts[p + 1].stage > 0);
        if (ahead > 1 && last_copy) body.push_back(commit);
      }
      const Stmt turns = make_for(turn, Expr(depth), steady, seq(std::move(body)));
      all.push_back(with(*turns.as<ForNode>(), [&](ForNode& f) {
        if (ahead > 1) f.annotations.set(kAsyncAheadKey, ahead);
      }));
    }
    // Epilogue: turns without new iterations.
    const Expr end = known ? Expr(std::max(*known, depth)) : max(loop.extent, Expr(depth));
    for (int64_t extra = 0; extra < depth; ++extra)
      for (const Part& part : parts) {
        if (part.stage <= extra) continue;
        const Expr iteration = end + (extra - part.stage);
        all.push_back(guarded(lt(iteration, loop.extent), run(loop, part, iteration, versions, true)));
      }
    return seq(std::move(all));
  }
};

}  // namespace

Func mark_pipelines(const Func& func) {
  Plans plans;
  DoubleBuffers doubles(func);
  walk(func->body, [&](const Stmt& s) {
    if (const auto* block = s.as<BlockNode>(); block && block->annotations.find(kDoubleBufferKey))
      doubles.add(*block, plans);
    const auto* loop = s.as<ForNode>();
    const auto* stages = loop ? list_under(loop->annotations, kPipelineStagesKey) : nullptr;
    const auto* order = loop ? list_under(loop->annotations, kPipelineOrderKey) : nullptr;
    if (stages && order && loop->loop_kind == ForKind::kSerial) plans[loop] = {*stages, *order};
    return true;
  });
  // Later steps may have changed the loop: what no longer holds runs in order.
  std::erase_if(plans, [&](const auto& entry) {
    const auto& [loop, plan] = entry;
    const size_t parts = pipeline_parts(*loop).size();
    return parts < 2 || plan.stages.size() != parts || plan.order.size() != parts ||
           !check_pipeline(func, *loop, plan.stages, plan.order);
  });
  return plans.empty() ? func : PartMarker(plans).Mutator::rewrite(func);
}

Stmt pipeline_loops(const Stmt& body) { return rewrite_each<ForNode>(body, Pipeliner::piped); }

}  // namespace fettle
