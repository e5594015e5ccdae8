#include "codegen/cuda/tensor_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace fettle {
namespace {

constexpr const char* kHelpers =
    R"(struct __align__(64) TensorMap { unsigned char opaque[128]; };
#define FETTLE_INLINE static __device__ __forceinline__
FETTLE_INLINE unsigned int shared_address(const void *at) { return (unsigned int)__cvta_generic_to_shared(at); }
FETTLE_INLINE unsigned int cluster_rank() {
  unsigned int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
FETTLE_INLINE void cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// full[places], which one copying thread arrives at; empty[places], which `arrivals` warp groups arrive at.
template <int places, int arrivals, bool has_cluster>
FETTLE_INLINE void ring_init(long long *ring) {
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    for (int i = 0; i < 2 * places; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(ring + i)),
                   "r"(i < places ? 1 : arrivals) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
  }
  if (has_cluster)
    cluster_sync();
  else
    __syncthreads();
}
FETTLE_INLINE void ring_wait(const long long *barrier, int parity) {
  asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}"
               ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
FETTLE_INLINE void ring_expect(const long long *barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
template <int blocks>
FETTLE_INLINE void ring_release(const long long *barrier) {
  if (blocks == 1) {
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
  } else if (threadIdx.x < blocks) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 ::"r"(shared_address(barrier)), "r"(threadIdx.x) : "memory");
  }
}
// 128-byte swizzle; how far the next panel lies, and the next 8 lines.
FETTLE_INLINE unsigned long long factor(const void *at, unsigned int lead, unsigned int stride) {
  return (unsigned long long)((shared_address(at) & 0x3ffff) >> 4) | (unsigned long long)(lead >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}
FETTLE_INLINE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FETTLE_INLINE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int groups>
FETTLE_INLINE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}
// Nothing that reads the registers moves before the wait.
template <int registers>
FETTLE_INLINE void settle(float *c) {
#pragma unroll
  for (int i = 0; i < registers; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
template <int registers>
FETTLE_INLINE void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers)); }
template <int registers>
FETTLE_INLINE void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers)); }
FETTLE_INLINE void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// Before a barrier: what this thread wrote is there for the copy engine, and what it told it to store was read.
FETTLE_INLINE void bulk_stores_read() {
  asm volatile("fence.proxy.async.shared::cta;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
FETTLE_INLINE void bulk_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
)";

// Where a copy begins in a tensor: parameters, operands of the assembly, and their names there, from number `first` on.
struct Coordinates {
  std::vector<std::string> declared, operands, names;
};
Coordinates coordinates(int64_t dimensions, int64_t first) {
  Coordinates made;
  for (int64_t d = 0; d < dimensions; ++d) {
    made.declared.push_back(fmt::format("int x{}", d));
    made.operands.push_back(fmt::format("\"r\"(x{})", d));
    made.names.push_back(fmt::format("%{}", first + d));
  }
  return made;
}

std::string bulk_load(int64_t dimensions, bool to_all) {
  const auto [declared, operands, names] = coordinates(dimensions, 3);
  return fmt::format(
      R"(FETTLE_INLINE void bulk_load_{0}d{1}(unsigned int to, const TensorMap *map, const long long *barrier{2}, {3}) {{
  asm volatile("cp.async.bulk.tensor.{0}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{4} [%0], [%1, {{{5}}}], [%2]{6};"
               ::"r"(to), "l"(map), "r"(shared_address(barrier)), {7}{8} : "memory");
}}
)",
      dimensions, to_all ? "_to_all" : "", to_all ? ", unsigned short blocks" : "", fmt::join(declared, ", "),
      to_all ? ".multicast::cluster" : "", fmt::join(names, ", "), to_all ? fmt::format(", %{}", 3 + dimensions) : "",
      fmt::join(operands, ", "), to_all ? ", \"h\"(blocks)" : "");
}

std::string bulk_store(int64_t dimensions) {
  const auto [declared, operands, names] = coordinates(dimensions, 2);
  return fmt::format(
      R"(FETTLE_INLINE void bulk_store_{0}d(const TensorMap *map, const void *from, {1}) {{
  asm volatile("cp.async.bulk.tensor.{0}d.global.shared::cta.bulk_group [%0, {{{2}}}], [%1];\ncp.async.bulk.commit_group;"
               ::"l"(map), "r"(shared_address(from)), {3} : "memory");
}}
)",
      dimensions, fmt::join(declared, ", "), fmt::join(names, ", "), fmt::join(operands, ", "));
}

// "wgmma_m64n256k16_bf16_nk"
std::string product(const std::string& name) {
  const size_t n = name.find("64n") + 3, k = name.find("k16_", n);
  const int columns = std::stoi(name.substr(n, k - n));
  const bool transposed = name.ends_with("_nk");
  const std::string type = name.substr(k + 4, name.size() - k - 4 - (transposed ? 3 : 0));
  std::vector<std::string> registers, operands;
  for (int i = 0; i < columns / 2; ++i) {
    registers.push_back(fmt::format("%{}", i));
    operands.push_back(fmt::format("\"+f\"(c[{}])", i));
  }
  return fmt::format(
      R"(FETTLE_INLINE void {0}(float *c, unsigned long long a, unsigned long long b) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{1}k16.f32.{2}.{2} {{{3}}}, %{4}, %{5}, 1, 1, 1, 0, {6};"
               : {7} : "l"(a), "l"(b));
}}
)",
      name, columns, type, fmt::join(registers, ", "), columns / 2, columns / 2 + 1, transposed ? 0 : 1,
      fmt::join(operands, ", "));
}

}  // namespace

std::string tensor_engine_helpers(const TensorEngineUse& use) {
  if (!use.any) return "";
  std::string text = kHelpers;
  for (const auto& [dimensions, to_all] : use.bulk_loads) text += bulk_load(dimensions, to_all);
  for (const int64_t dimensions : use.bulk_stores) text += bulk_store(dimensions);
  for (const std::string& name : use.products) text += product(name);
  return text + "\n";
}

}  // namespace fettle
