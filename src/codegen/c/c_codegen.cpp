#include "codegen/c/c_codegen.h"

#include <fmt/format.h>

#include "codegen/c_family/source_printer.h"
#include "codegen/captures.h"
#include "codegen/context_users.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "rt/abi.h"

namespace fettle {
namespace {

using namespace c_family;

Dialect c_dialect() {
  Dialect d;
  // A lane that is computed and never stored may come from an element that nobody has set.
  d.scopes[kScopeRegister] = {.declaration = "", .pointer = "", .initializer = " = {0}", .at_top = false};
  d.reserved = {"context", "buffers", "ints",   "status",    "result",  "closure",
                "c",       "block",   "size_t", "ptrdiff_t", "wchar_t", "offsetof"};
  return d;
}

class CPrinter : public SourcePrinter {
 public:
  CPrinter(const Dialect& dialect, const IrModule& module, const COptions& options)
      : SourcePrinter(dialect, module), options_(options), needs_context_(context_users(module, options.parallel)) {}

  bool is_entry(const std::string& name) const { return name == module_.entry || options_.more_entries.count(name); }

  /// The entry's own name belongs to what the outside calls.
  std::string symbol(const std::string& name) const { return identifier(name) + (is_entry(name) ? "_body" : ""); }

  void print_module() {
    for (const auto& [name, func] : module_.funcs) {
      if (!func || func->name != name) return fail_with("the module lists " + name + " under another name");
      prototypes_ += head(func, symbol(name)) + ";\n";
      for (const Param& param : func->params) forget(param.buffer.get());
      for (const IntParam& param : func->int_params) forget(param.var.get());
      no_contraction_ |= func->annotations.get_int(kContractKey, 1) == 0;
    }
    for (const auto& [name, func] : module_.funcs) {
      print_function(func, symbol(name));
      if (is_entry(name))
        print_entry(func, name == module_.entry && !options_.entry_name.empty() ? options_.entry_name : name);
    }
  }

  std::string preamble() const {
    std::string text =
        "#include <math.h>\n"
        "#include <stdbool.h>\n"
        "#include <stddef.h>\n"
        "#include <stdint.h>\n"
        "\n";
    if (no_contraction_) {
      text +=
          "/* a * b + c is two roundings. */\n"
          "#if defined(__GNUC__) && !defined(__clang__)\n"
          "#pragma GCC optimize(\"fp-contract=off\")\n"
          "#else\n"
          "#pragma STDC FP_CONTRACT OFF\n"
          "#endif\n\n";
    }
    text +=
        "/* Of the caller; the rest of it is none of this file's business. */\n"
        "typedef struct FettleTeam FettleTeam;\n"
        "typedef struct FettleContext {\n"
        "  FettleTeam *team;\n"
        "} FettleContext;\n";
    for (const auto& [name, declaration] : externals_) text += declaration;
    return text + "\n";
  }
  const std::string& prototypes() const { return prototypes_; }

 protected:
  std::string head(const Func& func, const std::string& name) override {
    std::vector<std::string> all;
    const bool with_context = needs_context_.count(func->name) != 0;
    if (with_context) all.push_back("FettleContext *context");
    for (std::string& parameter : parameters(func)) all.push_back(std::move(parameter));
    // What has the context's signature, or is called from the entry alone, is nobody else's.
    const bool internal = with_context || is_entry(func->name);
    return fmt::format("{}{} {}({})", internal ? "static " : "", with_context ? "int32_t" : "void", name,
                       all.empty() ? "void" : fmt::format("{}", fmt::join(all, ", ")));
  }

  void begin_body(const Func& func) override {
    if (!needs_context_.count(func->name)) return;
    line("int32_t result = 0, *const status = &result;");
    line("(void)context;");
    line("(void)status;");
  }
  void end_body(const Func& func) override {
    if (needs_context_.count(func->name)) line("return result;");
  }

  void print_parallel(const ForNode& loop) override;
  void print_allocate(const AllocateNode& allocation) override;
  void print_call(const CallFuncNode& call) override;

 private:
  void print_entry(const Func& func, const std::string& exported);
  void print_kernel_call(const CallFuncNode& call);
  /// Declares a function of the run-time system, or one of another object.
  void declare(const std::string& name, const std::string& declaration) {
    externals_.emplace(name, "extern " + declaration + ";\n");
  }

  const COptions& options_;
  const std::set<std::string> needs_context_;
  std::map<std::string, std::string> externals_;
  std::string prototypes_;
  bool no_contraction_ = false;
  int parallel_bodies_ = 0;
};

void CPrinter::print_entry(const Func& func, const std::string& exported) {
  if (failed()) return;
  const bool with_context = needs_context_.count(func->name) != 0;
  std::vector<std::string> args;
  if (with_context) args.push_back("context");
  for (size_t i = 0; i < func->params.size(); ++i) {
    const Buffer& buffer = func->params[i].buffer;
    args.push_back(fmt::format("({}{} *)buffers[{}]", only_read(func, buffer.get()) ? "const " : "",
                               dialect_.storage_type(buffer->dtype), i));
  }
  for (size_t i = 0; i < func->int_params.size(); ++i) args.push_back(fmt::format("ints[{}]", i));
  std::string text =
      fmt::format("int32_t {}(FettleContext *context, void **buffers, const int64_t *ints) {{\n", identifier(exported));
  if (!with_context) text += "  (void)context;\n";
  if (func->params.empty()) text += "  (void)buffers;\n";
  if (func->int_params.empty()) text += "  (void)ints;\n";
  text += fmt::format("  {}{}({});\n", with_context ? "return " : "", symbol(func->name), fmt::join(args, ", "));
  if (!with_context) text += "  return 0;\n";
  functions_.push_back(text + "}\n");
  prototypes_ +=
      fmt::format("int32_t {}(FettleContext *context, void **buffers, const int64_t *ints);\n", identifier(exported));
}

///   parallel for v in [min, min+extent): S
/// → static void f_parallel0(void *closure, int64_t i) { S for v = min + i }
///   fettle_parallel_for(context->team, extent, f_parallel0, &closure);
/// Of a host program they are its sections: fettle_run_sections(context, extent, f_parallel0, &closure).
/// The closure holds the context, where to put a failure, and the values and pointers that S uses.
void CPrinter::print_parallel(const ForNode& loop) {
  if (!options_.parallel) return print(with(loop, [](ForNode& f) { f.loop_kind = ForKind::kSerial; }));
  const int number = parallel_bodies_++;
  const std::string base = identifier((*func_)->name);
  const std::string closure = fmt::format("{}_closure{}", base, number),
                    name = fmt::format("{}_parallel{}", base, number);

  // Names, and their types.
  std::vector<std::pair<std::string, std::string>> fields{{"context", "FettleContext *"}, {"status", "int32_t *"}};
  std::set<const void*> seen{loop.var.get()};
  const auto see_buffer = [&](const BufferNode* buffer) {
    const auto found = places_.find(buffer);
    if (found != places_.end() && seen.insert(buffer).second)
      fields.push_back({found->second.name, found->second.pointer});
  };
  const auto see_var = [&](const VarNode* var) {
    const auto found = vars_.find(var);
    if (found != vars_.end() && seen.insert(var).second)
      fields.push_back({found->second, dialect_.value_type(var->dtype) + " "});
  };
  visit_captures(loop.body, see_buffer, see_var);
  const bool from_zero = is_zero(loop.min);

  // The call, with `first` and the fields in order.
  open();
  line(fmt::format("struct {} closure = {{", closure));
  std::string values = "    ";
  if (!from_zero) values += expr(loop.min).text + ", ";
  for (size_t i = 0; i < fields.size(); ++i) values += (i ? ", " : "") + fields[i].first;
  line(values + "};");
  const bool is_host = (*func_)->annotations.get_int(kHostKey, 0) != 0;
  const std::string run = is_host ? "fettle_run_sections" : "fettle_parallel_for";
  declare(run, fmt::format("void {}({} *, int64_t n, void (*body)(void *closure, int64_t i), void *closure)", run,
                           is_host ? "FettleContext" : "FettleTeam"));
  line(fmt::format("{}({}, {}, {}, &closure);", run, is_host ? "context" : "context->team", expr(loop.extent).text,
                   name));
  close();

  // The body, a function before this one.
  std::string outer = std::exchange(out_, {});
  const int depth = std::exchange(depth_, 0);
  line(fmt::format("struct {} {{", closure));
  if (!from_zero) line("  int64_t first;");
  for (const auto& [field, type] : fields) line("  " + type + field + ";");
  line("};\n");
  const std::string index = names_.take("index");
  open(fmt::format("static void {}(void *closure, int64_t {})", name, index));
  line(fmt::format("const struct {0} *const c = (const struct {0} *)closure;", closure));
  for (const auto& [field, type] : fields)
    line(fmt::format("{}{}{} = c->{};", type.back() == '*' ? "" : "const ", type,
                     type.back() == '*' ? "const " + field : field, field));
  line("(void)context;");
  line("(void)status;");
  const bool not_negative = is_not_negative(loop.min), plain = is_index(loop.min);
  const std::string& var = name_var(loop.var);
  if (plain) note_index(loop.var.get(), not_negative);
  line(fmt::format("const int64_t {} = {}{};", var, from_zero ? "" : "c->first + ", index));
  if (!uses_var(loop.body, loop.var.get())) line("(void)" + var + ";");
  print(loop.body);
  forget(loop.var.get());
  names_.release(index);
  close();
  functions_.push_back(std::exchange(out_, std::move(outer)));
  depth_ = depth;
}

void CPrinter::print_allocate(const AllocateNode& allocation) {
  const Buffer& buffer = allocation.buffer;
  if (on_stack(*buffer)) return SourcePrinter::print_allocate(allocation);
  declare("fettle_scratch_acquire", "void *fettle_scratch_acquire(FettleContext *, int64_t bytes)");
  declare("fettle_scratch_release", "void fettle_scratch_release(FettleContext *, void *block)");
  const std::string bytes = expr(element_count(*buffer) * Expr(buffer->dtype.element_bytes())).text;
  const std::string name = name_buffer(buffer, false), type = place(buffer.get()).pointer;
  line(fmt::format("{0}const {1} = ({0})fettle_scratch_acquire(context, {2});", type, name, bytes));
  line(fmt::format("if ({} == NULL) {{", name));
  line(fmt::format("  *status = {};", static_cast<int>(FETTLE_OUT_OF_MEMORY)));
  open("} else");
  print(allocation.body);
  line(fmt::format("fettle_scratch_release(context, {});", name));
  close();
  forget(buffer.get());
}

void CPrinter::print_call(const CallFuncNode& call) {
  if ((*func_)->annotations.get_int(kHostKey, 0) != 0) return print_kernel_call(call);
  const auto callee = module_.funcs.find(call.name);
  const bool known = callee != module_.funcs.end();
  if (known && callee->second->params.size() + callee->second->int_params.size() != call.args.size())
    return fail_with("call of " + call.name + " has the wrong number of arguments");
  std::vector<std::string> args, types;
  const bool with_context = needs_context_.count(call.name) != 0;
  if (with_context) args.push_back("context");
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Expr& arg = call.args[i];
    const auto* address = arg.as<AddressNode>();
    types.push_back(address ? "void *" : "int64_t");
    std::string text = expr(arg).text;
    if (known) {
      const size_t n_buffers = callee->second->params.size();
      if ((address != nullptr) != (i < n_buffers))
        return fail_with("call of " + call.name + " does not match its parameters");
      if (address) {
        const DType wanted = callee->second->params[i].buffer->dtype;
        if (dialect_.storage_type(wanted) != dialect_.storage_type(address->buffer->dtype))
          text = fmt::format("({} *)(void *){}", dialect_.storage_type(wanted), text);
      }
    }
    args.push_back(std::move(text));
  }
  if (!known)
    declare(call.name, fmt::format("void {}({})", identifier(call.name),
                                   types.empty() ? "void" : fmt::format("{}", fmt::join(types, ", "))));
  const std::string text = fmt::format("{}({})", symbol(call.name), fmt::join(args, ", "));
  if (!with_context) return line(text + ";");
  line("{");
  line(fmt::format("  const int32_t result_of_call = {};", text));
  line("  if (result_of_call != 0) *status = result_of_call;");
  line("}");
}

///   call k(&x[0], &arena[4096], 7, n)   →   fettle_call_kernel(context, 7, k, buffers, ints), as codegen/llvm does
void CPrinter::print_kernel_call(const CallFuncNode& call) {
  if (call.name == kReachStage) return fail_with("a host program whose sizes a run tells cannot be printed");
  if (call.name == kMarkStep) {
    declare(call.name, "void fettle_mark_step(FettleContext *, int32_t step, int32_t event)");
    return line(fmt::format("fettle_mark_step(context, {}, {});", expr(call.args[0]).text, expr(call.args[1]).text));
  }
  size_t n_buffers = 0;
  while (n_buffers < call.args.size() && call.args[n_buffers].as<AddressNode>()) ++n_buffers;
  const int64_t* number = n_buffers < call.args.size() ? as_int(call.args[n_buffers]) : nullptr;
  if (!number) return fail_with("call of kernel " + call.name + " has no number");
  const std::string signature = "(FettleContext *context, void **buffers, const int64_t *ints)";
  declare("fettle_call_kernel", "int32_t fettle_call_kernel(FettleContext *, int32_t index, int32_t (*kernel)" +
                                    signature + ", void **buffers, const int64_t *ints)");
  if (!is_entry(call.name)) declare(call.name, "int32_t " + identifier(call.name) + signature);
  std::vector<std::string> pointers, ints;
  for (size_t i = 0; i < n_buffers; ++i) pointers.push_back("(void *)" + expr(call.args[i], kUnary));
  for (size_t i = n_buffers + 1; i < call.args.size(); ++i) ints.push_back(expr(call.args[i]).text);
  line("{");
  line(fmt::format("  void *arguments[] = {{{}}};",
                   pointers.empty() ? "NULL" : fmt::format("{}", fmt::join(pointers, ", "))));
  if (!ints.empty()) line(fmt::format("  const int64_t sizes[] = {{{}}};", fmt::join(ints, ", ")));
  line(fmt::format("  const int32_t result_of_call = fettle_call_kernel(context, {}, {}, arguments, {});", *number,
                   identifier(call.name), ints.empty() ? "NULL" : "sizes"));
  line("  if (*status == 0) *status = result_of_call;");
  line("}");
}

}  // namespace

Result<std::string> emit_c(const IrModule& module, const Target& target, const COptions& options) {
  if (target.kind != "c" && target.kind != "llvm")
    return fail(ErrorCode::E301, "a target of kind \"" + target.kind + "\" is not programmed in C");
  const Dialect dialect = c_dialect();
  CPrinter printer(dialect, module, options);
  printer.print_module();
  FETTLE_TRY(const std::string text, printer.finish());
  return printer.preamble() + printer.prototypes() + "\n" + text;
}

}  // namespace fettle
