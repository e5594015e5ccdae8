#include "operators.h"

#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::bench {

Func matmul_func(const MatmulProblem& p) {
  te::Tensor a = te::placeholder({p.m, p.k}, kF32, "A");
  te::Tensor b = te::placeholder({p.k, p.n}, kF32, "B");
  te::ReduceAxis k = te::reduce_axis(p.k, "k");
  te::Tensor c = te::compute(
      {p.m, p.n}, [&](const std::vector<Var>& i) { return te::sum(a(i[0], k) * b(k, i[1]), {k}); }, "C", {"i", "j"});
  return te::create_func("matmul", {a, b}, {c}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

Func convolution_func(const ConvProblem& p) {
  te::Tensor source = te::placeholder({p.batch, p.channels_in, p.height, p.width}, kF32, "I");
  te::Tensor weights = te::placeholder({p.channels_out, p.channels_in, p.kernel, p.kernel}, kF32, "W");
  te::Tensor padded = source;
  if (p.padding > 0) {
    const std::vector<Expr> around = {0, 0, p.padding, p.padding};
    padded = te::pad(source, around, around, float_imm(0), "padded");
  }
  te::ReduceAxis c = te::reduce_axis(p.channels_in, "ic");
  te::ReduceAxis kh = te::reduce_axis(p.kernel, "kh"), kw = te::reduce_axis(p.kernel, "kw");
  te::Tensor out = te::compute(
      {p.batch, p.channels_out, p.height_out(), p.width_out()},
      [&](const std::vector<Var>& i) {
        return te::sum(padded(i[0], c, i[2] * p.stride + kh, i[3] * p.stride + kw) * weights(i[1], c, kh, kw),
                       {c, kh, kw});
      },
      "O", {"n", "oc", "oh", "ow"});
  return te::create_func(
      "convolution", {source, weights}, {out},
      {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}, .free_layout = {true, false, true}});
}

Func depthwise_func(const ConvProblem& p) {
  te::Tensor source = te::placeholder({p.height, p.width, p.channels_in}, kF32, "I");
  te::Tensor weights = te::placeholder({p.channels_in, p.kernel, p.kernel}, kF32, "W");
  const std::vector<Expr> around = {p.padding, p.padding, 0};
  te::Tensor padded = te::pad(source, around, around, float_imm(0), "padded");
  te::ReduceAxis kh = te::reduce_axis(p.kernel, "kh"), kw = te::reduce_axis(p.kernel, "kw");
  te::Tensor out = te::compute(
      {p.height_out(), p.width_out(), p.channels_in},
      [&](const std::vector<Var>& i) {
        return te::sum(padded(i[0] * p.stride + kh, i[1] * p.stride + kw, i[2]) * weights(i[2], kh, kw), {kh, kw});
      },
      "O", {"oh", "ow", "c"});
  return te::create_func("depthwise", {source, weights}, {out},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

}  // namespace fettle::bench
