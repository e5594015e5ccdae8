#include "schedule/edit/steps.h"

#include <algorithm>

#include "ir/path.h"
#include "schedule/edit/edit_in_place.h"

namespace fettle {

std::vector<const ForNode*> loops_around(const Func& func, const StmtNode* node) {
  std::vector<const ForNode*> loops;
  bool inside = true;  // of the innermost block around
  walk_up(func->body, node, [&](const Stmt& s) {
    if (s.get() == node || !inside) return;
    inside = s.kind() != StmtKind::kBlock;
    if (const auto* loop = s.as<ForNode>()) loops.push_back(loop);
  });
  std::ranges::reverse(loops);
  return loops;
}

const BlockNode* enclosing_block(const Func& func, const StmtNode* node) {
  const BlockNode* enclosing = nullptr;
  walk_up(func->body, node, [&](const Stmt& s) {
    if (s.get() != node && !enclosing) enclosing = s.as<BlockNode>();
  });
  return enclosing;
}

void bind_loops(Analyzer& analyzer, const std::vector<const ForNode*>& loops) {
  for (const ForNode* loop : loops) analyzer.bind(loop->var, loop->min, loop->extent);
}

Analyzer analyzer_over(const Func& func, const std::vector<const ForNode*>& loops) {
  Analyzer analyzer;
  analyzer.bind_params(func);
  bind_loops(analyzer, loops);
  return analyzer;
}

const ForNode* loop_of(std::span<const ForNode* const> loops, const ExprNode* var) {
  const auto at = std::ranges::find_if(loops, [&](const ForNode* loop) { return loop->var.get() == var; });
  return at == loops.end() ? nullptr : *at;
}

bool uses_any(const Expr& e, std::span<const ForNode* const> loops) {
  if (!e || e.kind() == ExprKind::kIntImm) return false;
  return find_node<VarNode>(e, [&](const VarNode& var) { return loop_of(loops, &var) != nullptr; }) != nullptr;
}

bool moves_with(const BlockNode& block, IterKind kind, const ForNode& loop) {
  return std::ranges::any_of(
      block.iters, [&](const IterVar& iter) { return iter.kind == kind && uses_var(iter.binding, loop.var.get()); });
}

Func replace_in(const Func& func, const StmtNode* target, const Stmt& replacement) {
  return with_body(func, replace_stmt(func->body, target, replacement));
}

Func replace_last(const Schedule& s, const StmtNode* target, const Stmt& replacement) {
  const Func& held = s.func();
  if (held->use_count() != 1) return replace_in(held, target, replacement);
  // The schedule gets the same program back from its step.
  Func func = std::move(const_cast<Func&>(held));
  func = replace_owned(std::move(func), target, replacement);
  const_cast<Func&>(held) = func;
  return func;
}

namespace {

class LoopSubstituter : public Mutator {
 public:
  LoopSubstituter(const VarMap& values, Analyzer& analyzer) : values_(values), analyzer_(analyzer) {}
  using Mutator::rewrite;

  Expr rewrite(const Expr& e) override {
    if (!e || e.kind() == ExprKind::kIntImm) return e;
    Expr replaced = substitute(e, values_);
    return replaced == e ? e : analyzer_.simplify(replaced);
  }

  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* loop = s.as<ForNode>()) {
      Expr min = rewrite(loop->min), extent = rewrite(loop->extent);
      const auto scope = analyzer_.enter();
      analyzer_.bind(loop->var, min, extent);
      Stmt body = rewrite(loop->body);
      if (min == loop->min && extent == loop->extent && body == loop->body) return s;
      return with(*loop, [&](ForNode& f) {
        f.min = min;
        f.extent = extent;
        f.body = body;
      });
    }
    if (const auto* block = s.as<BlockNode>()) {
      // Only bindings and the predicate see the loops around; what is inside speaks of the iterators.
      auto copy = make_ref<BlockNode>(*block);
      bool changed = false;
      for (IterVar& iter : copy->iters) {
        Expr binding = rewrite(iter.binding);
        changed |= !(binding == iter.binding);
        iter.binding = std::move(binding);
      }
      copy->predicate = rewrite(block->predicate);
      changed |= !(copy->predicate == block->predicate);
      if (is_true(copy->predicate)) copy->predicate = nullptr;
      // A nested block's bindings may still use them.
      if (find_node<BlockNode>(block->body, [](const BlockNode&) { return true; })) {
        copy->body = rewrite(block->body);
        changed |= !(copy->body == block->body);
      }
      return changed ? Stmt(copy) : s;
    }
    return Mutator::rewrite(s);
  }

 private:
  const VarMap& values_;
  Analyzer& analyzer_;
};

template <class Taken>
std::string unique_name(std::string_view base, Taken taken) {
  std::string name(base);
  for (int n = 1; taken(name); ++n) name = fmt::format("{}_{}", base, n);
  return name;
}

}  // namespace

Stmt substitute_loops(const Stmt& s, const VarMap& values, Analyzer& analyzer) {
  return LoopSubstituter(values, analyzer).rewrite(s);
}

std::string unique_block_name(const Func& func, std::string_view base) {
  return unique_name(base, [&](const std::string& name) { return find_block(func->body, name) != nullptr; });
}

std::string unique_buffer_name(const Func& func, std::string_view base) {
  std::vector<std::string_view> names;
  for (const Param& param : func->params) names.push_back(param.buffer->name);
  each_node<BlockNode>(func->body, [&](const BlockNode& block) {
    for (const Buffer& buffer : block.allocations) names.push_back(buffer->name);
  });
  return unique_name(base, [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); });
}

namespace {

Result<Buffer> region_buffer(const BlockNode& block, const std::vector<Region>& regions, int64_t index,
                             std::string_view what) {
  if (index < 0 || index >= static_cast<int64_t>(regions.size()))
    return fail(ErrorCode::E220,
                fmt::format("block {} has {} {}s, {} is asked for", block.name, regions.size(), what, index));
  return regions[static_cast<size_t>(index)].buffer;
}

}  // namespace

Result<Buffer> read_buffer(const BlockNode& block, int64_t index) {
  return region_buffer(block, block.reads, index, "read");
}

Result<Buffer> write_buffer(const BlockNode& block, int64_t index) {
  return region_buffer(block, block.writes, index, "write");
}

tl::unexpected<Diagnostic> fail_at(ErrorCode code, const Func& func, const StmtNode* place, std::string message,
                                   std::string where) {
  Diagnostic diagnostic(code, std::move(message), std::move(where));
  diagnostic.program = func;
  diagnostic.place = place;
  return tl::unexpected<Diagnostic>(std::move(diagnostic));
}

}  // namespace fettle
