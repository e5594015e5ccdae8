#include "tiles/onednn_product.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace fettle::bench {
namespace {

using dnnl::memory;
using Type = memory::data_type;

struct Run {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  int threads = 1;

  // In huge pages, as a model's are.
  memory make(const memory::desc& desc, int seed) {
    memory made(desc, engine);
    constexpr std::uintptr_t kHuge = 2 << 20;
    const auto begin = reinterpret_cast<std::uintptr_t>(made.get_data_handle());
    const std::uintptr_t first = (begin + kHuge - 1) / kHuge * kHuge, last = (begin + desc.get_size()) / kHuge * kHuge;
    if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
    // Bytes of all values; as bf16 none of them is infinite or denormal.
    auto* bytes = static_cast<unsigned char*>(made.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size(); ++i)
      bytes[i] = static_cast<unsigned char>(i % 2 ? 0x3c + seed : i * 7 + static_cast<std::size_t>(seed));
    return made;
  }
};

}  // namespace

std::string TileProblem::name() const {
  const char* types[] = {"bf16", "bf16->f32", "u8*i8"};
  return fmt::format("{} {}x{}x{}", types[static_cast<std::size_t>(type)], m, n, k);
}

Result<Contender> onednn_product(const TileProblem& p, int threads) {
  try {
    auto run = std::make_shared<Run>();
    run->threads = threads;
    omp_set_num_threads(threads);
    const bool bytes = p.type == TileProblem::Type::kBytes;
    const Type a = bytes ? Type::u8 : Type::bf16, b = bytes ? Type::s8 : Type::bf16;
    const Type c = bytes ? Type::s32 : p.type == TileProblem::Type::kBf16 ? Type::bf16 : Type::f32;
    const memory::desc source({p.m, p.k}, a, memory::format_tag::ab), weights({p.k, p.n}, b, memory::format_tag::any),
        destination({p.m, p.n}, c, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc desc(run->engine, source, weights, destination);
    run->primitive = dnnl::matmul(desc);
    run->arguments = {{DNNL_ARG_SRC, run->make(desc.src_desc(), 1)},
                      {DNNL_ARG_WEIGHTS, run->make(desc.weights_desc(), 2)},
                      {DNNL_ARG_DST, run->make(desc.dst_desc(), 0)}};
    return Contender{.name = desc.impl_info_str(),
                     .run =
                         [run] {
                           omp_set_num_threads(run->threads);
                           run->primitive.execute(run->stream, run->arguments);
                           run->stream.wait();
                         },
                     .flops = p.flops()};
  } catch (const dnnl::error& e) {
    return fail(ErrorCode::E708, fmt::format("oneDNN refuses {}: {}", p.name(), e.what()));
  }
}

}  // namespace fettle::bench
