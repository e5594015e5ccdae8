// Functions and statements. Expressions: print_expr.cpp.
#include "codegen/c_family/source_printer.h"

#include <fmt/format.h>

#include "base/check.h"
#include "codegen/c_family/helpers.h"
#include "codegen/context_users.h"
#include "ir/fields.h"
#include "ir/rewrite.h"

namespace fettle::c_family {

SourcePrinter::SourcePrinter(const Dialect& dialect, const IrModule& module)
    : dialect_(dialect), module_(module), names_(dialect.reserved) {
  for (const auto& [name, func] : module.funcs) {
    names_.reserve(identifier(name));
    if (!func || !func->body) continue;
    each_node<CallFuncNode>(func->body, [&](const CallFuncNode& call) { names_.reserve(identifier(call.name)); });
  }
}

void SourcePrinter::fail_with(std::string message) {
  if (failed()) return;
  error_ = Diagnostic(ErrorCode::E301, std::move(message), func_ ? (*func_)->name : "");
}

Result<std::string> SourcePrinter::finish() {
  if (failed()) return fail(error_);
  std::string text = helper_text_;
  for (const std::string& function : functions_) text += (text.empty() ? "" : "\n") + function;
  return text;
}

// --- names ---

const std::string& SourcePrinter::name_var(const Var& var) { return vars_[var.get()] = names_.take(var->name); }

const std::string& SourcePrinter::name_buffer(const Buffer& buffer, bool is_constant) {
  Place& made = places_[buffer.get()];
  made.name = names_.take(buffer->name);
  made.pointer = dialect_.scope(buffer->scope).pointer + (is_constant ? "const " : "") +
                 dialect_.storage_type(buffer->dtype) + " *";
  return made.name;
}

void SourcePrinter::forget(const VarNode* var) {
  const auto found = vars_.find(var);
  if (found == vars_.end()) return;
  names_.release(found->second);
  vars_.erase(found);
  index_vars_.erase(var);
}

void SourcePrinter::forget(const BufferNode* buffer) {
  const auto found = places_.find(buffer);
  if (found == places_.end()) return;
  names_.release(found->second.name);
  places_.erase(found);
}

const SourcePrinter::Place& SourcePrinter::place(const BufferNode* buffer) {
  const auto found = places_.find(buffer);
  if (found != places_.end()) return found->second;
  static const Place kNowhere{"nowhere", "void *"};
  fail_with("buffer " + buffer->name + " is accessed where it does not exist");
  return kNowhere;
}

void SourcePrinter::note_index(const VarNode* var, bool not_negative) { index_vars_[var] = not_negative; }

bool SourcePrinter::only_read(const Func& func, const BufferNode* buffer) {
  return !accesses(func->body, buffer, {AccessKind::kWrite, AccessKind::kAddress});
}

// --- functions ---

std::vector<std::string> SourcePrinter::parameters(const Func& func) {
  std::vector<std::string> all;
  for (const Param& param : func->params) {
    name_buffer(param.buffer, only_read(func, param.buffer.get()));
    const Place& at = places_[param.buffer.get()];
    all.push_back(at.pointer + at.name);
  }
  for (const IntParam& param : func->int_params) {
    all.push_back(dialect_.value_type(param.var->dtype) + " " + name_var(param.var));
    note_index(param.var.get(), param.min >= 0);
  }
  return all;
}

std::string SourcePrinter::head(const Func& func, const std::string& name) {
  return fmt::format("void {}({})", name, fmt::join(parameters(func), ", "));
}

void SourcePrinter::print_function(const Func& func, const std::string& name) {
  if (failed()) return;
  FETTLE_CHECK(depth_ == 0);
  func_ = &func;
  out_.clear();
  open(head(func, name));
  // What is not used, so that no compiler warns.
  for (const Param& param : func->params)
    if (!accesses(func->body, param.buffer.get())) line("(void)" + place(param.buffer.get()).name + ";");
  for (const IntParam& param : func->int_params)
    if (!func->body || !uses_var(func->body, param.var.get())) line("(void)" + vars_[param.var.get()] + ";");
  begin_body(func);
  if (func->body) {
    each_node<AllocateNode>(func->body, [&](const AllocateNode& allocation) {
      if (dialect_.scope(allocation.buffer->scope).at_top) declare_array(allocation.buffer, allocation.body);
    });
    print(func->body);
  }
  end_body(func);
  close();
  functions_.push_back(std::move(out_));
  out_.clear();
  for (const Param& param : func->params) forget(param.buffer.get());
  for (const IntParam& param : func->int_params) forget(param.var.get());
  func_ = nullptr;
}

void SourcePrinter::print_all() {
  for (const auto& [name, func] : module_.funcs) print_function(func, identifier(name));
}

void SourcePrinter::line(const std::string& text) {
  if (!text.empty() && text[0] != '#') out_.append(static_cast<size_t>(2 * depth_), ' ');
  out_ += text + '\n';
}

void SourcePrinter::open(const std::string& head) {
  line(head.empty() ? "{" : head + " {");
  ++depth_;
}

void SourcePrinter::close() {
  --depth_;
  line("}");
}

void SourcePrinter::print_braced(const std::string& head, const Stmt& stmt, const Stmt& otherwise) {
  open(head);
  print(stmt);
  if (!otherwise) return close();
  --depth_;
  print_braced("} else", otherwise);
}

// --- statements ---

void SourcePrinter::print(const Stmt& stmt) {
  if (!stmt || failed()) return;
  with_node(stmt,
            Overloaded{
                [&](const SeqNode& node) { print_seq(node); },
                [&](const ForNode& node) { print_for(node); },
                [&](const IfNode& node) {
                  print_braced("if (" + expr(node.condition).text + ")", node.then_body, node.else_body);
                },
                [&](const WhileNode& node) { print_braced("while (" + expr(node.condition).text + ")", node.body); },
                [&](const LetNode& node) { print_let(node); },
                [&](const StoreNode& node) { print_store(node); },
                [&](const AllocateNode& node) { print_allocate(node); },
                [&](const CallFuncNode& node) { print_call(node); },
                [&](const EvaluateNode& node) { print_evaluate(node); },
                [&](const AsyncNode& node) { print(node.body); },
                [&](const BlockNode& node) { fail_with("block " + node.name + " is not lowered"); },
            });
}

void SourcePrinter::print_seq(const SeqNode& seq) {
  for (const Stmt& stmt : seq.stmts) {
    // A declaration's scope ends with its statement, so that the next may use the name.
    const bool declares = stmt.kind() == StmtKind::kLet || stmt.kind() == StmtKind::kAllocate;
    if (declares && &stmt != &seq.stmts.back())
      print_braced("", stmt);
    else
      print(stmt);
  }
}

std::string SourcePrinter::loop_hint(const ForNode& loop) {
  return loop.loop_kind == ForKind::kUnrolled ? dialect_.unroll_hint : std::string();
}

void SourcePrinter::print_for(const ForNode& loop) {
  switch (loop.loop_kind) {
    case ForKind::kParallel:
      return print_parallel(loop);
    case ForKind::kThreadBinding:
      return print_thread_loop(loop);
    case ForKind::kVectorized:
      return fail_with("loop " + loop.var->name + " is vectorized, and " + dialect_.name + " is printed as scalars");
    case ForKind::kSerial:
    case ForKind::kUnrolled:
      break;
  }
  const std::string type = dialect_.value_type(loop.var->dtype);
  std::string first = expr(loop.min).text;
  std::string end = expr(is_zero(loop.min) ? loop.extent : loop.min + loop.extent, kOrder);
  const bool plain = is_index(loop.min) && is_index(loop.extent), not_negative = plain && is_not_negative(loop.min);
  if (!plain) {  // bounds that read memory are read once
    open();
    const std::string start_name = names_.take(loop.var->name + "_begin");
    end = names_.take(loop.var->name + "_end");
    line(fmt::format("const {} {} = {};", type, start_name, first));
    line(fmt::format("const {} {} = {} + {};", type, end, start_name, expr(loop.extent, kSum)));
    first = start_name;
  }
  if (const std::string hint = loop_hint(loop); !hint.empty()) line(hint);
  const std::string var = name_var(loop.var);
  note_index(loop.var.get(), not_negative);
  print_braced(fmt::format("for ({0} {1} = {2}; {1} < {3}; ++{1})", type, var, first, end), loop.body);
  if (!plain) {
    names_.release(first);
    names_.release(end);
    close();
  }
  forget(loop.var.get());
}

void SourcePrinter::print_thread_loop(const ForNode& loop) {
  const auto axis = dialect_.thread_axes.find(loop.thread_axis);
  if (axis == dialect_.thread_axes.end())
    return fail_with("loop " + loop.var->name + " is bound to " + loop.thread_axis + ", which " + dialect_.name +
                     " does not have");
  open();
  const std::string type = dialect_.value_type(loop.var->dtype);
  const std::string first = is_zero(loop.min) ? "" : expr(loop.min, kSum) + " + ";
  const bool not_negative = is_not_negative(loop.min);
  const std::string var = name_var(loop.var);
  note_index(loop.var.get(), not_negative);
  if (uses_var(loop.body, loop.var.get()))
    line(fmt::format("const {} {} = {}({}){};", type, var, first, type, axis->second));
  print(loop.body);
  forget(loop.var.get());
  close();
}

void SourcePrinter::print_parallel(const ForNode& loop) {
  fail_with("loop " + loop.var->name + " is parallel, and " + dialect_.name + " has no parallel loops here");
}

void SourcePrinter::print_let(const LetNode& let) {
  if (let.value.dtype().is_vector()) return fail_with("a vector is given the name " + let.var->name);
  if (!uses_var(let.body, let.var.get())) return print(let.body);
  const bool index = is_index(let.value), not_negative = is_not_negative(let.value);
  const std::string text = expr(let.value).text;
  const std::string name = name_var(let.var);
  if (index) note_index(let.var.get(), not_negative);
  line(fmt::format("const {} {} = {};", dialect_.value_type(let.var->dtype), name, text));
  print(let.body);
  forget(let.var.get());
}

std::string SourcePrinter::stored(const Expr& value, DType type) {
  if (!type.is_float() || type.bits != 16) return expr(value).text;
  const auto* copied = value.as<LoadNode>();
  if (copied && copied->dtype == type && is_true(copied->mask)) return element(copied->buffer, copied->indices);
  return use_helper(type.to_string() + "_from_f32", {unrounded(value)}).text;
}

std::string SourcePrinter::unrounded(const Expr& value) {
  const auto* rounding = value.as<CastNode>();
  return expr(rounding && rounding->a.dtype() == kF32 ? rounding->a : value).text;
}

void SourcePrinter::print_store(const StoreNode& store) {
  const DType type = store.buffer->dtype;
  if (store.value.dtype().is_vector() || (store.mask && store.mask.dtype().is_vector()))
    return fail_with("a vector is stored to " + store.buffer->name);
  const std::string what = stored(store.value, type);
  const std::string statement = element(store.buffer, store.indices) + " = " + what + ";";
  if (is_true(store.mask)) return line(statement);
  open("if (" + expr(store.mask).text + ")");
  line(statement);
  close();
}

void SourcePrinter::declare_array(const Buffer& buffer, const Stmt& body) {
  const int64_t count = constant_count(*buffer);
  if (count < 0) return fail_with("buffer " + buffer->name + " has a size that is not constant");
  const ScopeSpelling& scope = dialect_.scope(buffer->scope);
  const std::string name = name_buffer(buffer, false);
  line(fmt::format("{}{} {}[{}]{};", scope.declaration, dialect_.storage_type(buffer->dtype), name,
                   std::max<int64_t>(count, 1), scope.initializer));
  if (!accesses(body, buffer.get(), {AccessKind::kRead, AccessKind::kAddress})) line("(void)" + name + ";");
}

void SourcePrinter::print_allocate(const AllocateNode& allocation) {
  if (dialect_.scope(allocation.buffer->scope).at_top) return print(allocation.body);  // declared already
  if (!accesses(allocation.body, allocation.buffer.get())) return print(allocation.body);
  declare_array(allocation.buffer, allocation.body);
  print(allocation.body);
  forget(allocation.buffer.get());
}

void SourcePrinter::print_call(const CallFuncNode& call) {
  std::vector<std::string> args;
  for (const Expr& arg : call.args) args.push_back(value(arg));
  line(fmt::format("{}({});", identifier(call.name), fmt::join(args, ", ")));
}

void SourcePrinter::print_evaluate(const EvaluateNode& node) {
  const auto* call = node.value.as<CallNode>();
  if (!call) return;  // without effect
  if (call->name == "prefetch") return;
  const auto found = dialect_.statements.find(call->name);
  if (found == dialect_.statements.end()) return fail_with("no code is known for " + call->name);
  line(found->second);
}

// --- helpers ---

void SourcePrinter::need_helper(const std::string& name) {
  if (!helpers_.insert(name).second) return;
  names_.reserve(name);
  const Helper made = helper(name, dialect_);
  for (const std::string& use : made.uses) need_helper(use);
  helper_text_ += (helper_text_.empty() ? "" : "\n") + made.definition;
}

SourcePrinter::Text SourcePrinter::use_helper(const std::string& name, const std::vector<std::string>& args) {
  need_helper(name);
  return {fmt::format("{}({})", name, fmt::join(args, ", ")), kPrimary};
}

}  // namespace fettle::c_family
