#include "te/create_func.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <fmt/core.h>

#include "base/check.h"
#include "ir/compare.h"
#include "ir/fold.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "te/make_func.h"

namespace fettle::te {
namespace {

// Puts real buffers and fresh iterators in the place of those of the ops.
class Instantiate : public Folder {
 public:
  using Folder::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = vars.find(var);
      return found == vars.end() ? e : found->second;
    }
    return Folder::rewrite(e);
  }
  Buffer rewrite(const Buffer& buffer) override {
    const auto found = buffers.find(buffer.get());
    return found == buffers.end() ? buffer : found->second;
  }

  VarMap vars;
  BufferMap buffers;
};

// fn(buffer, indices, whether it is written) for each access of a statement.
template <class Fn>
void each_access(const Stmt& statement, Fn fn) {
  walk(
      statement,
      [&](const Stmt& s) {
        if (const auto* n = s.as<StoreNode>()) fn(n->buffer, n->indices, true);
        return true;
      },
      [&](const Expr& e) {
        if (const auto* n = e.as<LoadNode>()) fn(n->buffer, n->indices, false);
        if (const auto* n = e.as<AddressNode>()) fn(n->buffer, n->indices, false);
        return true;
      });
}

class Builder {
 public:
  explicit Builder(const FuncOptions& options) : options_(options) {}

  Result<Func> build(std::string name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    auto func = make_ref<FuncNode>();
    func->name = std::move(name);
    func->int_params = options_.int_params;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto kind = i < options_.input_kinds.size() ? options_.input_kinds[i] : ParamKind::kInput;
      Buffer buffer = real_buffer(inputs[i].name(), {inputs[i].shape(), inputs[i].stored_dtype()});
      if (!instantiate_.buffers.try_emplace(inputs[i].get(), buffer).second)
        return fail(ErrorCode::E102, "input " + inputs[i].name() + " is given twice");
      func->params.push_back({buffer, kind, free_layout(i)});
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& t = outputs[i];
      if (!t.get()->op) return fail(ErrorCode::E102, "output " + t.name() + " is a placeholder");
      Buffer buffer = real_buffer(t.name(), {t.shape(), t.stored_dtype()});
      if (!instantiate_.buffers.try_emplace(t.get(), buffer).second)
        return fail(ErrorCode::E102, "output " + t.name() + " is given twice, or is an input too");
      output_buffers_[{t.get()->op.get(), t.get()->output}] = buffer;
      func->params.push_back({buffer, ParamKind::kOutput, free_layout(inputs.size() + i)});
    }
    for (const Tensor& t : outputs) visit(t.get()->op.get());

    auto root = make_ref<BlockNode>();
    root->name = "root";
    root->allocations = allocations_;
    root->body = seq(stmts_);
    func->body = Stmt(root);
    collect_int_params(*func);
    Func result(func);
    FETTLE_TRY_VOID(problem_);
    FETTLE_TRY_VOID(check_well_formed(result));
    return result;
  }

 private:
  struct Iter {
    Var old;
    Expr extent;
    IterKind kind;
  };

  bool free_layout(size_t i) const { return i < options_.free_layout.size() && options_.free_layout[i]; }

  Buffer real_buffer(const std::string& name, const OutputSpec& spec) {
    std::vector<Expr> shape;
    for (const Expr& extent : spec.shape) shape.push_back(Folder().rewrite(extent));
    return make_buffer(unique(buffer_names_, name), std::move(shape), spec.dtype);
  }

  static std::string unique(std::unordered_set<std::string>& taken, const std::string& name) {
    std::string text = name;
    for (int n = 1; !taken.insert(text).second; ++n) text = fmt::format("{}_{}", name, n);
    return text;
  }

  void visit_expr(const Expr& e) {
    walk(e, [&](const Expr& x) {
      const BufferNode* buffer = nullptr;
      if (const auto* read = x.as<LoadNode>()) buffer = read->buffer.get();
      if (const auto* place = x.as<AddressNode>()) buffer = place->buffer.get();
      if (buffer) visit_buffer(buffer);
      return true;
    });
  }

  void visit_buffer(const BufferNode* buffer) {
    if (instantiate_.buffers.contains(buffer) && !is_output(buffer)) return;
    const auto* tensor = dynamic_cast<const TensorNode*>(buffer);
    if (!tensor) return note("an access to a buffer that is no tensor: " + buffer->name);
    if (own_states_.contains(buffer)) return;
    if (!tensor->op) return note("placeholder " + buffer->name + " is not among the inputs");
    visit(tensor->op.get());
    instantiate_.buffers.try_emplace(buffer, op_buffers_.at(tensor->op.get())[static_cast<size_t>(tensor->output)]);
  }

  bool is_output(const BufferNode* buffer) const {
    const auto* tensor = dynamic_cast<const TensorNode*>(buffer);
    return tensor && output_buffers_.contains({tensor->op.get(), tensor->output});
  }

  void note(std::string problem) {
    if (problem_) problem_ = fail(ErrorCode::E102, std::move(problem));
  }

  // Producers first.
  void visit(const OpNode* op) {
    if (op_buffers_.contains(op)) return;
    op_buffers_[op] = {};
    for (const Buffer& state : op->states) own_states_.insert(state.get());
    for (const std::vector<Body>* list : {&op->init, &op->body})
      for (const Body& body : *list) {
        for (const Expr& e : body.values) visit_expr(e);
        if (!body.reduction) continue;
        for (const Expr& e : body.reduction->sources) visit_expr(e);
        for (const Expr& e : body.reduction->identity) visit_expr(e);
        for (const Expr& e : body.reduction->combined) visit_expr(e);
      }
    for (const auto& [var, value] : op->lets) visit_expr(value);
    if (op->statements.body)
      each_access(op->statements.body, [&](const Buffer& buffer, const auto&, bool) {
        if (std::ranges::find(op->statements.locals, buffer) == op->statements.locals.end()) visit_buffer(buffer.get());
      });

    std::vector<Buffer> buffers;
    for (size_t k = 0; k < op->outputs.size(); ++k) {
      const auto given = output_buffers_.find({op, static_cast<int>(k)});
      if (given != output_buffers_.end()) {
        buffers.push_back(given->second);
      } else {
        const std::string name = op->outputs.size() == 1 ? op->name : fmt::format("{}.v{}", op->name, k);
        buffers.push_back(real_buffer(name, op->outputs[k]));
        allocations_.push_back(buffers.back());
      }
    }
    for (size_t k = 0; k < op->states.size(); ++k) instantiate_.buffers[op->states[k].get()] = buffers[k];
    op_buffers_[op] = buffers;
    switch (op->kind) {
      case OpNode::Kind::kCompute: {
        std::vector<Iter> iters;
        std::vector<Expr> place;
        spatial(*op, 0, iters, place);
        stmts_.push_back(nest(op->name, iters, op->body[0], buffers, place));
        return;
      }
      case OpNode::Kind::kScan:
        return scan(*op, buffers);
      case OpNode::Kind::kRecur:
        return recur(*op, buffers);
      case OpNode::Kind::kOpaque:
        return opaque(*op, buffers);
      case OpNode::Kind::kNest:
        return program(*op);
    }
  }

  static void spatial(const OpNode& op, size_t first, std::vector<Iter>& iters, std::vector<Expr>& place) {
    for (size_t d = 0; d < op.axes.size(); ++d) {
      iters.push_back({op.axes[d], op.outputs[0].shape[first + d], IterKind::kSpatial});
      place.push_back(op.axes[d]);
    }
  }

  void scan(const OpNode& op, const std::vector<Buffer>& buffers) {
    std::vector<Iter> iters;
    std::vector<Expr> place = {0};
    spatial(op, 1, iters, place);
    stmts_.push_back(nest(op.name + "_init", iters, op.init[0], buffers, place));
    iters.insert(iters.begin(), {op.step, shifted(op.outputs[0].shape[0], -1), IterKind::kScan});
    place[0] = shifted(op.step, 1);
    stmts_.push_back(nest(op.name, iters, op.body[0], buffers, place));
  }

  void recur(const OpNode& op, const std::vector<Buffer>& buffers) {
    std::vector<Iter> iters;
    std::vector<Expr> place;
    spatial(op, 0, iters, place);
    for (size_t k = 0; k < op.states.size(); ++k)
      stmts_.push_back(nest(op.name + "_init", iters, Body(op.init[0].values[k]), {buffers[k]}, place));
    std::vector<std::vector<Expr>> places(op.states.size(), place);
    place.insert(place.begin(), op.step);
    places.resize(buffers.size(), place);
    iters.push_back({op.step, op.steps, IterKind::kScan});
    stmts_.push_back(nest(op.name, iters, op.body[0], buffers, places, op.lets));
  }

  void opaque(const OpNode& op, const std::vector<Buffer>& buffers) {
    std::vector<Iter> iters;
    std::vector<Expr> place;
    if (!op.init.empty()) {
      spatial(op, 0, iters, place);
      stmts_.push_back(nest(op.name + "_init", iters, op.init[0], buffers, place));
      iters.clear();
    }
    for (const BlockAxis& axis : op.block_axes) iters.push_back({axis.var, axis.extent, axis.kind});
    for (const Buffer& local : op.statements.locals) instantiate_.buffers[local.get()] = local;
    auto block = make_ref<BlockNode>();
    const std::vector<Var> loops = bind(iters, op.name, *block);
    block->allocations = op.statements.locals;
    block->body = rename_bound(instantiate_.rewrite(op.statements.body));
    RegionUnion reads, writes;
    for (RegionUnion* regions : {&reads, &writes}) regions->bind(block->body);
    each_access(block->body, [&](const Buffer& buffer, const std::vector<Expr>& indices, bool is_write) {
      if (std::ranges::find(op.statements.locals, buffer) == op.statements.locals.end())
        (is_write ? writes : reads).add(buffer, indices);
    });
    block->reads = reads.take();
    block->writes = writes.take();
    stmts_.push_back(around(loops, block));
  }

  void program(const OpNode& op) {
    const Stmt body = rename_bound(instantiate_.rewrite(op.statements.body));
    stmts_.push_back(rewrite_each<BlockNode>(body, [&](const BlockNode& given) {
      auto block = make_ref<BlockNode>(given);
      block->name = unique(block_names_, given.name);
      set_regions(*block);
      return Stmt(block);
    }));
  }

  // All that the block touches, but what a reduction reads of its own state.
  static void set_regions(BlockNode& block) {
    std::vector<std::pair<Buffer, std::vector<Expr>>> states;
    if (block.init)
      each_access(block.init, [&](const Buffer& buffer, const std::vector<Expr>& indices, bool is_write) {
        if (is_write) states.emplace_back(buffer, indices);
      });
    const auto is_state = [&](const Buffer& buffer, const std::vector<Expr>& indices) {
      return std::ranges::any_of(
          states, [&](const auto& state) { return state.first == buffer && same_place(state.second, indices); });
    };
    RegionUnion reads, writes;
    for (RegionUnion* regions : {&reads, &writes}) regions->bind(block.body);
    each_access(block.body, [&](const Buffer& buffer, const std::vector<Expr>& indices, bool is_write) {
      if (is_write || !is_state(buffer, indices)) (is_write ? writes : reads).add(buffer, indices);
    });
    block.reads = reads.take();
    block.writes = writes.take();
  }

  // Fresh iterators, bound to loops of their own.
  std::vector<Var> bind(const std::vector<Iter>& iters, const std::string& name, BlockNode& block) {
    block.name = unique(block_names_, name);
    std::unordered_set<std::string> names;
    std::vector<Var> loops;
    for (const Iter& iter : iters) {
      const std::string text = unique(names, iter.old->name);
      IterVar fresh;
      fresh.var = make_var(text, iter.old->dtype);
      fresh.extent = Folder().rewrite(iter.extent);
      fresh.kind = iter.kind;
      loops.push_back(make_var(text.starts_with('v') && text.size() > 1 ? text.substr(1) : text, iter.old->dtype));
      fresh.binding = loops.back();
      instantiate_.vars[iter.old.get()] = fresh.var;
      block.iters.push_back(std::move(fresh));
    }
    return loops;
  }
  static Stmt around(const std::vector<Var>& loops, const Ref<BlockNode>& block) {
    Stmt result(block);
    for (size_t d = loops.size(); d-- > 0;)
      result = make_for(loops[d], constant(0, loops[d]->dtype), block->iters[d].extent, result);
    return result;
  }

  Stmt nest(const std::string& name, const std::vector<Iter>& iters, const Body& body,
            const std::vector<Buffer>& buffers, const std::vector<Expr>& place) {
    return nest(name, iters, body, buffers, std::vector(buffers.size(), place), {});
  }

  // Loops over `iters` and the reduction's axes around one block that stores the body to buffers[k][places[k]].
  Stmt nest(const std::string& name, std::vector<Iter> iters, const Body& body, const std::vector<Buffer>& buffers,
            const std::vector<std::vector<Expr>>& places, const std::vector<std::pair<Var, Expr>>& op_lets) {
    if (body.reduction)
      for (const ReduceAxis& axis : body.reduction->axes) iters.push_back({axis.var, axis.extent, IterKind::kReduce});
    auto block = make_ref<BlockNode>();
    const std::vector<Var> loops = bind(iters, name, *block);
    std::vector<std::vector<Expr>> indices;
    for (const std::vector<Expr>& place : places) {
      indices.emplace_back();
      for (const Expr& e : place) indices.back().push_back(instantiate_.rewrite(e));
    }
    std::vector<std::pair<Var, Expr>> lets;
    for (const auto& [var, value] : op_lets) {
      const Expr here = instantiate_.rewrite(value);
      lets.emplace_back(make_var(var->name, var->dtype), here);
      instantiate_.vars[var.get()] = lets.back().first;
    }

    std::vector<Expr> values;
    if (body.reduction) {
      const Reduction& r = *body.reduction;
      std::vector<Stmt> init;
      for (size_t k = 0; k < buffers.size(); ++k) {
        init.push_back(store(buffers[k], indices[k], instantiate_.rewrite(r.identity[k])));
        instantiate_.vars[r.left[k].get()] = load(buffers[k], indices[k]);
        instantiate_.vars[r.right[k].get()] = instantiate_.rewrite(r.sources[k]);
      }
      block->init = seq(std::move(init));
      for (const Expr& e : r.combined) values.push_back(instantiate_.rewrite(e));
    } else {
      for (const Expr& e : body.values) values.push_back(instantiate_.rewrite(e));
    }

    RegionUnion reads, writes;
    for (size_t k = 0; k < buffers.size(); ++k) writes.add(buffers[k], indices[k]);
    const auto state = [&](const LoadNode& read) {
      const auto written = std::ranges::find(buffers, read.buffer);
      return block->init && written != buffers.end() &&
             same_place(read.indices, indices[static_cast<size_t>(written - buffers.begin())]);
    };
    const auto note_reads = [&](const Expr& e) {
      if (const auto* read = e.as<LoadNode>(); read && !state(*read)) reads.add(read->buffer, read->indices);
      return true;
    };
    for (const auto& [var, value] : lets) walk(value, note_reads);
    for (const Expr& value : values) walk(value, note_reads);
    block->reads = reads.take();
    block->writes = writes.take();

    // Several states change together: all values are known before the first is stored.
    std::vector<Stmt> stores;
    for (size_t k = 0; k < values.size(); ++k) {
      if (values.size() > 1 && values[k].kind() != ExprKind::kVar) {
        lets.emplace_back(make_var(fmt::format("value{}", k), values[k].dtype()), values[k]);
        values[k] = lets.back().first;
      }
      stores.push_back(store(buffers[k], indices[k], values[k]));
    }
    block->body = seq(std::move(stores));
    for (size_t k = lets.size(); k-- > 0;) block->body = let(lets[k].first, lets[k].second, block->body);
    return around(loops, block);
  }

  static bool same_place(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    for (size_t d = 0; d < a.size(); ++d)
      if (!structural_equal(a[d], b[d])) return false;
    return true;
  }

  // Variables of shapes that nobody has declared.
  void collect_int_params(FuncNode& func) {
    std::unordered_set<const VarNode*> known;
    for (const IntParam& param : func.int_params) known.insert(param.var.get());
    const auto note = [&](const Buffer& buffer) {
      for (const Expr& extent : buffer->shape)
        for (const Var& var : collect_vars(extent))
          if (known.insert(var.get()).second) func.int_params.push_back({.var = var});
    };
    for (const Param& param : func.params) note(param.buffer);
    for (const Buffer& buffer : allocations_) note(buffer);
  }

  const FuncOptions& options_;
  Result<> problem_;  // the first that was met
  Instantiate instantiate_;
  std::map<std::pair<const OpNode*, int>, Buffer> output_buffers_;
  std::unordered_map<const OpNode*, std::vector<Buffer>> op_buffers_;
  std::unordered_set<const BufferNode*> own_states_;
  std::unordered_set<std::string> buffer_names_, block_names_{"root"};
  std::vector<Buffer> allocations_;
  std::vector<Stmt> stmts_;
};

}  // namespace

Result<Func> make_func(std::string name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                       const FuncOptions& options) {
  return Builder(options).build(std::move(name), inputs, outputs);
}

Func create_func(std::string name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const FuncOptions& options) {
  const Result<Func> made = make_func(std::move(name), inputs, outputs, options);
  FETTLE_CHECK_MSG(made.has_value(), made.error().to_string());
  return *made;
}

}  // namespace fettle::te
