#include <algorithm>
#include <unordered_map>

#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// The loops around all accesses of a buffer, and whether some access is inside a loop over threads below them.
struct Life {
  bool found = false;
  SmallVector<const ForNode*, 16> common;
  std::vector<SmallVector<const ForNode*, 16>> paths;
};

class LifeFinder : public AccessVisitor {
 public:
  std::unordered_map<const BufferNode*, Life> lives;

 private:
  void access(const Buffer& buffer, const std::vector<Expr>&, AccessKind) override {
    const auto at = lives.find(buffer.get());
    if (at == lives.end()) return;
    Life& life = at->second;
    life.paths.push_back(loops_);
    if (!std::exchange(life.found, true)) {
      life.common = loops_;
      return;
    }
    size_t same = 0;
    while (same < life.common.size() && same < loops_.size() && life.common[same] == loops_[same]) ++same;
    life.common.shrink_to(same);
  }
};

}  // namespace

SharedBy sharing_of(const BufferNode& buffer, const Target& target) {
  const MemoryScope* scope = target.find_scope(buffer.scope);
  if (!scope || scope->shared_by.empty()) return SharedBy::kAll;
  return scope->shared_by == "block" ? SharedBy::kBlock : SharedBy::kThread;
}

Func infer_scopes(const Func& func, const Target& target) {
  const BlockNode& root = func.root();
  LifeFinder finder;
  for (const Buffer& buffer : root.allocations)
    if (buffer->scope == kScopeGlobal) finder.lives[buffer.get()];
  finder.visit(root.body);
  std::string of_block, of_thread;  // the scopes' names
  for (const MemoryScope& scope : target.scopes) {
    if (scope.shared_by == "block" && of_block.empty()) of_block = scope.name;
    if (scope.shared_by == "thread" && of_thread.empty()) of_thread = scope.name;
  }
  BufferMap changed;
  for (const Buffer& buffer : root.allocations) {
    const auto at = finder.lives.find(buffer.get());
    if (at == finder.lives.end() || !at->second.found) continue;
    Life& life = at->second;
    // What goes on from one iteration to the next lives around the loop.
    const auto outlives =
        std::ranges::find_if(life.common, [&](const ForNode* loop) { return carries_buffer(*loop, *buffer); });
    life.common.shrink_to(static_cast<size_t>(outlives - life.common.begin()));
    bool in_block = false, in_thread = false, filled_by_threads = false;
    for (const ForNode* loop : life.common) {
      in_block |= is_block_axis(loop->thread_axis);
      in_thread |= is_block_thread_axis(loop->thread_axis);
    }
    for (const auto& path : life.paths)
      for (size_t i = life.common.size(); i < path.size(); ++i)
        filled_by_threads |= is_block_thread_axis(path[i]->thread_axis);
    std::string scope = kScopeGlobal;
    if (in_thread && !filled_by_threads)
      scope = of_thread;
    else if (in_thread || in_block)
      scope = of_block;
    if (scope == kScopeGlobal || scope.empty()) continue;
    changed[buffer.get()] = edited(buffer, [&](BufferNode& b) { b.scope = scope; });
  }
  if (changed.empty()) return func;
  return with_body(func, substitute_buffers(func->body, changed));
}

}  // namespace fettle
