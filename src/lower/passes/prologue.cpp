#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

using BufferSet = std::unordered_set<const BufferNode*>;

struct Accesses {
  BufferSet reads, writes;
};

// What the innermost blocks of a nest read and write; a block's own reads of what it updates are no dependence on
// others.
Accesses accesses_of(const Stmt& nest) {
  Accesses found;
  walk(
      nest,
      [&](const Stmt& s) {
        if (const auto* store = s.as<StoreNode>()) found.writes.insert(store->buffer.get());
        return true;
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<LoadNode>()) found.reads.insert(load->buffer.get());
        return true;
      });
  return found;
}

bool contains(const BufferSet& set, const BufferNode* buffer) { return set.count(buffer) > 0; }

}  // namespace

PrologueSplit split_prologue(const Func& func) {
  const BlockNode& root = func.root();
  std::vector<Stmt> nests;
  if (const auto* seq_node = root.body.as<SeqNode>())
    nests = seq_node->stmts;
  else
    nests = {root.body};

  std::vector<Accesses> accesses;
  for (const Stmt& nest : nests) accesses.push_back(accesses_of(nest));

  BufferSet constant_params, candidates;
  for (const Param& param : func->params)
    if (param.kind == ParamKind::kConstant) constant_params.insert(param.buffer.get());
  for (const Buffer& buffer : root.allocations)
    if (buffer->scope == kScopeGlobal) candidates.insert(buffer.get());

  // The largest set of buffers all of whose writers read constants and each other only, and none of which is written
  // again after a nest that stays has read it.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < accesses.size(); ++i) {
      const Accesses& a = accesses[i];
      bool from_constants = true;
      for (const BufferNode* buffer : a.reads)
        from_constants &= contains(constant_params, buffer) || contains(candidates, buffer);
      bool all_candidates = true;
      for (const BufferNode* buffer : a.writes) all_candidates &= contains(candidates, buffer);
      if (from_constants && all_candidates) continue;
      for (const BufferNode* buffer : a.writes) changed |= candidates.erase(buffer) > 0;
      for (size_t j = i + 1; j < accesses.size(); ++j)
        for (const BufferNode* buffer : accesses[j].writes)
          if (contains(a.reads, buffer)) changed |= candidates.erase(buffer) > 0;
    }
  }
  // Of these, the ones that come from a constant at all.
  BufferSet packed;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Accesses& a : accesses)
      for (const BufferNode* read : a.reads)
        if (contains(constant_params, read) || contains(packed, read))
          for (const BufferNode* buffer : a.writes)
            if (contains(candidates, buffer)) changed |= packed.insert(buffer).second;
  }
  if (packed.empty()) return {func, nullptr};
  // And what these need that comes from nothing, such as indices worked out ahead.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Accesses& a : accesses) {
      const bool writes_packed =
          std::ranges::any_of(a.writes, [&](const BufferNode* b) { return contains(packed, b); });
      for (const BufferNode* read : a.reads)
        if (writes_packed && contains(candidates, read)) changed |= packed.insert(read).second;
    }
  }

  std::vector<Stmt> prologue_nests, main_nests;
  BufferSet read_by_prologue, read_by_main;
  for (size_t i = 0; i < nests.size(); ++i) {
    bool writes_packed = false;
    for (const BufferNode* buffer : accesses[i].writes) writes_packed |= contains(packed, buffer);
    (writes_packed ? prologue_nests : main_nests).push_back(nests[i]);
    (writes_packed ? read_by_prologue : read_by_main).insert(accesses[i].reads.begin(), accesses[i].reads.end());
  }

  const auto part = [&](std::vector<Stmt> stmts, std::vector<Buffer> allocations) {
    return with(root, [&](BlockNode& block) {
      block.body = seq(std::move(stmts));
      block.allocations = std::move(allocations);
      block.reads.clear();
      block.writes.clear();
    });
  };
  std::vector<Buffer> shared, private_to_prologue, left;
  for (const Buffer& buffer : root.allocations) {
    if (!contains(packed, buffer.get()))
      left.push_back(buffer);
    else if (contains(read_by_main, buffer.get()))
      shared.push_back(buffer);
    else
      private_to_prologue.push_back(buffer);
  }
  if (main_nests.empty()) return {func, nullptr};

  PrologueSplit result;
  result.main = with(func, [&](FuncNode& f) {
    for (const Buffer& buffer : shared) f.params.push_back({buffer, ParamKind::kConstant, false});
    f.body = part(main_nests, left);
  });
  result.prologue = with(func, [&](FuncNode& f) {
    f.name += "_prologue";
    f.params.clear();
    for (const Param& param : func->params)
      if (contains(read_by_prologue, param.buffer.get())) f.params.push_back({param.buffer, ParamKind::kInput, false});
    for (const Buffer& buffer : shared) f.params.push_back({buffer, ParamKind::kOutput, false});
    f.body = part(prologue_nests, private_to_prologue);
  });
  return result;
}

}  // namespace fettle
