#include "harness/onednn.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "base/check.h"

namespace fettle::bench {
namespace {

using dnnl::memory;
using Dims = memory::dims;

memory::desc plain(const Dims& dims, memory::format_tag tag) { return {dims, memory::data_type::f32, tag}; }
memory::desc free_layout(const Dims& dims) { return plain(dims, memory::format_tag::any); }

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attributes;
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attributes.set_post_ops(after);
  }
  return attributes;
}

/// Reproducible values in [-1, 1), from a linear congruential sequence.
std::vector<float> values(std::size_t count, std::uint32_t seed) {
  std::vector<float> out(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : out) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) * (2.0F / 16777216.0F) - 1.0F;
  }
  return out;
}

}  // namespace

struct OnednnOp::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  int threads = 1;
  double flops = 0;
  std::string implementation;
  dnnl::primitive primitive;
  // An operand: in the layout outside, and in the one oneDNN chose.
  struct Operand {
    memory::desc outside;
    memory inside;
  };
  Operand source;
  Operand weights;
  Operand destination;
  memory bias;  // empty: none
  std::unordered_map<int, memory> arguments;

  void run() {
    omp_set_num_threads(threads);
    primitive.execute(stream, arguments);
    stream.wait();
  }

  void copy_in(const Operand& operand, std::span<const float> from) {
    FETTLE_CHECK(from.size_bytes() == operand.outside.get_size());
    memory outside(operand.outside, engine, const_cast<float*>(from.data()));
    dnnl::reorder(outside, operand.inside).execute(stream, outside, const_cast<memory&>(operand.inside));
    stream.wait();
  }

  Operand operand(const Dims& dims, memory::format_tag tag, const memory::desc& chosen) {
    Operand made{plain(dims, tag), memory(chosen, engine)};
    ask_for_huge_pages(made.inside);
    return made;
  }

  // Fettle's models keep large blocks in huge pages; so both sides do here. Before the memory is touched.
  static void ask_for_huge_pages(const memory& block) {
    constexpr std::uintptr_t kHuge = 2 << 20;
    const auto begin = reinterpret_cast<std::uintptr_t>(block.get_data_handle());
    const std::uintptr_t first = (begin + kHuge - 1) / kHuge * kHuge;
    const std::uintptr_t last = (begin + block.get_desc().get_size()) / kHuge * kHuge;
    if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  }

  void finish(const memory::desc* bias_desc) {
    arguments = {{DNNL_ARG_SRC, source.inside}, {DNNL_ARG_WEIGHTS, weights.inside}, {DNNL_ARG_DST, destination.inside}};
    if (bias_desc) {
      bias = memory(*bias_desc, engine);
      arguments.insert({DNNL_ARG_BIAS, bias});
    }
    const auto count = [](const memory::desc& desc) { return desc.get_size() / sizeof(float); };
    const auto fill_source = values(count(source.outside), 1);
    const auto fill_weights = values(count(weights.outside), 2);
    const auto fill_bias = bias_desc ? values(count(*bias_desc), 3) : std::vector<float>();
    load(fill_source, fill_weights, fill_bias);
    // Untouched pages would flatter or hurt the first runs.
    std::memset(destination.inside.get_data_handle(), 0, destination.inside.get_desc().get_size());
  }

  void load(std::span<const float> from, std::span<const float> weights_from, std::span<const float> bias_from) {
    copy_in(source, from);
    copy_in(weights, weights_from);
    if (bias) {
      FETTLE_CHECK(bias_from.size_bytes() == bias.get_desc().get_size());
      std::memcpy(bias.get_data_handle(), bias_from.data(), bias_from.size_bytes());
    }
  }
};

double flops(const MatmulProblem& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

double flops(const ConvProblem& p) {
  return 2.0 * static_cast<double>(p.batch * p.channels_out * p.height_out() * p.width_out()) *
         static_cast<double>(p.channels_in / p.groups * p.kernel * p.kernel);
}

Result<OnednnOp> OnednnOp::matmul(const MatmulProblem& p, int threads) {
  try {
    auto state = std::make_unique<State>();
    state->threads = threads;
    state->flops = bench::flops(p);
    const Dims a{p.m, p.k};
    const Dims b{p.k, p.n};
    const Dims c{p.m, p.n};
    const auto bias = plain({1, p.n}, memory::format_tag::ab);
    omp_set_num_threads(threads);
    const auto attr = attributes(p.relu);
    const auto desc =
        p.bias ? dnnl::matmul::primitive_desc(state->engine, free_layout(a), free_layout(b), bias, free_layout(c), attr)
               : dnnl::matmul::primitive_desc(state->engine, free_layout(a), free_layout(b), free_layout(c), attr);
    state->primitive = dnnl::matmul(desc);
    state->implementation = desc.impl_info_str();
    state->source = state->operand(a, memory::format_tag::ab, desc.src_desc());
    state->weights = state->operand(b, memory::format_tag::ab, desc.weights_desc());
    state->destination = state->operand(c, memory::format_tag::ab, desc.dst_desc());
    state->finish(p.bias ? &bias : nullptr);
    return OnednnOp(std::move(state));
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::E708, error.what(), fmt::format("oneDNN matmul {}x{}x{}", p.m, p.n, p.k));
  }
}

Result<OnednnOp> OnednnOp::convolution(const ConvProblem& p, int threads) {
  try {
    auto state = std::make_unique<State>();
    state->threads = threads;
    state->flops = bench::flops(p);
    const Dims source{p.batch, p.channels_in, p.height, p.width};
    const bool grouped = p.groups != 1;
    const Dims weights = grouped
                             ? Dims{p.groups, p.channels_out / p.groups, p.channels_in / p.groups, p.kernel, p.kernel}
                             : Dims{p.channels_out, p.channels_in, p.kernel, p.kernel};
    const Dims destination{p.batch, p.channels_out, p.height_out(), p.width_out()};
    const Dims strides{p.stride, p.stride};
    const Dims padding{p.padding, p.padding};
    const auto bias = plain({p.channels_out}, memory::format_tag::a);
    omp_set_num_threads(threads);
    const auto attr = attributes(p.relu);
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    using Desc = dnnl::convolution_forward::primitive_desc;
    const auto desc = p.bias ? Desc(state->engine, kind, algorithm, free_layout(source), free_layout(weights), bias,
                                    free_layout(destination), strides, padding, padding, attr)
                             : Desc(state->engine, kind, algorithm, free_layout(source), free_layout(weights),
                                    free_layout(destination), strides, padding, padding, attr);
    state->primitive = dnnl::convolution_forward(desc);
    state->implementation = desc.impl_info_str();
    state->source = state->operand(source, memory::format_tag::nchw, desc.src_desc());
    state->weights =
        state->operand(weights, grouped ? memory::format_tag::goihw : memory::format_tag::oihw, desc.weights_desc());
    state->destination = state->operand(destination, memory::format_tag::nchw, desc.dst_desc());
    state->finish(p.bias ? &bias : nullptr);
    return OnednnOp(std::move(state));
  } catch (const dnnl::error& error) {
    return fail(ErrorCode::E708, error.what(),
                fmt::format("oneDNN convolution {}x{}x{} -> {}, {}x{}/{}", p.channels_in, p.height, p.width,
                            p.channels_out, p.kernel, p.kernel, p.stride));
  }
}

OnednnOp::OnednnOp(std::unique_ptr<State> state) : state_(std::move(state)) {}
OnednnOp::OnednnOp(OnednnOp&&) noexcept = default;
OnednnOp& OnednnOp::operator=(OnednnOp&&) noexcept = default;
OnednnOp::~OnednnOp() = default;

void OnednnOp::load(std::span<const float> source, std::span<const float> weights, std::span<const float> bias) {
  state_->load(source, weights, bias);
}

void OnednnOp::run() { state_->run(); }

void OnednnOp::store(std::span<float> destination) {
  State& state = *state_;
  FETTLE_CHECK(destination.size_bytes() == state.destination.outside.get_size());
  memory outside(state.destination.outside, state.engine, destination.data());
  dnnl::reorder(state.destination.inside, outside).execute(state.stream, state.destination.inside, outside);
  state.stream.wait();
}

double OnednnOp::flops() const { return state_->flops; }

std::string OnednnOp::implementation() const { return state_->implementation; }

Contender OnednnOp::contender(std::string name) {
  return {.name = std::move(name), .run = [state = state_] { state->run(); }, .flops = state_->flops};
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl::version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace fettle::bench
