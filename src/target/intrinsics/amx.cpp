// Products of tiles by Intel's AMX: C[16, 16] += A[16, k] · B[k, 16], k of 64 bytes. B lies in pairs (bf16) or fours
// (bytes) of k. Sums stay in tile registers where C is of scope "tile"; amx_zero… and amx_store… begin and end them.
// Where they lie in memory, they are loaded and stored around each product.
//
// Bytes: exact, sums wrap. bf16: products are exact; each sum is rounded to the nearest f32 (half to even). The order
// of the two products of a pair is the machine's, and denormals count as zero. So results differ from the meaning's as
// those of another order of summation do.

#include "target/intrinsics/intrinsic_text.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

bool has_tiles(const Target& target) { return target.kind == "llvm" && target.has_feature("amx-tile"); }
bool has_bf16(const Target& target) { return has_tiles(target) && target.has_feature("amx-bf16"); }
bool has_int8(const Target& target) { return has_tiles(target) && target.has_feature("amx-int8"); }

/// A product; `unit` is LLVM's name of the instruction. `streamed`: factors that are read once and shall not drive
/// others out of the first-level cache; bit 0: A, bit 1: B.
struct Product {
  std::string_view name, unit, a, b, c;
  int k, group, streamed;

  consteval IntrinsicText meaning() const {
    IntrinsicText text;
    text << "func " << name << "(A: " << a << "[16, " << k << "], B: " << b << "[" << k << ", 16], C: " << c
         << "[16, 16] output):\n";
    text << "  for i in 16:\n    for j in 16:\n      for k in " << k << ":\n";
    text << "        block C(vi: spatial[16] = i, vj: spatial[16] = j, vk: reduce[" << k << "] = k):\n";
    text << "          reads A[vi, vk], B[vk, vj]\n          writes C[vi, vj]\n";
    text << "          C[vi, vj] = C[vi, vj] + " << c << "(A[vi, vk]) * " << c << "(B[vk, vj])\n";
    return text;
  }
  consteval IntrinsicText code() const {
    IntrinsicText text;
    text << "lowered func " << name << "(A: " << a << "[" << 16 * k << "], B: " << b << "[" << 16 * k << "], C: " << c
         << "[256] output, sa: i64 in " << k << ".., sb: i64 in " << 16 * group << ".., sc: i64 in 16..):\n";
    text << "  `llvm.x86." << unit << "`.i32(&C[0], sc, &A[0], sa, &B[0], sb, " << streamed << ")\n";
    return text;
  }
};

consteval TensorIntrinsicDef product(const Product& of, std::string_view meaning, std::string_view code,
                                     bool (*available)(const Target&)) {
  return {.name = of.name, .meaning = meaning, .implementation = code, .available = available, .row_group = of.group};
}

/// C = X: tiles of sums, from memory to registers or back.
struct Copy {
  std::string_view name, type;
  bool loads;

  consteval IntrinsicText meaning() const {
    IntrinsicText text;
    text << "func " << name << "(C: " << type << "[16, 16] output, X: " << type << "[16, 16]):\n";
    text << "  for i in 16:\n    for j in 16:\n      block C(vi: spatial[16] = i, vj: spatial[16] = j):\n";
    text << "        reads X[vi, vj]\n        writes C[vi, vj]\n        C[vi, vj] = X[vi, vj]\n";
    return text;
  }
  consteval IntrinsicText code() const {
    IntrinsicText text;
    text << "lowered func " << name << "(C: " << type << "[256] output, X: " << type
         << "[256], sc: i64 in 16.., sx: i64 in 16..):\n";
    text << "  `llvm.x86."
         << (loads ? "tileloadd64`.i32(&C[0], sc, &X[0], sx" : "tilestored64`.i32(&X[0], sx, &C[0], sc") << ")\n";
    return text;
  }
};

/// C = 0.
struct Zero {
  std::string_view name, type, zero;

  consteval IntrinsicText meaning() const {
    IntrinsicText text;
    text << "func " << name << "(C: " << type << "[16, 16] output):\n";
    text << "  for i in 16:\n    for j in 16:\n      block C(vi: spatial[16] = i, vj: spatial[16] = j):\n";
    text << "        writes C[vi, vj]\n        C[vi, vj] = " << zero << "\n";
    return text;
  }
  consteval IntrinsicText code() const {
    IntrinsicText text;
    text << "lowered func " << name << "(C: " << type << "[256] output, sc: i64 in 16..):\n";
    text << "  `llvm.x86.tilezero`.i32(&C[0], sc)\n";
    return text;
  }
};

}  // namespace

constexpr Product amx_bf16_form{"amx_bf16", "tdpbf16ps", "bf16", "bf16", "f32", 32, 2, 0};
constexpr auto amx_bf16_meaning = amx_bf16_form.meaning(), amx_bf16_code = amx_bf16_form.code();
extern constinit const TensorIntrinsicDef amx_bf16_intrinsic =
    product(amx_bf16_form, amx_bf16_meaning, amx_bf16_code, has_bf16);
constexpr Product amx_bf16_stream_a_form{"amx_bf16_stream_a", "tdpbf16ps", "bf16", "bf16", "f32", 32, 2, 1};
constexpr auto amx_bf16_stream_a_meaning = amx_bf16_stream_a_form.meaning(),
               amx_bf16_stream_a_code = amx_bf16_stream_a_form.code();
extern constinit const TensorIntrinsicDef amx_bf16_stream_a_intrinsic =
    product(amx_bf16_stream_a_form, amx_bf16_stream_a_meaning, amx_bf16_stream_a_code, has_bf16);
constexpr Product amx_bf16_stream_b_form{"amx_bf16_stream_b", "tdpbf16ps", "bf16", "bf16", "f32", 32, 2, 2};
constexpr auto amx_bf16_stream_b_meaning = amx_bf16_stream_b_form.meaning(),
               amx_bf16_stream_b_code = amx_bf16_stream_b_form.code();
extern constinit const TensorIntrinsicDef amx_bf16_stream_b_intrinsic =
    product(amx_bf16_stream_b_form, amx_bf16_stream_b_meaning, amx_bf16_stream_b_code, has_bf16);
constexpr Product amx_bf16_stream_ab_form{"amx_bf16_stream_ab", "tdpbf16ps", "bf16", "bf16", "f32", 32, 2, 3};
constexpr auto amx_bf16_stream_ab_meaning = amx_bf16_stream_ab_form.meaning(),
               amx_bf16_stream_ab_code = amx_bf16_stream_ab_form.code();
extern constinit const TensorIntrinsicDef amx_bf16_stream_ab_intrinsic =
    product(amx_bf16_stream_ab_form, amx_bf16_stream_ab_meaning, amx_bf16_stream_ab_code, has_bf16);

constexpr Product amx_u8s8_form{"amx_u8s8", "tdpbusd", "u8", "i8", "i32", 64, 4, 0};
constexpr auto amx_u8s8_meaning = amx_u8s8_form.meaning(), amx_u8s8_code = amx_u8s8_form.code();
extern constinit const TensorIntrinsicDef amx_u8s8_intrinsic =
    product(amx_u8s8_form, amx_u8s8_meaning, amx_u8s8_code, has_int8);
constexpr Product amx_u8s8_stream_a_form{"amx_u8s8_stream_a", "tdpbusd", "u8", "i8", "i32", 64, 4, 1};
constexpr auto amx_u8s8_stream_a_meaning = amx_u8s8_stream_a_form.meaning(),
               amx_u8s8_stream_a_code = amx_u8s8_stream_a_form.code();
extern constinit const TensorIntrinsicDef amx_u8s8_stream_a_intrinsic =
    product(amx_u8s8_stream_a_form, amx_u8s8_stream_a_meaning, amx_u8s8_stream_a_code, has_int8);
constexpr Product amx_u8s8_stream_b_form{"amx_u8s8_stream_b", "tdpbusd", "u8", "i8", "i32", 64, 4, 2};
constexpr auto amx_u8s8_stream_b_meaning = amx_u8s8_stream_b_form.meaning(),
               amx_u8s8_stream_b_code = amx_u8s8_stream_b_form.code();
extern constinit const TensorIntrinsicDef amx_u8s8_stream_b_intrinsic =
    product(amx_u8s8_stream_b_form, amx_u8s8_stream_b_meaning, amx_u8s8_stream_b_code, has_int8);
constexpr Product amx_u8s8_stream_ab_form{"amx_u8s8_stream_ab", "tdpbusd", "u8", "i8", "i32", 64, 4, 3};
constexpr auto amx_u8s8_stream_ab_meaning = amx_u8s8_stream_ab_form.meaning(),
               amx_u8s8_stream_ab_code = amx_u8s8_stream_ab_form.code();
extern constinit const TensorIntrinsicDef amx_u8s8_stream_ab_intrinsic =
    product(amx_u8s8_stream_ab_form, amx_u8s8_stream_ab_meaning, amx_u8s8_stream_ab_code, has_int8);

constexpr Product amx_s8s8_form{"amx_s8s8", "tdpbssd", "i8", "i8", "i32", 64, 4, 0};
constexpr auto amx_s8s8_meaning = amx_s8s8_form.meaning(), amx_s8s8_code = amx_s8s8_form.code();
extern constinit const TensorIntrinsicDef amx_s8s8_intrinsic =
    product(amx_s8s8_form, amx_s8s8_meaning, amx_s8s8_code, has_int8);
constexpr Product amx_s8s8_stream_a_form{"amx_s8s8_stream_a", "tdpbssd", "i8", "i8", "i32", 64, 4, 1};
constexpr auto amx_s8s8_stream_a_meaning = amx_s8s8_stream_a_form.meaning(),
               amx_s8s8_stream_a_code = amx_s8s8_stream_a_form.code();
extern constinit const TensorIntrinsicDef amx_s8s8_stream_a_intrinsic =
    product(amx_s8s8_stream_a_form, amx_s8s8_stream_a_meaning, amx_s8s8_stream_a_code, has_int8);
constexpr Product amx_s8s8_stream_b_form{"amx_s8s8_stream_b", "tdpbssd", "i8", "i8", "i32", 64, 4, 2};
constexpr auto amx_s8s8_stream_b_meaning = amx_s8s8_stream_b_form.meaning(),
               amx_s8s8_stream_b_code = amx_s8s8_stream_b_form.code();
extern constinit const TensorIntrinsicDef amx_s8s8_stream_b_intrinsic =
    product(amx_s8s8_stream_b_form, amx_s8s8_stream_b_meaning, amx_s8s8_stream_b_code, has_int8);
constexpr Product amx_s8s8_stream_ab_form{"amx_s8s8_stream_ab", "tdpbssd", "i8", "i8", "i32", 64, 4, 3};
constexpr auto amx_s8s8_stream_ab_meaning = amx_s8s8_stream_ab_form.meaning(),
               amx_s8s8_stream_ab_code = amx_s8s8_stream_ab_form.code();
extern constinit const TensorIntrinsicDef amx_s8s8_stream_ab_intrinsic =
    product(amx_s8s8_stream_ab_form, amx_s8s8_stream_ab_meaning, amx_s8s8_stream_ab_code, has_int8);

constexpr Product amx_s8u8_form{"amx_s8u8", "tdpbsud", "i8", "u8", "i32", 64, 4, 0};
constexpr auto amx_s8u8_meaning = amx_s8u8_form.meaning(), amx_s8u8_code = amx_s8u8_form.code();
extern constinit const TensorIntrinsicDef amx_s8u8_intrinsic =
    product(amx_s8u8_form, amx_s8u8_meaning, amx_s8u8_code, has_int8);
constexpr Product amx_s8u8_stream_a_form{"amx_s8u8_stream_a", "tdpbsud", "i8", "u8", "i32", 64, 4, 1};
constexpr auto amx_s8u8_stream_a_meaning = amx_s8u8_stream_a_form.meaning(),
               amx_s8u8_stream_a_code = amx_s8u8_stream_a_form.code();
extern constinit const TensorIntrinsicDef amx_s8u8_stream_a_intrinsic =
    product(amx_s8u8_stream_a_form, amx_s8u8_stream_a_meaning, amx_s8u8_stream_a_code, has_int8);
constexpr Product amx_s8u8_stream_b_form{"amx_s8u8_stream_b", "tdpbsud", "i8", "u8", "i32", 64, 4, 2};
constexpr auto amx_s8u8_stream_b_meaning = amx_s8u8_stream_b_form.meaning(),
               amx_s8u8_stream_b_code = amx_s8u8_stream_b_form.code();
extern constinit const TensorIntrinsicDef amx_s8u8_stream_b_intrinsic =
    product(amx_s8u8_stream_b_form, amx_s8u8_stream_b_meaning, amx_s8u8_stream_b_code, has_int8);
constexpr Product amx_s8u8_stream_ab_form{"amx_s8u8_stream_ab", "tdpbsud", "i8", "u8", "i32", 64, 4, 3};
constexpr auto amx_s8u8_stream_ab_meaning = amx_s8u8_stream_ab_form.meaning(),
               amx_s8u8_stream_ab_code = amx_s8u8_stream_ab_form.code();
extern constinit const TensorIntrinsicDef amx_s8u8_stream_ab_intrinsic =
    product(amx_s8u8_stream_ab_form, amx_s8u8_stream_ab_meaning, amx_s8u8_stream_ab_code, has_int8);

constexpr Product amx_u8u8_form{"amx_u8u8", "tdpbuud", "u8", "u8", "i32", 64, 4, 0};
constexpr auto amx_u8u8_meaning = amx_u8u8_form.meaning(), amx_u8u8_code = amx_u8u8_form.code();
extern constinit const TensorIntrinsicDef amx_u8u8_intrinsic =
    product(amx_u8u8_form, amx_u8u8_meaning, amx_u8u8_code, has_int8);
constexpr Product amx_u8u8_stream_a_form{"amx_u8u8_stream_a", "tdpbuud", "u8", "u8", "i32", 64, 4, 1};
constexpr auto amx_u8u8_stream_a_meaning = amx_u8u8_stream_a_form.meaning(),
               amx_u8u8_stream_a_code = amx_u8u8_stream_a_form.code();
extern constinit const TensorIntrinsicDef amx_u8u8_stream_a_intrinsic =
    product(amx_u8u8_stream_a_form, amx_u8u8_stream_a_meaning, amx_u8u8_stream_a_code, has_int8);
constexpr Product amx_u8u8_stream_b_form{"amx_u8u8_stream_b", "tdpbuud", "u8", "u8", "i32", 64, 4, 2};
constexpr auto amx_u8u8_stream_b_meaning = amx_u8u8_stream_b_form.meaning(),
               amx_u8u8_stream_b_code = amx_u8u8_stream_b_form.code();
extern constinit const TensorIntrinsicDef amx_u8u8_stream_b_intrinsic =
    product(amx_u8u8_stream_b_form, amx_u8u8_stream_b_meaning, amx_u8u8_stream_b_code, has_int8);
constexpr Product amx_u8u8_stream_ab_form{"amx_u8u8_stream_ab", "tdpbuud", "u8", "u8", "i32", 64, 4, 3};
constexpr auto amx_u8u8_stream_ab_meaning = amx_u8u8_stream_ab_form.meaning(),
               amx_u8u8_stream_ab_code = amx_u8u8_stream_ab_form.code();
extern constinit const TensorIntrinsicDef amx_u8u8_stream_ab_intrinsic =
    product(amx_u8u8_stream_ab_form, amx_u8u8_stream_ab_meaning, amx_u8u8_stream_ab_code, has_int8);

constexpr Zero amx_zero_f32_form{"amx_zero_f32", "f32", "0.0"};
constexpr auto amx_zero_f32_meaning = amx_zero_f32_form.meaning(), amx_zero_f32_code = amx_zero_f32_form.code();
extern constinit const TensorIntrinsicDef amx_zero_f32_intrinsic = {"amx_zero_f32", amx_zero_f32_meaning,
                                                                    amx_zero_f32_code, has_tiles};
constexpr Copy amx_load_f32_form{"amx_load_f32", "f32", true};
constexpr auto amx_load_f32_meaning = amx_load_f32_form.meaning(), amx_load_f32_code = amx_load_f32_form.code();
extern constinit const TensorIntrinsicDef amx_load_f32_intrinsic = {"amx_load_f32", amx_load_f32_meaning,
                                                                    amx_load_f32_code, has_tiles};
constexpr Copy amx_store_f32_form{"amx_store_f32", "f32", false};
constexpr auto amx_store_f32_meaning = amx_store_f32_form.meaning(), amx_store_f32_code = amx_store_f32_form.code();
extern constinit const TensorIntrinsicDef amx_store_f32_intrinsic = {"amx_store_f32", amx_store_f32_meaning,
                                                                     amx_store_f32_code, has_tiles};

constexpr Zero amx_zero_i32_form{"amx_zero_i32", "i32", "0i32"};
constexpr auto amx_zero_i32_meaning = amx_zero_i32_form.meaning(), amx_zero_i32_code = amx_zero_i32_form.code();
extern constinit const TensorIntrinsicDef amx_zero_i32_intrinsic = {"amx_zero_i32", amx_zero_i32_meaning,
                                                                    amx_zero_i32_code, has_tiles};
constexpr Copy amx_load_i32_form{"amx_load_i32", "i32", true};
constexpr auto amx_load_i32_meaning = amx_load_i32_form.meaning(), amx_load_i32_code = amx_load_i32_form.code();
extern constinit const TensorIntrinsicDef amx_load_i32_intrinsic = {"amx_load_i32", amx_load_i32_meaning,
                                                                    amx_load_i32_code, has_tiles};
constexpr Copy amx_store_i32_form{"amx_store_i32", "i32", false};
constexpr auto amx_store_i32_meaning = amx_store_i32_form.meaning(), amx_store_i32_code = amx_store_i32_form.code();
extern constinit const TensorIntrinsicDef amx_store_i32_intrinsic = {"amx_store_i32", amx_store_i32_meaning,
                                                                     amx_store_i32_code, has_tiles};

}  // namespace fettle
