#include <algorithm>
#include <unordered_map>

#include "ir/annotations.h"
#include "ir/visit.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// The loops around all accesses of a buffer, and whether some access is inside a loop over threads below them.
struct Life {
  bool found = false;
  std::vector<const ForNode*> common;
  std::vector<std::vector<const ForNode*>> paths;
};

class LifeFinder : public Visitor {
 public:
  std::unordered_map<const BufferNode*, Life> lives;
  using Visitor::visit;
  void visit(const Stmt& s) override {
    if (!s) return;
    const auto* loop = s.as<ForNode>();
    if (loop) loops_.push_back(loop);
    if (const auto* target = s.as<StoreNode>()) note(target->buffer.get());
    Visitor::visit(s);
    if (loop) loops_.pop_back();
  }
  void visit(const Expr& e) override {
    if (!e) return;
    if (const auto* source = e.as<LoadNode>()) note(source->buffer.get());
    if (const auto* pointer = e.as<AddressNode>()) note(pointer->buffer.get());
    Visitor::visit(e);
  }

 private:
  void note(const BufferNode* buffer) {
    const auto at = lives.find(buffer);
    if (at == lives.end()) return;
    Life& life = at->second;
    life.paths.push_back(loops_);
    if (!std::exchange(life.found, true)) {
      life.common = loops_;
      return;
    }
    size_t same = 0;
    while (same < life.common.size() && same < loops_.size() && life.common[same] == loops_[same]) ++same;
    life.common.resize(same);
  }
  std::vector<const ForNode*> loops_;
};

}  // namespace

Sharing sharing_of(const BufferNode& buffer, const Target& target) {
  const MemoryScope* scope = target.find_scope(buffer.scope);
  if (!scope || scope->shared_by.empty()) return Sharing::kAll;
  return scope->shared_by == "block" ? Sharing::kBlock : Sharing::kThread;
}

bool carries_buffer(const ForNode& loop, const BufferNode& buffer) {
  const auto* annotation = loop.annotations.find(kCarriesKey);
  const auto* names = annotation ? std::get_if<std::string>(annotation) : nullptr;
  return names && (" " + *names + " ").find(" " + buffer.name + " ") != std::string::npos;
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
    life.common.erase(
        std::ranges::find_if(life.common, [&](const ForNode* loop) { return carries_buffer(*loop, *buffer); }),
        life.common.end());
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
  return with(func, [&](FuncNode& f) { f.body = substitute_buffers(func->body, changed); });
}

}  // namespace fettle
