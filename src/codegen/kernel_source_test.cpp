#include "codegen/kernel_source.h"

#include <gtest/gtest.h>

#include "codegen/test_util.h"
#include "schedule/trace/trace.h"

namespace fettle {
namespace {

using testing::parsed;

constexpr std::string_view kAdd = R"(
func add(A: f32[40], W: f32[40] constant, B: f32[40] output):
  for i in 40:
    block B(v: spatial[40] = i):
      reads A[v], W[v]
      writes B[v]
      B[v] = A[v] + W[v]
)";

std::string fake_version = "1.2";

/// Takes programs named "add"; its kernel is one of Fettle's own, of another program: A + 2 W.
Result<KernelOffer> offer(const Func& program, int threads) {
  if (program->name != "add") return fail(ErrorCode::E301, "it adds nothing");
  KernelOffer made{
      .version = fake_version, .kernel = "adder" + std::to_string(threads), .packing = {}, .description = {}};
  made.packing = OfferedPacking{.param = 1, .bytes = 160, .layout = "doubled"};
  return made;
}

Result<KernelImage> build(const KernelOffer&, bool prologue, const Target& target, const std::string& entry) {
  const Func program = parsed(prologue ? R"(
func double(W: f32[40], P: f32[40] output):
  for i in 40:
    block P(v: spatial[40] = i):
      reads W[v]
      writes P[v]
      P[v] = W[v] + W[v]
)"
                                       : R"(
func add(A: f32[40], W: f32[40], B: f32[40] output, P: f32[40]):
  for i in 40:
    block B(v: spatial[40] = i):
      reads A[v], P[v]
      writes B[v]
      B[v] = A[v] + P[v]
)");
  ObjectCache cache;
  FETTLE_TRY(const BuiltKernel built, build_kernel(program, target, cache, {.plain = true, .entry_name = entry}));
  return built.image;
}

constinit const KernelSourceDef kFake = {.name = "fake",
                                         .device = "llvm",
                                         .library = "the fake library",
                                         .description = "adds",
                                         .version = [] { return Result<std::string>(fake_version); },
                                         .offer = offer,
                                         .build = build};

class KernelSource : public ::testing::Test {
 protected:
  void SetUp() override { fake_version = "1.2"; }
  AddedKernelSource added_{kFake};
  std::shared_ptr<const Target> target_ = std::make_shared<const Target>(detect_host(1));
  Func workload_ = parsed(kAdd);
};

TEST_F(KernelSource, ATraceSaysWhoseKernelItIs) {
  const auto offered = offered_schedule(kFake, workload_, target_, 2);
  ASSERT_TRUE(offered) << offered.error().to_string();
  EXPECT_EQ(offered->offer.kernel, "adder2");
  const std::string trace = to_text(offered->schedule.trace());
  EXPECT_EQ(kernel_source_of_trace(trace), "fake 1.2");
  EXPECT_EQ(kernel_source_of_trace("l0 = get_loops(block=b0)"), "");
  // It replays.
  Schedule again(workload_);
  again.set_target(target_);
  ASSERT_TRUE(replay(again, *parse_trace(trace)));
  EXPECT_EQ(kernel_source_of(again.func()), "fake 1.2");
  EXPECT_EQ(kernel_source_of(workload_), "");
}

TEST_F(KernelSource, ItsKernelIsBuiltAndPackedAsAnyOther) {
  const auto offered = offered_schedule(kFake, workload_, target_, 1);
  ASSERT_TRUE(offered) << offered.error().to_string();
  ObjectCache cache;
  const auto built = build_kernel(offered->schedule.func(), *target_, cache, {.entry_name = "k"});
  ASSERT_TRUE(built) << built.error().to_string();
  EXPECT_EQ(built->info.source, "the fake library 1.2: adder1");
  ASSERT_EQ(built->info.params.size(), 4u);
  EXPECT_FALSE(built->info.params[1].is_read);
  EXPECT_EQ(built->info.params[3].packed_from, std::vector<int>{1});
  EXPECT_EQ(built->prologue_params, (std::vector<int>{1, 3}));
  // What it is without building it is the same.
  const auto described = describe_kernel(offered->schedule.func());
  ASSERT_TRUE(described) << described.error().to_string();
  EXPECT_EQ(described->source, built->info.source);
  EXPECT_EQ(described->params[3].packing, built->info.params[3].packing);
  // The reference is Fettle's own, and other numbers say that the source's kernel ran.
  const auto plain = build_kernel(offered->schedule.func(), *target_, cache, {.plain = true, .entry_name = "p"});
  ASSERT_TRUE(plain) << plain.error().to_string();
  EXPECT_EQ(plain->info.source, "");
  const auto own = testing::run_built(*plain, 1), theirs = testing::run_built(*built, 1);
  const auto own_of_constant = [](size_t i) { return static_cast<float>((i + 6) * 7 % 11) - 5; };
  for (size_t i = 0; i < own.size(); ++i) EXPECT_EQ(theirs[i], own[i] + own_of_constant(i)) << i;
}

TEST_F(KernelSource, WhyItDeclinesIsSaid) {
  const Func other = with(workload_, [](FuncNode& f) { f.name = "subtract"; });
  const auto declined = offered_schedule(kFake, other, target_, 1);
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().message, "it adds nothing");
  Target abacus = *target_;
  abacus.kind = "abacus";
  const auto elsewhere = offered_schedule(kFake, workload_, std::make_shared<const Target>(abacus), 1);
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, ErrorCode::E301);
}

TEST_F(KernelSource, AnotherVersionIsAnotherKernel) {
  const auto offered = offered_schedule(kFake, workload_, target_, 1);
  ASSERT_TRUE(offered);
  const std::string trace = to_text(offered->schedule.trace());
  EXPECT_TRUE(is_allowed(trace, {&kFake}));
  EXPECT_FALSE(is_allowed(trace, {})) << "nobody allowed it";
  EXPECT_TRUE(is_allowed("l0 = get_loops(block=b0)", {}));
  fake_version = "1.3";
  EXPECT_FALSE(is_allowed(trace, {&kFake}));
  ObjectCache cache;
  const auto built = build_kernel(offered->schedule.func(), *target_, cache);
  ASSERT_FALSE(built);
  EXPECT_NE(built.error().message.find("1.2"), std::string::npos);
}

TEST_F(KernelSource, SourcesAreFoundByTheirNames) {
  EXPECT_EQ(find_kernel_source("fake"), &kFake);
  ASSERT_NE(find_kernel_source("onednn"), nullptr);
  const auto found = kernel_sources_named({"onednn", "fake", "fake"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), 2u);
  const auto unknown = kernel_sources_named({"mkl"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::E709);
  EXPECT_NE(unknown.error().message.find("onednn, fake"), std::string::npos);
}

TEST_F(KernelSource, ATraceOfAnUnknownSourceIsRefused) {
  auto offered = offered_schedule(kFake, workload_, target_, 1);
  ASSERT_TRUE(offered);
  const Func func = with(offered->schedule.func(), [&](FuncNode& f) {
    auto root = make_ref<BlockNode>(*f.body.as<BlockNode>());
    root->annotations.set(kKernelSourceKey, std::string("nobody 1"));
    f.body = Stmt(Ref<BlockNode>(root));
  });
  ObjectCache cache;
  const auto built = build_kernel(func, *target_, cache);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::E301);
}

}  // namespace
}  // namespace fettle
