// Code for AArch64, run under QEMU's user mode where that is installed. The programs are freestanding: a few lines of
// assembly read the parameters' bytes from standard input, call the kernel, and write them back.
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "codegen/llvm/llvm_codegen.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::vector<unsigned char>>;

bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

// The program's frame, as an object. Parameters follow one another in memory, each from a multiple of 64 bytes.
std::vector<uint8_t> frame_object(const std::vector<size_t>& offsets, size_t total) {
  std::string table;
  for (const size_t offset : offsets) table += fmt::format("  .quad memory + {}\n", offset);
  const std::string text = fmt::format(R"(
  .text
  .globl _start
_start:
  adrp x19, memory
  add x19, x19, :lo12:memory
  mov x20, x19
  ldr x21, ={0}
1:
  mov x0, #0
  mov x1, x20
  mov x2, x21
  mov x8, #63
  svc #0
  cmp x0, #0
  b.le 2f
  add x20, x20, x0
  subs x21, x21, x0
  b.ne 1b
2:
  mov x0, #0
  adrp x1, table
  add x1, x1, :lo12:table
  mov x2, #0
  bl entry
  mov x22, x0
  mov x20, x19
  ldr x21, ={0}
3:
  mov x0, #1
  mov x1, x20
  mov x2, x21
  mov x8, #64
  svc #0
  cmp x0, #0
  b.le 4f
  add x20, x20, x0
  subs x21, x21, x0
  b.ne 3b
4:
  mov x0, x22
  mov x8, #93
  svc #0
  .data
  .balign 8
table:
{1}  .bss
  .balign 64
memory:
  .skip {0}
)",
                                       total, table);
  LLVMModuleRef module = LLVMModuleCreateWithName("frame");
  const char* triple = "aarch64-unknown-linux-gnu";
  LLVMSetTarget(module, triple);
  LLVMSetModuleInlineAsm2(module, text.data(), text.size());
  LLVMInitializeAArch64AsmParser();
  LLVMTargetRef target = nullptr;
  char* message = nullptr;
  std::vector<uint8_t> bytes;
  if (LLVMGetTargetFromTriple(triple, &target, &message) != 0) return bytes;
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, triple, "generic", "+neon", LLVMCodeGenLevelNone,
                                                         LLVMRelocStatic, LLVMCodeModelDefault);
  LLVMMemoryBufferRef buffer = nullptr;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &buffer) == 0) {
    const char* start = LLVMGetBufferStart(buffer);
    bytes.assign(start, start + LLVMGetBufferSize(buffer));
    LLVMDisposeMemoryBuffer(buffer);
  }
  LLVMDisposeTargetMachine(machine);
  LLVMDisposeModule(module);
  return bytes;
}

void write_file(const fs::path& path, const std::vector<uint8_t>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

class AArch64 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_program("qemu-aarch64") || !has_program("ld.lld-19")) GTEST_SKIP() << "no qemu-aarch64 or no ld.lld-19";
    folder_ = fs::temp_directory_path() / fmt::format("fettle-aarch64-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  // Lowers, compiles, links and runs; `data` is what the parameters hold, before and after.
  void run(const Func& scheduled, const Target& target, Bytes& data, std::string* assembly = nullptr) {
    const auto lowered = lower(scheduled, target);
    ASSERT_TRUE(lowered) << lowered.error().to_string();
    ASSERT_TRUE(lowered->prologue.entry.empty());
    const auto object = compile_object(lowered->kernel, target, {.entry_name = "entry", .verify = true});
    ASSERT_TRUE(object) << object.error().to_string();
    if (assembly) *assembly = std::string(emit_assembly(lowered->kernel, target).value());
    std::vector<size_t> offsets;
    std::vector<uint8_t> memory;
    for (const auto& bytes : data) {
      offsets.push_back(memory.size());
      memory.insert(memory.end(), bytes.begin(), bytes.end());
      memory.resize((memory.size() + 63) / 64 * 64);
    }
    const std::vector<uint8_t> frame = frame_object(offsets, memory.size());
    ASSERT_FALSE(frame.empty());
    write_file(folder_ / "kernel.o", *object);
    write_file(folder_ / "frame.o", frame);
    write_file(folder_ / "in", memory);
    const auto path = [&](const char* name) { return (folder_ / name).string(); };
    ASSERT_EQ(
        std::system(
            fmt::format("ld.lld-19 -static -o {} {} {}", path("program"), path("frame.o"), path("kernel.o")).c_str()),
        0);
    ASSERT_EQ(std::system(
                  fmt::format("timeout 60 qemu-aarch64 -cpu max {} < {} > {}", path("program"), path("in"), path("out"))
                      .c_str()),
              0);
    std::ifstream out(folder_ / "out", std::ios::binary);
    std::vector<char> result(memory.size());
    out.read(result.data(), static_cast<std::streamsize>(result.size()));
    ASSERT_EQ(out.gcount(), static_cast<std::streamsize>(result.size()));
    for (size_t p = 0; p < data.size(); ++p) std::memcpy(data[p].data(), result.data() + offsets[p], data[p].size());
  }

  fs::path folder_;
};

// One tile of the meaning for each t: C[t, j] += A[t, k] * B[t, j, k].
Func many_tiles(const TensorIntrinsicDef& intrinsic, int tiles) {
  const Func meaning = meaning_of(intrinsic);
  const auto type = [&](size_t p) { return meaning->params[p].buffer->dtype.to_string(); };
  const int64_t columns = *as_int(meaning->params[1].buffer->shape[0]),
                depth = *as_int(meaning->params[1].buffer->shape[1]);
  const auto parsed = parse_func(fmt::format(R"(
func tiles(A: {a}[{t}, {k}], B: {b}[{t}, {j}, {k}], C: {c}[{t}, {j}] output):
  for t in {t}:
    for j in {j}:
      for k in {k}:
        block C(vt: spatial[{t}] = t, vj: spatial[{j}] = j, vk: reduce[{k}] = k):
          reads A[vt, vk], B[vt, vj, vk]
          writes C[vt, vj]
          C[vt, vj] = C[vt, vj] + {c}(A[vt, vk]) * {c}(B[vt, vj, vk])
)",
                                             fmt::arg("a", type(0)), fmt::arg("b", type(1)), fmt::arg("c", type(2)),
                                             fmt::arg("t", tiles), fmt::arg("j", columns), fmt::arg("k", depth)));
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return *parsed;
}

TEST_F(AArch64, DotProductsAreExactOverAllOperands) {
  const std::array<std::pair<const char*, const char*>, 4> instructions = {
      {{"neon_sdot", "sdot"}, {"neon_udot", "udot"}, {"neon_usdot", "usdot"}, {"neon_smull", "smull"}}};
  for (const auto& [name, instruction] : instructions) {
    SCOPED_TRACE(name);
    const TensorIntrinsicDef& intrinsic = *find_tensor_intrinsic(name);
    const Target target = parse_target(std::string(name) == "neon_smull" ? "aarch64-neon" : "aarch64-dotprod").value();
    ASSERT_TRUE(intrinsic.available(target));
    constexpr int kTiles =
        256 * 64;  // each pair of bytes in some step of some tile, the other operands at their extremes
    const Func program = many_tiles(intrinsic, kTiles);
    Bytes data(3);
    std::mt19937 random(1);
    for (size_t p = 0; p < 3; ++p) data[p].resize(static_cast<size_t>(kTiles) * (p == 0 ? 4 : 16));
    const unsigned char extreme[] = {0x80, 0x7f, 0xff, 0x00};
    for (size_t p = 0; p < 2; ++p)
      for (auto& byte : data[p]) byte = extreme[random() % 4];
    for (auto& byte : data[2]) byte = static_cast<unsigned char>(random());
    for (size_t t = 0; t < kTiles; ++t) {
      const size_t a = t / 64, b = t % 64 * 4, k = t % 4;
      data[0][t * 4 + k] = static_cast<unsigned char>(a);
      for (size_t j = 0; j < 4; ++j) data[1][(t * 4 + j) * 4 + k] = static_cast<unsigned char>(b + j);
    }
    Bytes expected = data;
    std::vector<BufferArg> args;
    for (auto& bytes : expected) args.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
    ASSERT_TRUE(interpret(program, args));

    Schedule s(program);
    s.set_target(std::make_shared<const Target>(target));
    const auto loops = get_loops(s, {.block = get_block(s, {.name = "C"}).value()}).value();
    const auto done = tensorize(s, {loops[1], name});
    ASSERT_TRUE(done) << done.error().to_string();
    std::string assembly;
    run(s.func(), target, data, &assembly);
    EXPECT_NE(assembly.find(std::string("\t") + instruction + "\t"), std::string::npos) << assembly;
    EXPECT_EQ(data[2], expected[2]);
  }
}

// A product in register tiles of 5 x 2 vectors: operands packed in the call, sums carried in registers through the
// reduction.
TEST_F(AArch64, MicroKernelsOfDotProducts) {
  const Func program = parse_func(R"(
func gemm(A: i8[13, 24], B: i8[24, 16], C: i32[13, 16] output):
  for i in 13:
    for j in 16:
      for k in 24:
        block C(vi: spatial[13] = i, vj: spatial[16] = j, vk: reduce[24] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0i32
          C[vi, vj] = C[vi, vj] + i32(A[vi, vk]) * i32(B[vk, vj])
)")
                           .value();
  for (const char* name : {"neon_sdot", "neon_smull"}) {
    SCOPED_TRACE(name);
    const Target target = parse_target(std::string(name) == "neon_smull" ? "aarch64-neon" : "aarch64-dotprod").value();
    Schedule s(program);
    s.set_target(std::make_shared<const Target>(target));
    const BlockRef c = get_block(s, {.name = "C"}).value();
    const auto pack = cache_read(s, {.block = c, .read_index = 1});
    ASSERT_TRUE(pack);
    IndexMap map;
    ASSERT_TRUE(from_arg(ArgValue{std::string("(k, n) -> (n // 8, k // 4, n % 8, k % 4)")}, map));
    ASSERT_TRUE(transform_layout(s, {.block = *pack, .index_map = map}));
    const auto back = cache_write(s, {.block = c, .scope = kScopeRegister});
    ASSERT_TRUE(back);
    const auto loops = get_loops(s, {.block = c}).value();
    const auto i = split(s, {.loop = loops[0], .factors = {kInfer, 5}, .tail = Tail::kBalance}).value();
    const auto j = split(s, {.loop = loops[1], .factors = {kInfer, 2, 4}}).value();
    const auto k = split(s, {.loop = loops[2], .factors = {kInfer, 4}}).value();
    ASSERT_TRUE(reorder(s, {.loops = {j[0], i[0], k[0], i[1], j[1], j[2], k[1]}}));
    ASSERT_TRUE(unroll(s, {.loop = i[1]}));
    ASSERT_TRUE(unroll(s, {.loop = j[1]}));
    ASSERT_TRUE(vectorize(s, {.loop = j[2]}));
    ASSERT_TRUE(reverse_compute_at(s, {.block = *back, .loop = i[0]}));
    ASSERT_TRUE(decompose_reduction(s, {.block = c, .loop = k[0]}));
    const auto done = tensorize(s, {.target = j[2], .intrinsic = name});
    ASSERT_TRUE(done) << done.error().to_string();

    Bytes data = {std::vector<unsigned char>(13 * 24), std::vector<unsigned char>(24 * 16),
                  std::vector<unsigned char>(13 * 16 * 4)};
    std::mt19937 random(6);
    for (size_t p = 0; p < 2; ++p)
      for (auto& byte : data[p]) byte = static_cast<unsigned char>(random());
    Bytes expected = data;
    std::vector<BufferArg> args;
    for (auto& bytes : expected) args.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
    ASSERT_TRUE(interpret(program, args));
    run(s.func(), target, data);
    EXPECT_EQ(data[2], expected[2]);
  }
}

// Loops, guards, masks and floats, without any intrinsic.
TEST_F(AArch64, RunsWhatLoweringMakes) {
  const Func program = parse_func(R"(
func f(A: f32[19, 37], B: f32[37], C: f32[19, 37] output):
  for i in 19:
    for j0 in 10 tail(mask):
      for j1 in 4 vectorized:
        block C(vi: spatial[19] = i, vj: spatial[37] = j0 * 4 + j1) where j0 * 4 + j1 < 37:
          reads A[vi, vj], B[vj]
          writes C[vi, vj]
          C[vi, vj] = select(A[vi, vj] < 0.0, exp(A[vi, vj]), A[vi, vj] * B[vj] + 1.0)
)")
                           .value();
  Bytes data(3);
  std::mt19937 random(2);
  for (size_t p = 0; p < 3; ++p) {
    const size_t n = p == 1 ? 37 : 19 * 37;
    data[p].resize(n * 4);
    for (size_t i = 0; i < n; ++i) {
      const float value = static_cast<float>(static_cast<int>(random() % 2000) - 1000) / 256.0f;
      std::memcpy(data[p].data() + i * 4, &value, 4);
    }
  }
  Bytes expected = data;
  std::vector<BufferArg> args;
  for (auto& bytes : expected) args.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  ASSERT_TRUE(interpret(program, args));
  run(program, parse_target("aarch64-neon").value(), data);
  for (size_t i = 0; i < data[2].size(); i += 4) {
    float got, wanted;
    std::memcpy(&got, data[2].data() + i, 4);
    std::memcpy(&wanted, expected[2].data() + i, 4);
    ASSERT_NEAR(got, wanted, 1e-5f * (1 + std::abs(wanted))) << i / 4;
  }
}

}  // namespace
}  // namespace fettle
