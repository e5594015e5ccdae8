#include "graph/passes/testing.h"

namespace fettle {
namespace {

// Products with quantised weights. Scales are powers of two and numbers small, so that results are equal with the pass
// and without it.
class PackWeights : public PassFixture {
 protected:
  Value* drawn(std::vector<int64_t> shape, DType dtype, int64_t least, int64_t greatest) {
    TensorBuilder t = make_tensor(dtype, std::move(shape)).value();
    for (uint8_t& x : t.elems<uint8_t>())
      x = static_cast<uint8_t>(least + static_cast<int64_t>(draws_.below(static_cast<uint64_t>(greatest - least + 1))));
    return g.add_constant("numbers", std::move(t).finish());
  }
  Value* scales(std::vector<int64_t> shape) {
    TensorBuilder t = make_tensor(kF32, std::move(shape)).value();
    for (float& x : t.elems<float>()) x = 0.25F * static_cast<float>(1 + draws_.below(3));
    return g.add_constant("scales", std::move(t).finish());
  }
  void compare(const std::string& what) {
    EXPECT_EQ(compare_without("pack_weights", what).find("BlockedMatMul"), std::string::npos);
  }

 private:
  RandomStream draws_{3};
};

// Columns that are no whole blocks, every width, numbers with signs and without.
TEST_F(PackWeights, OfDequantizeLinear) {
  for (const DType dtype : {kI4, kU4, kI2, kU2, kI8, kU8})
    for (const bool has_zeros : {false, true})
      for (const int64_t k : {32, 27}) {
        g = Graph("g");
        const int64_t blocks = (k + 7) / 8;
        const bool is_signed = dtype.code == TypeCode::kInt;
        const int64_t most = dtype.bits == 8 ? 40 : (1 << (dtype.bits - (is_signed ? 1 : 0))) - 1;
        const int64_t least = is_signed ? -most - 1 : 0;
        Value* x = input("x", {3, k});
        std::vector<Value*> inputs = {drawn({k, 5}, dtype, least, most), scales({blocks, 5})};
        if (has_zeros) inputs.push_back(drawn({blocks, 5}, dtype, least, most));
        Value* w = op("DequantizeLinear", inputs, {{{"axis", int64_t{0}}, {"block_size", int64_t{8}}}});
        g.add_output("y", op("MatMul", {x, w}));
        compare("BlockedMatMul");
      }
}

TEST_F(PackWeights, OfTransposedWeights) {
  Value* x = input("x", {2, 3, 24});
  Value* w = op("DequantizeLinear", {drawn({6, 24}, kI4, -8, 7), scales({6, 3})},
                {{{"axis", int64_t{1}}, {"block_size", int64_t{8}}}});
  g.add_output("y", op("MatMul", {x, op("Transpose", {w}, {{{"perm", std::vector<int64_t>{1, 0}}}})}));
  compare("BlockedMatMul");
}

TEST_F(PackWeights, OfMatMulNBits) {
  for (const int64_t bits : {2, 4, 8})
    for (const bool has_zeros : {false, true}) {
      g = Graph("g");
      const int64_t k = 200, n = 90, blocks = 13;  // more than shape inference computes by itself
      Value* x = input("x", {3, k});
      std::vector<Value*> inputs = {x, drawn({n, blocks, 16 * bits / 8}, kU8, 0, 255), scales({n * blocks})};
      if (has_zeros) inputs.push_back(drawn({n * ((blocks * bits + 7) / 8)}, kU8, 0, 255));
      g.add_output("y", op("com.microsoft.MatMulNBits", inputs,
                           {{{"K", k}, {"N", n}, {"bits", bits}, {"block_size", int64_t{16}}}}));
      compare("BlockedMatMul");
    }
}

// Blocks along the other axis, scales of columns, short blocks: floats, as before.
TEST_F(PackWeights, LeavesOthers) {
  const auto stays = [&](const std::vector<int64_t>& scale_shape, Attrs attrs) {
    g = Graph("g");
    Value* x = input("x", {3, 32});
    g.add_output("y",
                 op("MatMul", {x, op("DequantizeLinear", {drawn({32, 16}, kI4, -8, 7), scales(scale_shape)}, attrs)}));
    compare("MatMul");
    EXPECT_EQ(histogram(g).find("BlockedMatMul"), std::string::npos);
  };
  stays({32, 2}, {{{"axis", int64_t{1}}, {"block_size", int64_t{8}}}});
  stays({16}, {{{"axis", int64_t{1}}}});
  stays({16, 16}, {{{"axis", int64_t{0}}, {"block_size", int64_t{2}}}});
}

}  // namespace
}  // namespace fettle
