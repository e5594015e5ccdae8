// Every built-in template: which programs it is for, how large its space is, and that its configurations compile and
// compute what the program says.

#include <cmath>

#include "analysis/verify.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "measure/local_kernel.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using testing::ConvSpec;
using testing::Indices;

std::shared_ptr<const Target> host() {
  static const auto target = std::make_shared<const Target>(detect_host(1));
  return target;
}
std::shared_ptr<const Target> avx512() {
  static const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  return target;
}

// Channels first, without padding, in as many dimensions as `image` has.
Func conv_of(std::vector<int64_t> image, int64_t ic, int64_t oc, int64_t kernel) {
  std::vector<Expr> in = {ic}, out = {oc}, taps = {oc, ic};
  std::vector<te::ReduceAxis> axes = {te::reduce_axis(ic, "c")};
  for (size_t d = 0; d < image.size(); ++d) {
    in.push_back(image[d] + kernel - 1);
    out.push_back(image[d]);
    taps.push_back(kernel);
    axes.push_back(te::reduce_axis(kernel, "r" + std::to_string(d)));
  }
  const te::Tensor x = te::placeholder(in, kF32, "X"), w = te::placeholder(taps, kF32, "W");
  const te::Tensor o = te::compute(
      out,
      [&](const Indices& i) {
        std::vector<Expr> at = {axes[0]}, tap = {i[0], axes[0]};
        for (size_t d = 0; d < image.size(); ++d) {
          at.push_back(i[d + 1] + axes[d + 1]);
          tap.push_back(axes[d + 1]);
        }
        return te::sum(x.at(at) * w.at(tap), axes);
      },
      "O");
  return te::create_func("conv", {x, w}, {o}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

struct Case {
  std::string first;                // the first choice
  std::vector<std::string> others;  // that match as well, but for master
  Func func;
  int64_t size;  // of the first template's space for AVX-512, constraints left aside
};

std::vector<Case> cases() {
  using namespace testing;
  return {
      // vectors 1 2 3 4; pack; rows 1 2 3 4 5 6 8 12; order; parallel; steps 1 2 4 8
      {"matmul", {}, matmul_workload(24, 64, 16, false, false, true, true), 4 * 2 * 8 * 2 * 3 * 4},
      // vectors 1 2 3; pack; rows 1 2 3 4 5 7 10; order; parallel; steps 1 11
      {"matmul", {}, matmul_workload(19, 37, 11, true, true, false, false), 3 * 2 * 7 * 2 * 3 * 2},
      // vectors 1 2; pack; rows 1 … 10 of 90; order; parallel; steps 1 2 3 4 6 12
      {"matmul", {}, conv_workload({.h = 9, .w = 10, .ic = 12, .oc = 20, .kernel = 1, .padding = 0}), 0},
      {"batched_matmul", {}, batched_matmul_workload(3, 10, 20, 7, false), 0},
      {"conv1d", {}, conv_of({21}, 4, 20, 3), 0},
      {"conv2d", {"conv2d_im2col", "conv2d_winograd"}, conv_workload({.ic = 5, .oc = 20, .epilogue = true}), 0},
      {"conv2d", {"conv2d_im2col"}, conv_workload({.h = 9, .w = 10, .ic = 4, .oc = 18, .stride = 2}), 0},
      {"conv2d",
       {"conv2d_im2col", "conv2d_winograd"},
       conv_workload({.h = 18, .w = 13, .ic = 17, .oc = 37, .epilogue = true}),
       0},
      {"conv2d", {"conv2d_im2col", "conv2d_winograd"}, conv_workload({.n = 2, .h = 8, .w = 8, .ic = 16, .oc = 48}), 0},
      {"conv2d",
       {"conv2d_im2col", "conv2d_winograd"},
       conv_workload({.h = 6, .w = 21, .ic = 3, .oc = 5, .channels_last = false}),
       0},
      {"conv3d", {}, conv_of({4, 5, 6}, 3, 10, 2), 0},
      {"conv2d", {"conv2d_im2col", "conv2d_winograd"}, conv_workload({.h = 4, .w = 5, .ic = 16, .oc = 18}), 0},
      {"depthwise_conv", {}, conv_workload({.h = 9, .w = 11, .ic = 21, .oc = 21, .groups = 21, .epilogue = true}), 0},
      {"depthwise_conv",
       {},
       conv_workload({.h = 14, .w = 13, .ic = 32, .oc = 32, .kernel = 5, .padding = 2, .groups = 32}),
       0},
      {"grouped_conv", {}, conv_workload({.ic = 8, .oc = 32, .groups = 2}), 0},
      {"transposed_conv", {}, conv_transpose_workload(5, 7, 6, 20), 0},
      {"pooling", {}, pool_workload(9, 12, 20, false, true), 0},
      {"pooling", {}, pool_workload(9, 12, 20, true, true), 0},
      {"softmax", {}, softmax_workload(5, 37), 0},
      {"softmax", {}, softmax_workload(9, 10), 0},
      {"layer_norm", {}, layer_norm_workload(5, 37), 0},
      {"softmax", {}, softmax_workload(70, 200), 0},
      {"softmax", {}, softmax_workload(2, 200), 0},
      {"layer_norm", {}, layer_norm_workload(67, 300), 0},
      {"layer_norm", {}, decomposed_norm_workload(6, 64), 0},
      {"attention", {}, testing::attention_workload(2, 13, 10), 0},
      {"attention", {"attention_one_pass"}, testing::attention_workload(3, 33, 20), 0},
      {"elementwise", {}, elementwise_workload(3, 7, 19), 3 * 2},  // vectors 1 2 4; parallel
      {"elementwise", {}, elementwise_workload(2, 5, 100), 3 * 2},
      {"master", {}, reduction_workload(3, 7, 40, false), 0},
      {"master", {}, softmax_middle_workload(2, 7, 37), 0},
  };
}

// Outputs as the caller has them, on inputs that depend on the parameter's number alone.
std::vector<std::vector<float>> run(const Func& func, bool plain) {
  auto kernel = LocalKernel::build(func, *host(), {.plain = plain});
  EXPECT_OK(kernel);
  if (!kernel) return {};
  EXPECT_OK(kernel->run());
  std::vector<std::vector<float>> outputs;
  for (int p = 0; p < kernel->n_params(); ++p)
    if (kernel->param(p).kind == ParamKind::kOutput) outputs.push_back(kernel->logical<float>(p));
  return outputs;
}

void expect_close(const std::vector<std::vector<float>>& actual, const std::vector<std::vector<float>>& expected,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t p = 0; p < expected.size(); ++p) {
    float scale = 1;
    for (float x : expected[p]) scale = std::max(scale, std::abs(x));
    for (size_t i = 0; i < expected[p].size(); ++i)
      ASSERT_NEAR(actual[p][i], expected[p][i], 2e-5f * scale) << what << " element " << i;
  }
}

TEST(Templates, AreFoundByStructure) {
  for (const Case& c : cases()) {
    std::vector<std::string> names, wanted = {c.first};
    for (const TemplateDef* def : templates_for(c.func)) names.emplace_back(def->name);
    wanted.insert(wanted.end(), c.others.begin(), c.others.end());
    if (c.first != "master") wanted.push_back("master");
    EXPECT_EQ(names, wanted) << c.func->name;
  }
  EXPECT_EQ(find_template("matmul")->name, "matmul");
  EXPECT_EQ(find_template("no such template"), nullptr);
}

TEST(Templates, SpacesAreCounted) {
  for (const Case& c : cases()) {
    const auto space = config_space(as_template(*find_template(c.first)), c.func, avx512());
    ASSERT_OK(space);
    if (c.size > 0) {
      EXPECT_EQ(space->size(), c.size) << c.func->name;
    }
    EXPECT_GT(space->size(), 1) << c.func->name;
    for (const int64_t index : {int64_t{0}, space->size() / 2, space->size() - 1})
      EXPECT_EQ(space->index_of(space->at(index).value()).value(), index);
  }
}

// For each template that matches: configurations from all over its space.
TEST(Templates, ConfigurationsCompileAndComputeTheSame) {
  constexpr int kConfigs = 6;
  std::map<std::string, int> tried;
  for (const Case& c : cases()) {
    const auto expected = run(c.func, true);
    std::vector<const TemplateDef*> matching = templates_for(c.func);
    if (matching.size() > 1) matching.pop_back();  // master: below
    for (const TemplateDef* def : matching) {
      const Template made = as_template(*def);
      const auto space = config_space(made, c.func, host());
      ASSERT_TRUE(space.has_value()) << def->name << " " << to_text(c.func) << explain(space.error());
      RandomStream stream{tried.size(), 17};
      int done = 0;
      for (int attempt = 0; attempt < 1000 && done < kConfigs; ++attempt) {
        const Config config =
            space->at(static_cast<int64_t>(stream.below(static_cast<uint64_t>(space->size())))).value();
        if (!space->check(config)) continue;
        const auto s = apply_template(made, c.func, *space, config, host());
        ASSERT_TRUE(s.has_value()) << def->name << " " << space->to_text(config) << "\n" << explain(s.error());
        const auto verified = verify(s->func(), *host());
        ASSERT_TRUE(verified.has_value()) << def->name << " " << space->to_text(config) << "\n"
                                          << explain(verified.error());
        expect_close(run(s->func(), false), expected,
                     std::string(def->name) + " " + space->to_text(config) + "\n" + to_text(s->func()));
        if (HasFatalFailure()) return;
        ++done;
      }
      EXPECT_EQ(done, kConfigs) << def->name;
      tried[std::string(def->name)] += done;
    }
  }
  EXPECT_EQ(tried.size(), template_defs().size());  // none is left out
}

TEST(Templates, MasterServesEveryProgram) {
  const Template master = as_template(*find_template("master"));
  uint64_t seed = 0;
  for (const testing::NamedWorkload& w : testing::small_workloads()) {
    const auto space = config_space(master, w.func, host());
    ASSERT_OK(space);
    const auto s = template_space(master)->generate(w.func, host(), 1, ++seed, nullptr);
    ASSERT_TRUE(s.has_value()) << w.name << "\n" << explain(s.error());
    EXPECT_GE(s->decisions().size(), 3u) << w.name;
    expect_close(run(s->func(), false), run(w.func, true), w.name + "\n" + to_text(s->func()));
  }
}

TEST(Templates, OneSpaceOfAllThatMatch) {
  const Func func = testing::conv_workload({.ic = 5, .oc = 20});
  std::set<Decision> which;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto s = templates_space().generate(func, host(), 1, seed, nullptr);
    ASSERT_OK(s);
    const auto decisions = std::make_shared<const DecisionMap>(s->decisions());
    which.insert(decisions->at("algorithm"));
    const auto again = templates_space().generate(func, host(), 1, seed + 99, decisions);
    ASSERT_OK(again);
    EXPECT_EQ(to_text(again->trace()), to_text(s->trace()));  // decisions say it all
  }
  EXPECT_EQ(which.size(), templates_for(func).size());
}

// The choices of one knob, as a constraint sees them.
std::vector<Decision::List> values_of(const ConfigSpace& space, const std::string& name) {
  const auto knob = std::ranges::find(space.knobs(), name, &Knob::name);
  return knob == space.knobs().end() ? std::vector<Decision::List>() : knob->values;
}

TEST(Templates, RowCutsAreTheLowestOfEachNumberOfTiles) {
  using Cuts = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(row_cuts(19, 16), (Cuts{{19, 1}, {10, 2}, {7, 3}, {5, 4}, {4, 5}, {3, 7}, {2, 10}}));
  EXPECT_EQ(row_cuts(3, 16), (Cuts{{3, 1}, {2, 2}, {1, 3}}));
  EXPECT_EQ(row_cuts(1, 16), (Cuts{{1, 1}}));
}

// Strips are as many rows of tiles each, of F(4x4) or of F(2x2): 18 outputs are 5 or 9 rows.
TEST(Templates, WinogradInStrips) {
  const Func func = testing::conv_workload({.h = 18, .w = 13, .ic = 17, .oc = 37, .epilogue = true});
  const Template made = as_template(*find_template("conv2d_winograd"));
  const auto space = config_space(made, func, avx512());
  ASSERT_OK(space);
  EXPECT_EQ(values_of(*space, "outputs"), (std::vector<Decision::List>{{4}, {2}}));
  EXPECT_EQ(values_of(*space, "strip"), (std::vector<Decision::List>{{0}, {1}, {3}}));
  std::set<std::pair<int64_t, int64_t>> together;
  std::map<int64_t, std::set<int64_t>> rows;
  space->enumerate([&](int64_t, const Config& config) {
    const ConfigView v(*space, config);
    together.emplace(v["outputs"][0], v["strip"][0]);
    if (v["strip"][0] > 0) rows[v["outputs"][0]].insert(v["rows"][0]);
    return true;
  });
  EXPECT_EQ(together, (std::set<std::pair<int64_t, int64_t>>{{4, 0}, {4, 1}, {2, 0}, {2, 1}, {2, 3}}));
  EXPECT_EQ(rows[4], (std::set<int64_t>{1, 2, 4}));        // of 4 tiles in a row
  EXPECT_EQ(rows[2], (std::set<int64_t>{1, 2, 3, 4, 7}));  // of 7
  // In a strip, the tiles, the products and the outputs are in one parallel loop.
  const auto config = fallback_config(*space, {{"outputs", {2}}, {"strip", {3}}, {"parallel", {1}}});
  ASSERT_OK(config);
  const auto s = apply_template(made, func, *space, *config, avx512());
  ASSERT_OK(s);
  const std::string text = to_text(s->func());
  const size_t parallel = text.find("parallel");
  ASSERT_NE(parallel, std::string::npos) << text;
  EXPECT_EQ(text.find("parallel", parallel + 1), std::string::npos) << text;
  for (const char* block : {"block O_tiles(", "block O_product(", "block Y("})
    EXPECT_GT(text.find(block), parallel) << block << "\n" << text;
}

// Rows of an image without windows lie one behind the other: one loop.
TEST(Templates, PixelsAreRowsOfAProduct) {
  const Func func = testing::conv_workload({.h = 9, .w = 10, .ic = 12, .oc = 20, .kernel = 1, .padding = 0});
  const auto space = config_space(as_template(*find_template("matmul")), func, avx512());
  ASSERT_OK(space);
  std::vector<Decision::List> cuts;
  for (const Knob& knob : space->knobs())
    if (knob.name.starts_with("tile_")) {
      EXPECT_TRUE(cuts.empty());
      cuts = knob.values;
    }
  const auto expected = row_cuts(90, 10);
  EXPECT_EQ(cuts, std::vector<Decision::List>(expected.begin(), expected.end()));
}

// Two rows at a time have each its sums, before what both of them are used for.
TEST(Templates, RowsInPairsAndRuns) {
  const Func func = testing::layer_norm_workload(67, 300);
  const Template made = as_template(*find_template("layer_norm"));
  const auto space = config_space(made, func, avx512());
  ASSERT_OK(space);
  EXPECT_EQ(values_of(*space, "runs"), (std::vector<Decision::List>{{0}, {2}, {4}, {8}, {16}, {32}}));
  EXPECT_EQ(values_of(*space, "rows"), (std::vector<Decision::List>{{1}, {2}}));
  space->enumerate([&](int64_t, const Config& config) {
    const ConfigView v(*space, config);
    EXPECT_TRUE(v["runs"][0] == 0 || v["parallel"][0] != 0);
    EXPECT_TRUE(v["rows"][0] == 2 || v["interleaved"][0] == 0);
    return true;
  });
}

TEST(Templates, FallbackIsNearestToWhatIsPreferred) {
  const Func func = testing::matmul_workload(24, 64, 16, false, false, true, false);
  const auto space = config_space(as_template(*find_template("matmul")), func, avx512());
  ASSERT_OK(space);
  const auto config = fallback_config(*space, {{"tile_i", {4, 6}}, {"vectors", {2}}});
  ASSERT_OK(config);
  const ConfigView view(*space, *config);
  EXPECT_EQ(view["tile_i"], (Decision::List{4, 6}));
  EXPECT_EQ(view["vectors"], (Decision::List{2}));
  const auto beyond = fallback_config(*space, {{"tile_i", {2, 12}}, {"vectors", {4}}});  // does not fit the registers
  ASSERT_OK(beyond);
  EXPECT_TRUE(space->check(*beyond).has_value());
  ConfigSpace none;
  ASSERT_OK(none.add({"a", {{1}}, {}}));
  none.constrain("never", [](const ConfigView&) { return false; });
  EXPECT_ERROR(fallback_config(none), E238);
}

}  // namespace
}  // namespace fettle
