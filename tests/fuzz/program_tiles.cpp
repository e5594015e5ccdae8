// Programs of the sizes that GPUs' units work on: products of halves, rows that many threads reduce.
#include "tests/fuzz/program_maker.h"

namespace fettle::fuzz {

int64_t Maker::tile_extent(int64_t at_most) {
  static const std::vector<int64_t> kExtents = {8, 16, 16, 24, 32, 32, 40, 48, 64, 64, 72, 96, 128, 160};
  for (;;)
    if (const int64_t e = one_of(kExtents); e <= at_most) return e;
}

void Maker::tile_product_stage() {
  const std::vector<DType> types = {kF16, kF16, kF16, kBF16, kF32, kF32};
  const DType factor = one_of(types);
  int64_t m, n, k;
  const bool fills_units = chance(80);  // of tensor units
  do {
    m = tile_extent(128);
    n = tile_extent(128);
    k = tile_extent(160);
  } while (m * n * k > 160000 || (fills_units && (m % 16 != 0 || k % 16 != 0)));
  const bool transposed = chance(25);
  type_ = factor;
  const Tensor a = input({m, k}), b = input(transposed ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n});
  type_ = kF32;
  limit_ = 0x1p22;
  const std::vector<Iter> list{{make_var("vi"), m, IterKind::kSpatial},
                               {make_var("vj"), n, IterKind::kSpatial},
                               {make_var("vk"), k, IterKind::kReduce}};
  const Expr vi(list[0].var), vj(list[1].var), vk(list[2].var);
  const auto factor_of = [&](const Tensor& t, std::vector<Expr> at) {
    const Expr value = load(t.buffer, std::move(at));
    return factor == kF32 ? value : cast(kF32, value);
  };
  const Expr x = factor_of(a, {vi, vk}),
             y = factor_of(b, transposed ? std::vector<Expr>{vj, vk} : std::vector<Expr>{vk, vj});
  const std::string name = fresh_name("T");
  const Buffer out = make_buffer(name, shape_of({m, n}), kF32);
  add_block(name, list, out, {vi, vj}, load(out, {vi, vj}) + x * y, number(0));
  internal_.push_back(out);
  made_.push_back({out, {m, n}, kLargest * kLargest * static_cast<double>(k)});
}

void Maker::tile_rows_stage() {
  type_ = kF32;
  limit_ = 0x1p22;
  made_.push_back(input({tile_extent(40), one_of(std::vector<int64_t>{32, 64, 96, 100, 128, 256, 384})}));
}

void Maker::half_stage(DType half) {
  const Tensor t = made_.back();
  const auto list = iters(t.extents);
  const double most = half == kF16 ? 1024 : 128;
  Expr value = load(t.buffer, vars(list));
  if (t.bound > most) value = min(max(value, number(-100)), number(100));
  type_ = half;
  limit_ = most;
  define(list, t.extents, vars(list), cast(half, value), std::min(t.bound, 100.0));
}

Program Maker::make_tiles() {
  if (chance(65))
    tile_product_stage();
  else
    tile_rows_stage();
  const int stages = between(0, 2);
  for (int i = 0; i < stages; ++i) {
    switch (between(0, 5)) {
      case 0:
      case 1:
        elementwise_stage();
        break;
      case 2:
        bias_stage();
        break;
      case 3:
        broadcast_stage();
        break;
      case 4:
        transpose_stage();
        break;
      default:
        reduction_stage();
        break;
    }
  }
  if (internal_.empty()) reduction_stage();
  if (chance(35)) half_stage(chance(70) ? kF16 : kBF16);
  if (internal_.empty()) stage();
  return finish();
}

Program random_tile_program(uint64_t seed) { return Maker(seed).make_tiles(); }

}  // namespace fettle::fuzz
