#include "graph/size_vars.h"

#include <gtest/gtest.h>

#include "ir/compare.h"
#include "te/create_func.h"

namespace fettle {
namespace {

const Dim kN = Dim::symbol("N", 1, 64), kS = Dim::symbol("S", 0, 512, 8, 128);

// y[i…] = x[i…] over a shape.
SizedFunc copy_of(const Shape& shape) {
  SizeVars vars;
  const te::Tensor x = te::placeholder(size_exprs(shape), kF32, "x");
  const te::Tensor y = te::compute(x.shape(), [&](const auto& i) { return te::Body(x(i)); }, "y");
  return with_size_params(canonical_sizes(te::create_func("copy", {x}, {y}), vars), vars);
}

TEST(SizeVars, DimsAndExpressionsAreTheSame) {
  SizeVars vars;
  for (const Dim& dim : {Dim(7), kN, kN * kS + 3, floordiv(kN + 1, 2) * 4, max(kN, kS), min(kN - 5, 8), 5 - kN}) {
    const auto back = vars.dim_of(vars.expr_of(dim));
    ASSERT_TRUE(back) << dim.to_string();
    EXPECT_EQ(*back, dim) << dim.to_string() << " became " << back->to_string();
  }
  EXPECT_EQ(vars.sizes().size(), 2u);
  EXPECT_FALSE(vars.dim_of(make_var("other", kI64)));
}

TEST(SizeVars, WhatOccursTogetherIsOneParameter) {
  const SizedFunc product = copy_of({kN * kS, 768});
  ASSERT_EQ(product.sizes.size(), 1u);
  EXPECT_EQ(product.sizes[0], kN * kS);
  const IntParam& n = product.func->int_params[0];
  EXPECT_EQ((std::vector{n.min, n.max, n.multiple_of, n.typical}), (std::vector<int64_t>{0, 64 * 512, 8, 64 * 128}));

  EXPECT_EQ(copy_of({floordiv(kN + 1, 2), floordiv(kN + 1, 2) + 1}).sizes, (std::vector<Dim>{floordiv(kN + 1, 2)}));
}

TEST(SizeVars, WhatOccursByItselfIsNot) {
  EXPECT_EQ(copy_of({kN * kS, kS}).sizes, (std::vector<Dim>{kN, kS}));
  EXPECT_EQ(copy_of({floordiv(kN + 1, 2), kN}).sizes, (std::vector<Dim>{kN}));
  EXPECT_TRUE(copy_of({4, 5}).sizes.empty());
}

TEST(SizeVars, EqualWorkOnOtherSizesIsTheSameProgram) {
  const Dim other = Dim::symbol("T", 0, 512, 8, 128);
  EXPECT_EQ(canonical_hash(copy_of({kS, 768}).func), canonical_hash(copy_of({other, 768}).func));
}

}  // namespace
}  // namespace fettle
