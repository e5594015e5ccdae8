#include <functional>

#include "codegen/artefact/testing.h"
#include "rt/cpu.h"

namespace fettle {
namespace {

/// An instruction set that this machine lacks, and rt knows.
const char* missing_here() {
  char missing[32];
  for (const char* feature : {"xop", "fma4", "tbm", "sse4a", "avx512vp2intersect"})
    if (fettle_cpu_check(feature, missing, sizeof missing) == 1) return feature;
  return nullptr;
}

/// FETTLE_TARGET until the end of the scope.
struct Wish {
  explicit Wish(const char* value) { ::setenv("FETTLE_TARGET", value, 1); }
  ~Wish() { ::unsetenv("FETTLE_TARGET"); }
};

/// Twice, three and four times x: by the same symbols, and constants of which two are one.
std::vector<Artefact> three_targets(const std::function<std::vector<uint8_t>(std::string)>& object,
                                    const Artefact& like, std::span<const std::byte> shared) {
  std::vector<Artefact> targets;
  for (const char* times : {"4", "3", "2"}) {
    Artefact& artefact = targets.emplace_back(like);
    std::string source = kDoubler;
    const std::string_view from = "k->factor[0]";
    source.replace(source.find(from), from.size(), std::string("k->factor[0] / 2 * ") + times);
    artefact.objects = {object(source)};
    artefact.target = std::string("by-") + times;
    artefact.constants.push_back({{"shared", FETTLE_U8, {std::ssize(shared)}}, shared});
  }
  return targets;
}

TEST_F(ArtefactTest, SeveralTargetsSideBySide) {
  const std::vector<std::byte> shared(4 << 20, std::byte{7});
  std::vector<Artefact> targets = three_targets([&](std::string s) { return object(s); }, doubler(), shared);
  const char* missing = missing_here();
  ASSERT_NE(missing, nullptr);
  targets[0].target_features = std::string("sse2,") + missing;
  const fs::path out = folder / "model.so";
  const auto written = write_artefact(targets, out);
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_LT(fs::file_size(out), shared.size() * 13 / 10) << "what targets share is in the file once";
  EXPECT_NE(read_file(folder / "model.h").find("for, the first that the machine runs: by-4 by-3 by-2"),
            std::string::npos);
  /// What a program is given that opens the library anew, with what went wrong.
  const auto taken = [&](const char* wish) {
    const Wish wished(wish);
    const Loaded loaded(out);
    const auto open =
        reinterpret_cast<FettleModel* (*)(uint32_t, const FettleOptions*)>(loaded.symbol("fettle_model_open"));
    const auto info = reinterpret_cast<const FettleModelInfo* (*)()>(loaded.symbol("fettle_model_info"));
    EXPECT_EQ(info()->n_inputs, 1) << "the description is there, whatever runs";
    FettleModel* model = open(FETTLE_ABI_VERSION, nullptr);
    const std::string said = model == nullptr ? loaded.info->functions->error(nullptr) : info()->target;
    ::setenv("FETTLE_TARGET", "by-4", 1);
    FettleModel* again = open(FETTLE_ABI_VERSION, nullptr);
    EXPECT_EQ(model == nullptr, again == nullptr) << "the first choice stays";
    loaded.info->functions->close(again);
    loaded.info->functions->close(model);
    return said;
  };
  EXPECT_EQ(taken(""), "by-3");
  EXPECT_EQ(taken("by-2"), "by-2");
  EXPECT_EQ(taken("by-4"), std::string("cannot open 'doubler': this machine lacks ") + missing + ", which by-4 needs");
  EXPECT_EQ(taken("by-5"),
            "cannot open 'doubler': the model has no target 'by-5', which FETTLE_TARGET asks for; it has by-4, by-3, "
            "by-2");
  const Loaded loaded(out);
  ASSERT_NE(loaded.info, nullptr);
  ASSERT_EQ(loaded.info->n_targets, 3);
  const auto times = [&](int i) {
    Loaded one = loaded;
    one.info = loaded.info->targets[i];
    return one.run(kX)[7] / 8;
  };
  EXPECT_EQ(times(1), 3);
  EXPECT_EQ(times(2), 2);
  const auto data = [&](int target, int constant) { return loaded.info->targets[target]->constants[constant].data; };
  EXPECT_EQ(data(0, 1), data(2, 1));
  EXPECT_NE(data(0, 0), data(0, 1));
}

TEST_F(ArtefactTest, ConstantsThatAPackingMakes) {
  constexpr const char* kPacking = R"(
#include "rt/abi.h"
int32_t pack(FettleContext* context, void** buffers, const int64_t* ints) {
  ((float*)buffers[1])[0] = 2 * ((const float*)buffers[0])[0];
  return FETTLE_OK;
}
)";
  Artefact artefact = doubler();
  artefact.objects.push_back(object(kPacking));
  artefact.constants.insert(artefact.constants.begin(), {{"packed", FETTLE_F32, {1}}, {}, true});
  artefact.packings = {{"pack", {1, 0}}};
  ASSERT_TRUE(write_artefact(artefact, folder / "model.so"));
  const Loaded loaded(folder / "model.so");
  ASSERT_NE(loaded.info, nullptr);
  EXPECT_EQ(loaded.info->constants[0].data, nullptr);
  EXPECT_EQ(loaded.run(kX, 2)[0], 4);
  const auto refused = [&] { return write_artefact(artefact, folder / "model.so").error().message; };
  artefact.packings = {};
  EXPECT_EQ(refused(), "no packing makes a constant that has no bytes");
  artefact.packings = {{"pack", {1, 0}}, {"pack", {0}}};
  EXPECT_EQ(refused(), "two packings make one constant");
  artefact.packings = {{"pack", {1, 2}}};
  EXPECT_EQ(refused(), "a packing is of a constant that is not there");
}

TEST_F(ArtefactTest, TargetsThatDoNotGoTogether) {
  const Artefact one = doubler();
  const auto refused = [&](const std::function<void(Artefact&)>& change) {
    std::vector<Artefact> targets = {one, one};
    targets[0].target = "a";
    targets[1].target = "b";
    change(targets[1]);
    const auto written = write_artefact(targets, folder / "model.so");
    return written ? std::string() : written.error().message;
  };
  EXPECT_EQ(refused([](Artefact&) {}), "");
  EXPECT_EQ(refused([](Artefact& b) { b.target = "a"; }), "two targets are called 'a'");
  EXPECT_EQ(refused([](Artefact& b) { b.target = ""; }), "of several targets each needs a name");
  const std::string differ = "inputs, outputs or states of b differ from those of a";
  EXPECT_EQ(refused([](Artefact& b) { b.inputs[0].shape = {8}; }), differ);
  EXPECT_EQ(refused([](Artefact& b) { b.outputs[0].name = "z"; }), differ);
  EXPECT_EQ(refused([](Artefact& b) { b.structures = {{"x", "seq(tensor(float))", false, 0, 1}}; }), differ);
  EXPECT_EQ(refused([](Artefact& b) { b.objects.push_back({1, 2, 3}); }),
            "an object that is to be linked is none for x86-64");
  EXPECT_EQ(write_artefact(std::span<const Artefact>(), folder / "model.so").error().message,
            "an artefact needs a target");
}

}  // namespace
}  // namespace fettle
