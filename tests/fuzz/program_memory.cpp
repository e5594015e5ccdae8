// Buffers that several nests write.
#include "tests/fuzz/program_maker.h"

namespace fettle::fuzz {

void Maker::parts_stage() {
  const Tensor t = some();
  if (t.extents[0] < 0) return;
  const Tensor other = like(t.extents);
  std::vector<int64_t> extents = t.extents;
  extents[0] *= 2;
  if (points(extents) > 3000) return;
  const std::string name = fresh_name("T");
  const Buffer out = make_buffer(name, shape_of(extents), type_);
  for (int part = 0; part < 2; ++part) {
    const Tensor& from = part ? other : t;
    const auto list = iters(t.extents);
    std::vector<Expr> at = vars(list);
    if (part) at[0] = at[0] + t.extents[0];
    add_block(name + (part ? "_second" : ""), list, out, at, load(from.buffer, vars(list)));
  }
  internal_.push_back(out);
  made_.push_back({out, extents, std::max(t.bound, other.bound)});
}

void Maker::in_place_stage() {
  const Tensor t = some();
  double bound;
  const auto first = iters(t.extents), second = iters(t.extents);
  const Expr x = read(t, vars(first), 4, bound);
  const std::string name = fresh_name("T");
  const Buffer out = make_buffer(name, shape_of(t.extents), type_);
  add_block(name, first, out, vars(first), x);
  internal_.push_back(out);
  made_.push_back({out, t.extents, bound * 2 + 1});
  if (chance(50)) {  // somebody reads it in between
    const auto between = iters(t.extents);
    define(between, t.extents, vars(between), load(out, vars(between)) + number(1), bound + 1);
  }
  add_block(name + "_update", second, out, vars(second), load(out, vars(second)) * number(2) + number(1));
}

void Maker::join_last_two() {
  const Stmt second = nests_.back();
  nests_.pop_back();
  const auto* a = nests_.back().as<ForNode>();
  const auto* b = second.as<ForNode>();
  const Stmt body = seq({a->body, substitute(b->body, {{b->var.get(), Expr(a->var)}})});
  nests_.back() = make_for(a->var, a->min, a->extent, body);
}

void Maker::steps_stage() {
  const Tensor x = some();
  if (x.extents.size() < 2) return;
  const std::vector<int64_t> extents(x.extents.begin() + 1, x.extents.end());  // of one step
  double bound;
  const Buffer p = make_buffer(fresh_name("T"), shape_of(extents), type_);
  {
    auto list = iters(x.extents);
    list[0].kind = IterKind::kScan;
    const std::vector<Expr> at = vars(list);
    add_block(p->name, list, p, {at.begin() + 1, at.end()}, read(x, at, 8, bound));
    internal_.push_back(p);
  }
  const Buffer b = make_buffer(fresh_name("T"), shape_of(extents), type_);
  const bool reads_last_step = chance(60), twice = chance(40);
  const auto make_b = [&] {
    const auto list = iters(extents);
    add_block(b->name, list, b, vars(list), load(p, vars(list)) + number(1));
    const Stmt nest = nests_.back();
    nests_.pop_back();
    const auto* loop = nests_.back().as<ForNode>();
    nests_.back() = make_for(loop->var, loop->min, loop->extent, seq({loop->body, nest}));
    internal_.push_back(b);
  };
  const auto read_b = [&](bool last_step) {
    const auto list = iters(x.extents);
    const Expr t(list[0].var);
    std::vector<Expr> at = vars(list);
    at.erase(at.begin());
    if (chance(50)) at[0] = max(at[0] - 1, Expr(0));
    const Expr value = load(b, at);
    define(list, x.extents, vars(list), last_step ? select(lt(Expr(0), t), value, number(0)) : value, bound + 1);
    join_last_two();
  };
  if (reads_last_step) read_b(true);
  make_b();
  if (!reads_last_step || twice) read_b(false);
  const Tensor made = made_.back();
  const auto last = iters(made.extents);
  const Expr value = read(made, vars(last), 4, bound);
  define(last, made.extents, vars(last), value * number(2) + number(1), bound * 2 + 1);
}

Tensor Maker::copy_of(const Tensor& t, double growth) {
  double bound;
  const auto list = iters(t.extents);
  const Expr x = read(t, vars(list), growth, bound);
  define(list, t.extents, vars(list), x, bound);
  return made_.back();
}

Tensor Maker::stencil_of(const Tensor& t) {
  const auto list = iters(t.extents);
  std::vector<Expr> before = vars(list);
  const Expr here = load(t.buffer, before);
  const bool later = chance(50);
  const Expr at = before[0];
  before[0] = later ? at + 1 : at - 1;
  const Expr inside = later ? lt(at + 1, size_of(t.extents[0])) : le(Expr(1), at);
  define(list, t.extents, vars(list), here + select(inside, load(t.buffer, before), number(0)), t.bound * 2);
  return made_.back();
}

void Maker::order_stage() {
  switch (between(0, 3)) {
    case 0:
      return updated_by_its_stencil();
    case 1:
      return updated_beside_a_reader();
    case 2:
      return begins_with_memory();
    default:
      return updated_in_part();
  }
}

/// T = X; P[i] = T[i] + T[i - 1]; T = 2 T + P; Q = T + 1
void Maker::updated_by_its_stencil() {
  const Tensor t = copy_of(some(), 16), p = stencil_of(t);
  const auto list = iters(t.extents), last = iters(t.extents);
  add_block(fresh_name("T"), list, t.buffer, vars(list),
            load(t.buffer, vars(list)) * number(2) + load(p.buffer, vars(list)));
  define(last, t.extents, vars(last), load(t.buffer, vars(last)) + number(1), t.bound * 4 + 1);
}

/// T = X; P[i] = T[i] + T[i - 1]; for i: [Q[i] = P[i] + 1; T[i] = 2 T[i] + 1]; S = T + Q
void Maker::updated_beside_a_reader() {
  const Tensor t = copy_of(some(), 16), p = stencil_of(t);
  const auto first = iters(t.extents), second = iters(t.extents), last = iters(t.extents);
  const auto read_p = [&] {
    define(first, t.extents, vars(first), load(p.buffer, vars(first)) + number(1), p.bound + 1);
  };
  const auto update = [&] {
    add_block(fresh_name("T"), second, t.buffer, vars(second), load(t.buffer, vars(second)) * number(2) + number(1));
  };
  const bool reads_first = chance(60);
  if (reads_first) read_p();
  update();
  if (!reads_first) read_p();
  join_last_two();
  const Tensor q = made_.back();
  define(last, t.extents, vars(last), load(t.buffer, vars(last)) + load(q.buffer, vars(last)), t.bound * 4 + 4);
}

/// B = X; T[i] = B[i] to begin with, then += Y[i, k]
void Maker::begins_with_memory() {
  const Tensor t = some();
  if (value_of(t.extents[0]) * 7 > 300) return;
  const Tensor begin = copy_of(t, 16);
  const int64_t count = between(2, 7);
  std::vector<int64_t> extents = t.extents;
  extents.push_back(count);
  if (points(extents) > 3000) return;
  const Tensor y = input(extents);
  auto list = iters(t.extents);
  const std::vector<Expr> at = vars(list);
  list.push_back({make_var("vk"), count, IterKind::kReduce});
  double bound;
  const Expr x = read(y, vars(list), 8, bound);
  if (begin.bound + bound * static_cast<double>(count) > limit_) return;
  const std::string name = fresh_name("T");
  const Buffer out = make_buffer(name, shape_of(t.extents), type_);
  add_block(name, list, out, at, load(out, at) + x, load(begin.buffer, at));
  internal_.push_back(out);
  made_.push_back({out, t.extents, begin.bound + bound * static_cast<double>(count)});
}

/// T = X; if i < 5: T = Y; Q = T + 1
void Maker::updated_in_part() {
  const Tensor t = copy_of(some(), 4), other = like(t.extents);
  const auto list = iters(t.extents), last = iters(t.extents);
  const size_t d = r_.below(list.size());
  const Expr i(list[d].var);
  const int64_t part = value_of(t.extents[d]) / 2 + 1;
  const Expr condition = chance(70) ? lt(i, Expr(part)) : eq(floormod(i, 2), Expr(0));
  double bound;
  const Expr y = read(other, vars(list), 4, bound);
  add_block(fresh_name("T"), list, t.buffer, vars(list), y, nullptr, condition);
  define(last, t.extents, vars(last), load(t.buffer, vars(last)) + number(1), std::max(t.bound, bound) + 1);
}

void Maker::scatter_stage() {
  const int count = between(2, 6);
  const Tensor t = copy_of(some(), 16);
  std::vector<int64_t> extents = t.extents;
  extents[0] = count;
  const Tensor y = input(extents);
  const Buffer index = indices({count});
  auto list = iters(extents);
  list[0].kind = IterKind::kScan;
  std::vector<Expr> at = vars(list);
  double bound;
  const Expr x = read(y, at, 8, bound);
  const Var place = make_var("place");
  at[0] = place;
  const Expr inside = logical_and(le(Expr(0), place), lt(place, size_of(t.extents[0])));
  add_block(fresh_name("T"), list, t.buffer, at, x - load(t.buffer, at), nullptr, inside,
            {place, load(index, {Expr(list[0].var)})});
  const double largest = t.bound + bound * count;
  if (chance(50)) {
    const auto last = iters(t.extents);
    define(last, t.extents, vars(last), load(t.buffer, vars(last)) + number(1), largest + 1);
  }
}

}  // namespace fettle::fuzz
