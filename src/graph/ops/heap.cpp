#include "graph/ops/heap.h"

#include "ir/compare.h"

namespace fettle::ops {

Buffer local_number(const std::string& name) { return make_buffer(name, {1}, kI64, kScopeRegister); }
Expr get(const Buffer& number) { return load(number, {0}); }
Stmt set(const Buffer& number, const Expr& value) { return store(number, {0}, value); }
Stmt let_be(const char* name, const Expr& value, const std::function<Stmt(const Expr&)>& then) {
  const Var var = make_var(name, value.dtype());
  return let(var, value, then(var));
}
Stmt count_up(const char* name, const Expr& extent, const std::function<Stmt(const Expr&)>& body) {
  const Var var = make_var(name);
  return make_for(var, 0, extent, body(var));
}
Stmt repeat_while(const Expr& condition, const Stmt& body) { return Stmt(make_ref<WhileNode>(condition, body)); }

Expr ordered_less(const Expr& a, const Expr& b) {
  if (!a.dtype().is_float()) return lt(a, b);
  const auto is_nan = [](const Expr& x) { return call("isnan", {x}, kBool); };
  return logical_or(lt(a, b), logical_and(is_nan(b), logical_not(is_nan(a))));
}

Heap::Heap(Buffer buffer, Expr slots, Place place, Ahead ahead, bool root_is_first)
    : buffer_(std::move(buffer)),
      hole_(local_number("hole")),
      going_(local_number("going")),
      verdict_(local_number("verdict")),
      slots_(std::move(slots)),
      place_(std::move(place)),
      ahead_(std::move(ahead)),
      root_is_first_(root_is_first) {}

Stmt Heap::ask(const Expr& i, const Expr& j) const { return seq({set(verdict_, 0), ahead_(verdict_, i, j)}); }

Stmt Heap::if_ahead(const Expr& i, const Expr& j, const Stmt& then) const {
  return seq({ask(i, j), if_then(ne(get(verdict_), Expr(0)), then)});
}

Stmt Heap::sift(const Expr& position, const Expr& start, const Expr& limit) const {
  // Whether the second goes nearer to the root.
  const auto ask_nearer = [&](const Expr& first, const Expr& second) {
    return root_is_first_ ? ask(second, first) : ask(first, second);
  };
  const auto below = [&](const Expr& slot) {
    const Expr known = lt(slot, slots_);
    return structural_equal(limit, slots_) ? known : logical_and(lt(slot, limit), known);
  };
  const auto step = [&](const Expr& p, const Expr& left) {
    const Stmt of_children = let_be("a", item(left), [&](const Expr& a) {
      return let_be("b", item(left + Expr(1)), [&](const Expr& b) { return ask_nearer(a, b); });
    });
    return seq({set(verdict_, 0), if_then(below(left + Expr(1)), of_children),
                let_be("child", left + get(verdict_), [&](const Expr& child) {
                  const Stmt moves = let_be("c", item(child), [&](const Expr& c) {
                    return seq({ask_nearer(position, c), if_then(ne(get(verdict_), Expr(0)),
                                                                 seq({put(p, c), set(hole_, child), set(going_, 1)}))});
                  });
                  return if_then(logical_and(le(Expr(0), child), below(child)), moves);
                })});
  };
  const Stmt down = let_be("p", get(hole_), [&](const Expr& p) {
    return let_be("left", p * Expr(2) + Expr(1),
                  [&](const Expr& left) { return if_then(logical_and(le(Expr(0), p), below(left)), step(p, left)); });
  });
  return seq(
      {set(hole_, start), set(going_, 1), repeat_while(ne(get(going_), Expr(0)), seq({set(going_, 0), down})),
       let_be("place", get(hole_), [&](const Expr& p) { return if_then(inside(p, slots_), put(p, position)); })});
}

Stmt Heap::arrange(const Expr& limit) const {
  return count_up("t", floordiv(limit, Expr(2)), [&](const Expr& t) {
    return let_be("start", floordiv(limit, Expr(2)) - Expr(1) - t, [&](const Expr& start) {
      return let_be("moved", item(start), [&](const Expr& moved) { return sift(moved, start, limit); });
    });
  });
}

Stmt Heap::sort(const Expr& limit) const {
  return count_up("t", max(limit - Expr(1), Expr(0)), [&](const Expr& t) {
    return let_be("last", limit - Expr(1) - t, [&](const Expr& last) {
      return let_be("moved", item(last), [&](const Expr& moved) {
        return seq({let_be("root", item(0), [&](const Expr& root) { return put(last, root); }), sift(moved, 0, last)});
      });
    });
  });
}

}  // namespace fettle::ops
