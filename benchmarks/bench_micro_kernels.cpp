// Micro-kernels through codegen/llvm: how much of the FMA peak they reach, and how long they take to compile.
//   bench-micro-kernels [--asm NAME] [--only SUBSTRING] [--target NAME]
// Every row is a lowered program built here by hand: a tile of MR rows times NV vectors, accumulated over K in
// registers.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "codegen/llvm/jit_module.h"
#include "codegen/llvm/llvm_codegen.h"
#include "harness/peak.h"
#include "ir/annotations.h"
#include "target/target.h"

namespace {

using namespace fettle;
using Clock = std::chrono::steady_clock;

struct Tile {
  int rows, vectors;
  bool packed;      // A packed by panels of `rows`; else in place, rows `lda` apart
  bool accumulate;  // C += A*B; else C = A*B
  std::string name() const {
    return fmt::format("micro_kernel_{}x{}_{}_{}", rows, vectors, packed ? "packed" : "inplace",
                       accumulate ? "add" : "set");
  }
};

/// func NAME(A, B, C, K, lda, ldc): C[i*ldc + j] (+)= Σk A[…] * B[k*NV*lanes + j], as lower leaves it.
IrModule make_kernel(const Tile& tile, int lanes) {
  const int width = tile.vectors * lanes;
  auto a = make_buffer("A", {1 << 20}), b = make_buffer("B", {1 << 20}), c = make_buffer("C", {1 << 20});
  auto acc = make_buffer("acc", {tile.rows * width}, kF32, kScopeRegister);
  auto extent = make_var("K"), lda = make_var("lda"), ldc = make_var("ldc"), k = make_var("k");
  std::vector<Stmt> init, body, done;
  for (int i = 0; i < tile.rows; ++i) {
    for (int j = 0; j < tile.vectors; ++j) {
      const Expr at_c = ramp(Expr(ldc) * i + j * lanes, 1, lanes);
      const Expr at_acc = ramp(i * width + j * lanes, 1, lanes);
      init.push_back(store(acc, {at_acc}, tile.accumulate ? load(c, {at_c}) : constant(0, kF32.with_lanes(lanes))));
      const Expr at_a = tile.packed ? Expr(k) * tile.rows + i : Expr(lda) * i + Expr(k);
      const Expr product = broadcast(load(a, {at_a}), lanes) * load(b, {ramp(Expr(k) * width + j * lanes, 1, lanes)});
      body.push_back(store(acc, {at_acc}, load(acc, {at_acc}) + product));
      done.push_back(store(c, {at_c}, load(acc, {at_acc})));
    }
  }
  std::vector<Stmt> all{seq(init), make_for(k, 0, extent, seq(body)), seq(done)};
  auto func = make_ref<FuncNode>();
  func->name = tile.name();
  func->params = {{a}, {b}, {c, ParamKind::kOutput}};
  func->int_params = {{.var = extent, .min = 1}, {.var = lda, .min = 1}, {.var = ldc, .min = 1}};
  func->annotations.set(kMicroKernelKey, int64_t{1});
  func->body = allocate(acc, seq(all));
  IrModule module;
  module.funcs[func->name] = Func(func);
  return module;
}

using Kernel = void(const float*, const float*, float*, int64_t, int64_t, int64_t);

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Time this thread has worked, so that what else the machine does leaves no trace in compile times.
double worked_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Share of the FMA peak: the median over many short runs, each between two slices of the peak loop.
double share_of_peak(Kernel* kernel, const Tile& tile, int lanes, int64_t depth, bench::PeakMeter& peak) {
  const int64_t lda = depth + 16, ldc = int64_t{tile.vectors} * lanes;
  std::vector<float> a(static_cast<size_t>(tile.rows * lda + 64), 0.5f),
      b(static_cast<size_t>(depth * ldc + 64), 0.25f), c(static_cast<size_t>(tile.rows * ldc + 64), 0.0f);
  const double flops = 2.0 * tile.rows * static_cast<double>(ldc) * static_cast<double>(depth);
  const int repeats = std::max(1, static_cast<int>(2e7 / flops));
  std::vector<double> shares;
  double before = peak.slice(1e5);
  for (int round = 0; round < 41; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) kernel(a.data(), b.data(), c.data(), depth, lda, ldc);
    const double reached = flops * repeats / seconds_since(start) * 1e-9;
    const double after = peak.slice(1e5);
    shares.push_back(reached / std::max(before, after));
    before = after;
  }
  std::nth_element(shares.begin(), shares.begin() + 20, shares.end());
  return shares[20];
}

}  // namespace

int main(int argc, char** argv) {
  std::string only, assembly, target_name = "host";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--only")) only = argv[i + 1];
    if (!std::strcmp(argv[i], "--asm")) assembly = argv[i + 1];
    if (!std::strcmp(argv[i], "--target")) target_name = argv[i + 1];
  }
  const auto parsed = parse_target(target_name);
  if (!parsed) {
    fmt::print("{}\n", parsed.error().to_string());
    return 2;
  }
  const Target& target = *parsed;
  const int lanes = target.vector_lanes(4);
  fmt::print("{}\n", describe(target));
  bench::PeakMeter peak;
  struct Row {
    std::string name;
    double compile_ms, load_ms;
    double share[2];
    size_t bytes;
  };
  std::vector<Row> rows;
  const int sizes[][2] = {{14, 2}, {12, 2}, {8, 3}, {7, 3}, {6, 4}, {4, 4}, {8, 2}, {14, 1}, {28, 1}, {6, 2}, {4, 3}};
  for (const auto& size : sizes) {
    if (size[0] * size[1] + size[1] + 1 > target.vector_registers) continue;
    for (const bool packed : {true, false}) {
      for (const bool accumulate : {false, true}) {
        const Tile tile{size[0], size[1], packed, accumulate};
        const std::string name = tile.name();
        if (!only.empty() && name.find(only) == std::string::npos) continue;
        if (!assembly.empty() && name != assembly) continue;
        const IrModule module = make_kernel(tile, lanes);
        if (!assembly.empty()) {
          const auto text = emit_assembly(module, target);
          fmt::print("{}\n", text ? *text : text.error().to_string());
          continue;
        }
        Row row{name, 1e9, 1e9, {}, 0};
        Kernel* kernel = nullptr;
        Result<JitModule> loaded = fail(ErrorCode::E303);
        for (int attempt = 0; attempt < 5; ++attempt) {
          double start = worked_seconds();
          const auto object = compile_object(module, target);
          if (!object) {
            fmt::print("{}: {}\n", name, object.error().to_string());
            return 1;
          }
          row.compile_ms = std::min(row.compile_ms, (worked_seconds() - start) * 1e3);
          row.bytes = object->size();
          start = worked_seconds();
          loaded = JitModule::load(*object);
          if (!loaded) {
            fmt::print("{}: {}\n", name, loaded.error().to_string());
            return 1;
          }
          row.load_ms = std::min(row.load_ms, (worked_seconds() - start) * 1e3);
          kernel = loaded->function<Kernel>(name);
        }
        row.share[0] = share_of_peak(kernel, tile, lanes, 512, peak);
        row.share[1] = share_of_peak(kernel, tile, lanes, 64, peak);
        rows.push_back(row);
      }
    }
  }
  if (!assembly.empty()) return 0;
  fmt::print("peak {:.1f} GFLOP/s\n{:32} {:>8} {:>8} {:>10} {:>8} {:>7}\n", peak.best(), "micro-kernel", "K=512",
             "K=64", "compile ms", "load ms", "bytes");
  for (const Row& row : rows)
    fmt::print("{:32} {:7.1f}% {:7.1f}% {:10.2f} {:8.2f} {:7}\n", row.name, 100 * row.share[0], 100 * row.share[1],
               row.compile_ms, row.load_ms, row.bytes);
  return 0;
}
