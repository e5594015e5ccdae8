#include "codegen/build.h"

#include <fmt/format.h>

#include "analysis/computes_once.h"
#include "codegen/kernel_source.h"
#include "codegen/llvm/version.h"
#include "lower/packings.h"
#include "lower/version.h"
#include "schedule/primitive.h"

namespace fettle {

std::string program_versions() {
  std::string primitives;
  for (const PrimitiveDef* def : primitive_defs()) primitives += fmt::format("{} {}\n", def->name, def->version);
  return fmt::format("lower {} codegen {} primitives {}", kLoweringVersion, kCodegenVersion,
                     digest_bytes(primitives).hex().substr(0, 8));
}

Result<KernelInfo> describe_kernel(const Func& scheduled, const BuildOptions& options) {
  if (!options.plain && !kernel_source_of(scheduled).empty()) return describe_offered(scheduled, options);
  // Plainly lowered programs have no prologue.
  const KernelConstants constants =
      options.plain ? KernelConstants{scheduled->params, std::vector<bool>(scheduled->params.size(), true), {}}
                    : constants_of(scheduled);
  KernelInfo info;
  info.computes_once = computes_once(scheduled);
  info.numerics = numerics_of(scheduled);
  info.error_bound = error_bound_of(scheduled);
  IntEnv ints = options.ints;
  for (const IntParam& param : scheduled->int_params)
    if (!ints.find(param.var.get())) ints.push(param.var.get(), typical_of(param));
  for (size_t i = 0; i < constants.params.size(); ++i) {
    const Param& param = constants.params[i];
    KernelParam made;
    made.source = i < scheduled->params.size() ? static_cast<int>(i) : -1;
    made.kind = param.kind;
    made.dtype = param.buffer->dtype;
    made.is_read = constants.is_read[i];
    FETTLE_TRY(made.layout, Relayout::make(*param.buffer, ints));
    info.params.push_back(std::move(made));
  }
  for (const Packing& packing : constants.packings) {
    KernelParam& made = info.params[packing.made];
    made.packed_from.assign(packing.sources.begin(), packing.sources.end());
    made.packing = packing.digest;
  }
  return info;
}

Result<BuiltKernel> build_kernel(const Func& scheduled, const Target& target, ObjectCache& cache,
                                 const BuildOptions& options) {
  if (!options.plain && !kernel_source_of(scheduled).empty()) return build_offered(scheduled, target, options);
  FETTLE_TRY(const DeviceDef* const device, device_of(target));
  BuiltKernel built;
  built.entry = options.entry_name.empty() ? scheduled->name : options.entry_name;
  FETTLE_TRY(CompiledProgram compiled, device->compile(scheduled, target,
                                                       {.entry = built.entry,
                                                        .plain = options.plain,
                                                        .alternates = options.alternates,
                                                        .portable = options.portable},
                                                       cache));
  FETTLE_TRY(built.info, describe_kernel(scheduled, options));
  built.alternates = compiled.alternates;
  if (built.info.params.size() != compiled.kernel_params.size())
    return fail(ErrorCode::E302, "the parameters of " + scheduled->name + " are not those that were lowered");
  built.image = std::move(compiled.kernel);
  if (compiled.prologue.empty()) return built;
  built.prologue_entry = prologue_entry(built.entry);
  built.prologue_image = std::move(compiled.prologue);
  for (const Param& param : compiled.prologue_params)
    for (size_t i = 0; i < compiled.kernel_params.size(); ++i)
      if (compiled.kernel_params[i].buffer == param.buffer) built.prologue_params.push_back(static_cast<int>(i));
  if (built.prologue_params.size() != compiled.prologue_params.size())
    return fail(ErrorCode::E302, "a parameter of the prologue of " + built.entry + " is unknown");
  return built;
}

}  // namespace fettle
