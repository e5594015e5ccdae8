// Programs that work row by row: a softmax of 1536 rows of 128, and the layer norm of 128 rows of 768.

#include "schedules/steps.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::examples {
namespace {

Func softmax_program(int64_t rows, int64_t columns) {
  const te::Tensor x = te::placeholder({rows, columns}, kF32, "X");
  const te::ReduceAxis j = te::reduce_axis(columns, "j"), k = te::reduce_axis(columns, "k");
  const te::Tensor m =
      te::compute({rows}, [&](const std::vector<Var>& i) { return te::max(x(i[0], j), {j}); }, "M", {"i"});
  const te::Tensor e =
      te::compute({rows, columns}, [&](const std::vector<Var>& i) { return math("exp", {x(i[0], i[1]) - m(i[0])}); },
                  "E", {"i", "j"});
  const te::Tensor sum =
      te::compute({rows}, [&](const std::vector<Var>& i) { return te::sum(e(i[0], k), {k}); }, "S", {"i"});
  const te::Tensor o = te::compute(
      {rows, columns}, [&](const std::vector<Var>& i) { return e(i[0], i[1]) / sum(i[0]); }, "O", {"i", "j"});
  return te::create_func("softmax", {x}, {o});
}

Func layer_norm_program(int64_t rows, int64_t columns) {
  const te::Tensor x = te::placeholder({rows, columns}, kF32, "X");
  const te::Tensor gain = te::placeholder({columns}, kF32, "G"), bias = te::placeholder({columns}, kF32, "B");
  const te::ReduceAxis j = te::reduce_axis(columns, "j"), k = te::reduce_axis(columns, "k");
  const Expr share = constant(1.0 / static_cast<double>(columns), kF32);
  const te::Tensor a =
      te::compute({rows}, [&](const std::vector<Var>& i) { return te::sum(x(i[0], j), {j}); }, "A", {"i"});
  const auto centred = [&](const Expr& i, const Expr& c) { return x(i, c) - a(i) * share; };
  const te::Tensor v = te::compute(
      {rows}, [&](const std::vector<Var>& i) { return te::sum(centred(i[0], k) * centred(i[0], k), {k}); }, "V", {"i"});
  const te::Tensor o = te::compute(
      {rows, columns},
      [&](const std::vector<Var>& i) {
        return centred(i[0], i[1]) / math("sqrt", {v(i[0]) * share + constant(1e-5, kF32)}) * gain(i[1]) + bias(i[1]);
      },
      "O", {"i", "j"});
  return te::create_func("layer_norm", {x, gain, bias}, {o},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}});
}

// Every block of a row while the row is in L1, and vectors where nothing is summed up.
Result<> row_by_row(Schedule& s, const std::vector<std::string>& before) {
  FETTLE_TRY(const BlockRef out, get_block(s, {.name = "O"}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = out}));
  FETTLE_TRY_VOID(all_at(s, before, l[0]));
  return as_vectors(s, l[1]);
}

// A reduction's terms spread over the lanes of `vectors` vectors; the partial results joined by halves. The names of
// the blocks, in their order.
Result<std::vector<std::string>> over_lanes(Schedule& s, const std::string& name, int64_t vectors) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  const int64_t parts = vectors * lanes_of(s);
  FETTLE_TRY(const Blocks split, reformulate(s, {.block = block, .kind = "split_reduction", .numbers = {parts, 1}}));
  FETTLE_TRY_VOID(reformulate(s, {.block = split[1], .kind = "pairwise_reduction"}).map([](const Blocks&) {}));
  std::vector<std::string> names = {name + "_partial"};
  for (int64_t width = parts / 2; width >= 2; width /= 2) names.push_back(name + "_" + std::to_string(width));
  names.push_back(name);
  return names;
}

// What a reduction's blocks do with one row: the long one in vector accumulators, the rest in registers.
Result<> reduce_in_registers(Schedule& s, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY(const Loops l, get_loops(s, {.block = block}));  // row | lanes, steps
    FETTLE_TRY_VOID(in_registers(s, block));
    if (l.size() < 2) continue;
    LoopRef lanes = l[1];
    if (&name == &names.front()) {
      FETTLE_TRY_VOID(reorder(s, {.loops = {l[2], l[1]}}));
      // Short rows stay in registers, which are addressed by constants.
      FETTLE_TRY(const Stmt steps, s.loop(l[2]));
      if (*as_int(steps.as<ForNode>()->extent) <= 8) FETTLE_TRY_VOID(unroll(s, {.loop = l[2]}));
      FETTLE_TRY_VOID(as_vectors(s, lanes));
      FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = l[2]}).map([](BlockRef) {}));
    } else {
      FETTLE_TRY(const Stmt width, s.loop(lanes));
      const bool whole = *as_int(width.as<ForNode>()->extent) > lanes_of(s);
      FETTLE_TRY_VOID(whole ? as_vectors(s, lanes) : vectorize(s, {.loop = lanes}));
    }
  }
  return {};
}

Result<> softmax_in_lanes(Schedule& s) {
  FETTLE_TRY(const std::vector<std::string> m, over_lanes(s, "M", 1));
  FETTLE_TRY(const std::vector<std::string> sum, over_lanes(s, "S", 1));
  FETTLE_TRY(const BlockRef o, get_block(s, {.name = "O"}));
  FETTLE_TRY_VOID(reformulate(s, {.block = o, .kind = "shared_reciprocal"}).map([](const Blocks&) {}));
  std::vector<std::string> order = m;
  order.push_back("E");
  order.insert(order.end(), sum.begin(), sum.end());
  order.push_back("O_inverse");
  FETTLE_TRY_VOID(row_by_row(s, order));
  FETTLE_TRY_VOID(reduce_in_registers(s, m));
  FETTLE_TRY_VOID(reduce_in_registers(s, sum));
  FETTLE_TRY(const BlockRef inverse, get_block(s, {.name = "O_inverse"}));
  FETTLE_TRY_VOID(in_registers(s, inverse));
  FETTLE_TRY(const BlockRef e, get_block(s, {.name = "E"}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = e}));
  FETTLE_TRY_VOID(as_vectors(s, l.back()));
  return in_registers(s, e);
}

Result<> layer_norm_in_lanes(Schedule& s) {
  FETTLE_TRY(const std::vector<std::string> a, over_lanes(s, "A", 4));
  FETTLE_TRY(const std::vector<std::string> v, over_lanes(s, "V", 4));
  FETTLE_TRY(const BlockRef o, get_block(s, {.name = "O"}));
  FETTLE_TRY_VOID(reformulate(s, {.block = o, .kind = "shared_reciprocal"}).map([](const Blocks&) {}));
  std::vector<std::string> order = a;
  order.insert(order.end(), v.begin(), v.end());
  order.push_back("O_inverse");
  FETTLE_TRY(const Loops l, get_loops(s, {.block = o}));
  FETTLE_TRY_VOID(all_at(s, order, l[0]));
  FETTLE_TRY(const Loops parts, split(s, {.loop = l[1], .factors = {kInfer, 4, lanes_of(s)}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = parts[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[2]}));
  FETTLE_TRY_VOID(reduce_in_registers(s, a));
  FETTLE_TRY_VOID(reduce_in_registers(s, v));
  FETTLE_TRY(const BlockRef inverse, get_block(s, {.name = "O_inverse"}));
  return in_registers(s, inverse);
}

constexpr const char* kRowWhy =
    "All blocks finish a row before the next one begins, so that it is read from L1 but for the first time. Vectors "
    "where\n"
    "    elements are independent; sums and maxima still go through one number.";
constexpr const char* kLanesWhy =
    "Each lane of a few vectors adds up every so many elements, and at the end halves are added to halves. Several "
    "sums are\n"
    "    under way at once, and one division a row is left (shared_reciprocal). Results are reassociated, no more.";

}  // namespace

Subject softmax() {
  return {"softmax",
          "12 x 128 rows of 128, f32",
          softmax_program(12 * 128, 128),
          0,
          1e-5,
          {{"row by row", kRowWhy, [](Schedule& s) { return row_by_row(s, {"M", "E", "S"}); }},
           {"reductions over lanes", kLanesWhy, softmax_in_lanes}}};
}

Subject layer_norm() {
  return {"layer_norm",
          "128 rows of 768, f32",
          layer_norm_program(128, 768),
          0,
          1e-5,
          {{"row by row", kRowWhy, [](Schedule& s) { return row_by_row(s, {"A", "V"}); }},
           {"reductions over lanes", kLanesWhy, layer_norm_in_lanes}}};
}

}  // namespace fettle::examples
