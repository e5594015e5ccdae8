// Schedules by hand on the CUDA device of this machine: `make bench-cuda`. Products beside cuBLAS (where it is), what
// only moves memory beside a copy; every result is checked first.
//   bench-cuda [--only SUBSTRING] [--sources FOLDER] [--code FOLDER] [--all]
// --sources writes the CUDA C++ of every subject instead of running it (no device is needed); --code keeps machine code
// in the folder, where later runs find it, and where there is no device compiles all for sm_90a. --all prints every
// schedule that was tried, not the fastest alone. Exit status 1: a result is wrong, or a schedule fails.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/cuda/run.h"
#include "cuda/compile_ahead.h"
#include "cuda/cublas.h"
#include "cuda/default_subjects.h"
#include "cuda/schedules.h"
#include "harness/report.h"
#include "lower/device/device.h"
#include "schedule/primitives/get_block.h"
#include "tune/parts/gpu_tensor_product.h"
#include "tune/parts/gpu_warp_group_product.h"
#include "tune/parts/gpu_warp_tiles.h"

namespace {

using namespace fettle;
using namespace fettle::bench;

Subject gemm(int64_t size, bool half) {
  Subject s;
  s.name = fmt::format("{} GEMM {}", half ? "f16" : "f32", size);
  s.func = gemm_program(size, size, size, half);
  s.flops = 2.0 * static_cast<double>(size * size) * static_cast<double>(size);
  s.factors = half ? kF16 : kF32;
  s.m = s.n = s.k = size;
  s.tolerance = 1e-4;
  s.bound = half ? 0.3 : 0.6;
  s.reference = [size](int64_t at, const std::vector<std::vector<double>>& in) {
    double sum = 0;
    for (int64_t k = 0; k < size; ++k)
      sum += in[0][static_cast<size_t>(at / size * size + k)] * in[1][static_cast<size_t>(k * size + at % size)];
    return sum;
  };
  if (half) {
    for (const TensorGemmTiles& t :
         {TensorGemmTiles{128, 128, 64, 64, 64, 2, false}, TensorGemmTiles{128, 128, 64, 64, 64, 2},
          TensorGemmTiles{128, 128, 64, 64, 64, 3}, TensorGemmTiles{128, 128, 32, 64, 64, 4},
          TensorGemmTiles{128, 256, 64, 64, 64, 2, false}, TensorGemmTiles{128, 256, 64, 64, 64, 2},
          TensorGemmTiles{128, 256, 64, 64, 64, 3}, TensorGemmTiles{256, 128, 64, 64, 64, 2},
          TensorGemmTiles{256, 128, 64, 64, 64, 3}, TensorGemmTiles{256, 128, 64, 64, 64, 4},
          TensorGemmTiles{128, 256, 32, 64, 64, 4}, TensorGemmTiles{256, 128, 32, 64, 64, 4}})
      s.variants.push_back({fmt::format("{}x{}x{} warps {}x{} stages {}{}", t.block_m, t.block_n, t.block_k, t.warp_m,
                                        t.warp_n, t.stages, t.swizzle ? "" : ", rows apart"),
                            [t](Schedule& schedule) { return schedule_gemm_f16(schedule, t); },
                            {}});
  } else {
    for (const GemmTiles& t :
         {GemmTiles{128, 128, 16, 8, 8, 4, 2}, GemmTiles{128, 128, 16, 8, 8, 4, 0}, GemmTiles{128, 128, 8, 8, 8, 4, 2},
          GemmTiles{128, 128, 16, 8, 8, 2, 2}, GemmTiles{128, 64, 16, 8, 8, 4, 4}, GemmTiles{128, 128, 32, 8, 8, 4, 2},
          GemmTiles{128, 256, 16, 16, 8, 4, 0}, GemmTiles{256, 128, 16, 16, 8, 2, 0},
          GemmTiles{256, 128, 8, 16, 8, 4, 0}})
      s.variants.push_back({fmt::format("{}x{}x{} threads {}x{}, {} of k, {} blocks", t.block_m, t.block_n, t.block_k,
                                        t.thread_m, t.thread_n, t.vector_k, t.min_blocks),
                            [t](Schedule& schedule) { return schedule_gemm_f32(schedule, t); },
                            {}});
  }
  return s;
}

// bf16, on the tensor cores of warp groups, in the tilings that are predicted to be the fastest.
Subject tensor_gemm(int64_t m, int64_t n, int64_t k) {
  constexpr size_t kTried = 6;
  Subject s;
  s.name = fmt::format("bf16 GEMM {} x {} x {}", m, n, k);
  s.func = tensor_gemm_program(m, n, k, "bf16", "bf16");
  s.flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
  s.factors = s.result = kBF16;
  s.m = m;
  s.n = n;
  s.k = k;
  s.tolerance = 2e-2;
  s.bound = m == 8192 && n == 8192 ? 0.95 : 0;
  s.reference = [n, k](int64_t at, const std::vector<std::vector<double>>& in) {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += in[0][static_cast<size_t>(at / n * k + i)] * in[1][static_cast<size_t>(i * n + at % n)];
    return sum;
  };
  const Target target = *parse_target("cuda -arch sm_90a");
  const std::vector<size_t> fastest = fastest_tilings({.rows = m, .columns = n, .terms = k}, target);
  for (size_t i = 0; i < std::min(kTried, fastest.size()); ++i)
    s.variants.push_back(
        {describe(warp_group_tilings()[fastest[i]]),
         [number = static_cast<int64_t>(fastest[i])](Schedule& schedule) -> Result<> {
           PreferringDecider decider({.ranks = {}, .values = {{"tile", number}}});
           FETTLE_TRY(const BlockRef block, get_block(schedule, {.name = "C"}));
           return gpu_warp_group_product(schedule, *schedule.target(), decider, block).map([](const Finished&) {});
         }});
  return s;
}

// bf16, by single warps, in the tilings that are predicted to be the fastest.
Subject warp_gemm(int64_t m, int64_t n, int64_t k) {
  constexpr size_t kTried = 16;
  Subject s = tensor_gemm(m, n, k);
  s.name = fmt::format("bf16 product of warps {} x {} x {}", m, n, k);
  s.bound = 0;
  s.variants.clear();
  const std::vector<int64_t> fastest =
      fastest_warp_tilings({.rows = m, .columns = n, .terms = k}, *parse_target("cuda -arch sm_90a"));
  for (size_t i = 0; i < std::min(kTried, fastest.size()); ++i)
    s.variants.push_back(
        {describe(warp_tiling(fastest[i])), [number = fastest[i]](Schedule& schedule) -> Result<> {
           PreferringDecider decider({.ranks = {}, .values = {{"tile", number}}});
           FETTLE_TRY(const BlockRef block, get_block(schedule, {.name = "C"}));
           return gpu_tensor_product(schedule, *schedule.target(), decider, block).map([](const Finished&) {});
         }});
  return s;
}

// Of networks, one image or sentence at a time: BERT, ViT, and ResNet's convolutions as products; one large.
constexpr std::array<std::array<int64_t, 3>, 20> kLayers = {{
    {128, 768, 768},  {128, 3072, 768}, {128, 768, 3072}, {197, 2304, 768}, {197, 768, 768},
    {197, 3072, 768}, {197, 768, 3072}, {3136, 64, 576},  {3136, 256, 64},  {3136, 64, 256},
    {784, 128, 1152}, {784, 512, 128},  {784, 128, 512},  {196, 256, 2304}, {196, 1024, 256},
    {196, 256, 1024}, {49, 512, 4608},  {49, 2048, 512},  {49, 512, 2048},  {4096, 4096, 4096},
}};

// Of layers of networks, and others: square and odd ones, few rows.
constexpr std::array<std::array<int64_t, 3>, 30> kShapes = {{
    {8192, 8192, 8192},  {4096, 4096, 4096},  {2048, 2048, 2048}, {1024, 1024, 1024}, {8192, 1024, 8192},
    {4096, 11008, 4096}, {4096, 4096, 11008}, {2048, 6144, 4096}, {1000, 3000, 2000}, {3000, 1000, 5000},
    {5120, 5120, 640},   {1536, 4608, 1536},  {4000, 4000, 4000}, {777, 2056, 1032},  {512, 4096, 4096},
    {512, 28672, 8192},  {256, 4096, 4096},   {256, 11008, 4096}, {128, 4096, 4096},  {128, 8192, 8192},
    {64, 4096, 4096},    {64, 11008, 4096},   {64, 8192, 28672},  {48, 4096, 11008},  {32, 4096, 4096},
    {32, 28672, 8192},   {16, 4096, 4096},    {16, 8192, 8192},   {8, 4096, 11008},   {2, 8192, 8192},
}};

Subject stencil() {
  constexpr int64_t kRows = 8192, kColumns = 16384;
  Subject s;
  s.name = fmt::format("stencil {} x {}", kRows, kColumns);
  s.func = stencil_program(kRows, kColumns);
  s.bytes = 2.0 * kRows * kColumns * 4;
  s.tolerance = 1e-5;
  s.bound = 0.8;
  s.reference = [](int64_t at, const std::vector<std::vector<double>>& in) {
    const auto a = [&](int64_t i, int64_t j) {
      return in[0][static_cast<size_t>((at / kColumns + i) * (kColumns + 8) + at % kColumns + j)];
    };
    return (a(0, 4) + a(1, 3) + a(1, 4) + a(1, 5) + a(2, 4)) * 0.25;
  };
  for (const int64_t rows : {4, 8, 16})
    s.variants.push_back({fmt::format("{} rows a thread", rows),
                          [rows](Schedule& schedule) { return schedule_stencil(schedule, rows); },
                          {}});
  return s;
}

Subject rows(bool softmax) {
  constexpr int64_t kRows = 32768, kColumns = 4096;
  Subject s;
  s.name = fmt::format("{} {} x {}", softmax ? "softmax" : "layer norm", kRows, kColumns);
  s.func = softmax ? softmax_program(kRows, kColumns) : layer_norm_program(kRows, kColumns);
  s.bytes = 2.0 * kRows * kColumns * 4;
  s.tolerance = 1e-4;
  s.bound = 0.8;
  s.reference = [softmax](int64_t at, const std::vector<std::vector<double>>& in) {
    const double* x = in[0].data() + at / kColumns * kColumns;
    double sum = 0, mean = 0;
    const double own = x[at % kColumns];
    if (softmax) {
      const double most = *std::max_element(x, x + kColumns);
      for (int64_t j = 0; j < kColumns; ++j) sum += std::exp(x[j] - most);
      return std::exp(own - most) / sum;
    }
    for (int64_t j = 0; j < kColumns; ++j) mean += x[j] / kColumns;
    for (int64_t j = 0; j < kColumns; ++j) sum += (x[j] - mean) * (x[j] - mean) / kColumns;
    return (own - mean) / std::sqrt(sum + 1e-5);
  };
  for (const int64_t threads : {128, 256, 512})
    s.variants.push_back({fmt::format("{} threads a row", threads),
                          [threads](Schedule& schedule) { return schedule_rows(schedule, threads); },
                          {}});
  return s;
}

// Hopper's own come where `arch` is Hopper's.
std::vector<Subject> subjects(const std::string& arch) {
  std::vector<Subject> all = {gemm(2048, false), gemm(4096, false), gemm(4096, true), gemm(8192, true),
                              stencil(),         rows(true),        rows(false)};
  if (arch == "sm_90a")
    for (const auto& [m, n, k] : kShapes) all.push_back(tensor_gemm(m, n, k));
  if (arch == "sm_90a")
    for (const auto& [m, n, k] : kLayers) all.push_back(warp_gemm(m, n, k));
  for (const Subject& subject : {gemm(4096, false), rows(true), rows(false)}) all.push_back(by_default(subject));
  for (Subject& subject : default_moves()) all.push_back(std::move(subject));
  return all;
}

Result<DeviceProgram> lowered(const Subject& subject, const Variant& variant, const std::string& arch) {
  Schedule s(subject.func, 0);
  const auto target = std::make_shared<Target>(*parse_target("cuda -arch " + arch));
  s.set_target(target);
  FETTLE_TRY_VOID(variant.schedule(s));
  return lower_for_device(s.func(), *target);
}

uint16_t half_of(float value) {
  const auto h = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}

int64_t count_of(const Param& param) {
  int64_t count = 1;
  for (const Expr& extent : param.buffer->shape) count *= *as_int(extent);
  return count;
}

// body(chunk, begin, end) for parts of `count` elements.
void in_parallel(int64_t count, const std::function<void(int64_t, int64_t, int64_t)>& body) {
  constexpr int64_t kChunk = 1 << 16;
  std::atomic<int64_t> next = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < available_threads(); ++t)
    threads.emplace_back([&] {
      for (int64_t c = next++; c * kChunk < count; c = next++) body(c, c * kChunk, std::min(count, (c + 1) * kChunk));
    });
}

// A subject's data on the device, and some elements of what is to come out.
struct Data {
  std::vector<std::vector<double>> inputs;
  std::vector<std::pair<int64_t, double>> expected;  // place, value
  std::vector<CudaAddress> memory;                   // of the func's params
  CudaAddress output = 0, peer_output = 0, largest_input = 0;
  int64_t largest_bytes = 0;  // of an input
  int64_t output_elements = 0;
};


Result<Data> make_data(const CudaDevice& device, const Subject& subject) {
  Data data;
  for (size_t p = 0; p < subject.func->params.size(); ++p) {
    const Param& param = subject.func->params[p];
    const int64_t count = count_of(param), bytes = count * param.buffer->dtype.element_bytes();
    FETTLE_TRY(const CudaAddress at, device.allocate(bytes));
    data.memory.push_back(at);
    if (param.kind == ParamKind::kOutput) {
      data.output = at;
      data.output_elements = count;
      FETTLE_TRY_VOID(device.fill(at, 0xff, bytes));
      continue;
    }
    if (bytes > data.largest_bytes) data.largest_bytes = bytes, data.largest_input = at;
    std::vector<double> values(static_cast<size_t>(count));
    std::vector<char> raw(static_cast<size_t>(bytes));
    in_parallel(count, [&](int64_t chunk, int64_t begin, int64_t end) {
      RandomStream stream{11 + static_cast<uint64_t>(chunk), p};
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        if (param.buffer->dtype == kI64) {  // indices of rows
          const auto index = static_cast<int64_t>(stream.below(static_cast<uint64_t>(count)));
          std::memcpy(raw.data() + i * 8, &index, 8);
          values[i] = static_cast<double>(index);
          continue;
        }
        const float value = static_cast<float>(stream.below(2001)) / 1000.0f - 1.0f;
        if (param.buffer->dtype == kF16) {
          const uint16_t half = half_of(value);
          std::memcpy(raw.data() + i * 2, &half, 2);
          values[i] = static_cast<double>(static_cast<_Float16>(value));
        } else if (param.buffer->dtype == kBF16) {
          const uint16_t half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
          std::memcpy(raw.data() + i * 2, &half, 2);
          values[i] = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(half) << 16));
        } else {
          std::memcpy(raw.data() + i * 4, &value, 4);
          values[i] = static_cast<double>(value);
        }
      }
    });
    FETTLE_TRY_VOID(device.write(at, raw.data(), bytes));
    data.inputs.push_back(std::move(values));
  }
  // All of few elements, each of which may be a long sum.
  const int64_t places = std::min<int64_t>(1000, data.output_elements);
  const bool all = places == data.output_elements;
  RandomStream stream{13, 0};
  for (int64_t i = 0; i < places; ++i) {
    const auto any = static_cast<int64_t>(stream.below(static_cast<uint64_t>(data.output_elements)));
    data.expected.emplace_back(all ? i : i == 0 ? 0 : i == 1 ? data.output_elements - 1 : any, 0.0);
  }
  std::vector<std::jthread> threads;
  for (int64_t t = 0; t < available_threads(); ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < places; i += available_threads()) {
        auto& [at, value] = data.expected[static_cast<size_t>(i)];
        value = subject.reference(at, data.inputs);
      }
    });
  threads.clear();
  FETTLE_TRY(data.peer_output,
             device.allocate(std::max(data.output_elements * 4, static_cast<int64_t>(subject.bytes) / 2)));
  return data;
}

// The largest difference at a thousand places, and at the corners, relative to the result's root mean square.
Result<double> error_of(const CudaDevice& device, const Subject& subject, const Data& data, CudaAddress output) {
  std::vector<float> got(static_cast<size_t>(data.output_elements));
  if (subject.result == kBF16 || subject.result == kF16) {
    std::vector<uint16_t> bits(got.size());
    FETTLE_TRY_VOID(device.read(bits.data(), output, data.output_elements * 2));
    for (size_t i = 0; i < got.size(); ++i)
      got[i] = subject.result == kBF16 ? std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16)
                                       : static_cast<float>(std::bit_cast<_Float16>(bits[i]));
  } else {
    FETTLE_TRY_VOID(device.read(got.data(), output, data.output_elements * 4));
  }
  for (const float value : got)
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();  // not written
  double worst = 0, squares = 0;
  for (const auto& [at, expected] : data.expected) {
    worst = std::max(worst, std::fabs(expected - static_cast<double>(got[static_cast<size_t>(at)])));
    squares += expected * expected;
  }
  return worst / std::sqrt(squares / static_cast<double>(data.expected.size()));
}

// Seconds of one run, several in a row.
Result<double> seconds(const CudaDevice& device, const std::function<Result<>()>& run, int runs) {
  FETTLE_TRY(const uintptr_t begin, device.make_event());
  FETTLE_TRY(const uintptr_t end, device.make_event());
  FETTLE_TRY_VOID(device.record(begin));
  for (int i = 0; i < runs; ++i) FETTLE_TRY_VOID(run());
  FETTLE_TRY_VOID(device.record(end));
  FETTLE_TRY(const double all, device.seconds_between(begin, end));
  device.destroy_event(begin);
  device.destroy_event(end);
  return all / runs;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Options {
  std::string only, sources, code;
  bool all = false;
};

// A variant that is right, and seconds of a run.
struct Timed {
  std::function<Result<>()> run;
  double seconds = 0, error = 0;
};

Result<Timed> time_variant(const CudaDevice& device, const Subject& subject, const Data& data,
                           const DeviceProgram& program, const Result<std::string>& code) {
  if (!code) return tl::unexpected(code.error());
  FETTLE_TRY(const CudaModule module, CudaModule::load(*code));
  Timed made;
  made.run = [module, program, &data] { return module.launch(program, data.memory); };
  FETTLE_TRY_VOID(device.fill(data.output, 0xff, data.output_elements * subject.result.element_bytes()));
  FETTLE_TRY_VOID(made.run());
  FETTLE_TRY_VOID(device.wait(20));
  FETTLE_TRY(made.error, error_of(device, subject, data, data.output));
  FETTLE_TRY(const double once, seconds(device, made.run, 1));
  FETTLE_TRY(made.seconds, seconds(device, made.run, std::clamp(static_cast<int>(0.02 / once), 3, 50)));
  return made;
}

// A variant on its way to the device.
struct Compiled {
  Result<DeviceProgram> program;
  std::shared_future<Result<std::string>> code;  // where there is a program
};

// Runs a subject's variants, checks them, and times the fastest beside its peer, in turns.
Result<> measure(const CudaDevice& device, const std::optional<Cublas>& cublas, const Subject& subject,
                 const std::vector<Compiled>& compiled, const Options& options, Report& report, bool& right,
                 std::vector<double>& shares) {
  FETTLE_TRY(const Data data, make_data(device, subject));
  std::function<Result<>()> fastest;
  std::string name;
  double best = std::numeric_limits<double>::infinity();
  for (size_t v = 0; v < subject.variants.size(); ++v) {
    const Variant& variant = subject.variants[v];
    const Result<DeviceProgram>& program = compiled[v].program;
    const Result<Timed> timed = program ? time_variant(device, subject, data, *program, compiled[v].code.get())
                                        : Result<Timed>(tl::unexpected(program.error()));
    if (!timed) {
      right = false;
      fmt::print("{}, {}: {}\n", subject.name, variant.name, timed.error().to_string());
      continue;
    }
    const double time = timed->seconds;
    const bool fine = timed->error <= subject.tolerance;
    right &= fine;
    if (options.all || !fine)
      fmt::print("{}, {}: {:.4f} ms, {:.1f} {}, error {:.1e}{}\n", subject.name, variant.name, time * 1e3,
                 (subject.flops > 0 ? subject.flops / 1e12 : subject.bytes / 1e9) / time,
                 subject.flops > 0 ? "TFLOP/s" : "GB/s", timed->error, fine ? "" : " WRONG");
    if (fine && time < best) best = time, fastest = timed->run, name = variant.name;
  }
  if (!fastest) {
    report.add(subject.name + ": no variant is right", std::numeric_limits<double>::quiet_NaN(), "", at_least(0));
    return {};
  }
  const int64_t copied = static_cast<int64_t>(subject.bytes) / 2;
  std::function<Result<>()> peer;
  if (subject.flops == 0)
    peer = [&]() -> Result<> {  // in pieces, where it takes several inputs to make so much
      for (int64_t at = 0; at < copied; at += data.largest_bytes)
        FETTLE_TRY_VOID(device.copy(data.peer_output + static_cast<CudaAddress>(at), data.largest_input,
                                    std::min(copied - at, data.largest_bytes)));
      return {};
    };
  else if (cublas)
    peer = [&] {
      const bool last = data.output == data.memory.back();
      return cublas->gemm(subject.factors, subject.result, subject.m, subject.n, subject.k, data.memory[last ? 0 : 1],
                          data.memory[last ? 1 : 2], data.peer_output);
    };
  std::vector<double> own, others, ratios;
  const int runs = std::clamp(static_cast<int>(0.02 / best), 1, 50);
  for (int round = 0; round < 15; ++round) {
    FETTLE_TRY(const double mine, seconds(device, fastest, runs));
    own.push_back(mine);
    if (!peer) continue;
    FETTLE_TRY(const double other, seconds(device, peer, runs));
    if (round < 2) continue;  // the library starts
    others.push_back(other);
    ratios.push_back(other / mine);
  }
  const bool product = subject.flops > 0;
  const double work = product ? subject.flops / 1e12 : subject.bytes / 1e9;
  const char* unit = product ? "TFLOP/s" : "GB/s";
  report.add(fmt::format("{} ({})", subject.name, name), work / median(own), unit);
  if (peer) {
    report.add(fmt::format("{}: {}", subject.name, product ? "cuBLAS" : "copy"), work / median(others), unit);
    if (subject.name.starts_with("bf16 GEMM")) shares.push_back(median(ratios));
    report.add(fmt::format("{}: share of {}", subject.name, product ? "cuBLAS" : "a copy"), 100 * median(ratios), "%",
               at_least(100 * subject.bound));
    if (product) {
      FETTLE_TRY(const double error, error_of(device, subject, data, data.peer_output));
      if (error > subject.tolerance) fmt::print("{}: cuBLAS differs by {:.1e}\n", subject.name, error);
    }
  }
  for (const CudaAddress at : data.memory) device.free(at);
  device.free(data.peer_output);
  return {};
}

Result<> write_sources(const Subject& subject, const std::string& folder) {
  for (size_t v = 0; v < subject.variants.size(); ++v) {
    FETTLE_TRY(const DeviceProgram program, lowered(subject, subject.variants[v], "sm_90a"));
    FETTLE_TRY(const std::string source, emit_cuda(program));
    std::string name = fmt::format("{} {}.cu", subject.name, v);
    std::replace(name.begin(), name.end(), ' ', '_');
    std::ofstream(fmt::format("{}/{}", folder, name))
        << "// " << subject.name << ", " << subject.variants[v].name << "\n"
        << source;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--all") {
      options.all = true;
    } else if (name == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (name == "--sources" && i + 1 < argc) {
      options.sources = argv[++i];
    } else if (name == "--code" && i + 1 < argc) {
      options.code = argv[++i];
    } else {
      fmt::print(stderr, "usage: bench-cuda [--only SUBSTRING] [--sources FOLDER] [--code FOLDER] [--all]\n");
      return 2;
    }
  }
  const auto told = [](const Diagnostic& d) {
    fmt::print(stderr, "bench-cuda: {}\n", d.to_string());
    return 1;
  };
  if (!options.sources.empty()) {
    for (const Subject& subject : subjects("sm_90a"))
      if (const auto done = write_sources(subject, options.sources); !done) return told(done.error());
    return 0;
  }
  Report report("cuda");
  const auto device = CudaDevice::open();
  const std::string arch = device ? (*device)->machine_arch() : "sm_90a";
  std::vector<Subject> chosen = subjects(arch);
  std::erase_if(chosen, [&](const Subject& s) { return s.name.find(options.only) == std::string::npos; });
  // Compiled by all threads, while what is there already is measured.
  CompileAhead compiler(arch, options.code);
  std::vector<std::vector<Compiled>> compiled;
  if (has_nvrtc() && (device || !options.code.empty()))
    for (const Subject& subject : chosen) {
      std::vector<Compiled>& all = compiled.emplace_back();
      for (const Variant& variant : subject.variants) {
        Compiled& one = all.emplace_back(lowered(subject, variant, arch));
        if (!one.program) continue;
        if (const auto source = emit_cuda(*one.program))
          one.code = compiler.add(*source, variant.options);
        else
          one.program = tl::unexpected(source.error());
      }
    }
  if (!device || !has_cuda_device()) {
    const std::string why = device ? "NVRTC is not installed; FETTLE_NVRTC may name it" : device.error().message;
    for (const auto& all : compiled)
      for (const Compiled& one : all)
        if (one.program && !one.code.get()) fmt::print("{}\n", one.code.get().error().to_string());
    fmt::print("bench-cuda: nothing is measured, {}\n", why);
    report.add("nothing is measured: " + why, std::numeric_limits<double>::quiet_NaN(), "");
    if (const auto written = report.write(); !written) return told(written.error());
    return 0;
  }
  fmt::print("{}, {} multiprocessors, {}, driver for CUDA {}.{}\n", (*device)->name, (*device)->multiprocessors,
             (*device)->arch, (*device)->driver_version / 1000, (*device)->driver_version % 1000 / 10);
  std::optional<Cublas> cublas;
  if (auto opened = Cublas::open())
    cublas = std::move(*opened);
  else
    fmt::print("without cuBLAS: {}\n", opened.error().message);
  bool right = true;
  std::vector<double> shares;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (const auto done = measure(**device, cublas, chosen[i], compiled[i], options, report, right, shares); !done)
      return told(done.error());
    compiled[i].clear();
    fflush(stdout);
  }
  if (shares.size() == kShapes.size()) {
    double logs = 0;
    for (const double share : shares) logs += std::log(share) / static_cast<double>(shares.size());
    report.add("bf16 GEMM: share of cuBLAS, geometric mean of all shapes", 100 * std::exp(logs), "%", at_least(95));
  }
  fmt::print("{}", report.table());
  if (const auto written = report.write(); !written) return told(written.error());
  return right ? 0 : 1;
}
