#include <cstring>
#include <sstream>

#include "codegen/artefact/testing.h"

namespace fettle {
namespace {

TEST_F(ArtefactTest, LinksLoadsAndRuns) {
  const fs::path out = folder / "model.so";
  const auto written = write_artefact(doubler(), out);
  ASSERT_TRUE(written) << written.error().to_string();
  const Loaded loaded(out);
  ASSERT_NE(loaded.info, nullptr);
  EXPECT_EQ(loaded.info->magic, FETTLE_MAGIC);
  EXPECT_STREQ(loaded.info->name, "doubler");
  EXPECT_STREQ(loaded.info->target_features, "sse2");
  ASSERT_EQ(loaded.info->n_inputs, 1);
  EXPECT_STREQ(loaded.info->inputs[0].name, "x");
  EXPECT_EQ(loaded.info->inputs[0].rank, 2);
  EXPECT_EQ(loaded.info->inputs[0].shape[1], 4);
  EXPECT_EQ(fettle_tensor_bytes(&loaded.info->inputs[0]), 32);
  EXPECT_STREQ(loaded.info->outputs[0].name, "y");
  EXPECT_STREQ(loaded.info->kernel_names[0], "scale");
  EXPECT_STREQ(loaded.info->kernel_origins[0], "Mul times\nAdd plus");
  EXPECT_STREQ(loaded.info->constants[0].name, "factor");
  EXPECT_EQ(*static_cast<const float*>(loaded.info->constants[0].data), 2);
  for (const int32_t threads : {1, 2, 5}) EXPECT_EQ(loaded.run(kX, threads), kTwiceX);
}

TEST_F(ArtefactTest, NeedsLibcOnlyAndExportsItsFunctionsOnly) {
  const fs::path out = folder / "model.so";
  Artefact artefact = doubler();
  artefact.prefix = "twice";
  ASSERT_TRUE(write_artefact(artefact, out));
  const std::string dynamic = shell("readelf -dW " + out.string());
  EXPECT_NE(dynamic.find("Shared library: [libc.so.6]"), std::string::npos) << dynamic;
  EXPECT_EQ(dynamic.find("(NEEDED)"), dynamic.rfind("(NEEDED)")) << dynamic;
  EXPECT_EQ(dynamic.find("TEXTREL"), std::string::npos);
  EXPECT_EQ(dynamic.find("(INIT)"), std::string::npos) << "no code runs when it is loaded";
  EXPECT_EQ(dynamic.find("INIT_ARRAY"), std::string::npos);
  std::set<std::string> exported;
  std::istringstream lines(shell("nm -D --defined-only " + out.string()));
  for (std::string address, kind, name; lines >> address >> kind >> name;) exported.insert(name);
  EXPECT_EQ(exported,
            (std::set<std::string>{"fettle_artefact", "twice_open", "twice_close", "twice_info", "twice_create_context",
                                   "twice_destroy_context", "twice_run", "twice_begin", "twice_wait", "twice_cancel",
                                   "twice_output_shapes", "twice_get_state", "twice_set_state", "twice_allocate_with",
                                   "twice_profile", "twice_trace", "twice_error"}));
}

TEST_F(ArtefactTest, ModelsWithTheSameNamesLiveSideBySide) {
  ASSERT_TRUE(write_artefact(doubler(), folder / "a.so"));
  factor = 3;
  ASSERT_TRUE(write_artefact(doubler(), folder / "b.so"));
  const Loaded a(folder / "a.so");
  const Loaded b(folder / "b.so");
  EXPECT_EQ(a.run({1, 1, 1, 1, 1, 1, 1, 1})[0], 2);
  EXPECT_EQ(b.run({1, 1, 1, 1, 1, 1, 1, 1})[0], 3);
  using Info = const FettleModelInfo* (*)();
  EXPECT_EQ(reinterpret_cast<Info>(a.symbol("fettle_model_info"))(), a.info);
  EXPECT_EQ(reinterpret_cast<Info>(b.symbol("fettle_model_info"))(), b.info);
}

TEST_F(ArtefactTest, ConstantsAreMappedReadOnlyAndAligned) {
  Artefact artefact = doubler();
  std::vector<std::string> blobs;
  for (size_t bytes : {100000, 3, 70000, 0, 64, 5000000}) {
    blobs.emplace_back(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) blobs.back()[i] = static_cast<char>(i * 31 + bytes);
  }
  for (const std::string& blob : blobs) {
    artefact.constants.push_back(
        {{"blob", FETTLE_U8, {static_cast<int64_t>(blob.size())}}, std::as_bytes(std::span(blob.data(), blob.size()))});
  }
  ASSERT_TRUE(write_artefact(artefact, folder / "model.so"));
  const Loaded loaded(folder / "model.so");
  ASSERT_EQ(loaded.info->n_constants, 7);
  for (size_t i = 0; i < blobs.size(); ++i) {
    const FettleTensor& constant = loaded.info->constants[i + 1];
    const auto address = reinterpret_cast<uintptr_t>(constant.data);
    EXPECT_EQ(address % (blobs[i].size() >= 65536 ? 4096 : 64), 0u);
    EXPECT_EQ(std::memcmp(constant.data, blobs[i].data(), blobs[i].size()), 0);
    std::ifstream maps("/proc/self/maps");
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0;
      char mode[5] = {};
      ASSERT_EQ(std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode), 3);
      if (begin > address || address >= end) continue;
      found = true;
      EXPECT_STREQ(mode, "r--p") << line;
      EXPECT_NE(line.find("model.so"), std::string::npos) << line;
    }
    EXPECT_TRUE(found || blobs[i].empty());
  }
  EXPECT_EQ(loaded.run(kX), kTwiceX);
}

TEST_F(ArtefactTest, WhatLibcLacksIsRefusedAndNothingIsLeft) {
  Artefact artefact = doubler();
  artefact.objects.push_back(object("float expf(float); float f(float x) { return expf(x); }"));
  artefact.objects[0] = object("float f(float); int host(void* c, float** b) { b[1][0] = f(b[0][0]); return 0; }");
  const fs::path out = folder / "model.so";
  std::ofstream(out) << "what was there before";
  const auto written = write_artefact(artefact, out);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::E303);
  EXPECT_NE(written.error().message.find("undefined symbol: expf"), std::string::npos) << written.error().message;
  EXPECT_EQ(read_file(out), "what was there before");
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
}

TEST_F(ArtefactTest, MissingEntryAndBrokenObjectsAreRefused) {
  Artefact artefact = doubler();
  artefact.entry = "nowhere";
  auto written = write_artefact(artefact, folder / "model.so");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("undefined symbol: nowhere"), std::string::npos) << written.error().message;
  artefact = doubler();
  artefact.objects.push_back(artefact.objects[0]);
  written = write_artefact(artefact, folder / "model.so");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("duplicate symbol: host"), std::string::npos) << written.error().message;
  artefact = doubler();
  artefact.objects.push_back(artefact.objects[0]);
  artefact.objects.back().resize(300);
  EXPECT_EQ(write_artefact(artefact, folder / "model.so").error().code, ErrorCode::E303);
  artefact.objects.back() = {'n', 'o', 'n', 'e'};
  EXPECT_EQ(write_artefact(artefact, folder / "model.so").error().code, ErrorCode::E303);
  EXPECT_FALSE(fs::exists(folder / "model.so"));
  const auto good = write_artefact(doubler(), folder / "model.so");
  EXPECT_TRUE(good) << "linking works again: " << good.error().to_string();
}

TEST_F(ArtefactTest, UnwritableOutputsAreToldAsSuch) {
  const Artefact artefact = doubler();
  const auto before = files();
  EXPECT_EQ(write_artefact(artefact, folder / "no_such_folder" / "model.so").error().code, ErrorCode::E702);
  EXPECT_EQ(write_artefact(artefact, folder).error().code, ErrorCode::E702);
  for (const char* device : {"/dev/null", "/dev/full"}) {
    EXPECT_EQ(write_artefact(artefact, device).error().code, ErrorCode::E702);
    EXPECT_TRUE(fs::is_character_file(device));
    EXPECT_FALSE(fs::exists(std::string(device) + ".h"));
  }
  EXPECT_EQ(write_artefact(artefact, folder / "model.h").error().code, ErrorCode::E709);
  EXPECT_EQ(files(), before);
}

TEST_F(ArtefactTest, TheLibraryStaysWhereItsHeaderCannotBeWritten) {
  std::ofstream(folder / "model.so") << "an older one";
  fs::create_directory(folder / "model.h");
  const Artefact artefact = doubler();
  const auto before = files();
  const auto written = write_artefact(artefact, folder / "model.so");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::E702);
  EXPECT_EQ(read_file(folder / "model.so"), "an older one");
  EXPECT_EQ(files(), before);
}

TEST_F(ArtefactTest, BadNamesAreRefused) {
  for (const char* prefix : {"", "1st", "a-b", "a b", "fettle_artefact"}) {
    Artefact artefact = doubler();
    artefact.prefix = prefix;
    EXPECT_EQ(write_artefact(artefact, folder / "model.so").error().code, ErrorCode::E303) << prefix;
    EXPECT_EQ(artefact_header({&artefact, 1}).error().code, ErrorCode::E303) << prefix;
  }
  Artefact artefact = doubler();
  artefact.target_features = "sse2,avx9000";
  EXPECT_EQ(write_artefact(artefact, folder / "model.so").error().message,
            "the CPU feature 'avx9000' is not known to rt");
}

// y = two * x for any number of rows.
constexpr const char* kOpenDoubler = R"(
#include "rt/abi.h"
int32_t sizes(FettleContext* context, void** buffers, const int64_t* ints) {
  int64_t* table = buffers[0];
  (void)context;
  table[0] = ints[0] > 100 ? -1 : 64;
  table[1] = ints[0];
  table[2] = 4;
  return FETTLE_OK;
}
int32_t host(FettleContext* context, void** buffers, const int64_t* ints) {
  const float *x = buffers[0], *factor = buffers[3];
  float* y = buffers[1];
  (void)context;
  if (buffers[4] != ints) return FETTLE_KERNEL_FAILED;
  for (int64_t i = 0; i < ints[1] * ints[2]; ++i) y[i] = *factor * x[i];
  return FETTLE_OK;
}
)";

TEST_F(ArtefactTest, SizesMayBeOpen) {
  Artefact artefact = doubler();
  artefact.inputs = {{"x", FETTLE_F32, {-1, 4}, {"N", ""}}};
  artefact.outputs = {{"y", FETTLE_F32, {-1, 4}, {"N", ""}}};
  artefact.objects = {object(kOpenDoubler)};
  artefact.n_sizes = 3;
  artefact.resize = "sizes";
  artefact.size_errors = {"input 'x' (axis 0) has an extent of at most 100"};
  const auto written = write_artefact(artefact, folder / "model.so");
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_NE(read_file(folder / "model.h").find("inputs[0]  x  f32[N, 4]"), std::string::npos);
  const Loaded loaded(folder / "model.so");
  ASSERT_NE(loaded.info, nullptr);
  EXPECT_STREQ(loaded.info->inputs[0].axis_names[0], "N");
  EXPECT_EQ(loaded.info->inputs[0].axis_names[1], nullptr);
  const FettleFunctions& functions = *loaded.info->functions;
  FettleModel* model = functions.open(loaded.info, FETTLE_ABI_VERSION, nullptr);
  FettleContext* context = functions.create_context(model);
  FettleTensor x = loaded.info->inputs[0], y = loaded.info->outputs[0];
  std::vector<float> data = kX;
  x.data = data.data();
  const int64_t two_rows[] = {2, 4}, many_rows[] = {101, 4};
  x.shape = two_rows;
  ASSERT_EQ(functions.run(context, &x, &y), FETTLE_OK) << functions.error(context);
  EXPECT_EQ(y.shape[0], 2);
  EXPECT_EQ(std::vector<float>(static_cast<float*>(y.data), static_cast<float*>(y.data) + 8), kTwiceX);
  x.shape = many_rows;
  EXPECT_EQ(functions.output_shapes(context, &x, &y), FETTLE_WRONG_SHAPE);
  EXPECT_STREQ(functions.error(context), artefact.size_errors[0].c_str());
  functions.close(model);
  functions.destroy_context(context);

  const auto refused = [&](const char* text) {
    const auto again = write_artefact(artefact, folder / "model.so");
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::E303);
    EXPECT_EQ(again.error().message, text);
  };
  artefact.n_sizes = 2;
  refused("the table of sizes has no room for the outputs' extents");
  artefact.n_sizes = 0;
  refused("sizes are open, but nothing computes them");
  artefact.resize = "";
  refused("a tensor has an open extent, but all sizes are fixed");
}

TEST_F(ArtefactTest, StatesAreDescribed) {
  Artefact artefact = doubler();
  artefact.outputs[0].shape = {2, 4};
  artefact.states = {{{"memory", FETTLE_F32, {2, 4}, {}}, 0, 0, -1}};
  ASSERT_TRUE(write_artefact(artefact, folder / "model.so"));
  const Loaded loaded(folder / "model.so");
  ASSERT_EQ(loaded.info->n_states, 1);
  EXPECT_STREQ(loaded.info->states[0].tensor->name, "memory");
  EXPECT_EQ(loaded.info->states[0].tensor->shape[1], 4);
  EXPECT_EQ(loaded.info->states[0].length_axis, -1);
  artefact.states[0].output = 1;
  EXPECT_EQ(write_artefact(artefact, folder / "model.so").error().message,
            "a state does not fit the input and the output that it stands for");
}

TEST_F(ArtefactTest, StructuresAreDescribed) {
  Artefact artefact = doubler();
  artefact.structures = {{"list", "seq(tensor(float))", true, 0, 1}};
  ASSERT_TRUE(write_artefact(artefact, folder / "model.so"));
  const Loaded loaded(folder / "model.so");
  ASSERT_EQ(loaded.info->n_structures, 1);
  EXPECT_STREQ(loaded.info->structures[0].name, "list");
  EXPECT_STREQ(loaded.info->structures[0].type, "seq(tensor(float))");
  EXPECT_EQ(loaded.info->structures[0].is_output, 1);
  EXPECT_EQ(loaded.info->structures[0].n_tensors, 1);
  artefact.structures[0].first_tensor = 1;
  EXPECT_EQ(write_artefact(artefact, folder / "model.so").error().message,
            "a structure's tensors are not among the model's");
}

TEST(NeededFeatures, AreThoseThatCompilersChoose) {
  EXPECT_EQ(needed_features("+avx2,+clzero,-avx512f,+fma"), "avx2,fma");
  EXPECT_EQ(needed_features("+64bit,+avx512bf16"), "avx512bf16");
  EXPECT_EQ(needed_features(""), "");
  EXPECT_EQ(needed_features("-sse2,,+"), "");
  const std::string_view name = "...fettle_tiles_begin...";
  const std::vector<std::vector<uint8_t>> objects = {{1, 2, 3}, {name.begin(), name.end()}};
  EXPECT_EQ(needed_features("+amx-bf16,+amx-tile,+avx2", objects), "amx-bf16,amx-tile,avx2");
  EXPECT_EQ(needed_features("+amx-bf16,+amx-tile,+avx2", std::span(objects).first(1)), "avx2");
}

TEST_F(ArtefactTest, ManyLinksInOneProcess) {
  const Artefact artefact = doubler();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(write_artefact(artefact, folder / "model.so"));
  EXPECT_EQ(Loaded(folder / "model.so").run(kX), kTwiceX);
}

TEST_F(ArtefactTest, HeaderIsCAndCPlusPlus) {
  Artefact artefact = doubler();
  artefact.name = "a */ name \\";
  artefact.inputs[0].name = "x\n*/ #error";
  ASSERT_TRUE(write_artefact(artefact, folder / "model.so"));
  artefact.prefix = "other";
  ASSERT_TRUE(write_artefact(artefact, folder / "other.so"));
  const std::string both =
      "#include \"model.h\"\n#include \"other.h\"\n#include \"model.h\"\n"
      "int main(void) { return fettle_model_open == other_open; }\n";
  std::ofstream(folder / "both.c") << both;
  const std::string arguments =
      " -Wall -Wextra -pedantic -Werror -c " + (folder / "both.c").string() + " -o " + (folder / "both.o").string();
  shell(std::string(FETTLE_CC) + " -std=c99" + arguments);
  shell(std::string(FETTLE_CC) + " -std=c11" + arguments);
  shell(std::string(FETTLE_CC) + " -x c++ -std=c++11" + arguments);
}

TEST_F(ArtefactTest, TheExampleInCRunsIt) {
  const Artefact artefact = doubler();
  ASSERT_TRUE(write_artefact(artefact, folder / "model.so"));
  const std::string at = folder.string();
  shell(std::string(FETTLE_CC) + " -Wall -Wextra -Werror -I " + at + " " FETTLE_SOURCE_DIR "/examples/c/run_model.c " +
        at + "/model.so -Wl,-rpath,'$ORIGIN' -o " + at + "/run_model");
  std::ofstream(folder / "x.raw", std::ios::binary).write(reinterpret_cast<const char*>(kX.data()), 32);
  shell(at + "/run_model " + at + "/x.raw > " + at + "/y.raw");
  const std::string y = read_file(folder / "y.raw");
  ASSERT_EQ(y.size(), 32u);
  EXPECT_EQ(std::memcmp(y.data(), kTwiceX.data(), 32), 0);
  EXPECT_NE(shell("ldd " + at + "/model.so").find("libc.so.6"), std::string::npos);
}

}  // namespace
}  // namespace fettle
