#pragma once
// For tests: an artefact by hand, and artefacts loaded.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/artefact/artefact.h"

namespace fettle {

namespace fs = std::filesystem;

// A host program by hand: y = two * x, by a parallel region, with the arena between.
inline constexpr const char* kDoubler = R"(
#include "rt/abi.h"
struct closure { const float* x; float* y; const float* factor; };
static void body(void* c, int64_t i) {
  struct closure* k = c;
  k->y[i] = k->x[i] * k->factor[0];
}
static int32_t scale(FettleContext* context, void** buffers, const int64_t* ints) {
  struct closure c = {buffers[0], buffers[1], buffers[2]};
  fettle_parallel_for(context->team, 8, body, &c);
  return ints ? (int32_t)ints[0] : FETTLE_OK;
}
int32_t host(FettleContext* context, void** buffers, const int64_t* ints) {
  void* inner[] = {buffers[0], buffers[2], buffers[3]};
  int32_t status = fettle_call_kernel(context, 0, scale, inner, ints);
  if (status != FETTLE_OK) return status;
  void* scratch = fettle_scratch_acquire(context, 100000);
  if (!scratch) return FETTLE_OUT_OF_MEMORY;
  __builtin_memcpy(scratch, buffers[2], 32);
  __builtin_memcpy(buffers[1], scratch, 32);
  fettle_scratch_release(context, scratch);
  return FETTLE_OK;
}
)";

/// What a command prints; its exit status must be 0.
inline std::string shell(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char chunk[4096];
  for (size_t got; (got = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) text.append(chunk, got);
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << text;
  return text;
}

inline std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ArtefactTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) / ("fettle_artefact_" + std::to_string(::getpid()) +
                                             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::set<fs::path> files() const {
    std::set<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.insert(entry.path());
    return found;
  }
  /// Compiles C to an object without the C library's start files or headers beyond the compiler's.
  std::vector<uint8_t> object(const std::string& source) {
    std::ofstream(folder / "source.c") << source;
    shell(std::string(FETTLE_CC) + " -std=c11 -O2 -fPIC -fno-stack-protector -I " FETTLE_SOURCE_DIR "/src -c " +
          (folder / "source.c").string() + " -o " + (folder / "source.o").string());
    const std::string bytes = read_file(folder / "source.o");
    return {bytes.begin(), bytes.end()};
  }

  Artefact doubler() {
    Artefact artefact;
    artefact.name = "doubler";
    artefact.target_cpu = "x86-64";
    artefact.target_features = "sse2";
    artefact.inputs = {{"x", FETTLE_F32, {2, 4}}};
    artefact.outputs = {{"y", FETTLE_F32, {8}}};
    artefact.constants = {{{"factor", FETTLE_F32, {1}}, std::as_bytes(std::span(&factor, 1))}};
    artefact.kernel_names = {"scale"};
    artefact.kernel_origins = {"Mul times\nAdd plus"};
    artefact.objects = {object(kDoubler)};
    artefact.entry = "host";
    artefact.arena_bytes = 4096;
    return artefact;
  }

  float factor = 2;
  fs::path folder;
};

/// An artefact loaded for a test.
struct Loaded {
  std::shared_ptr<void> handle;
  const FettleModelInfo* info = nullptr;

  explicit Loaded(const fs::path& path) {
    handle.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* h) {
      if (h != nullptr) ::dlclose(h);
    });
    if (handle == nullptr) {
      ADD_FAILURE() << ::dlerror();
      return;
    }
    info = static_cast<const FettleModelInfo*>(::dlsym(handle.get(), "fettle_artefact"));
  }
  void* symbol(const char* name) const { return ::dlsym(handle.get(), name); }

  std::vector<float> run(std::vector<float> x, int32_t threads = 1) const {
    FettleOptions options{};
    options.struct_bytes = sizeof options;
    options.threads = threads;
    const FettleFunctions& functions = *info->functions;
    FettleModel* model = functions.open(info, FETTLE_ABI_VERSION, &options);
    EXPECT_NE(model, nullptr) << functions.error(nullptr);
    FettleContext* context = functions.create_context(model);
    std::vector<float> y(x.size());
    FettleTensor input = info->inputs[0], output = info->outputs[0];
    input.data = x.data();
    output.data = y.data();
    EXPECT_EQ(functions.run(context, &input, &output), FETTLE_OK) << functions.error(context);
    functions.destroy_context(context);
    functions.close(model);
    return y;
  }
};

inline const std::vector<float> kX = {1, 2, 3, 4, 5, 6, 7, 8};
inline const std::vector<float> kTwiceX = {2, 4, 6, 8, 10, 12, 14, 16};

}  // namespace fettle
