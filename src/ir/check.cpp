// check_well_formed: what every program must satisfy, whichever pass made it.
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/core.h>

#include "ir/text.h"
#include "ir/text_rules.h"
#include "ir/visit.h"

namespace fettle {
namespace {

class Checker {
 public:
  explicit Checker(const Func& func) : func_(func) {}

  Result<> run() {
    if (func_->name.empty()) return bad("the function has no name", nullptr);
    for (const IntParam& param : func_->int_params) {
      if (!param.var || !param.var->dtype.is_int() || param.var->dtype.is_vector())
        return bad("an integer parameter is no scalar integer", nullptr);
      if (param.min > param.max || param.multiple_of < 1)
        return bad(fmt::format("the assumptions on '{}' cannot hold", param.var->name), nullptr);
      if (!bind(param.var)) return bad(fmt::format("'{}' is bound twice", param.var->name), nullptr);
      ints_.insert(param.var.get());
    }
    for (const Param& param : func_->params) {
      if (!param.buffer) return bad("a parameter is null", nullptr);
      FETTLE_TRY_VOID(declare(param.buffer, nullptr));
    }
    if (!func_->body) return bad("the function has no body", nullptr);
    const auto* root = func_->body.as<BlockNode>();
    lowered_ = !root;
    if (root && (!root->iters.empty() || root->predicate))
      return bad("the root block has iterators or a predicate", root);
    return stmt(func_->body);
  }

 private:
  // What a block's body accesses, to be compared with its regions.
  struct Accesses {
    std::unordered_set<const BufferNode*> read, written;
  };

  tl::unexpected<Diagnostic> bad(std::string message, const StmtNode* place) const {
    Diagnostic diagnostic(ErrorCode::E102, std::move(message), func_->name);
    diagnostic.program = func_;
    diagnostic.place = place ? place : place_;
    return fail(std::move(diagnostic));
  }

  bool bind(const Var& var) {
    if (!bound_.insert(var.get()).second) return false;
    visible_.insert(var.get());
    return true;
  }

  Result<> declare(const Buffer& buffer, const StmtNode* place) {
    if (!declared_.insert(buffer.get()).second)
      return bad(fmt::format("buffer '{}' is declared twice", buffer->name), place);
    live_.insert(buffer.get());
    if (buffer->dtype.is_vector()) return bad(fmt::format("buffer '{}' holds vectors", buffer->name), place);
    if (!buffer->strides.empty() && buffer->strides.size() != buffer->shape.size())
      return bad(fmt::format("buffer '{}' has {} strides for {} dimensions", buffer->name, buffer->strides.size(),
                             buffer->shape.size()),
                 place);
    for (const auto& list : {buffer->shape, buffer->strides})
      for (const Expr& e : list) {
        FETTLE_TRY_VOID(expr(e));
        if (e.dtype() != kI64) return bad(fmt::format("the shape of '{}' is not of i64", buffer->name), place);
      }
    for (const Expr& extent : buffer->shape)
      if (const int64_t* number = as_int(extent); number && *number < 0)
        return bad(fmt::format("buffer '{}' has an extent of {}", buffer->name, *number), place);
    if (buffer->layout) {
      const Layout& layout = *buffer->layout;
      if (layout.logical_shape.size() != layout.to_physical.inputs.size() ||
          layout.to_physical.outputs.size() != buffer->shape.size())
        return bad(fmt::format("the layout of '{}' has the wrong rank", buffer->name), place);
      for (const Var& input : layout.to_physical.inputs) visible_.insert(input.get());
      for (const Expr& e : layout.logical_shape) FETTLE_TRY_VOID(expr(e));
      for (const Expr& e : layout.to_physical.outputs) FETTLE_TRY_VOID(expr(e));
      for (const Var& input : layout.to_physical.inputs) visible_.erase(input.get());
    }
    return {};
  }

  // Returns the number of lanes of the access.
  Result<int> access(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask) {
    if (!buffer || !live_.contains(buffer.get()))
      return bad(fmt::format("buffer '{}' is not declared here", buffer ? buffer->name : "null"), nullptr);
    if (indices.size() != buffer->shape.size() && !(lowered_ && indices.size() == 1))
      return bad(fmt::format("'{}' has {} dimensions and is accessed with {} indices", buffer->name,
                             buffer->shape.size(), indices.size()),
                 nullptr);
    int lanes = 1;
    for (const Expr& index : indices) {
      FETTLE_TRY_VOID(expr(index));
      if (!index.dtype().is_int()) return bad("an index is not an integer", nullptr);
      const int n = index.dtype().lanes;
      if (n > 1 && lanes > 1 && n != lanes) return bad("the indices differ in their number of lanes", nullptr);
      lanes = std::max(lanes, n);
    }
    if (mask) {
      FETTLE_TRY_VOID(expr(mask));
      if (mask.dtype() != kBool.with_lanes(lanes)) return bad("the mask does not fit the access", nullptr);
    }
    return lanes;
  }

  void note_read(const Buffer& buffer) {
    if (accesses_) accesses_->read.insert(buffer.get());
  }
  void note_write(const Buffer& buffer) {
    if (accesses_) accesses_->written.insert(buffer.get());
  }

  Result<> binary(const BinaryNode& n) {
    FETTLE_TRY_VOID(expr(n.a));
    FETTLE_TRY_VOID(expr(n.b));
    const DType type = n.a.dtype();
    if (type != n.b.dtype())
      return bad(fmt::format("the operands of {} differ in type: {} and {}", text::operator_info(n.op).symbol,
                             type.to_string(), n.b.dtype().to_string()),
                 nullptr);
    const DType result = text::is_comparison(n.op) ? kBool.with_lanes(type.lanes) : type;
    if (n.dtype != result) return bad("an operation has the wrong type", nullptr);
    const bool logical = n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr;
    const bool of_floats = n.op == BinaryOp::kDiv || n.op == BinaryOp::kOrderedMax;
    const bool integral =
        n.op == BinaryOp::kFloorDiv || n.op == BinaryOp::kFloorMod || n.op == BinaryOp::kShl || n.op == BinaryOp::kShr;
    if ((logical && !type.is_bool()) || (integral && !type.is_int()) || (of_floats && !type.is_float()) ||
        type.code == TypeCode::kHandle)
      return bad(fmt::format("{} does not apply to {}", text::operator_info(n.op).symbol, type.to_string()), nullptr);
    return {};
  }

  Result<> expr(const Expr& e) {
    if (!e) return bad("an expression is missing", nullptr);
    switch (e.kind()) {
      case ExprKind::kIntImm:
        if (!e.dtype().is_int() && !e.dtype().is_bool()) return bad("an integer constant is of another type", nullptr);
        return {};
      case ExprKind::kFloatImm:
        if (!e.dtype().is_float()) return bad("a float constant is of another type", nullptr);
        return {};
      case ExprKind::kVar:
        if (!visible_.contains(e.as<VarNode>()))
          return bad(fmt::format("variable '{}' is not bound here", e.as<VarNode>()->name), nullptr);
        return {};
      case ExprKind::kBinary:
        return binary(*e.as<BinaryNode>());
      case ExprKind::kNot:
        FETTLE_TRY_VOID(expr(e.as<NotNode>()->a));
        if (!e.dtype().is_bool()) return bad("! applies to bools", nullptr);
        return {};
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        FETTLE_TRY_VOID(expr(n->condition));
        FETTLE_TRY_VOID(expr(n->if_true));
        FETTLE_TRY_VOID(expr(n->if_false));
        const DType condition = n->condition.dtype();
        if (!condition.is_bool() || (condition.lanes != 1 && condition.lanes != e.dtype().lanes) ||
            n->if_true.dtype() != e.dtype() || n->if_false.dtype() != e.dtype())
          return bad("a select takes a bool and two values of one type", nullptr);
        return {};
      }
      case ExprKind::kCast:
        FETTLE_TRY_VOID(expr(e.as<CastNode>()->a));
        if (e.as<CastNode>()->a.dtype().lanes != e.dtype().lanes) return bad("a cast changes the lanes", nullptr);
        return {};
      case ExprKind::kLoad: {
        const auto* n = e.as<LoadNode>();
        FETTLE_TRY(const int lanes, access(n->buffer, n->indices, n->mask));
        if (e.dtype() != n->buffer->dtype.with_lanes(lanes)) return bad("a load has the wrong type", nullptr);
        note_read(n->buffer);
        return {};
      }
      case ExprKind::kAddress: {
        const auto* n = e.as<AddressNode>();
        FETTLE_TRY(const int lanes, access(n->buffer, n->indices, nullptr));
        if (lanes != 1) return bad("an address of a vector", nullptr);
        // What the callee does with it is not known here: a region of either kind may name it.
        note_read(n->buffer);
        return {};
      }
      case ExprKind::kCall:
        if (e.as<CallNode>()->name.empty()) return bad("a call has no name", nullptr);
        for (const Expr& arg : e.as<CallNode>()->args) FETTLE_TRY_VOID(expr(arg));
        return {};
      case ExprKind::kRamp: {
        const auto* n = e.as<RampNode>();
        FETTLE_TRY_VOID(expr(n->base));
        FETTLE_TRY_VOID(expr(n->stride));
        if (n->base.dtype() != n->stride.dtype() || n->base.dtype().is_vector())
          return bad("base and stride of a ramp are scalars of one type", nullptr);
        return {};
      }
      case ExprKind::kBroadcast:
        FETTLE_TRY_VOID(expr(e.as<BroadcastNode>()->value));
        if (e.as<BroadcastNode>()->value.dtype().is_vector()) return bad("a broadcast of a vector", nullptr);
        return {};
      case ExprKind::kShuffle: {
        const auto* n = e.as<ShuffleNode>();
        int total = 0;
        for (const Expr& v : n->vectors) {
          FETTLE_TRY_VOID(expr(v));
          if (v.dtype().element() != e.dtype().element())
            return bad("the vectors of a shuffle differ in type", nullptr);
          total += v.dtype().lanes;
        }
        for (int lane : n->lanes)
          if (lane < 0 || lane >= total) return bad("a lane of a shuffle does not exist", nullptr);
        return {};
      }
    }
    return {};
  }

  Result<> scalar(const Expr& e, DType type, const char* what) {
    FETTLE_TRY_VOID(expr(e));
    if (e.dtype() != type)
      return bad(fmt::format("{} is of type {}, not {}", what, e.dtype().to_string(), type.to_string()), nullptr);
    return {};
  }

  Result<> body(const Stmt& s) { return s ? stmt(s) : Result<>(); }

  Result<> regions(const BlockNode& block, const std::vector<Region>& list, bool reads, const Accesses& inside) {
    for (const Region& region : list) {
      if (!region.buffer || !live_.contains(region.buffer.get()))
        return bad(fmt::format("a region of block '{}' names a buffer that is not declared", block.name), &block);
      if (region.ranges.size() != region.buffer->shape.size())
        return bad(fmt::format("a region of '{}' in block '{}' has the wrong rank", region.buffer->name, block.name),
                   &block);
      for (const Range& range : region.ranges) {
        FETTLE_TRY_VOID(scalar(range.min, kI64, "a region's bound"));
        FETTLE_TRY_VOID(scalar(range.extent, kI64, "a region's extent"));
      }
      const bool used = reads
                            ? inside.read.contains(region.buffer.get())
                            : inside.written.contains(region.buffer.get()) || inside.read.contains(region.buffer.get());
      if (!used)
        return bad(fmt::format("block '{}' does not {} '{}', which its regions name", block.name,
                               reads ? "read" : "write", region.buffer->name),
                   &block);
    }
    return {};
  }

  Result<> block(const BlockNode& n) {
    if (n.name.empty()) return bad("a block has no name", &n);
    if (!block_names_.insert(n.name).second) return bad(fmt::format("two blocks are named '{}'", n.name), &n);
    const bool is_root = &n == func_->body.get();
    for (const IterVar& iter : n.iters) {
      if (!iter.var || !iter.var->dtype.is_int() || iter.var->dtype.is_vector())
        return bad(fmt::format("an iterator of block '{}' is no scalar integer", n.name), &n);
      FETTLE_TRY_VOID(scalar(iter.extent, iter.var->dtype, "an iterator's extent"));
      FETTLE_TRY_VOID(scalar(iter.binding, iter.var->dtype, "an iterator's binding"));
    }
    if (n.predicate) FETTLE_TRY_VOID(scalar(n.predicate, kBool, "a predicate"));

    // The body sees the iterators and the integer parameters, and nothing else from outside.
    std::unordered_set<const VarNode*> outer = std::exchange(visible_, ints_);
    Accesses inside;
    Accesses* const outer_accesses = std::exchange(accesses_, &inside);
    for (const IterVar& iter : n.iters)
      if (!bind(iter.var)) return bad(fmt::format("'{}' is bound twice", iter.var->name), &n);
    for (const Buffer& buffer : n.allocations) FETTLE_TRY_VOID(declare(buffer, &n));
    FETTLE_TRY_VOID(body(n.init));
    FETTLE_TRY_VOID(body(n.body));
    place_ = &n;
    FETTLE_TRY_VOID(regions(n, n.reads, true, inside));
    FETTLE_TRY_VOID(regions(n, n.writes, false, inside));
    if (!is_root) {
      const auto names = [](const std::vector<Region>& list, const BufferNode* buffer) {
        for (const Region& region : list)
          if (region.buffer.get() == buffer) return true;
        return false;
      };
      const auto own = [&](const BufferNode* buffer) {
        for (const Buffer& b : n.allocations)
          if (b.get() == buffer) return true;
        return false;
      };
      for (const BufferNode* buffer : inside.written)
        if (!own(buffer) && !names(n.writes, buffer))
          return bad(fmt::format("block '{}' writes '{}', which its regions do not name", n.name, buffer->name), &n);
      for (const BufferNode* buffer : inside.read)
        if (!own(buffer) && !names(n.reads, buffer) && !names(n.writes, buffer))
          return bad(fmt::format("block '{}' reads '{}', which its regions do not name", n.name, buffer->name), &n);
    }
    for (const Buffer& buffer : n.allocations) {
      live_.erase(buffer.get());
      inside.read.erase(buffer.get());
      inside.written.erase(buffer.get());
    }
    visible_ = std::move(outer);
    accesses_ = outer_accesses;
    if (accesses_) {
      accesses_->read.insert(inside.read.begin(), inside.read.end());
      accesses_->written.insert(inside.written.begin(), inside.written.end());
    }
    return {};
  }

  // Lets and allocations in a row, which lowered code has by the hundred: no recursion.
  Result<> bindings(const Stmt& first) {
    Stmt s = first;
    std::vector<Stmt> open;
    for (; s && (s.kind() == StmtKind::kLet || s.kind() == StmtKind::kAllocate);
         open.push_back(std::exchange(s, body_of(s)))) {
      place_ = s.get();
      if (const auto* n = s.as<LetNode>()) {
        FETTLE_TRY_VOID(scalar(n->value, n->var->dtype, "a value"));
        if (!bind(n->var)) return bad(fmt::format("variable '{}' is bound twice", n->var->name), n);
      } else {
        FETTLE_TRY_VOID(declare(s.as<AllocateNode>()->buffer, s.get()));
      }
    }
    FETTLE_TRY_VOID(body(s));
    for (const Stmt& closed : open) {
      if (const auto* n = closed.as<LetNode>()) {
        visible_.erase(n->var.get());
        continue;
      }
      const BufferNode* buffer = closed.as<AllocateNode>()->buffer.get();
      live_.erase(buffer);
      if (accesses_) {
        accesses_->read.erase(buffer);
        accesses_->written.erase(buffer);
      }
    }
    return {};
  }

  static Stmt body_of(const Stmt& s) {
    return s.kind() == StmtKind::kLet ? s.as<LetNode>()->body : s.as<AllocateNode>()->body;
  }

  Result<> stmt(const Stmt& s) {
    place_ = s.get();
    switch (s.kind()) {
      case StmtKind::kFor: {
        const auto* n = s.as<ForNode>();
        if (!n->var || !n->var->dtype.is_int() || n->var->dtype.is_vector())
          return bad("a loop variable is no scalar integer", n);
        FETTLE_TRY_VOID(scalar(n->min, n->var->dtype, "a loop's lower bound"));
        FETTLE_TRY_VOID(scalar(n->extent, n->var->dtype, "a loop's extent"));
        if ((n->loop_kind == ForKind::kThreadBinding) == n->thread_axis.empty())
          return bad("a loop has a thread axis exactly if it is bound to threads", n);
        if (!bind(n->var)) return bad(fmt::format("loop variable '{}' is bound twice", n->var->name), n);
        if (!n->body) return bad("a loop has no body", n);
        FETTLE_TRY_VOID(stmt(n->body));
        visible_.erase(n->var.get());
        return {};
      }
      case StmtKind::kSeq: {
        const auto* n = s.as<SeqNode>();
        if (n->stmts.size() < 2) return bad("a sequence of fewer than two statements", n);
        for (const Stmt& child : n->stmts) {
          if (!child || child.kind() == StmtKind::kSeq) return bad("a sequence holds a sequence or nothing", n);
          FETTLE_TRY_VOID(stmt(child));
        }
        return {};
      }
      case StmtKind::kIf: {
        const auto* n = s.as<IfNode>();
        FETTLE_TRY_VOID(scalar(n->condition, kBool, "a condition"));
        FETTLE_TRY_VOID(body(n->then_body));
        return body(n->else_body);
      }
      case StmtKind::kLet:
      case StmtKind::kAllocate:
        return bindings(s);
      case StmtKind::kStore: {
        const auto* n = s.as<StoreNode>();
        FETTLE_TRY(const int lanes, access(n->buffer, n->indices, n->mask));
        FETTLE_TRY_VOID(scalar(n->value, n->buffer->dtype.with_lanes(lanes), "a stored value"));
        note_write(n->buffer);
        return {};
      }
      case StmtKind::kEvaluate:
        return expr(s.as<EvaluateNode>()->value);
      case StmtKind::kBlock:
        return block(*s.as<BlockNode>());
      case StmtKind::kWhile: {
        const auto* n = s.as<WhileNode>();
        FETTLE_TRY_VOID(scalar(n->condition, kBool, "a condition"));
        return body(n->body);
      }
      case StmtKind::kCallFunc: {
        const auto* n = s.as<CallFuncNode>();
        bool ints = false;
        for (const Expr& arg : n->args) {
          FETTLE_TRY_VOID(expr(arg));
          if (arg.kind() == ExprKind::kAddress) {
            if (ints) return bad("a call's buffers come before its integers", n);
          } else {
            ints = true;
            if (!arg.dtype().is_int() || arg.dtype().is_vector())
              return bad("a call's arguments are addresses and integers", n);
          }
        }
        return {};
      }
      case StmtKind::kAsync: {
        const auto* n = s.as<AsyncNode>();
        if (n->async_kind == AsyncKind::kWait) FETTLE_TRY_VOID(scalar(n->pending, kI64, "a number of tokens"));
        return body(n->body);
      }
    }
    return {};
  }

  const Func& func_;
  bool lowered_ = false;
  const StmtNode* place_ = nullptr;
  Accesses* accesses_ = nullptr;
  std::unordered_set<const VarNode*> bound_, visible_, ints_;
  std::unordered_set<const BufferNode*> declared_, live_;
  std::unordered_set<std::string> block_names_;
};

}  // namespace

Result<> check_well_formed(const Func& func) { return Checker(func).run(); }

}  // namespace fettle
