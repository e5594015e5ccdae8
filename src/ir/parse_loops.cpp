// parse_loops: programs without a header, for tests. Blocks, parameters and shapes come from the loops and accesses.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/core.h>

#include "ir/fold.h"
#include "ir/parser.h"
#include "ir/query.h"
#include "ir/text.h"

namespace fettle {
namespace {

tl::unexpected<Diagnostic> unsupported(std::string message) { return fail(ErrorCode::E102, std::move(message)); }

// First and last value of an expression over the loops, as expressions free of loop variables.
struct Bounds {
  Expr first, last;
};
using LoopBounds = std::unordered_map<const VarNode*, Bounds>;

std::optional<Bounds> bounds_of(const Expr& e, const LoopBounds& loops) {
  if (as_int(e)) return Bounds{e, e};
  if (const auto* var = e.as<VarNode>()) {
    const auto found = loops.find(var);
    return found == loops.end() ? Bounds{e, e} : found->second;
  }
  if (const auto* n = e.as<SelectNode>()) {
    const auto a = bounds_of(n->if_true, loops), b = bounds_of(n->if_false, loops);
    if (!a || !b) return std::nullopt;
    return Bounds{min(a->first, b->first), max(a->last, b->last)};
  }
  const auto* n = e.as<BinaryNode>();
  if (!n) return std::nullopt;
  const auto a = bounds_of(n->a, loops), b = bounds_of(n->b, loops);
  if (!a || !b) return std::nullopt;
  const int64_t* factor = as_int(n->b);
  switch (n->op) {
    case BinaryOp::kAdd:
      return Bounds{a->first + b->first, a->last + b->last};
    case BinaryOp::kSub:
      return Bounds{a->first - b->last, a->last - b->first};
    case BinaryOp::kMul: {
      const auto* value = &*a;
      if (!factor) {
        factor = as_int(n->a);
        value = &*b;
      }
      if (!factor) return std::nullopt;
      return *factor >= 0 ? Bounds{value->first * *factor, value->last * *factor}
                          : Bounds{value->last * *factor, value->first * *factor};
    }
    case BinaryOp::kFloorDiv:
      if (!factor || *factor <= 0) return std::nullopt;
      return Bounds{floordiv(a->first, *factor), floordiv(a->last, *factor)};
    case BinaryOp::kFloorMod:
      if (!factor || *factor <= 0) return std::nullopt;
      return Bounds{0, min(a->last, Expr(*factor - 1))};
    case BinaryOp::kMin:
      return Bounds{min(a->first, b->first), min(a->last, b->last)};
    case BinaryOp::kMax:
      return Bounds{max(a->first, b->first), max(a->last, b->last)};
    default:
      return std::nullopt;
  }
}

Expr identity_of(BinaryOp op, DType type) {
  if (op == BinaryOp::kAdd || op == BinaryOp::kMul) return constant(op == BinaryOp::kMul ? 1 : 0, type);
  return is_maximum(op) ? lowest(type) : highest(type);
}

class Inference {
 public:
  explicit Inference(const text::Parser::Found& found) : found_(found) {}

  Result<Func> run(const Stmt& program) {
    FETTLE_TRY(Stmt body, blocks(program));
    auto root = make_ref<BlockNode>();
    root->name = "root";
    root->body = std::move(body);
    auto func = make_ref<FuncNode>();
    func->name = "main";
    BufferMap shaped;
    FETTLE_TRY_VOID(shape_buffers(shaped));
    root->body = substitute_buffers(root->body, shaped);
    func->body = Stmt(root);
    for (const bool outputs : {false, true}) {
      for (const Buffer& buffer : order_) {
        if (written_.contains(buffer.get()) != outputs) continue;
        Param param;
        for (const Param& declared : found_.declared)
          if (declared.buffer == buffer) param = declared;
        const auto fresh = shaped.find(buffer.get());
        param.buffer = fresh == shaped.end() ? buffer : fresh->second;
        if (outputs) param.kind = ParamKind::kOutput;
        func->params.push_back(std::move(param));
      }
    }
    for (const IntParam& param : found_.ints) func->int_params.push_back(param);
    return Func(func);
  }

 private:
  struct Loop {
    const ForNode* node;
    Bounds values;
  };

  void note(const Buffer& buffer, const std::vector<Expr>& indices) {
    if (std::find(order_.begin(), order_.end(), buffer) == order_.end()) order_.push_back(buffer);
    auto& list = accesses_[buffer.get()];
    for (size_t d = 0; d < indices.size(); ++d) {
      if (list.size() <= d) list.emplace_back();
      LoopBounds loops;
      for (const Loop& loop : loops_) loops[loop.node->var.get()] = loop.values;
      list[d].push_back(bounds_of(indices[d], loops));
    }
  }

  Result<Stmt> blocks(const Stmt& s) {
    switch (s.kind()) {
      case StmtKind::kFor: {
        const auto* n = s.as<ForNode>();
        LoopBounds outer;
        for (const Loop& loop : loops_) outer[loop.node->var.get()] = loop.values;
        const auto low = bounds_of(n->min, outer), size = bounds_of(n->extent, outer);
        if (!low || !size) return unsupported(fmt::format("the bounds of loop '{}' cannot be analysed", n->var->name));
        loops_.push_back({n, {low->first, low->last + size->last - 1}});
        FETTLE_TRY(Stmt inner, blocks(n->body));
        loops_.pop_back();
        return with(*n, [&](ForNode& copy) { copy.body = inner; });
      }
      case StmtKind::kSeq: {
        std::vector<Stmt> stmts;
        for (const Stmt& child : s.as<SeqNode>()->stmts) {
          FETTLE_TRY(Stmt inner, blocks(child));
          stmts.push_back(std::move(inner));
        }
        return seq(std::move(stmts));
      }
      case StmtKind::kIf: {
        const auto* n = s.as<IfNode>();
        if (n->else_body || !n->then_body) return unsupported("among bare loops an if has no else");
        predicates_.push_back(n->condition);
        FETTLE_TRY(Stmt inner, blocks(n->then_body));
        predicates_.pop_back();
        return inner;
      }
      case StmtKind::kStore:
        return block(s);
      default:
        return unsupported("bare loops hold loops, ifs and stores; write a func for the rest");
    }
  }

  Result<Stmt> block(const Stmt& s) {
    const auto* n = s.as<StoreNode>();
    if (n->mask) return unsupported("bare loops have no masks");
    note(n->buffer, n->indices);
    written_.insert(n->buffer.get());
    walk(n->value, [&](const Expr& e) {
      if (const auto* read = e.as<LoadNode>()) note(read->buffer, read->indices);
      return true;
    });

    auto result = make_ref<BlockNode>();
    result->name = n->buffer->name;
    for (int copy = 1; !names_.insert(result->name).second; ++copy)
      result->name = fmt::format("{}_{}", n->buffer->name, copy);
    VarMap values;
    for (const Loop& loop : loops_) {
      IterVar iter;
      iter.var = make_var("v" + loop.node->var->name, loop.node->var->dtype);
      // Iterators count from zero.
      iter.binding = Expr(loop.node->var) - loop.values.first;
      iter.extent = shifted(loop.values.last, 1) - loop.values.first;
      if (is_zero(loop.node->min)) {
        LoopBounds outer;
        for (const Loop& other : loops_) outer[other.node->var.get()] = other.values;
        iter.extent = bounds_of(loop.node->extent, outer)->last;
      }
      iter.kind = IterKind::kReduce;
      for (const Expr& index : n->indices)
        if (uses_var(index, loop.node->var.get())) iter.kind = IterKind::kSpatial;
      values[loop.node->var.get()] = Expr(iter.var) + loop.values.first;
      result->iters.push_back(std::move(iter));
    }
    for (const Expr& condition : predicates_) result->predicate = logical_and(result->predicate, condition);

    result->body = substitute(s, values);
    const auto* body = result->body.as<StoreNode>();
    const auto accumulation = found_.accumulations.find(s.get());
    if (accumulation != found_.accumulations.end())
      result->init = store(n->buffer, body->indices, identity_of(accumulation->second, n->buffer->dtype));
    RegionUnion reads, writes;
    writes.add(n->buffer, body->indices);
    walk(body->value, [&](const Expr& e) {
      if (const auto* read = e.as<LoadNode>())
        if (!result->init || read->buffer != n->buffer) reads.add(read->buffer, read->indices);
      return true;
    });
    result->reads = reads.take();
    result->writes = writes.take();
    return Stmt(result);
  }

  // Every buffer without a declaration reaches as far as its accesses.
  Result<> shape_buffers(BufferMap& shaped) {
    for (const Buffer& buffer : found_.guessed) {
      std::vector<Expr> shape;
      for (const auto& dimension : accesses_[buffer.get()]) {
        Expr extent;
        for (const auto& bounds : dimension) {
          if (!bounds)
            return unsupported(fmt::format("the reach of '{}' cannot be analysed; declare its shape", buffer->name));
          Expr reach = shifted(bounds->last, 1);
          if (!extent)
            extent = reach;
          else if (!structural_equal(extent, reach))
            extent = max(extent, reach);
        }
        shape.push_back(std::move(extent));
      }
      shaped[buffer.get()] = make_buffer(buffer->name, std::move(shape), buffer->dtype);
    }
    return {};
  }

  const text::Parser::Found& found_;
  std::vector<Loop> loops_;
  std::vector<Expr> predicates_;
  std::vector<Buffer> order_;
  std::unordered_map<const BufferNode*, std::vector<std::vector<std::optional<Bounds>>>> accesses_;
  std::unordered_set<const BufferNode*> written_;
  std::unordered_set<std::string> names_{"root"};
};

}  // namespace

Result<Func> parse_loops(std::string_view source) {
  FETTLE_TRY(auto tokens, text::tokenize(source));
  text::Parser parser(std::move(tokens), text::Parser::Mode::kLoops);
  FETTLE_TRY(Stmt program, parser.bare_statements());
  if (!program) return unsupported("the program is empty");
  FETTLE_TRY(Func func, Inference(parser.found()).run(program));
  func = Folder().rewrite(func);
  FETTLE_TRY_VOID(check_well_formed(func));
  return func;
}

}  // namespace fettle
