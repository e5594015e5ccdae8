// The constructed defaults of programs whose sizes are known when they run: compiled once, run for many sizes, against
// the interpreter on the programs as they are written.
#include "tune/space/open_workloads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "analysis/verify.h"
#include "codegen/build.h"
#include "lower/lower.h"
#include "measure/guarded_buffer.h"
#include "measure/loaded_kernel.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"
#include "tune/parts/loops.h"
#include "tune/parts/tile_steps.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

using testing::for_each_index;
using testing::OpenConv;
using testing::OpenWorkload;
using testing::size;
using testing::Sizes;
using testing::TestTensor;
using Ints = std::vector<IntParam>;

// Each takes `n`; some take `m`, too.
std::vector<OpenWorkload> workloads() {
  using namespace testing;
  std::vector<OpenWorkload> all;
  const auto add = [&](const std::string& name, std::vector<IntParam> sizes,
                       std::function<Func(const Sizes&, const Ints&)> make,
                       double tolerance = 0) { all.push_back({name, std::move(sizes), std::move(make), tolerance}); };
  const auto product = [&](const std::string& name, std::vector<IntParam> sizes,
                           const std::function<OpenProduct(const Sizes&)>& of) {
    add(name, std::move(sizes), [of](const Sizes& s, const Ints& ints) { return open_product(of(s), ints); });
  };
  const auto n0 = [] { return std::vector{size("n", 0, 128)}; };
  const auto nm = [] { return std::vector{size("n", 0, 128), size("m", 0, 128)}; };
  // --- products: rows, columns, terms, batches
  product("rows", n0(), [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24, .constant_b = true}; });
  product("rows_epilogue", n0(), [](const Sizes& s) {
    return OpenProduct{.m = s[0], .n = 40, .k = 24, .constant_b = true, .epilogue = true};
  });
  product("rows_transposed_weights", n0(), [](const Sizes& s) {
    return OpenProduct{.m = s[0], .n = 40, .k = 24, .transpose_b = true, .constant_b = true, .epilogue = true};
  });
  product("rows_of_eight", {size("n", 8, 128, 8)},
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24, .constant_b = true}; });
  product("rows_deep", {size("n", 1, 128)},
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 20, .k = 2100, .constant_b = true}; });
  product("rows_variable", n0(), [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24}; });
  product("rows_transposed", n0(),
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24, .transpose_a = true}; });
  product("rows_in_batches", nm(), [](const Sizes& s) {
    return OpenProduct{.batch = {s[1]}, .m = s[0], .n = 20, .k = 12, .constant_b = true, .epilogue = true};
  });
  product("columns", n0(), [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24}; });
  product("columns_of_many", {size("n", 0, 128, 1, 128)},
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24, .epilogue = true}; });
  product("columns_epilogue", n0(),
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24, .epilogue = true}; });
  product("columns_transposed", n0(),
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24, .transpose_b = true}; });
  product("terms", n0(), [](const Sizes& s) { return OpenProduct{.m = 20, .n = 40, .k = s[0]}; });
  product("terms_transposed", n0(),
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = 40, .k = s[0], .transpose_a = true}; });
  product("all", nm(), [](const Sizes& s) { return OpenProduct{.m = s[0], .n = s[1], .k = s[0]}; });
  product("all_transposed", nm(),
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = s[1], .k = s[0], .transpose_b = true}; });
  product("scores_of_many", {size("n", 0, 128, 1, 128)}, [](const Sizes& s) {
    return OpenProduct{.batch = {3}, .m = s[0], .n = s[0], .k = 16, .scale = float_imm(0.25)};
  });
  product("scores", n0(), [](const Sizes& s) {
    return OpenProduct{.batch = {3}, .m = s[0], .n = s[0], .k = 16, .scale = float_imm(0.25)};
  });
  product("scores_transposed", n0(), [](const Sizes& s) {
    return OpenProduct{.batch = {3}, .m = s[0], .n = s[0], .k = 16, .transpose_b = true, .scale = float_imm(0.25)};
  });
  product("values", n0(), [](const Sizes& s) { return OpenProduct{.batch = {3}, .m = s[0], .n = 16, .k = s[0]}; });
  product("batches", {size("b", 0, 128)},
          [](const Sizes& s) { return OpenProduct{.batch = {s[0]}, .m = 9, .n = 20, .k = 8}; });
  product("vector_times_matrix", n0(), [](const Sizes& s) { return OpenProduct{.m = 1, .n = s[0], .k = 24}; });
  // --- convolutions
  const auto conv = [&](const std::string& name, std::vector<IntParam> sizes,
                        const std::function<OpenConv(const Sizes&)>& of) {
    add(name, std::move(sizes), [of](const Sizes& s, const Ints& ints) { return open_conv(of(s), ints); });
  };
  const auto image = [] { return std::vector{size("h", 1, 32), size("w", 1, 32)}; };
  conv("conv", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1]}; });
  conv("conv_batch", {size("b", 0, 128)}, [](const Sizes& s) { return OpenConv{.n = s[0], .h = 6, .w = 7}; });
  conv("conv_first", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .channels_last = false}; });
  conv("conv_strided", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .ic = 3, .stride = 2}; });
  conv("conv_1x1", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .kernel = 1, .padding = 0}; });
  conv("conv_1x1_first", image(), [](const Sizes& s) {
    return OpenConv{.h = s[0], .w = s[1], .kernel = 1, .padding = 0, .channels_last = false};
  });
  conv("depthwise", image(),
       [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .ic = 20, .oc = 20, .depthwise = true}; });
  conv("depthwise_first", image(), [](const Sizes& s) {
    return OpenConv{.h = s[0], .w = s[1], .ic = 3, .oc = 3, .depthwise = true, .channels_last = false};
  });
  conv("depthwise_strided", image(), [](const Sizes& s) {
    return OpenConv{.h = s[0], .w = s[1], .ic = 20, .oc = 20, .stride = 2, .depthwise = true};
  });
  add("max_pool", image(), [](const Sizes& s, const Ints& i) { return open_pool(s[0], s[1], 20, false, 2, i); });
  add("average_pool", image(), [](const Sizes& s, const Ints& i) { return open_pool(s[0], s[1], 20, true, 1, i); });
  add("global_pool", image(),
      [](const Sizes& s, const Ints& i) { return open_reduction({2, s[0], s[1], 20}, {1, 2}, false, i); });
  add("global_pool_first", image(),
      [](const Sizes& s, const Ints& i) { return open_reduction({2, 5, s[0], s[1]}, {2, 3}, false, i); });
  add("conv_transpose", {size("n", 0, 2), size("h", 1, 17), size("w", 1, 17)},
      [](const Sizes& s, const Ints& i) { return open_conv_transpose(s[0], s[1], s[2], 8, 20, i); });
  // --- rows
  const double kClose = 1e-5;
  add("softmax", nm(), [](const Sizes& s, const Ints& i) { return open_softmax({s[0], s[1]}, i); }, kClose);
  add("softmax_rows", n0(), [](const Sizes& s, const Ints& i) { return open_softmax({s[0], 40}, i); }, kClose);
  add("softmax_axis", n0(), [](const Sizes& s, const Ints& i) { return open_softmax({4, 5, s[0]}, i); }, kClose);
  add("softmax_heads", n0(), [](const Sizes& s, const Ints& i) { return open_softmax({3, s[0], s[0]}, i); }, kClose);
  add("layer_norm", n0(), [](const Sizes& s, const Ints& i) { return open_layer_norm({s[0], 72}, i); }, kClose);
  add("layer_norm_long", n0(), [](const Sizes& s, const Ints& i) { return open_layer_norm({s[0], 768}, i); }, kClose);
  add(
      "layer_norm_axis", {size("n", 1, 128), size("m", 1, 128)},
      [](const Sizes& s, const Ints& i) { return open_layer_norm({s[0], s[1]}, i); }, kClose);
  // --- attention, in one pass: of 300 keys, typically
  const auto nk = [] { return std::vector{size("n", 0, 512, 1, 64), size("k", 0, 512, 1, 300)}; };
  add(
      "attention", nk(),
      [](const Sizes& s, const Ints& i) { return open_attention({.queries = s[0], .keys = s[1]}, i); }, kClose);
  add(
      "attention_heads", {size("h", 0, 128, 1, 4)},
      [](const Sizes& s, const Ints& i) {
        return open_attention({.heads = s[0], .queries = 33, .keys = 300, .width = 5}, i);
      },
      kClose);
  add(
      "attention_causal", nk(),
      [](const Sizes& s, const Ints& i) {
        return open_attention({.queries = s[0], .keys = s[1], .group = 2, .before = Expr(0)}, i);
      },
      kClose);
  add(
      "attention_with_past", nk(),
      [](const Sizes& s, const Ints& i) {
        return open_attention({.queries = s[0], .keys = s[0] + s[1], .before = s[1]}, i);
      },
      kClose);
  // --- reductions
  add("sum_of_rows", nm(), [](const Sizes& s, const Ints& i) { return open_reduction({s[0], s[1]}, {1}, false, i); });
  add("sum_of_columns", nm(),
      [](const Sizes& s, const Ints& i) { return open_reduction({s[0], s[1]}, {0}, false, i); });
  add("sum_of_all", nm(), [](const Sizes& s, const Ints& i) { return open_reduction({s[0], s[1]}, {0, 1}, false, i); });
  add("greatest_of_rows", nm(),
      [](const Sizes& s, const Ints& i) { return open_reduction({s[0], s[1]}, {1}, true, i); });
  add("argmax", {size("n", 0, 128), size("m", 1, 128)},
      [](const Sizes& s, const Ints& i) { return open_argmax(s[0], s[1], i); });
  add("cumsum", {size("n", 1, 128), size("m", 0, 128)},
      [](const Sizes& s, const Ints& i) { return open_cumsum(s[0], s[1], i); });
  // --- moves and elementwise
  add("elementwise", n0(), [](const Sizes& s, const Ints& i) { return open_elementwise({s[0]}, i); });
  add("elementwise_rows", nm(), [](const Sizes& s, const Ints& i) { return open_elementwise({s[0], s[1]}, i); });
  add("elementwise_flat", n0(), [](const Sizes& s, const Ints& i) { return open_elementwise({s[0] * 12}, i); });
  add("elementwise_channels", nm(),
      [](const Sizes& s, const Ints& i) { return open_elementwise({s[0], s[1], 12}, i); });
  add("gelu", n0(), [](const Sizes& s, const Ints& i) { return open_elementwise({s[0], 24}, i, true); }, kClose);
  add("transpose", nm(), [](const Sizes& s, const Ints& i) { return open_transpose({s[0], s[1]}, {1, 0}, i); });
  add("transpose_heads", n0(),
      [](const Sizes& s, const Ints& i) { return open_transpose({2, s[0], 3, 16}, {0, 2, 1, 3}, i); });
  add("transpose_keys", n0(),
      [](const Sizes& s, const Ints& i) { return open_transpose({2, s[0], 3, 16}, {0, 2, 3, 1}, i); });
  add("gather", {size("n", 1, 128), size("m", 0, 128)},
      [](const Sizes& s, const Ints& i) { return open_gather(s[0], s[1], 24, i); });
  add("gather_columns", {size("n", 1, 128), size("m", 0, 128)},
      [](const Sizes& s, const Ints& i) { return open_gather(20, s[0], s[1], i); });
  add("concat_rows", nm(), [](const Sizes& s, const Ints& i) { return open_concat({s[0], 20}, s[1], 0, i); });
  add("concat_columns", nm(), [](const Sizes& s, const Ints& i) { return open_concat({7, s[0]}, s[1], 1, i); });
  add("pad", nm(), [](const Sizes& s, const Ints& i) { return open_pad({s[0], s[1]}, {1, 2}, i); });
  add("resize", image(), [](const Sizes& s, const Ints& i) { return open_resize(s[0], s[1], 20, i); });
  return all;
}

// A kernel that is compiled once, on memory whose ends nobody may pass.
class Compiled {
 public:
  static Result<Compiled> make(const Func& scheduled, const Target& target, int threads, bool plain) {
    Compiled made;
    made.scheduled_ = scheduled;
    FETTLE_TRY(made.device_, device_of(target));
    BuildOptions options{.plain = plain};
    for (const IntParam& param : scheduled->int_params) options.ints.push(param.var.get(), param.max);
    ObjectCache cache;
    FETTLE_TRY(BuiltKernel built, build_kernel(scheduled, target, cache, options));
    FETTLE_TRY(made.loaded_, LoadedKernel::load(std::move(built)));
    FETTLE_TRY(made.stream_, made.device_->open_stream(threads));
    return made;
  }

  Result<> run(std::span<const BufferArg> args, std::span<const int64_t> ints) const {
    const BuiltKernel& built = loaded_.built;
    std::vector<std::shared_ptr<GuardedBuffer>> memory;
    std::vector<void*> buffers;
    for (size_t p = 0; p < built.info.params.size(); ++p) {
      const bool given = p < args.size();
      const int64_t bytes = given ? args[p].size_bytes : built.info.params[p].layout.physical_bytes();
      // As near to the end as alignment lets it be.
      FETTLE_TRY(auto block, GuardedBuffer::make(bytes, (4096 - bytes % 4096) / 64 * 64 % 4096, Sharing::kPrivate));
      if (given && bytes > 0) std::memcpy(block->data(), args[p].data, static_cast<size_t>(bytes));
      memory.push_back(block);
      buffers.push_back(block->data());
    }
    if (loaded_.prologue.function) {
      std::vector<void*> of_prologue;
      for (const int p : built.prologue_params) of_prologue.push_back(buffers[static_cast<size_t>(p)]);
      FETTLE_TRY_VOID(device_->launch(stream_, loaded_.prologue, of_prologue, ints));
    }
    FETTLE_TRY_VOID(device_->launch(stream_, loaded_.kernel, buffers, ints));
    for (size_t p = 0; p < args.size(); ++p)
      if (args[p].size_bytes > 0) std::memcpy(args[p].data, buffers[p], static_cast<size_t>(args[p].size_bytes));
    return {};
  }

 private:
  Func scheduled_;
  const DeviceDef* device_ = nullptr;
  LoadedKernel loaded_;
  DeviceStream stream_;
};

double value_at(TestTensor& tensor, const Buffer& buffer, const std::vector<int64_t>& index) {
  if (buffer->dtype == kI64) {
    int64_t x;
    std::memcpy(&x, tensor.at(index), sizeof x);
    return static_cast<double>(x);
  }
  float x;
  std::memcpy(&x, tensor.at(index), sizeof x);
  return x;
}

// The outputs of `run` on small integers are those of the program as it is written.
::testing::AssertionResult agrees(const OpenWorkload& workload, const Func& before, const Func& after,
                                  const std::vector<int64_t>& ints, const testing::RunFn& run) {
  if (workload.tolerance == 0) return testing::same_result(before, after, ints, run);
  std::vector<TestTensor> tensors[2];
  const Func funcs[2] = {before, after};
  for (int f = 0; f < 2; ++f) {
    testing::Env env;
    for (size_t i = 0; i < ints.size(); ++i) env.push(funcs[f]->int_params[i].var.get(), ints[i]);
    for (size_t p = 0; p < before->params.size(); ++p) {
      TestTensor& tensor = tensors[f].emplace_back(funcs[f]->params[p].buffer, env);
      RandomStream stream{7, p};
      tensor.fill(0xff);
      if (before->params[p].kind != ParamKind::kOutput)
        for_each_index(tensor.logical_shape(), [&](const std::vector<int64_t>& index) {
          tensor.set(index, static_cast<int64_t>(stream.below(7)) - 3);
        });
    }
    std::vector<BufferArg> args;
    for (TestTensor& tensor : tensors[f]) args.push_back(tensor.arg());
    if (const Result<> done = f == 1 ? run(args, ints) : interpret(funcs[f], args, ints); !done)
      return ::testing::AssertionFailure() << testing::error_text(done.error());
  }
  std::string difference;
  for (size_t p = 0; p < before->params.size(); ++p) {
    const Buffer& buffer = before->params[p].buffer;
    if (before->params[p].kind != ParamKind::kOutput) continue;
    double greatest = 1;
    const auto shape = tensors[0][p].logical_shape();
    for_each_index(shape, [&](const std::vector<int64_t>& index) {
      greatest = std::max(greatest, std::abs(value_at(tensors[0][p], buffer, index)));
    });
    for_each_index(shape, [&](const std::vector<int64_t>& index) {
      const double x = value_at(tensors[0][p], buffer, index), y = value_at(tensors[1][p], buffer, index);
      if (difference.empty() && !(std::abs(x - y) <= workload.tolerance * greatest))
        difference = std::to_string(x) + " before, " + std::to_string(y) + " after";
    });
  }
  if (difference.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << difference << "\n" << to_text(after);
}

int64_t allowed(int64_t wanted, const IntParam& param) {
  const int64_t least = -floordiv_int(-param.min, param.multiple_of) * param.multiple_of;
  return std::max(least, std::min(wanted, param.max) / param.multiple_of * param.multiple_of);
}

// Values of the parameters: each small and large one, with others beside it.
std::vector<std::vector<int64_t>> values_of(const OpenWorkload& workload) {
  constexpr int64_t kValues[] = {0, 1, 2, 3, 7, 8, 13, 16, 17, 31, 64, 100};
  constexpr size_t n = std::size(kValues);
  std::vector<std::vector<int64_t>> all;
  for (size_t i = 0; i < n; ++i)
    for (size_t shift : workload.sizes.size() > 1 ? std::vector<size_t>{0, 5, 9} : std::vector<size_t>{0}) {
      std::vector<int64_t> values;
      for (size_t p = 0; p < workload.sizes.size(); ++p)
        values.push_back(allowed(kValues[(i + p * shift) % n], workload.sizes[p]));
      if (std::ranges::find(all, values) == all.end()) all.push_back(std::move(values));
    }
  return all;
}

// What has no terms is the identity of the reduction: it begins outside of its loops.
Func with_identities(const Func& func) {
  Schedule s(func);
  std::vector<std::string> reductions;
  for (const BlockNode* block : blocks_of(func.root()))
    if (block->init) reductions.push_back(block->name);
  for (const std::string& name : reductions) {
    const auto block = get_block(s, {.name = name});
    const auto loops = loops_by_kind(s, *block);
    FETTLE_CHECK(begin_sums(s, *block, loops->reduction.front()).has_value());
  }
  return s.func();
}

class OpenDefaults : public ::testing::TestWithParam<OpenWorkload> {};

std::string print(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += std::to_string(value) + " ";
  return text;
}

// Both tiles of Winograd's, over the whole image and in strips: on one thread and on two.
TEST(OpenWinograd, AgreesWithTheInterpreter) {
  const OpenWorkload workload = {.name = "winograd",
                                 .sizes = {size("n", 0, 2), size("h", 1, 17), size("w", 1, 17)},
                                 .make =
                                     [](const Sizes& s, const Ints& ints) {
                                       return testing::open_conv({.n = s[0], .h = s[1], .w = s[2], .ic = 16, .oc = 18},
                                                                 ints);
                                     },
                                 .tolerance = 1e-4};
  const Func func = workload.open(), written = with_identities(func);
  const auto target = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  for (const char* outputs : {"2", "4"})
    for (const char* strip : {"0", "1"}) {
      const DecisionMap decisions = {{"winograd/O/outputs", outputs}, {"winograd/O/strip", strip}};
      const int threads = *strip == '1' ? 2 : 1;
      const auto s =
          rule_space().generate(func, target, threads, uint64_t{3}, std::make_shared<const DecisionMap>(decisions));
      ASSERT_OK(s);
      EXPECT_GT(error_bound_of(s->func()), 200);  // it is Winograd's
      const auto kernel = Compiled::make(s->func(), *target, threads, false);
      ASSERT_OK(kernel) << to_text(s->func());
      for (const std::vector<int64_t>& values : values_of(workload))
        ASSERT_TRUE(
            agrees(workload, written, s->func(), values, [&](auto args, auto ints) { return kernel->run(args, ints); }))
            << outputs << ", " << strip << ": " << print(values);
    }
}

TEST(OpenWinograd, IsTheDefaultWhereItPays) {
  const std::vector<IntParam> sizes = {size("h", 1, 256, 1, 56), size("w", 1, 256, 1, 56)};
  const Func func = testing::open_conv({.h = sizes[0].var, .w = sizes[1].var, .ic = 64, .oc = 64}, sizes);
  const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  const auto any = default_schedule(func, target, 1), exact = default_schedule(func, target, 1, nullptr, 0);
  ASSERT_OK(any);
  ASSERT_OK(exact);
  EXPECT_GT(error_bound_of(any->func()), 200);
  EXPECT_EQ(error_bound_of(exact->func()), 0);
}

TEST_P(OpenDefaults, AgreeWithTheInterpreter) {
  const OpenWorkload& workload = GetParam();
  const Func func = workload.open(), written = with_identities(func);
  for (const char* name : {"x86-64-avx512", "x86-64-avx2"}) {
    const auto parsed = parse_target(name);
    ASSERT_OK(parsed);
    const auto target = std::make_shared<const Target>(*parsed);
    const int threads = target->has_feature("avx512f") ? 1 : 2;
    const auto s = default_schedule(func, target, threads);
    ASSERT_OK(s);
    EXPECT_OK(verify(s->func(), *target));
    EXPECT_NE(to_text(s->func()).find("vectorized"), std::string::npos) << to_text(s->func());
    const bool one_pass = to_text(s->trace()).find("online_reduction") != std::string::npos;
    EXPECT_EQ(one_pass, workload.name.starts_with("attention")) << to_text(s->trace());
    const auto kernel = Compiled::make(s->func(), *target, threads, false);
    ASSERT_OK(kernel) << to_text(s->func());
    for (const std::vector<int64_t>& values : values_of(workload)) {
      ASSERT_TRUE(
          agrees(workload, written, s->func(), values, [&](auto args, auto ints) { return kernel->run(args, ints); }))
          << name << ": " << print(values) << to_text(lower(s->func(), *target)->kernel);
    }
    if (threads == 1) continue;  // once is enough
    const auto plain = Compiled::make(s->func(), *target, threads, true);
    ASSERT_OK(plain);
    for (const std::vector<int64_t>& values : values_of(workload))
      ASSERT_TRUE(
          agrees(workload, written, s->func(), values, [&](auto args, auto ints) { return plain->run(args, ints); }))
          << "plain: " << print(values);
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, OpenDefaults, ::testing::ValuesIn(workloads()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fettle
