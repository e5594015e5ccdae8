#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

bool contains(const BufferSet& set, const BufferNode* buffer) { return set.count(buffer) > 0; }

}  // namespace

AccessedBuffers accesses_of(const Stmt& nest) {
  AccessedBuffers found;
  each_access(nest, [&](const Buffer& buffer, const auto&, AccessKind kind) {
    if (kind != AccessKind::kWrite) found.reads.insert(buffer.get());
    if (kind != AccessKind::kRead) found.writes.insert(buffer.get());
  });
  return found;
}

PrologueSplit split_prologue(const Func& func) {
  const BlockNode& root = func.root();
  const std::vector<Stmt> nests = parts_of(root.body);
  std::vector<AccessedBuffers> accesses;
  std::vector<bool> is_sized;  // what depends on integer parameters is not known ahead
  for (const Stmt& nest : nests) {
    accesses.push_back(accesses_of(nest));
    is_sized.push_back(
        std::ranges::any_of(func->int_params, [&](const IntParam& param) { return uses_var(nest, param.var.get()); }));
  }

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
      const AccessedBuffers& a = accesses[i];
      const auto is_candidate = [&](const BufferNode* b) { return contains(candidates, b); };
      const auto is_constant = [&](const BufferNode* b) { return contains(constant_params, b) || is_candidate(b); };
      if (!is_sized[i] && std::ranges::all_of(a.reads, is_constant) && std::ranges::all_of(a.writes, is_candidate))
        continue;
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
    for (const AccessedBuffers& a : accesses)
      for (const BufferNode* read : a.reads)
        if (contains(constant_params, read) || contains(packed, read))
          for (const BufferNode* buffer : a.writes)
            if (contains(candidates, buffer)) changed |= packed.insert(buffer).second;
  }
  if (packed.empty()) return {func, nullptr};
  const auto writes_packed = [&](const AccessedBuffers& a) {
    return std::ranges::any_of(a.writes, [&](const BufferNode* b) { return contains(packed, b); });
  };
  // And what these need that comes from nothing, such as indices worked out ahead.
  for (bool changed = true; changed;) {
    changed = false;
    for (const AccessedBuffers& a : accesses)
      if (writes_packed(a))
        for (const BufferNode* read : a.reads)
          if (contains(candidates, read)) changed |= packed.insert(read).second;
  }

  std::vector<Stmt> prologue_nests, main_nests;
  BufferSet read_by_prologue, read_by_main;
  for (size_t i = 0; i < nests.size(); ++i) {
    const bool ahead = writes_packed(accesses[i]);
    (ahead ? prologue_nests : main_nests).push_back(nests[i]);
    (ahead ? read_by_prologue : read_by_main).insert(accesses[i].reads.begin(), accesses[i].reads.end());
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
    f.int_params.clear();
    for (const Param& param : func->params)
      if (contains(read_by_prologue, param.buffer.get())) f.params.push_back({param.buffer, ParamKind::kInput, false});
    for (const Buffer& buffer : shared) f.params.push_back({buffer, ParamKind::kOutput, false});
    f.body = part(prologue_nests, private_to_prologue);
  });
  return result;
}

}  // namespace fettle
