#include "target/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "target/cpu.h"
#include "target/target_def.h"
#include "target/tensor_intrinsic.h"

namespace fettle {

const MemoryScope* Target::find_scope(std::string_view name) const {
  for (const MemoryScope& scope : scopes)
    if (scope.name == name) return &scope;
  return nullptr;
}

const ThreadAxis* Target::find_thread_axis(std::string_view name) const {
  for (const ThreadAxis& axis : thread_axes)
    if (axis.name == name) return &axis;
  return nullptr;
}

bool Target::has_feature(std::string_view llvm_name) const {
  const std::string_view all = features;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    std::string_view one = all.substr(at, end - at);
    if (one.substr(0, 1) == "+" && one.substr(1) == llvm_name) return true;
    at = end + 1;
  }
  return false;
}

std::string Target::feature_key() const {
  const std::string isa = arch == "x86_64" ? cpu : arch + " " + cpu;
  return fmt::format("{} {} {} v{}x{}", kind, isa, features, vector_bits, vector_registers);
}

Digest Target::fingerprint() const {
  std::string text = feature_key();
  for (const CacheLevel& cache : caches)
    text += fmt::format(";{}/{}/{}/{}", cache.size_bytes, cache.ways, cache.line_bytes, cache.shared_by_threads);
  if (streams != 1) text += fmt::format(";{} streams", streams);
  return digest_bytes(text);
}

std::string describe(const Target& target) {
  if (target.has_threads()) {
    const MemoryScope* shared = target.find_scope("shared");
    return fmt::format("{} {}, {} threads a block, {} KiB of shared memory", target.kind, target.cpu,
                       target.max_threads_per_block, shared ? shared->capacity_bytes >> 10 : 0);
  }
  if (target.accelerator)
    return fmt::format("accelerator with {0} x {0} products a cycle and {1} bytes a cycle of memory",
                       target.accelerator->vector_lanes, target.accelerator->memory_bytes_per_cycle);
  std::string isa = target.has_feature("avx512f") ? "AVX-512" : target.has_feature("avx2") ? "AVX2" : "SSE2";
  if (target.has_feature("avx512vnni")) isa += " VNNI";
  if (target.has_feature("avx512bf16")) isa += " BF16";
  if (target.has_feature("amx-tile")) isa += " AMX";
  if (target.arch == "aarch64") isa = target.has_feature("dotprod") ? "NEON with dot products" : "NEON";
  std::string text = fmt::format("{} {}, {} registers", target.arch == "x86_64" ? "x86-64" : target.arch, isa,
                                 target.vector_registers);
  for (size_t i = 0; i < target.caches.size(); ++i) {
    const int64_t bytes = target.caches[i].size_bytes;
    text += bytes % (1 << 20) == 0 ? fmt::format(", L{} {} MiB", i + 1, bytes >> 20)
                                   : fmt::format(", L{} {} KiB", i + 1, bytes >> 10);
  }
  text += fmt::format(", {} thread{}", target.threads, target.threads == 1 ? "" : "s");
  if (target.streams != 1) text += fmt::format(", {} streams", target.streams);
  return text;
}

/// The scopes of a CPU: memory, the vector registers and those of a tile unit, which belong to one thread.
std::vector<MemoryScope> cpu_scopes(const Target& target) {
  std::vector<MemoryScope> scopes = {
      {.name = "global", .parent = "", .capacity_bytes = 0, .alignment_bytes = 64, .shared_by = ""},
      {.name = "register",
       .parent = "global",
       .capacity_bytes = int64_t{target.vector_registers} * target.vector_bits / 8,
       .alignment_bytes = target.vector_bits / 8,
       .shared_by = "thread"}};
  if (target.has_feature("amx-tile"))
    scopes.push_back({.name = kScopeTile,
                      .parent = "global",
                      .capacity_bytes = kTileRegisters * kTileBytes,
                      .alignment_bytes = kTileRowBytes,
                      .shared_by = "thread"});
  return scopes;
}

Target usual_cpu(const CpuSizes& sizes) {
  Target target;
  target.arch = sizes.arch;
  target.cpu = sizes.cpu;
  target.features = sizes.features;
  target.vector_bits = sizes.vector_bits;
  target.vector_registers = sizes.vector_registers;
  target.caches = {{32 << 10, 8, 64, 1}, {1 << 20, 16, 64, 1}, {32 << 20, 16, 64, 2}};
  target.scopes = cpu_scopes(target);
  return target;
}

Result<Target> parse_target(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(' ')), options = text.substr(name.size());
  for (const TargetDef* def : target_defs()) {
    if (def->name != name && (def->also.empty() || def->also != name)) continue;
    if (options.empty()) return def->make();
    if (def->make_with) return def->make_with(options);
    return fail(ErrorCode::E709, fmt::format("there is no target '{}'; {} takes no options", text, name), "target");
  }
  std::vector<std::string> known;
  for (const TargetDef* def : target_defs())
    known.push_back(def->also.empty() ? std::string(def->name) : fmt::format("{} ({})", def->name, def->also));
  return fail(ErrorCode::E709, fmt::format("there is no target '{}'; known are {}", text, fmt::join(known, ", ")),
              "target");
}

}  // namespace fettle
