#include "generations/autotvm/cost/loop_features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/check.h"
#include "cost/features/nest_walk.h"
#include "cost/features/touched.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr std::array<const char*, kCurveKinds> kKinds = {"serial",      "parallel",    "vectorized", "unrolled",
                                                         "blockIdx_x",  "blockIdx_y",  "blockIdx_z", "threadIdx_x",
                                                         "threadIdx_y", "threadIdx_z", "vthread"};

/// The number in kKinds.
size_t kind_of(const ForNode& loop) {
  switch (loop.loop_kind) {
    case ForKind::kSerial:
      return 0;
    case ForKind::kParallel:
      return 1;
    case ForKind::kVectorized:
      return 2;
    case ForKind::kUnrolled:
      return 3;
    case ForKind::kThreadBinding:
      break;
  }
  std::string axis = loop.thread_axis;
  std::ranges::replace(axis, '.', '_');
  const auto* found = std::ranges::find(kKinds, axis);
  return found == kKinds.end() ? 0 : static_cast<size_t>(found - kKinds.begin());
}

/// Of one buffer, in one run of a level.
struct Use {
  double bytes = 0;     // distinct ones
  double elements = 0;  // the same in elements
  double accesses = 0;
  double stride_bytes = 0;  // of loops: from one iteration to the next, of the access that touches most
};

struct Level {
  double topdown = 1;
  std::map<size_t, Use> uses;  // by the number of the buffer, in the order of their first accesses
};

struct LoopEntry {
  size_t kind = 0, level = 0;
  double extent = 1, topdown = 1, bottomup = 1;
  size_t whole = 0, body = 0;  // numbers of levels
};

/// What both kinds of features are made from.
struct Program {
  std::vector<LoopEntry> loops;  // in program order
  std::vector<Level> levels;     // 0: the program
  size_t buffers = 0;
  std::array<double, kCurveKinds> products{};  // of the extents of the loops of a kind around a statement, at most
};

class ProgramReader : public NestWalk {
 public:
  ProgramReader() { program_.levels.emplace_back(); }

  Program take() {
    program_.buffers = buffers_.size();
    return std::move(program_);
  }

 private:
  /// An access as progressions: one stride, in elements, for each loop around, outermost first.
  struct Access {
    size_t buffer = 0;
    double element_bytes = 1;
    std::vector<int64_t> strides;
  };

  LoopEntry& around(size_t i) { return program_.loops[around_[i]]; }

  size_t add_level(double topdown) {
    program_.levels.push_back({topdown, {}});
    return program_.levels.size() - 1;
  }

  void enter(const ForNode& loop, int64_t extent) override {
    LoopEntry made{.kind = kind_of(loop), .level = around_.size(), .extent = static_cast<double>(extent)};
    if (!around_.empty()) made.topdown = around(around_.size() - 1).topdown * around(around_.size() - 1).extent;
    made.whole = add_level(made.topdown);
    made.body = add_level(made.topdown * made.extent);
    around_.push_back(program_.loops.size());
    program_.loops.push_back(made);
  }
  void leave() override { around_.pop_back(); }

  void on_store(const StoreNode& store) override {
    accesses_.clear();
    const auto add_loads = [&](const Expr& e) {
      if (!e) return;
      walk(e, [&](const Expr& part) {
        if (const auto* load = part.as<LoadNode>()) add_access(load->buffer.get(), load->indices[0]);
        return true;
      });
    };
    add_loads(store.value);
    add_loads(store.mask);
    add_loads(store.indices[0]);
    add_access(store.buffer.get(), store.indices[0]);

    double product = 1;  // of the loops inside
    for (size_t i = around_.size(); i-- > 0;) {
      around(i).bottomup = std::max(around(i).bottomup, product);
      product *= around(i).extent;
    }
    std::array<double, kCurveKinds> products;
    products.fill(1);
    for (size_t i = 0; i < around_.size(); ++i) products[around(i).kind] *= around(i).extent;
    for (size_t i = 0; i < kCurveKinds; ++i) program_.products[i] = std::max(program_.products[i], products[i]);

    const size_t statement = add_level(product);
    for (size_t from = 0; from <= around_.size(); ++from) {
      const std::map<size_t, Use> uses = uses_from(from);
      add(uses, from == 0 ? 0 : around(from - 1).body);
      add(uses, from == around_.size() ? statement : around(from).whole);
    }
  }

  void add_access(const BufferNode* buffer, const Expr& index) {
    const size_t number = buffers_.emplace(buffer, buffers_.size()).first->second;
    accesses_.push_back({number, static_cast<double>(buffer->dtype.element_bytes()), strides_of(index)});
  }

  /// Of the statement at hand, in one run of the loops from number `from` inwards.
  std::map<size_t, Use> uses_from(size_t from) {
    double runs = 1;
    for (size_t i = from; i < around_.size(); ++i) runs *= around(i).extent;
    std::map<size_t, Use> uses;
    for (const Access& access : accesses_) {
      const Touched touched = touched_by(access.strides, from, [&](size_t i) { return around(i).extent; });
      Use one{.bytes = touched.elements * access.element_bytes, .elements = touched.elements, .accesses = runs};
      if (from < around_.size())
        one.stride_bytes = std::abs(static_cast<double>(access.strides[from])) * access.element_bytes;
      merge(uses[access.buffer], one);
    }
    return uses;
  }

  static void merge(Use& into, const Use& other) {
    const double accesses = into.accesses + other.accesses;
    if (other.bytes > into.bytes) into = other;
    into.accesses = accesses;
  }

  void add(const std::map<size_t, Use>& uses, size_t level) {
    for (const auto& [buffer, use] : uses) merge(program_.levels[level].uses[buffer], use);
  }

  Program program_;
  std::vector<size_t> around_;  // numbers of loops
  std::map<const BufferNode*, size_t> buffers_;
  std::vector<Access> accesses_;  // of the statement at hand
};

Program read_program(const Func& kernel) {
  ProgramReader reader;
  reader.visit(kernel->body);
  return reader.take();
}

double slog(double x) { return std::log2(1 + x); }

/// The buffers of a level, those accessed most first.
std::vector<size_t> by_accesses(const Level& level, size_t most) {
  std::vector<size_t> order;
  for (const auto& [buffer, use] : level.uses) order.push_back(buffer);
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return level.uses.at(a).accesses > level.uses.at(b).accesses; });
  if (order.size() > most) order.resize(most);
  return order;
}

/// The metrics of one buffer, or of all, at a level.
struct Metrics {
  double bytes = 0, reuse = 0, topdown = 0;
};

Metrics metrics_of(const Level& level, const Use& use) {
  return {use.bytes, use.accesses / std::max(1.0, use.elements), level.topdown};
}

void write_curves(const std::vector<Metrics>& levels, std::vector<float>& row) {
  static constexpr std::pair<double Metrics::*, double Metrics::*> kPairs[kCurves] = {
      {&Metrics::bytes, &Metrics::reuse},
      {&Metrics::reuse, &Metrics::bytes},
      {&Metrics::topdown, &Metrics::bytes},
      {&Metrics::bytes, &Metrics::topdown}};
  for (const auto& [x, y] : kPairs)
    for (size_t t = 1; t <= kCurveSamples; ++t) {
      const double threshold = std::exp2(1.5 * static_cast<double>(t));
      double most = 0;
      for (const Metrics& m : levels)
        if (m.*y < threshold) most = std::max(most, m.*x);
      row.push_back(static_cast<float>(slog(most)));
    }
}

}  // namespace

std::vector<float> loop_features(const Func& kernel) {
  const Program program = read_program(kernel);
  std::vector<size_t> chosen(program.loops.size());
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = i;
  if (chosen.size() > kLoopSlots) {
    const auto accesses = [&](size_t i) {
      double sum = 0;
      for (const auto& [buffer, use] : program.levels[program.loops[i].whole].uses) sum += use.accesses;
      return sum * program.loops[i].topdown;
    };
    std::ranges::stable_sort(chosen, [&](size_t a, size_t b) { return accesses(a) > accesses(b); });
    chosen.resize(kLoopSlots);
    std::ranges::sort(chosen);
  }
  std::vector<float> row;
  const auto push = [&](double x) { row.push_back(static_cast<float>(x)); };
  for (const size_t i : chosen) {
    const LoopEntry& loop = program.loops[i];
    push(slog(loop.extent));
    push(slog(static_cast<double>(loop.level)));
    push(slog(loop.topdown));
    push(slog(loop.bottomup));
    for (size_t kind = 0; kind < kCurveKinds; ++kind) push(loop.kind == kind ? 1 : 0);
    const Level& level = program.levels[loop.whole];
    const std::vector<size_t> order = by_accesses(level, kLoopBuffers);
    for (size_t b = 0; b < kLoopBuffers; ++b) {
      const Use use = b < order.size() ? level.uses.at(order[b]) : Use();
      push(slog(use.bytes));
      push(slog(use.accesses / std::max(1.0, use.elements)));
      push(slog(use.stride_bytes));
    }
  }
  FETTLE_CHECK(row.size() == chosen.size() * kLoopColumns);
  row.resize(kLoopFeatures, 0.0f);
  return row;
}

const std::vector<std::string>& loop_feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (size_t i = 0; i < kLoopSlots; ++i) {
      const std::string loop = "l" + std::to_string(i) + "_";
      for (const char* name : {"extent", "level", "topdown", "bottomup"}) result.push_back(loop + name);
      for (const char* kind : kKinds) result.push_back(loop + kind);
      for (size_t b = 0; b < kLoopBuffers; ++b)
        for (const char* name : {"bytes", "reuse", "stride"})
          result.push_back(loop + "b" + std::to_string(b) + "_" + name);
    }
    return result;
  }();
  return names;
}

std::vector<float> curve_features(const Func& kernel) {
  const Program program = read_program(kernel);
  std::vector<float> row;
  row.reserve(kCurveFeatures);
  std::vector<Metrics> all;
  for (const Level& level : program.levels) {
    Use sum;
    for (const auto& [buffer, use] : level.uses) {
      sum.bytes += use.bytes;
      sum.elements += use.elements;
      sum.accesses += use.accesses;
    }
    if (!level.uses.empty()) all.push_back(metrics_of(level, sum));
  }
  write_curves(all, row);
  const std::vector<size_t> order = by_accesses(program.levels[0], kCurveBuffers);
  for (size_t b = 0; b < kCurveBuffers; ++b) {
    std::vector<Metrics> levels;
    if (b < order.size())
      for (const Level& level : program.levels)
        if (const auto use = level.uses.find(order[b]); use != level.uses.end())
          levels.push_back(metrics_of(level, use->second));
    write_curves(levels, row);
  }
  for (const double product : program.products) row.push_back(static_cast<float>(slog(product)));
  FETTLE_CHECK(row.size() == kCurveFeatures);
  return row;
}

const std::vector<std::string>& curve_feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (size_t b = 0; b <= kCurveBuffers; ++b)
      for (const char* pair : {"bytes_by_reuse", "reuse_by_bytes", "topdown_by_bytes", "bytes_by_topdown"})
        for (size_t t = 1; t <= kCurveSamples; ++t)
          result.push_back((b == 0 ? "all" : "b" + std::to_string(b - 1)) + "_" + pair + "_" + std::to_string(t));
    for (const char* kind : kKinds) result.push_back(std::string(kind) + "_product");
    return result;
  }();
  return names;
}

}  // namespace fettle
