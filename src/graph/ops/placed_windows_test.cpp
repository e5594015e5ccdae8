// General gathers and scatters, against StableHLO's definitions in plain C++.

#include <numeric>
#include <set>

#include "graph/ops/general_testing.h"

namespace fettle {
namespace {

class PlacedWindows : public GeneralOps {
 protected:
  /// Which dims are which, and the shapes of all.
  struct Instance {
    Ints operand, indices, windowed, sizes;  // windowed: what is gathered, or the updates
    Ints window_dims, collapsed, batch, index_batch, map;
    int64_t vector_dim = 0;
    Attrs attrs() const {
      return {{"window_dims", window_dims}, {"collapsed_dims", collapsed},
              {"batch_dims", batch},        {"index_batch_dims", index_batch},
              {"index_map", map},           {"index_vector_dim", vector_dim}};
    }
    bool in(const Ints& list, int64_t d) const { return std::ranges::count(list, d) > 0; }
    /// Where an element of what is windowed begins and lies in its window, of the operand.
    void split(const Ints& at, const Array& index, Ints& start, Ints& inside) const {
      Ints place;
      start.assign(operand.size(), 0);
      inside.assign(operand.size(), 0);
      size_t next = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        if (!in(window_dims, static_cast<int64_t>(d))) {
          place.push_back(at[d]);
          continue;
        }
        while (in(collapsed, static_cast<int64_t>(next)) || in(batch, static_cast<int64_t>(next))) ++next;
        inside[next++] = at[d];
      }
      for (size_t k = 0; k < map.size(); ++k) {
        Ints where = place;
        if (vector_dim < std::ssize(indices)) where.insert(where.begin() + vector_dim, static_cast<int64_t>(k));
        start[static_cast<size_t>(map[k])] = static_cast<int64_t>(index(where));
      }
      for (size_t k = 0; k < batch.size(); ++k)
        start[static_cast<size_t>(batch[k])] =
            place[static_cast<size_t>(index_batch[k] > vector_dim ? index_batch[k] - 1 : index_batch[k])];
    }
  };

  Instance random_instance() {
    Instance i;
    const auto rank = 1 + static_cast<size_t>(below(4));
    for (size_t d = 0; d < rank; ++d) i.operand.push_back(1 + below(4));
    Ints places;  // with those of batches
    const int64_t n_places = below(3);
    for (int64_t k = 0; k < n_places; ++k) places.push_back(below(8) == 0 ? 0 : 1 + below(3));
    std::vector<int64_t> kept;
    Ints batch_at;  // among the places
    for (size_t d = 0; d < rank; ++d) {
      const int64_t kind = below(4);
      const auto dim = static_cast<int64_t>(d);
      i.sizes.push_back(1);
      if (kind == 0) {
        i.collapsed.push_back(dim);
        i.map.push_back(dim);
      } else if (kind == 1) {
        i.batch.push_back(dim);
        batch_at.push_back(below(std::ssize(places) + 1));
        for (size_t b = 0; b + 1 < batch_at.size(); ++b) batch_at[b] += batch_at[b] >= batch_at.back();
        places.insert(places.begin() + batch_at.back(), i.operand[d]);
      } else {
        kept.push_back(dim);
        i.sizes[d] = 1 + below(i.operand[d]);
        if (coin()) i.map.push_back(dim);
      }
    }
    std::ranges::reverse(i.map);
    i.vector_dim = below(std::ssize(places) + 1);
    const bool is_number = i.map.size() == 1 && coin();
    i.indices = places;
    if (is_number)
      i.vector_dim = std::ssize(places);
    else
      i.indices.insert(i.indices.begin() + i.vector_dim, std::ssize(i.map));
    for (const int64_t d : batch_at) i.index_batch.push_back(!is_number && d >= i.vector_dim ? d + 1 : d);
    // Windows' dims lie anywhere among the places.
    std::set<int64_t> at;
    while (at.size() < kept.size()) at.insert(below(std::ssize(places) + std::ssize(kept)));
    i.window_dims.assign(at.begin(), at.end());
    size_t next_place = 0, next_kept = 0;
    for (int64_t d = 0; d < std::ssize(places) + std::ssize(kept); ++d)
      i.windowed.push_back(at.contains(d) ? i.sizes[static_cast<size_t>(kept[next_kept++])] : places[next_place++]);
    return i;
  }
};

TEST_F(PlacedWindows, Gathers) {
  for (const DType dtype : {kF32, kF64, kI32, kU8, kBool})
    for (int n = 0; n < 12; ++n) {
      const Instance i = random_instance();
      Case c{.op = "fettle.Gather",
             .inputs = {{random_array(i.operand, dtype), dtype},
                        {random_array(i.indices, kI64, -2, 5), coin() ? kI64 : kI32}},
             .attrs = i.attrs()};
      c.attrs.set("slice_sizes", i.sizes);
      Array want(i.windowed);
      for_each_index(i.windowed, [&](const Ints& at) {
        Ints start, inside;
        i.split(at, c.inputs[1].array, start, inside);
        for (size_t d = 0; d < start.size(); ++d)
          start[d] = std::clamp<int64_t>(start[d], 0, i.operand[d] - i.sizes[d]) + inside[d];
        want(at) = c.inputs[0].array(start);
      });
      check(c, {want});
      if (HasFailure()) return;
    }
}

TEST_F(PlacedWindows, Scatters) {
  struct Update {
    const char* name;
    Body body;
    std::function<double(double, double)> combine;
    std::vector<DType> dtypes;
    bool is_known = true;
  };
  const auto two = [](Graph& b, DType dtype) { return b.add_constant("two", scalar(2, dtype)); };
  const Update updates[] = {
      {"replace",
       [](Graph&, const Values& e) { return Values{e[1]}; },
       [](double, double y) { return y; },
       {kF32, kI64, kU8, kBool}},
      {"add", pairwise("Add"), [](double x, double y) { return x + y; }, {kF32, kF64, kI32}},
      {"multiply", pairwise("Mul"), [](double x, double y) { return x * y; }, {kI64}},
      {"greatest", pairwise("Max"), [](double x, double y) { return std::max(x, y); }, {kF32, kI32}},
      {"and", pairwise("And"), [](double x, double y) { return x * y; }, {kBool}},
      {"or", pairwise("Or"), [](double x, double y) { return std::max(x, y); }, {kBool}},
      {"keep", [](Graph&, const Values& e) { return Values{e[0]}; }, [](double x, double) { return x; }, {kF32}},
      {"odd",
       [&](Graph& b, const Values& e) { return Values{node(b, "Sub", {node(b, "Mul", {e[0], two(b, kI64)}), e[1]})}; },
       [](double x, double y) { return 2 * x - y; },
       {kI64},
       false},
  };
  for (const Update& update : updates)
    for (const DType dtype : update.dtypes)
      for (int n = 0; n < 6; ++n) {
        SCOPED_TRACE(fmt::format("{} of {}", update.name, dtype.to_string()));
        const Instance i = random_instance();
        Case c{.op = "fettle.Scatter",
               .inputs = {{random_array(i.operand, dtype, -2, 2), dtype},
                          {random_array(i.indices, kI64, -2, 5), kI64},
                          {random_array(i.windowed, dtype, -2, 2), dtype}},
               .attrs = i.attrs(),
               .bodies = {{2, update.body}}};
        Array want = c.inputs[0].array;
        // Updates come in the order of their places, which differ where windows' dims are in front.
        const auto apply = [&](const Ints& at) {
          Ints start, inside;
          i.split(at, c.inputs[1].array, start, inside);
          for (size_t d = 0; d < start.size(); ++d) start[d] += inside[d];
          if (want.has(start)) want(start) = update.combine(want(start), c.inputs[2].array(at));
        };
        if (update.is_known) {
          for_each_index(i.windowed, apply);
        } else {
          Ints places = i.windowed, windows = i.windowed;
          for (size_t d = 0; d < i.windowed.size(); ++d)
            (i.in(i.window_dims, static_cast<int64_t>(d)) ? places : windows)[d] = std::min<int64_t>(1, i.windowed[d]);
          for_each_index(places, [&](const Ints& p) {
            for_each_index(windows, [&](const Ints& w) {
              Ints at = p;
              for (const int64_t d : i.window_dims) at[static_cast<size_t>(d)] = w[static_cast<size_t>(d)];
              apply(at);
            });
          });
        }
        check(c, {want});
        if (HasFailure()) return;
        EXPECT_FALSE(update.is_known && has_op(optimized(c), "Loop"));
      }
}

// Two operands whose elements meet together.
TEST_F(PlacedWindows, ScattersOfSeveralOperands) {
  const Body body = [](Graph& b, const Values& e) {
    Value* greater = node(b, "Greater", {e[2], e[0]});
    return Values{node(b, "Where", {greater, e[2], e[0]}), node(b, "Where", {greater, e[3], e[1]})};
  };
  Case c{.op = "fettle.Scatter",
         .inputs = {{random_array({5}, kF32), kF32},
                    {random_array({5}, kI64), kI64},
                    {random_array({9, 1}, kI64, -1, 5), kI64},
                    {random_array({9}, kF32), kF32},
                    {random_array({9}, kI64), kI64}},
         .attrs = {{"collapsed_dims", Ints{0}}, {"index_map", Ints{0}}, {"index_vector_dim", int64_t{1}}},
         .bodies = {{4, body}},
         .n_outputs = 2};
  std::vector<Array> want{c.inputs[0].array, c.inputs[1].array};
  for (int64_t k = 0; k < 9; ++k) {
    const Ints at{static_cast<int64_t>(c.inputs[2].array({k, 0}))};
    if (!want[0].has(at) || c.inputs[3].array({k}) <= want[0](at)) continue;
    want[0](at) = c.inputs[3].array({k});
    want[1](at) = c.inputs[4].array({k});
  }
  check(c, want);
}

TEST_F(PlacedWindows, WhatDoesNotFitIsRefused) {
  Case c{.op = "fettle.Gather", .inputs = {{Array({3, 4}), kF32}, {Array({2, 1}), kI64}}};
  const auto with = [&](Attrs attrs) {
    c.attrs = std::move(attrs);
    return refusal(c).code;
  };
  const Attrs fits{{"window_dims", Ints{1}},
                   {"collapsed_dims", Ints{0}},
                   {"index_map", Ints{0}},
                   {"index_vector_dim", int64_t{1}},
                   {"slice_sizes", Ints{1, 4}}};
  const auto but = [&](const char* name, AttrValue value) {
    Attrs attrs = fits;
    attrs.set(name, std::move(value));
    return attrs;
  };
  EXPECT_EQ(with(but("slice_sizes", Ints{1, 5})), ErrorCode::E606);
  EXPECT_EQ(with(but("slice_sizes", Ints{2, 4})), ErrorCode::E606);
  EXPECT_EQ(with(but("slice_sizes", Ints{1})), ErrorCode::E606);
  EXPECT_EQ(with(but("window_dims", Ints{})), ErrorCode::E606);
  EXPECT_EQ(with(but("index_map", Ints{0, 1})), ErrorCode::E605);
  EXPECT_EQ(with(but("index_vector_dim", int64_t{3})), ErrorCode::E606);
  EXPECT_EQ(with(but("batch_dims", Ints{0})), ErrorCode::E606);
  c.inputs[1].dtype = kF32;
  EXPECT_EQ(with(fits), ErrorCode::E605);
}

}  // namespace
}  // namespace fettle
