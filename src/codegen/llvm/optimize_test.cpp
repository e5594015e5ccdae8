#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/llvm/jit_module.h"
#include "codegen/llvm/llvm_codegen.h"
#include "codegen/test_util.h"
#include "rt/abi.h"

namespace fettle {
namespace {

using namespace testing;

IrModule module_of(std::string text, bool in_order) {
  text.replace(text.find("%s"), 2, in_order ? " {in_order = 1}" : "");
  const Func func = parsed(text);
  return IrModule{{{func->name, func}}, func->name};
}

// A sum that goes on in memory.
constexpr const char* kProduct = R"(lowered func f(A: f64[1000], B: f64[1000], n: f64[1], C: f64[1] output)%s:
  C[0] = n[0]
  for k in 1000:
    C[0] = C[0] + A[k] * B[k]
)";

// A sum with what it lost (Kahan): another order of its terms would make the correction nothing.
constexpr const char* kCompensated = R"(lowered func f(A: f64[1000], B: f64[1000], n: f64[1], C: f64[1] output)%s:
  allocate lost: f64[1]
  allocate term: f64[1]
  allocate next: f64[1]
  C[0] = n[0]
  lost[0] = 0.0f64
  for k in 1000:
    term[0] = A[k] - lost[0]
    next[0] = C[0] + term[0]
    lost[0] = next[0] - C[0] - term[0]
    C[0] = next[0]
)";

double run(const IrModule& module, double (*value)(int)) {
  const auto object = compile_object(module, detect_host(), {.verify = true});
  FETTLE_CHECK_MSG(object.has_value(), object ? "" : object.error().to_string());
  const auto code = JitModule::load(std::vector{*object});
  FETTLE_CHECK(code.has_value());
  std::vector<double> a(1000), b(1000);
  for (int k = 0; k < 1000; ++k) a[static_cast<size_t>(k)] = value(k), b[static_cast<size_t>(k)] = k % 7;
  double n = 1, c = 0;
  void* buffers[] = {a.data(), b.data(), &n, &c};
  code->function<int32_t(FettleContext*, void**, const int64_t*)>("f")(nullptr, buffers, nullptr);
  return c;
}

bool has_packed_products(const IrModule& module) {
  const auto text = emit_assembly(module, detect_host());
  FETTLE_CHECK(text.has_value());
  const auto has = [&](const char* form) { return text->find(form) != std::string::npos; };
  return has("132pd") || has("213pd") || has("231pd");
}

TEST(Optimize, SumsInPlainLoopsAreTakenInLanes) {
  const auto integer = [](int k) { return static_cast<double>(k % 5); };
  EXPECT_EQ(run(module_of(kProduct, true), integer), run(module_of(kProduct, false), integer));
  if (!detect_host().has_feature("fma")) GTEST_SKIP() << "looks for instructions of FMA3";
  EXPECT_TRUE(has_packed_products(module_of(kProduct, true)));
  EXPECT_FALSE(has_packed_products(module_of(kProduct, false)));
}

TEST(Optimize, OtherArithmeticStaysInItsOrder) {
  const auto tiny = [](int k) { return k == 0 ? 0x1p53 : 0.25; };
  const double as_written = run(module_of(kCompensated, false), tiny);
  EXPECT_EQ(run(module_of(kCompensated, true), tiny), as_written);
  EXPECT_NE(as_written, 1 + 0x1p53);  // the corrections were worth something
}

// A loop that counts from below 0, as an order shifted by an affine map has it: -1 + 1 is no overflow.
TEST(Optimize, LoopsMayCountFromBelowZero) {
  const IrModule module = module_of(R"(lowered func f(A: f64[1000], B: f64[1000], n: f64[1], C: f64[1] output)%s:
  allocate copied: f64[121]
  for i in -2 +: 11:
    for j in 11:
      copied[j * 11 + i + 2] = A[j * 11 + i + 2]
  C[0] = n[0]
  for k in 121:
    C[0] = C[0] + copied[k]
)",
                                    true);
  EXPECT_EQ(run(module, [](int k) { return static_cast<double>(k); }), 1 + 120 * 121 / 2);
}

}  // namespace
}  // namespace fettle
