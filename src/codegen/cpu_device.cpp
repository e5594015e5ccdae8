#include <fmt/format.h>

#include <cstring>

#include "codegen/device_def.h"
#include "codegen/llvm/llvm_codegen.h"
#include "lower/alternate.h"
#include "lower/lower.h"
#include "rt/context.h"
#include "target/host_memory.h"

namespace fettle {
namespace {

/// Each Func but the entry by itself, so that micro-kernels are compiled once.
Result<KernelImage> build_for_cpu(const IrModule& module, const Target& target, const std::string& entry_name,
                                  ObjectCache& cache) {
  KernelImage image;
  const auto entry = module.funcs.find(module.entry);
  if (entry == module.funcs.end()) return fail(ErrorCode::E301, "the module has no entry " + module.entry);
  IrModule nest;
  nest.entry = module.entry;
  nest.funcs.insert(*entry);
  FETTLE_TRY(std::vector<uint8_t> object, compile_object(nest, target, {.entry_name = entry_name}));
  image.push_back({entry_name, std::make_shared<const std::vector<uint8_t>>(std::move(object))});

  // What another thread is at is asked for again when nothing else is left to do.
  static const std::string identity = program_identity();
  for (const auto if_busy : {ObjectCache::IfBusy::kSkip, ObjectCache::IfBusy::kWait}) {
    size_t part = 1;
    for (const auto& [name, func] : module.funcs) {
      if (name == module.entry) continue;
      if (if_busy == ObjectCache::IfBusy::kSkip) image.push_back({name, nullptr});
      ObjectBytes& bytes = image[part++].bytes;
      if (bytes) continue;
      const auto make = [&] {
        IrModule alone;
        alone.funcs.emplace(name, func);
        return compile_object(alone, target);
      };
      FETTLE_TRY(bytes, cache.get(fmt::format("{}\n{}\n{}", name, target.feature_key(), identity), make, if_busy));
    }
  }
  return image;
}

Result<CompiledProgram> compile_for_cpu(const Func& scheduled, const Target& target, const ProgramRequest& request,
                                        ObjectCache& cache) {
  FETTLE_TRY(const LoweredKernel lowered,
             lower(request.alternates ? with_alternating_loops(scheduled) : scheduled, target,
                   {.pipeline = request.plain ? Pipeline::kPlain : Pipeline::kFull}));
  CompiledProgram made{.kernel_params = lowered.kernel_params,
                       .prologue_params = lowered.prologue_params,
                       .alternates = lowered.int_params.size() > scheduled->int_params.size()};
  FETTLE_TRY(made.kernel, build_for_cpu(lowered.kernel, target, request.entry, cache));
  if (lowered.prologue.entry.empty()) return made;
  FETTLE_TRY(made.prologue, build_for_cpu(lowered.prologue, target, prologue_entry(request.entry), cache));
  return made;
}

Result<std::shared_ptr<std::byte>> allocate_on_host(int64_t bytes) {
  auto block = zeroed_bytes(bytes);
  if (!block) return fail(ErrorCode::E710, fmt::format("no memory for {} bytes", bytes));
  return block;
}

Result<> copy_on_host(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

Result<DeviceStream> open_team(int threads) {
  const auto owned = std::make_shared<rt::OwnedContext>(threads);
  return DeviceStream{owned, owned->get()};
}

Result<> launch_on_cpu(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                       std::span<const int64_t> ints) {
  const int32_t status = image.function(stream.get(), const_cast<void**>(buffers.data()), ints.data());
  if (status != FETTLE_OK) return fail(ErrorCode::E710, fmt::format("the kernel returned {}", status));
  return {};
}

}  // namespace

constinit const DeviceDef cpu_device = {.kind = "llvm",
                                        .compile = compile_for_cpu,
                                        .driver = nullptr,
                                        .driver_symbol = nullptr,
                                        .allocate = allocate_on_host,
                                        .copy_to = copy_on_host,
                                        .copy_from = copy_on_host,
                                        .open_stream = open_team,
                                        .launch = launch_on_cpu,
                                        .time = nullptr,
                                        .name = nullptr};

}  // namespace fettle
