// Reductions, products, convolutions, scans.
#include "tests/fuzz/program_maker.h"

namespace fettle::fuzz {

void Maker::reduce(const std::vector<Iter>& list, const std::vector<int64_t>& extents, const std::vector<Expr>& at,
                   Expr x, double bound, int64_t count) {
  const std::string name = fresh_name("T");
  const Buffer out = make_buffer(name, shape_of(extents), type_);
  const Expr old = load(out, at);
  const bool sum = bound * static_cast<double>(count) <= limit_ && !chance(20);
  Expr update, init = number(0);
  if (sum) {
    update = old + x;
    bound *= static_cast<double>(count);
  } else {
    const bool greatest = chance(50);
    const BinaryOp op = !greatest ? BinaryOp::kMin : chance(50) ? BinaryOp::kMax : BinaryOp::kOrderedMax;
    update = accumulated(op, old, x);
    const double far = type_.is_float() ? INFINITY : 0;
    if (type_.is_float()) {
      init = float_imm(greatest ? -far : far, type_);
    } else if (type_.code == TypeCode::kUInt) {
      init = int_imm(greatest ? 0 : (int64_t{1} << type_.bits) - 1, type_);
    } else {
      const int64_t lowest = INT64_MIN >> (64 - type_.bits);
      init = int_imm(greatest ? lowest : ~lowest, type_);
    }
  }
  add_block(name, list, out, at, update, init);
  internal_.push_back(out);
  made_.push_back({out, extents, bound});
}

void Maker::reduction_stage() {
  const Tensor t = some();
  if (t.extents.size() == 1 && value_of(t.extents[0]) == 1) return;
  // At least one dimension goes; a result of rank zero has one element.
  std::vector<bool> gone(t.extents.size());
  bool any = false;
  for (size_t d = 0; d < gone.size(); ++d) any |= (gone[d] = chance(45));
  if (!any) gone.back() = true;
  std::vector<Iter> list;
  std::vector<int64_t> extents;
  std::vector<Expr> at, from;
  int64_t count = 1;
  for (size_t d = 0; d < gone.size(); ++d) {
    list.push_back({make_var(fmt::format("v{}", (gone[d] ? "kpqr" : "ijlm")[d])), t.extents[d],
                    gone[d] ? IterKind::kReduce : IterKind::kSpatial});
    from.push_back(Expr(list.back().var));
    if (gone[d]) {
      count *= value_of(t.extents[d]);
    } else {
      extents.push_back(t.extents[d]);
      at.push_back(Expr(list.back().var));
    }
  }
  if (extents.empty()) {
    extents.push_back(1);
    list.insert(list.begin(), {make_var("vu"), 1, IterKind::kSpatial});
    at.push_back(Expr(list[0].var));
  }
  double bound;
  Expr x = read(t, from, std::min(static_cast<double>(count), limit_), bound);
  if (chance(30)) x = elementwise(x, bound, list);
  if (bound > limit_) return;
  reduce(list, extents, at, x, bound, count);
}

void Maker::shared_sum_stage() {
  reduction_stage();
  const Tensor t = made_.back();
  std::vector<int64_t> extents = t.extents;
  const bool neighbours = chance(40);
  if (!neighbours) extents.push_back(between(2, 5));
  if (points(extents) > 3000) return;
  const auto list = iters(extents), last = iters(extents);
  std::vector<Expr> at = vars(list);
  if (!neighbours) at.pop_back();
  double bound, second;
  Expr value = read(t, at, 8, bound);
  if (neighbours) {
    at[0] = min(at[0] + 1, size_of(extents[0]) - 1);
    value = value + read(t, at, 8, second);
  } else {
    value = value + read(input({extents.back()}), {Expr(list.back().var)}, 8, second);
  }
  bound += second;
  define(list, extents, vars(list), value, bound);
  const Tensor made = made_.back();
  value = read(made, vars(last), 4, bound);
  define(last, extents, vars(last), value * number(2) + number(1), bound * 2 + 1);
}

void Maker::product_stage() {
  const Tensor t = some();
  if (t.extents.size() < 2 || t.extents.size() > 3) return;
  const bool batched = t.extents.size() == 3;
  const int64_t m = t.extents[t.extents.size() - 2], k = t.extents.back(), n = extent(20);
  if (points(t.extents) * n > 6000 || k < 0) return;
  std::vector<int64_t> second = chance(50) ? std::vector<int64_t>{k, n} : std::vector<int64_t>{n, k};
  const bool transposed = second[0] != k || second[1] != n;
  if (batched) second.insert(second.begin(), t.extents[0]);
  const Tensor w = like(second);
  std::vector<Iter> list;
  if (batched) list.push_back({make_var("vb"), t.extents[0], IterKind::kSpatial});
  list.push_back({make_var("vi"), m, IterKind::kSpatial});
  list.push_back({make_var("vj"), n, IterKind::kSpatial});
  list.push_back({make_var("vk"), k, IterKind::kReduce});
  const auto with_batch = [&](const char* names) {
    std::vector<Expr> at;
    if (batched) at.push_back(Expr(list[0].var));
    for (const char* c = names; *c; ++c)
      for (const Iter& i : list)
        if (i.var->name[1] == *c) at.push_back(Expr(i.var));
    return at;
  };
  double a, b;
  const double growth = std::sqrt(static_cast<double>(k) * 4);
  Expr x = read(t, with_batch("ik"), growth * growth, a),
       y = read(w, with_batch(transposed ? "jk" : "kj"), growth * std::max(a, 1.0), b);
  if (a * b > limit_) return;
  if (chance(15)) std::swap(list[list.size() - 1], list[list.size() - 2]);  // k before j
  std::vector<int64_t> extents{m, n};
  if (batched) extents.insert(extents.begin(), t.extents[0]);
  reduce(list, extents, with_batch("ij"), x * y, a * b, k);
}

void Maker::convolution_stage() {
  const Tensor t = some();
  if (t.extents.size() != 2 || t.extents[0] < 4) return;
  const int64_t taps = between(2, 3), stride = between(1, 2), channels = t.extents[1], outputs = extent(9);
  const int64_t rows = (t.extents[0] - taps) / stride + 1;
  if (rows * taps * channels * outputs > 6000) return;
  const Tensor w = like({taps, channels, outputs});
  std::vector<Iter> list{{make_var("vi"), rows, IterKind::kSpatial},
                         {make_var("vo"), outputs, IterKind::kSpatial},
                         {make_var("vr"), taps, IterKind::kReduce},
                         {make_var("vc"), channels, IterKind::kReduce}};
  double a, b;
  const Expr vi(list[0].var), vo(list[1].var), vr(list[2].var), vc(list[3].var);
  const double count = static_cast<double>(taps * channels);
  const Expr x = read(t, {vi * stride + vr, vc}, count, a), y = read(w, {vr, vc, vo}, count * std::max(a, 1.0), b);
  if (a * b > limit_) return;
  reduce(list, {rows, outputs}, {vi, vo}, x * y, a * b, taps * channels);
}

void Maker::scan_stage() {
  const Tensor t = some();
  auto list = iters(t.extents);
  list[0].kind = IterKind::kScan;
  double bound;
  const double count = static_cast<double>(value_of(t.extents[0]));
  const std::vector<Expr> here = vars(list);
  const Expr x = read(t, here, count, bound);
  if (bound * count > limit_) return;
  const std::string name = fresh_name("T");
  const Buffer out = make_buffer(name, shape_of(t.extents), type_);
  std::vector<Expr> before = here;
  before[0] = max(here[0] - 1, Expr(0));
  add_block(name, list, out, here, select(lt(Expr(0), here[0]), load(out, before), number(0)) + x);
  internal_.push_back(out);
  made_.push_back({out, t.extents, bound * count});
}

void Maker::triangle_stage() {
  const Tensor t = some();
  const int64_t k = t.extents.back();
  if (k < 0) return;
  const int64_t rows = extent(13);
  std::vector<Iter> list{{make_var("vi"), rows, IterKind::kSpatial}};
  std::vector<int64_t> extents{rows};
  std::vector<Expr> from;
  for (size_t d = 0; d + 1 < t.extents.size(); ++d) {
    list.push_back({make_var(fmt::format("v{}", "jlm"[d])), t.extents[d], IterKind::kSpatial});
    extents.push_back(t.extents[d]);
    from.push_back(Expr(list.back().var));
  }
  if (points(extents) * k > 6000) return;
  list.push_back({make_var("vk"), k, IterKind::kReduce});
  const Expr vi(list[0].var), vk(list.back().var);
  from.push_back(vk);
  std::vector<Expr> at;
  for (size_t d = 0; d + 1 < list.size(); ++d) at.push_back(Expr(list[d].var));
  double bound;
  const Expr x = read(t, from, static_cast<double>(k), bound);
  const Expr guard = chance(50) ? le(vk, vi) : lt(vi + vk, Expr(k));
  if (bound * static_cast<double>(k) > limit_) return;
  reduce(list, extents, at, select(guard, x, number(0)), bound, k);
}

}  // namespace fettle::fuzz
