#include "measure/builder.h"

#include <fmt/format.h>

#include "codegen/llvm/llvm_codegen.h"
#include "schedule/primitive.h"

namespace fettle {

// Raised by whoever changes what a trace compiles to.
constexpr int kLoweringVersion = 14;
constexpr int kCodegenVersion = 12;

std::string program_versions() {
  std::string primitives;
  for (const PrimitiveDef* def : primitive_defs()) primitives += fmt::format("{} {}\n", def->name, def->version);
  return fmt::format("lower {} codegen {} primitives {}", kLoweringVersion, kCodegenVersion,
                     digest_bytes(primitives).hex().substr(0, 8));
}

Result<std::vector<NamedObject>> compile_module(const IrModule& module, const Target& target, ObjectCache& cache,
                                                const std::string& entry_name) {
  std::vector<NamedObject> objects;
  const auto entry = module.funcs.find(module.entry);
  if (entry == module.funcs.end()) return fail(ErrorCode::E301, "the module has no entry " + module.entry);
  IrModule nest;
  nest.entry = module.entry;
  nest.funcs.insert(*entry);
  FETTLE_TRY(std::vector<uint8_t> object, compile_object(nest, target, {.entry_name = entry_name}));
  objects.push_back({entry_name, std::make_shared<const std::vector<uint8_t>>(std::move(object))});

  static const std::string identity = program_identity();
  for (const auto& [name, func] : module.funcs) {
    if (name == module.entry) continue;
    const std::string key = fmt::format("{}\n{}\n{}", name, target.feature_key(), identity);
    ObjectBytes atom = cache.find(key);
    if (!atom) {
      IrModule alone;
      alone.funcs.emplace(name, func);
      FETTLE_TRY(std::vector<uint8_t> code, compile_object(alone, target));
      atom = cache.put(key, std::move(code));
    }
    objects.push_back({name, std::move(atom)});
  }
  return objects;
}

Result<BuiltKernel> LocalBuilder::build(const Func& scheduled, const Target& target) {
  auto lowered = lower(scheduled, target, {.pipeline = options_.plain ? Pipeline::kPlain : Pipeline::kFull});
  if (!lowered) return fail(std::move(lowered.error()));
  BuiltKernel built;
  built.entry = options_.entry_name.empty() ? lowered->kernel.entry : options_.entry_name;
  FETTLE_TRY(built.objects, compile_module(lowered->kernel, target, *cache_, built.entry));
  if (!lowered->prologue.entry.empty()) {
    built.prologue_entry = built.entry + "_prologue";
    FETTLE_TRY(built.prologue_objects, compile_module(lowered->prologue, target, *cache_, built.prologue_entry));
  }
  built.kernel_params = std::move(lowered->kernel_params);
  built.prologue_params = std::move(lowered->prologue_params);
  built.int_params = std::move(lowered->int_params);
  return built;
}

}  // namespace fettle
