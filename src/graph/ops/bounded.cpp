// Operators of Fettle's own, for ONNX's whose outputs' sizes depend on data: each has outputs as large as they can be,
// and a count of what is used of them, which becomes a size (late_sizes.h). The rest is zero. ONNX's take the part.

#include <fmt/format.h>

#include "graph/ops/heap.h"
#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;

Expr one_if(const Expr& condition) { return select(condition, Expr(1), Expr(0)); }
// Statements in a row for d in [0, n).
Stmt for_each_of(int64_t n, const std::function<Stmt(const Expr&)>& body) {
  std::vector<Stmt> all;
  for (int64_t d = 0; d < n; ++d) all.push_back(body(Expr(d)));
  return seq(std::move(all));
}

// --- BoundedNonZero(x) → (places: i64[rank, elements], count): the indices of what is not zero, in row-major order

Types non_zero_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  const Shape& x = shape_of(node, 0);
  return std::vector<TensorType>{{kI64, {static_cast<int64_t>(x.size()), element_count(x)}}, {kI64, {}}};
}
Tensors non_zero(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  const Expr places = size_expr(output_shape(node)[1]);
  return te::opaque(
      {{{Expr(static_cast<int64_t>(x.rank())), places}, kI64}, {{}, kI64}}, {},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const Buffer found = local_number("found");
        std::vector<Var> at;
        for (int d = 0; d < x.rank(); ++d) at.push_back(make_var("i" + std::to_string(d)));
        const Stmt noted = let_be("place", get(found), [&](const Expr& place) {
          std::vector<Stmt> indices;
          for (int d = 0; d < x.rank(); ++d)
            indices.push_back(store(out[0], {Expr(static_cast<int64_t>(d)), place}, at[static_cast<size_t>(d)]));
          return seq({if_then(inside(place, places), seq(std::move(indices))), set(found, place + Expr(1))});
        });
        Stmt search = if_then(x.dtype() == kBool ? x(at) : ne(x(at), constant(0, x.dtype())), noted);
        for (int d = x.rank(); d-- > 0;) search = make_for(at[static_cast<size_t>(d)], 0, x.dim(d), search);
        const Stmt clear = count_up("t", places, [&](const Expr& t) {
          return for_each_of(x.rank(), [&](const Expr& d) { return store(out[0], {d, t}, 0); });
        });
        return {seq({clear, set(found, 0), search, store(out[1], {}, get(found))}), {found}};
      },
      tensor_name(node));
}

// --- BoundedUnique(x: [n, m]) {sorted} → (first: i64[n], inverse: i64[n], counts: i64[n], count): where each row that
// differs is first met; which of them each row is; how often each is there. In their order, or as they are met.

Types unique_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 2));
  const TensorType list{kI64, {shape_of(node, 0)[0]}};
  return std::vector<TensorType>{list, list, list, {kI64, {}}};
}

// Positions of the rows in order.
te::Tensor order_of_rows(const te::Tensor& x, const std::string& name) {
  const Expr n = x.dim(0), m = x.dim(1);
  return te::opaque(
      {{{n}, kI64}}, {},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const Buffer column = local_number("column");
        const auto ahead = [&](const Buffer& verdict, const Expr& i, const Expr& j) {
          const auto decided = [&](bool first) { return seq({set(verdict, first ? 1 : 0), set(column, m)}); };
          const Stmt compared = let_be("c", get(column), [&](const Expr& c) {
            const Stmt elements = let_be("x", x(i, c), [&](const Expr& a) {
              return let_be("y", x(j, c), [&](const Expr& b) {
                return if_then(ordered_less(a, b), decided(true), if_then(ordered_less(b, a), decided(false)));
              });
            });
            return seq({set(column, c + Expr(1)), if_then(inside(c, m), elements)});
          });
          return seq({set(verdict, one_if(lt(i, j))), set(column, 0),
                      if_then(logical_and(inside(i, n), inside(j, n)), repeat_while(lt(get(column), m), compared))});
        };
        const Heap heap(out[0], n, [](const Expr& slot) { return Indices{slot}; }, ahead);
        std::vector<Buffer> locals = heap.locals();
        locals.push_back(column);
        return {seq({count_up("i", n, [&](const Expr& i) { return heap.put(i, i); }), heap.arrange(n), heap.sort(n)}),
                std::move(locals)};
      },
      name)[0];
}

// Groups of equal rows, in the rows' order.
std::vector<te::Tensor> groups_in_order(const te::Tensor& x, const std::string& name) {
  const te::Tensor order = order_of_rows(x, name + "_order");
  const Expr n = x.dim(0), m = x.dim(1);
  return te::opaque(
      {{{n}, kI64}, {{n}, kI64}, {{n}, kI64}, {{}, kI64}}, {},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const Buffer groups = local_number("groups"), differs = local_number("differs");
        const auto look = [&](const Expr& before, const Expr& here) {
          return count_up("c", m, [&](const Expr& c) {
            return let_be("x", x(before, c), [&](const Expr& a) {
              return let_be("y", x(here, c), [&](const Expr& b) {
                return if_then(logical_or(ordered_less(a, b), ordered_less(b, a)), set(differs, 1));
              });
            });
          });
        };
        const auto take = [&](const Expr& here) {
          return let_be("group", get(groups) - Expr(1), [&](const Expr& group) {
            return if_then(
                logical_and(inside(group, n), inside(here, n)),
                seq({if_then(ne(get(differs), Expr(0)), store(out[0], {group}, here)), store(out[1], {here}, group),
                     store(out[2], {group}, load(out[2], {group}) + Expr(1))}));
          });
        };
        const Stmt clear = count_up("t", n, [&](const Expr& t) {
          return seq({store(out[0], {t}, 0), store(out[1], {t}, 0), store(out[2], {t}, 0)});
        });
        const Stmt walk = count_up("t", n, [&](const Expr& t) {
          return let_be("before", order(max(t - Expr(1), Expr(0))), [&](const Expr& before) {
            return let_be("here", order(t), [&](const Expr& here) {
              return seq({set(differs, one_if(eq(t, Expr(0)))),
                          if_then(logical_and(inside(before, n), inside(here, n)), look(before, here)),
                          set(groups, get(groups) + get(differs)), take(here)});
            });
          });
        });
        return {seq({clear, set(groups, 0), walk, store(out[3], {}, get(groups))}), {groups, differs}};
      },
      name + "_groups");
}

Tensors unique(const Node& node, std::span<const te::Tensor> in) {
  const std::vector<te::Tensor> groups = groups_in_order(in[0], tensor_name(node));
  if (node.attrs.get_int("sorted", 1) != 0) return groups;
  // The same groups, in the order in which they are met.
  const te::Tensor &first = groups[0], &inverse = groups[1], &counts = groups[2];
  const Expr n = in[0].dim(0);
  std::vector<te::Tensor> renamed = te::opaque(
      {{{n}, kI64}, {{n}, kI64}, {{n}, kI64}}, {},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const Buffer met = local_number("met");
        const auto note = [&](const Expr& i, const Expr& group, const Expr& leader) {
          const Stmt fresh = let_be("name", get(met), [&](const Expr& name) {
            return seq(
                {set(met, name + Expr(1)), store(out[1], {i}, name),
                 if_then(inside(name, n), seq({store(out[0], {name}, i), store(out[2], {name}, counts(group))}))});
          });
          const Stmt known = if_then(inside(leader, n), store(out[1], {i}, load(out[1], {leader})));
          return if_then(eq(leader, i), fresh, known);
        };
        const Stmt clear = count_up("t", n, [&](const Expr& t) {
          return seq({store(out[0], {t}, 0), store(out[1], {t}, 0), store(out[2], {t}, 0)});
        });
        const Stmt walk = count_up("i", n, [&](const Expr& i) {
          return let_be("group", inverse(i), [&](const Expr& group) {
            return if_then(inside(group, n),
                           let_be("leader", first(group), [&](const Expr& leader) { return note(i, group, leader); }));
          });
        });
        return {seq({clear, set(met, 0), walk}), {met}};
      },
      tensor_name(node) + "_met");
  renamed.push_back(groups[3]);
  return renamed;
}

// --- BoundedNonMaxSuppression(boxes: [b, s, 4], scores: [b, c, s], most, iou_threshold, score_threshold)
// {center_point_box} → (selected: i64[b * c * most, 3], count): batch, class and box of the best boxes that overlap no
// better one of their class by more than the threshold, class by class, the best first

// Of one class at most.
Dim most_selected(const Node& node) {
  const Dim& boxes = shape_of(node, 0)[1];
  if (!has_input(node, 2)) return 0;
  const auto most = content_of(*node.inputs[2]);
  return most && most->size() == 1 ? min(max(most->front(), 0), boxes) : boxes;
}
Types suppression_type(const Node& node) {
  for (const size_t i : {0, 1}) FETTLE_TRY_VOID(check_rank(node, i, 3, 3));
  const Shape &boxes = shape_of(node, 0), &scores = shape_of(node, 1);
  FETTLE_TRY_VOID(common_dim(node, boxes[0], scores[0], "batches of boxes and scores"));
  FETTLE_TRY_VOID(common_dim(node, boxes[1], scores[2], "numbers of boxes and scores"));
  FETTLE_TRY_VOID(common_dim(node, boxes[2], 4, "numbers of a box"));
  const int64_t form = node.attrs.get_int("center_point_box", 0);
  if (form != 0 && form != 1) return bad_attribute(node, fmt::format("center_point_box = {}", form));
  for (size_t i = 2; i < 5; ++i)
    if (has_input(node, i)) note_equal(node, element_count(shape_of(node, i)), 1, "a limit is one number");
  return std::vector<TensorType>{{kI64, {scores[0] * scores[1] * most_selected(node), 3}}, {kI64, {}}};
}

// Whether two boxes, as four numbers each, overlap by more than the part `limit` of what both cover.
Stmt if_overlapping(const Indices& p, const Indices& q, bool center, const Expr& limit, const Stmt& then) {
  struct Edges {
    Expr low, high;
  };
  const auto edges = [&](const Indices& box, size_t d) -> Edges {
    if (center) {
      const Expr &middle = box[d], half = box[d + 2] / number(2, box[d]);
      return {middle - half, middle + half};
    }
    return {min(box[d], box[d + 2]), max(box[d], box[d + 2])};
  };
  const Edges px = edges(p, 0), py = edges(p, 1), qx = edges(q, 0), qy = edges(q, 1);
  const Expr none = number(0, limit);
  const auto area = [](const Edges& x, const Edges& y) { return (x.high - x.low) * (y.high - y.low); };
  return let_be("w", min(px.high, qx.high) - max(px.low, qx.low), [&](const Expr& w) {
    return let_be("h", min(py.high, qy.high) - max(py.low, qy.low), [&](const Expr& h) {
      return let_be("of_p", area(px, py), [&](const Expr& of_p) {
        return let_be("of_q", area(qx, qy), [&](const Expr& of_q) {
          const Expr both = w * h, all = of_p + of_q - both;
          const Expr meet = logical_and(logical_and(gt(w, none), gt(h, none)),
                                        logical_and(logical_and(gt(of_p, none), gt(of_q, none)), gt(all, none)));
          return if_then(logical_and(meet, gt(both / all, limit)), then);
        });
      });
    });
  });
}

Tensors suppression(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor &boxes = in[0], &scores = in[1];
  const bool center = node.attrs.get_int("center_point_box", 0) != 0;
  const Expr b = scores.dim(0), c = scores.dim(1), s = scores.dim(2), slots = size_expr(most_selected(node));
  const Expr most = has_tensor(in, 2) ? cast(kI64, scalar_of(in[2])) : Expr(0);
  const Expr limit = has_tensor(in, 3) ? scalar_of(in[3]) : constant(0, boxes.dtype());
  const te::BlockAxis batch{make_var("vb"), b}, of_class{make_var("vc"), c};
  const Expr vb = batch.var, vc = of_class.var;

  // For each class: places of boxes, how many of them; and a heap of those that are left.
  const std::vector<te::Tensor> picked = te::opaque(
      {{{b, c, slots}, kI64}, {{b, c}, kI64}, {{b, c, s}, kI64}}, {batch, of_class},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const Buffer left = local_number("left"), taken = local_number("taken"), other = local_number("other"),
                     keeps = local_number("keeps");
        const auto ahead = [&](const Buffer& verdict, const Expr& i, const Expr& j) {
          const Stmt compared = let_be("x", scores(vb, vc, i), [&](const Expr& x) {
            return let_be("y", scores(vb, vc, j), [&](const Expr& y) {
              return set(verdict, one_if(logical_or(lt(y, x), logical_and(eq(x, y), lt(i, j)))));
            });
          });
          return if_then(logical_and(inside(i, s), inside(j, s)), compared);
        };
        const Heap heap(out[2], s, [&](const Expr& slot) { return Indices{vb, vc, slot}; }, ahead, true);
        const Stmt candidates = count_up("i", s, [&](const Expr& i) {
          const Stmt taken_in = let_be("slot", get(left), [&](const Expr& slot) {
            return seq({if_then(inside(slot, s), heap.put(slot, i)), set(left, slot + Expr(1))});
          });
          return has_tensor(in, 4) ? if_then(gt(scores(vb, vc, i), scalar_of(in[4])), taken_in) : taken_in;
        });
        const auto box = [&](const Expr& i) {
          Indices numbers;
          for (const int64_t d : {0, 1, 2, 3}) numbers.push_back(boxes(vb, i, Expr(d)));
          return numbers;
        };
        const auto compare_with = [&](const Expr& best, const Expr& t) {
          return let_be("better", load(out[0], {vb, vc, t}), [&](const Expr& better) {
            return if_then(inside(better, s), if_overlapping(box(best), box(better), center, limit, set(keeps, 0)));
          });
        };
        const auto judge = [&](const Expr& best) {
          const Stmt compare = let_be("t", get(other), [&](const Expr& t) {
            return seq({set(other, t + Expr(1)), if_then(inside(t, slots), compare_with(best, t))});
          });
          const Stmt keep = let_be("place", get(taken), [&](const Expr& place) {
            return seq(
                {if_then(inside(place, slots), store(out[0], {vb, vc, place}, best)), set(taken, place + Expr(1))});
          });
          return seq({set(keeps, 1), set(other, 0),
                      repeat_while(logical_and(ne(get(keeps), Expr(0)), lt(get(other), get(taken))), compare),
                      if_then(ne(get(keeps), Expr(0)), keep)});
        };
        // The best leaves the heap.
        const Stmt next = let_be("last", get(left) - Expr(1), [&](const Expr& last) {
          const Stmt pop = let_be("best", heap.item(0), [&](const Expr& best) {
            return let_be("moved", heap.item(last), [&](const Expr& moved) {
              return seq({heap.sift(moved, 0, last), if_then(inside(best, s), judge(best))});
            });
          });
          return seq({set(left, last), if_then(inside(last, s), pop)});
        });
        const Expr more = logical_and(lt(Expr(0), get(left)), lt(get(taken), min(most, slots)));
        const Stmt all = seq({count_up("t", slots, [&](const Expr& t) { return store(out[0], {vb, vc, t}, 0); }),
                              count_up("t", s, [&](const Expr& t) { return heap.put(t, 0); }), set(left, 0), candidates,
                              let_be("n", min(get(left), s), [&](const Expr& n) { return heap.arrange(n); }),
                              set(taken, 0), repeat_while(more, next), store(out[1], {vb, vc}, get(taken))});
        std::vector<Buffer> locals = heap.locals();
        locals.insert(locals.end(), {left, taken, other, keeps});
        return {all, std::move(locals)};
      },
      tensor_name(node) + "_classes");

  return te::opaque(
      {{{size_expr(output_shape(node)[0]), 3}, kI64}, {{}, kI64}}, {},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const Buffer found = local_number("found");
        const Expr places = size_expr(output_shape(node)[0]);
        const auto note = [&](const Expr& i, const Expr& j, const Expr& t) {
          return let_be("place", get(found), [&](const Expr& place) {
            return seq({if_then(inside(place, places), seq({store(out[0], {place, 0}, i), store(out[0], {place, 1}, j),
                                                            store(out[0], {place, 2}, picked[0](i, j, t))})),
                        set(found, place + Expr(1))});
          });
        };
        const Stmt clear = count_up("t", places, [&](const Expr& t) {
          return for_each_of(3, [&](const Expr& d) { return store(out[0], {t, d}, 0); });
        });
        const Stmt walk = count_up("i", b, [&](const Expr& i) {
          return count_up("j", c, [&](const Expr& j) {
            return count_up("t", slots, [&](const Expr& t) { return if_then(lt(t, picked[1](i, j)), note(i, j, t)); });
          });
        });
        return {seq({clear, set(found, 0), walk, store(out[1], {}, get(found))}), {found}};
      },
      tensor_name(node));
}

// --- ONNX's operators: everything at its largest, then the part that is meant

using Values = Result<std::vector<Value*>>;

/// A node whose last output counts what is used of the others along an axis.
class Selected {
 public:
  Selected(passes::Lowering& g, std::string_view op, std::vector<Value*> inputs, Attrs attrs, size_t n_outputs,
           int64_t axis)
      : g_(g), all_(g.many(op, std::move(inputs), std::move(attrs), n_outputs)), axis_(axis) {
    const Dim most = all_[0]->shape()[static_cast<size_t>(axis)];
    count_ = g.sizes_of(all_.back(), 0, most.max()).front();
  }

  Value* all(size_t output) const { return all_[output]; }
  Value* part(size_t output) const { return g_.slice(all_[output], axis_, 0, count_); }

 private:
  passes::Lowering& g_;
  std::vector<Value*> all_;
  int64_t axis_;
  Dim count_;
};

Value* flat(passes::Lowering& g, Value* x) { return g.reshape(x, {element_count(x->shape())}); }
// The axis; of a flat list, where the node has none.
Result<int64_t> selected_axis(const Node& node) {
  return axis_of(node, 0, node.attrs.has("axis") ? rank_of(node, 0) : 1);
}

// NonZero(x)  →  places, count = BoundedNonZero(x);  Slice(places) {axes=[1], ends=[count]}
Value* places_of(passes::Lowering& g, Value* x) { return Selected(g, "BoundedNonZero", {x}, {}, 2, 1).part(0); }
Values lower_non_zero(passes::Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  return std::vector{places_of(g, x->rank() == 0 ? flat(g, x) : x)};
}

// Compress(x, which) {axis}  →  Gather(x, the places of which) {axis}
// What there is no condition for is not taken, nor a condition for which there is nothing.
Values lower_compress(passes::Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 1, 1, 1));
  FETTLE_TRY(const int64_t axis, selected_axis(node));
  Value *x = node.attrs.has("axis") ? node.inputs[0] : flat(g, node.inputs[0]), *which = node.inputs[1];
  const Dim& extent = x->shape()[static_cast<size_t>(axis)];
  if ((which->shape()[0] - extent).max() > 0) which = g.slice(which, 0, 0, extent);
  Value* places = g("Squeeze", {places_of(g, which)}, {{{"axes", std::vector<int64_t>{0}}}});
  return std::vector{g("Gather", {x, places}, {{{"axis", axis}}})};
}

// Unique(x) {axis, sorted}  →  first, inverse, counts, count = BoundedUnique(rows of x);  Gather(x, part of first)
Values lower_unique(passes::Lowering& g, const Node& node) {
  FETTLE_TRY(const int64_t axis, selected_axis(node));
  Value *x = node.inputs[0], *rows = nullptr;
  if (!node.attrs.has("axis")) {
    x = flat(g, x);
    rows = g.unsqueeze(x, {1});
  } else {
    std::vector<int64_t> perm = first_numbers(x->shape().size());
    std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
    rows = g("Flatten", {axis == 0 ? x : g.transpose(x, std::move(perm))}, {{{"axis", int64_t{1}}}});
  }
  if (x->dtype() == kBool) rows = g.cast(rows, kU8);  // which has an order
  const Selected rows_that_differ(g, "BoundedUnique", {rows}, {{{"sorted", node.attrs.get_int("sorted", 1)}}}, 4, 0);
  Value* first = rows_that_differ.part(0);
  return std::vector{g("Gather", {x, first}, {{{"axis", axis}}}), first, rows_that_differ.all(1),
                     rows_that_differ.part(2)};
}

// NonMaxSuppression(…)  →  selected, count = BoundedNonMaxSuppression(…);  Slice(selected)
Values lower_suppression(passes::Lowering& g, const Node& node) {
  Attrs attrs;
  attrs.set("center_point_box", node.attrs.get_int("center_point_box", 0));
  return std::vector{Selected(g, "BoundedNonMaxSuppression", node.inputs, std::move(attrs), 2, 0).part(0)};
}

// Strings are in order as texts.
bool is_of_strings(const Node& node) { return dtype_of(node, 0).is_string(); }
std::vector<int64_t> unique_numbers(const Node& node) { return {node.attrs.get_int("sorted", 1)}; }
constexpr HostRule unique_strings_rule{
    .function = "fettle_host_string_unique", .applies = is_of_strings, .numbers = unique_numbers};

constexpr OpDef bounded_defs[] = {
    passes::composite<lower_non_zero>("NonZero", 1),
    passes::composite<lower_compress>("Compress", 2),
    passes::composite<lower_unique>("Unique", 1, -1),
    passes::composite<lower_suppression>("NonMaxSuppression", {2, 5}),
    define(kOpaque, "BoundedNonZero", 1, non_zero_type, non_zero, {.n_outputs = 2}),
    define(kOpaque, "BoundedUnique", 1, unique_type, unique, {.n_outputs = 4, .host = &unique_strings_rule}),
    define(kOpaque, "BoundedNonMaxSuppression", {2, 5}, suppression_type, suppression, {.n_outputs = 2}),
};

}  // namespace

extern constinit const OpFamily bounded_ops{"bounded", bounded_defs};

}  // namespace fettle
