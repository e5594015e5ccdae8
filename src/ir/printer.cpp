#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/check.h"
#include "ir/text.h"
#include "ir/text_rules.h"

namespace fettle {
namespace {

using namespace text;

// Names in scope. A bound name that is already taken gets a suffix, so that the text says which one is meant.
class Names {
 public:
  const std::string& bind(const void* node, const std::string& name) {
    std::string text = name.empty() ? "_" : name;
    for (int n = 1; taken_.contains(text); ++n) text = fmt::format("{}_{}", name, n);
    taken_.insert(text);
    return names_[node] = text;
  }
  void unbind(const void* node) {
    const auto found = names_.find(node);
    taken_.erase(found->second);
    names_.erase(found);
  }
  /// The name of a use; a free one is bound for good.
  const std::string& of(const void* node, const std::string& name) {
    const auto found = names_.find(node);
    return found == names_.end() ? bind(node, name) : found->second;
  }

 private:
  std::unordered_map<const void*, std::string> names_;
  std::unordered_set<std::string> taken_;
};

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string take() { return std::move(out_); }

  std::string expr(const Expr& e, int level = 0);
  void suite(const Stmt& s);
  void func(const Func& f, bool entry);

 private:
  std::string var(const VarNode* v) { return quoted_name(vars_.of(v, v->name)); }
  std::string buffer(const Buffer& b) { return quoted_name(buffers_.of(b.get(), b->name)); }
  std::string list(const std::vector<Expr>& exprs);
  std::string access(const Buffer& b, const std::vector<Expr>& indices, const Expr& mask);
  std::string call(const CallNode& n);
  std::string declaration(const Buffer& b);
  std::string range(const Range& r);
  std::string regions(const std::vector<Region>& list);
  std::string annotations(const Annotations& a);

  void stmt(const Stmt& s, bool last);
  void loop(const ForNode& n);
  void block(const BlockNode& n);
  void block_parts(const BlockNode& n);
  void line(std::string_view text, const StmtNode* node = nullptr);
  void indented(const Stmt& s) {
    ++depth_;
    suite(s);
    --depth_;
  }

  const PrintOptions& options_;
  std::string out_;
  int depth_ = 0;
  Names vars_, buffers_;
};

void Printer::line(std::string_view text, const StmtNode* node) {
  out_.append(static_cast<size_t>(depth_) * 2, ' ');
  out_ += text;
  out_ += '\n';
  if (node && node == options_.marked) {
    out_.append(static_cast<size_t>(depth_) * 2, ' ');
    out_.append(text.size(), '^');
    out_ += '\n';
  }
}

std::string Printer::list(const std::vector<Expr>& exprs) {
  std::string text;
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (i) text += ", ";
    text += expr(exprs[i]);
  }
  return text;
}

std::string Printer::access(const Buffer& b, const std::vector<Expr>& indices, const Expr& mask) {
  std::string text = buffer(b) + "[" + list(indices);
  if (mask) text += " if " + expr(mask);
  return text + "]";
}

std::string Printer::call(const CallNode& n) {
  std::string text = quoted_name(n.name);
  const bool plain = is_plain_call_name(n.name);
  if (!plain && text.front() != '`') text = "`" + text + "`";
  if (!plain || n.dtype != inferred_call_type(n.name, n.args)) text += "." + n.dtype.to_string();
  return text + "(" + list(n.args) + ")";
}

std::string Printer::expr(const Expr& e, int level) {
  if (!e) return "<null>";
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return int_text(e.as<IntImmNode>()->value, e.dtype());
    case ExprKind::kFloatImm:
      return float_text(e.as<FloatImmNode>()->value, e.dtype());
    case ExprKind::kVar:
      return var(e.as<VarNode>());
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      const OperatorInfo& info = operator_info(n->op);
      if (info.level == 0) return fmt::format("{}({}, {})", info.symbol, expr(n->a), expr(n->b));
      // Comparisons do not chain; everything else groups to the left.
      const int left = info.level == kCompareLevel ? info.level + 1 : info.level;
      std::string text = fmt::format("{} {} {}", expr(n->a, left), info.symbol, expr(n->b, info.level + 1));
      return info.level < level ? "(" + text + ")" : text;
    }
    case ExprKind::kNot:
      return "!" + expr(e.as<NotNode>()->a, kUnaryLevel);
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      return fmt::format("select({}, {}, {})", expr(n->condition), expr(n->if_true), expr(n->if_false));
    }
    case ExprKind::kCast:
      return e.dtype().to_string() + "(" + expr(e.as<CastNode>()->a) + ")";
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      return access(n->buffer, n->indices, n->mask);
    }
    case ExprKind::kAddress:
      return "&" + access(e.as<AddressNode>()->buffer, e.as<AddressNode>()->indices, nullptr);
    case ExprKind::kCall:
      return call(*e.as<CallNode>());
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      return fmt::format("ramp({}, {}, {})", expr(n->base), expr(n->stride), n->dtype.lanes);
    }
    case ExprKind::kBroadcast:
      return fmt::format("broadcast({}, {})", expr(e.as<BroadcastNode>()->value), e.dtype().lanes);
    case ExprKind::kShuffle: {
      const auto* n = e.as<ShuffleNode>();
      return fmt::format("shuffle([{}], [{}])", list(n->vectors), fmt::join(n->lanes, ", "));
    }
  }
  FETTLE_UNREACHABLE();
}

// " {key = 1, other = "text"}", or nothing.
std::string Printer::annotations(const Annotations& a) {
  if (a.entries.empty()) return "";
  std::string text = " {";
  for (size_t i = 0; i < a.entries.size(); ++i) {
    if (i) text += ", ";
    text += quoted_name(a.entries[i].first) + " = ";
    const Attribute& value = a.entries[i].second;
    if (const auto* number = std::get_if<int64_t>(&value))
      text += fmt::format("{}", *number);
    else if (const auto* real = std::get_if<double>(&value)) {
      std::string digits = float_text(*real, kF64);
      if (std::isfinite(*real)) digits.resize(digits.size() - 3);  // without the suffix
      text += digits;
    } else if (const auto* string = std::get_if<std::string>(&value))
      text += string_text(*string);
    else
      text += fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(value), ", "));
  }
  return text + "}";
}

// A: f32[4, 8] strides[16, 1] @register align(16) layout(n: 4, c: 8 -> n, c)
std::string Printer::declaration(const Buffer& b) {
  std::string text =
      quoted_name(buffers_.bind(b.get(), b->name)) + ": " + b->dtype.to_string() + "[" + list(b->shape) + "]";
  if (!b->strides.empty()) text += " strides[" + list(b->strides) + "]";
  if (b->scope != kScopeGlobal) text += " @" + quoted_name(b->scope);
  if (b->alignment_bytes != 64) text += fmt::format(" align({})", b->alignment_bytes);
  if (b->layout) {
    const Layout& layout = *b->layout;
    text += " layout(";
    std::vector<std::string> extents;
    for (const Expr& extent : layout.logical_shape) extents.push_back(expr(extent));
    for (size_t i = 0; i < layout.to_physical.inputs.size(); ++i) {
      const Var& input = layout.to_physical.inputs[i];
      text += fmt::format("{}{}: {}", i ? ", " : "", quoted_name(vars_.bind(input.get(), input->name)), extents[i]);
    }
    text += " -> " + list(layout.to_physical.outputs) + ")";
    for (const Var& input : layout.to_physical.inputs) vars_.unbind(input.get());
  }
  return text;
}

std::string Printer::range(const Range& r) {
  if (is_one(r.extent) && r.extent.kind() == ExprKind::kIntImm) return expr(r.min);
  return expr(r.min) + " +: " + expr(r.extent);
}

std::string Printer::regions(const std::vector<Region>& list) {
  std::string text;
  for (const Region& region : list) {
    if (!text.empty()) text += ", ";
    text += buffer(region.buffer) + "[";
    for (size_t d = 0; d < region.ranges.size(); ++d) text += (d ? ", " : "") + range(region.ranges[d]);
    text += "]";
  }
  return text;
}

void Printer::suite(const Stmt& s) {
  if (!s) return line("pass");
  if (const auto* n = s.as<SeqNode>()) {
    // A let or an allocation at the end of a suite needs no indentation: its body is the rest.
    for (size_t i = 0; i < n->stmts.size(); ++i) stmt(n->stmts[i], i + 1 == n->stmts.size());
  } else {
    stmt(s, true);
  }
}

void Printer::loop(const ForNode& n) {
  std::string text = is_zero(n.min) ? expr(n.extent) : expr(n.min) + " +: " + expr(n.extent);
  if (n.loop_kind != ForKind::kSerial) text += std::string(" ") + for_kind_name(n.loop_kind);
  if (!n.thread_axis.empty()) text += " axis(" + string_text(n.thread_axis) + ")";
  if (n.tail != Tail::kExact) text += fmt::format(" tail({})", tail_name(n.tail));
  text += annotations(n.annotations);
  std::string name = quoted_name(vars_.bind(n.var.get(), n.var->name));
  if (n.var->dtype != kI64) name += ": " + n.var->dtype.to_string();
  line(fmt::format("for {} in {}:", name, text), &n);
  indented(n.body);
  vars_.unbind(n.var.get());
}

// where, reads, writes, alloc, init and body of a block; its iterators are bound.
void Printer::block_parts(const BlockNode& n) {
  // Allocations come first: the regions may name them.
  for (const Buffer& b : n.allocations) line("alloc " + declaration(b));
  if (!n.reads.empty()) line("reads " + regions(n.reads));
  if (!n.writes.empty()) line("writes " + regions(n.writes));
  if (n.init) {
    line("init:", n.init.get());
    indented(n.init);
  }
  suite(n.body);
  for (const Buffer& b : n.allocations) buffers_.unbind(b.get());
}

void Printer::block(const BlockNode& n) {
  std::vector<std::pair<std::string, std::string>> iters;  // extent, binding: in the scope around
  for (const IterVar& iter : n.iters) iters.emplace_back(expr(iter.extent), expr(iter.binding));
  const std::string predicate = n.predicate ? expr(n.predicate) : "";
  std::string text = "block " + quoted_name(n.name) + "(";
  for (size_t i = 0; i < n.iters.size(); ++i) {
    const Var& v = n.iters[i].var;
    text += fmt::format("{}{}: {}[{}]", i ? ", " : "", quoted_name(vars_.bind(v.get(), v->name)),
                        iter_kind_name(n.iters[i].kind), iters[i].first);
    if (v->dtype != kI64) text += " " + v->dtype.to_string();
    text += " = " + iters[i].second;
  }
  text += ")";
  if (!predicate.empty()) text += " where " + predicate;
  line(text + annotations(n.annotations) + ":", &n);
  ++depth_;
  block_parts(n);
  --depth_;
  for (const IterVar& iter : n.iters) vars_.unbind(iter.var.get());
}

void Printer::stmt(const Stmt& s, bool last) {
  switch (s.kind()) {
    case StmtKind::kFor:
      return loop(*s.as<ForNode>());
    case StmtKind::kSeq:
      return suite(s);
    case StmtKind::kIf: {
      const auto* n = s.as<IfNode>();
      line("if " + expr(n->condition) + ":", n);
      indented(n->then_body);
      if (n->else_body) {
        line("else:");
        indented(n->else_body);
      }
      return;
    }
    case StmtKind::kLet: {
      const auto* n = s.as<LetNode>();
      const std::string value = expr(n->value);
      std::string name = quoted_name(vars_.bind(n->var.get(), n->var->name));
      if (n->var->dtype != n->value.dtype()) name += ": " + n->var->dtype.to_string();
      line(fmt::format("let {} = {}{}", name, value, last ? "" : ":"), n);
      last ? suite(n->body) : indented(n->body);
      vars_.unbind(n->var.get());
      return;
    }
    case StmtKind::kStore: {
      const auto* n = s.as<StoreNode>();
      return line(access(n->buffer, n->indices, n->mask) + " = " + expr(n->value), n);
    }
    case StmtKind::kEvaluate:
      return line(expr(s.as<EvaluateNode>()->value), s.get());
    case StmtKind::kBlock:
      return block(*s.as<BlockNode>());
    case StmtKind::kAllocate: {
      const auto* n = s.as<AllocateNode>();
      line("allocate " + declaration(n->buffer) + (last ? "" : ":"), n);
      last ? suite(n->body) : indented(n->body);
      buffers_.unbind(n->buffer.get());
      return;
    }
    case StmtKind::kWhile:
      line("while " + expr(s.as<WhileNode>()->condition) + ":", s.get());
      return indented(s.as<WhileNode>()->body);
    case StmtKind::kCallFunc: {
      const auto* n = s.as<CallFuncNode>();
      return line("call " + quoted_name(n->name) + "(" + list(n->args) + ")", n);
    }
    case StmtKind::kAsync: {
      const auto* n = s.as<AsyncNode>();
      if (n->async_kind == AsyncKind::kIssue)
        line("issue " + string_text(n->queue) + ":", n);
      else
        line(fmt::format("wait {} pending {}:", string_text(n->queue), expr(n->pending)), n);
      return indented(n->body);
    }
  }
}

std::string int_param_text(const IntParam& param) {
  std::string text = param.var->dtype.to_string();
  const bool bounded_above = param.max != INT64_MAX;
  if (param.min != 0 || bounded_above) text += fmt::format(" in {}..", param.min);
  if (bounded_above) text += fmt::format("{}", param.max);
  if (param.multiple_of != 1) text += fmt::format(" % {}", param.multiple_of);
  if (param.typical != 0) text += fmt::format(" typically {}", param.typical);
  return text;
}

void Printer::func(const Func& f, bool entry) {
  for (const IntParam& param : f->int_params) vars_.bind(param.var.get(), param.var->name);
  const auto* root = f->body.as<BlockNode>();
  if (root && (root->name != "root" || !root->iters.empty() || root->predicate)) root = nullptr;
  std::string text = fmt::format("{}{}func {}(", entry ? "entry " : "", root ? "" : "lowered ", quoted_name(f->name));
  bool first = true;
  for (const Param& param : f->params) {
    if (!first) text += ", ";
    first = false;
    text += declaration(param.buffer);
    if (param.kind == ParamKind::kOutput) text += " output";
    if (param.kind == ParamKind::kConstant) text += " constant";
    if (param.free_layout) text += " free_layout";
  }
  for (const IntParam& param : f->int_params) {
    if (!first) text += ", ";
    first = false;
    text += var(param.var.get()) + ": " + int_param_text(param);
  }
  line(text + ")" + annotations(f->annotations) + ":");
  ++depth_;
  if (root) {
    if (!root->annotations.entries.empty()) line("root" + annotations(root->annotations), root);
    block_parts(*root);
  } else {
    suite(f->body);
  }
  --depth_;
  for (const Param& param : f->params) buffers_.unbind(param.buffer.get());
  for (const IntParam& param : f->int_params) vars_.unbind(param.var.get());
}

}  // namespace

std::string to_text(const Expr& e) {
  const PrintOptions options;
  return Printer(options).expr(e);
}

std::string to_text(const Stmt& s, const PrintOptions& options) {
  Printer printer(options);
  printer.suite(s);
  return printer.take();
}

std::string to_text(const Func& func, const PrintOptions& options) {
  Printer printer(options);
  printer.func(func, false);
  return printer.take();
}

std::string to_text(const IrModule& module, const PrintOptions& options) {
  std::string text;
  for (const auto& [name, func] : module.funcs) {
    if (!text.empty()) text += '\n';
    Printer printer(options);
    printer.func(func, name == module.entry);
    text += printer.take();
  }
  return text;
}

}  // namespace fettle
