#include "codegen/opencl/opencl_codegen.h"

#include <fmt/format.h>

#include "codegen/c_family/source_printer.h"
#include "ir/visit.h"

namespace fettle {
namespace {

using namespace c_family;

Dialect opencl_dialect() {
  Dialect d{.name = "OpenCL C",
            .int_types = {"char", "short", "int", "long"},
            .uint_types = {"uchar", "ushort", "uint", "ulong"}};
  d.i64_suffix = "L";
  d.u64_suffix = "UL";
  d.f32_math_suffix = "";
  d.math_names = {{"round", "rint"}, {"abs", "fabs"}};
  d.scopes["global"] = {.declaration = "", .pointer = "__global ", .initializer = "", .at_top = false};
  d.scopes["shared"] = {.declaration = "__local ", .pointer = "__local ", .initializer = "", .at_top = true};
  for (int axis = 0; axis < 3; ++axis) {
    d.thread_axes[fmt::format("blockIdx.{}", "xyz"[axis])] = fmt::format("get_group_id({})", axis);
    d.thread_axes[fmt::format("threadIdx.{}", "xyz"[axis])] = fmt::format("get_local_id({})", axis);
  }
  d.statements["barrier"] = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
  return d;
}

class OpenClPrinter : public SourcePrinter {
 public:
  OpenClPrinter(const Dialect& dialect, const IrModule& module, const DeviceProgram& program)
      : SourcePrinter(dialect, module), program_(program) {}

 protected:
  std::string head(const Func& func, const std::string& name) override {
    const auto& block = program_.kernels.at(func->name).block;
    return fmt::format("__kernel __attribute__((reqd_work_group_size({}, {}, {}))) void {}({})", block[0], block[1],
                       block[2], name, fmt::join(parameters(func), ", "));
  }

 private:
  const DeviceProgram& program_;
};

bool uses_doubles(const IrModule& module) {
  bool found = false;
  for (const auto& [name, func] : module.funcs)
    walk(func->body, nullptr, [&](const Expr& e) {
      found |= e.dtype().is_float() && e.dtype().bits == 64;
      return !found;
    });
  return found;
}

}  // namespace

Result<std::string> emit_opencl(const DeviceProgram& program) {
  IrModule module;
  for (const auto& [name, kernel] : program.kernels) module.funcs[name] = kernel.func;
  const Dialect dialect = opencl_dialect();
  OpenClPrinter printer(dialect, module, program);
  printer.print_all();
  FETTLE_TRY(const std::string text, printer.finish());
  std::string preamble = "#pragma OPENCL FP_CONTRACT OFF\n";
  if (uses_doubles(module)) preamble += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  return preamble + "\n" + text;
}

}  // namespace fettle
