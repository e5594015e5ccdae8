#include "generations/ansor/cost/store_features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/pointer_map.h"
#include "cost/features/nest_walk.h"
#include "cost/features/touched.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr double kLine = 64;
constexpr size_t kBuffers = 5, kIntensities = 10;

enum class Position : uint8_t {
  kNone,
  kInnerSpatial,
  kMiddleSpatial,
  kOuterSpatial,
  kInnerReduce,
  kMiddleReduce,
  kOuterReduce,
  kMixed
};

/// Of arithmetic, in the order of their columns.
enum Kind : uint8_t { kMad, kAddSub, kMul, kDivMod, kCompare, kMath, kOther, kKinds };
constexpr const char* kKindNames[kKinds] = {"mad", "addsub", "mul", "divmod", "cmp", "math", "other"};

struct Operations {
  std::array<double, kKinds> floats{}, ints{};
  double booleans = 0, selects = 0;

  void count(bool is_float, Kind kind, double times) { (is_float ? floats : ints)[kind] += times; }

  double all() const {
    double sum = 0;
    for (const auto* kinds : {&floats, &ints})
      sum = std::accumulate(kinds->begin(), kinds->end(), sum + (*kinds)[kMad]);
    return sum + booleans + selects;
  }
};

struct Loop {
  const ForNode* node = nullptr;
  double extent = 1;
};

/// An access as progressions: one stride, in elements, for each loop around, outermost first.
struct Access {
  const BufferNode* buffer = nullptr;
  bool is_write = false;
  std::vector<int64_t> strides;
};

const std::vector<const char*>& position_names() {
  static const std::vector<const char*> names = {"_none",         "_inner_spatial", "_middle_spatial", "_outer_spatial",
                                                 "_inner_reduce", "_middle_reduce", "_outer_reduce",   "_mixed"};
  return names;
}

/// Values, or names of them: these are put together only where they are asked for.
struct Row {
  std::vector<float>* values;
  std::vector<std::string>* names;
  void plain(std::string_view of, std::string_view name, double value) {
    if (values) values->push_back(static_cast<float>(value));
    if (names) names->push_back(std::string(of).append(name));
  }
  void log(std::string_view of, std::string_view name, double value) {
    plain(of, name, std::log2(1 + std::max(0.0, value)));
  }
  void plain(std::string_view name, double value) { plain({}, name, value); }
  void log(std::string_view name, double value) { log({}, name, value); }
};

struct Notes {  // of the loops of one kind
  double loops = 0, product = 1, innermost = 0;
  Position position = Position::kNone;
};

struct BufferUse {
  bool reads = false, writes = false;
  double bytes = 0, unique_bytes = 0, lines = 0, unique_lines = 0;
  enum class Reuse : uint8_t { kLoop, kSerial, kNone } reuse = Reuse::kNone;
  double reuse_iterations = 0, reuse_bytes = 0, reuse_count = 0, stride = 0;
};

struct Statement {
  Operations operations;
  Notes vectors, copies, threads;
  std::array<double, 7> device{};
  bool on_device = false;
  std::vector<BufferUse> buffers;
  std::array<double, kIntensities> intensity{};
  double allocated_bytes = 0, allocated_outer = 0, allocated_inner = 0;
  double product = 1, loops = 0, max_unroll = 0;
};

void write_notes(Row& row, std::string_view kind, const Notes& notes) {
  row.log(kind, "_loops", notes.loops);
  row.log(kind, "_product", notes.loops > 0 ? notes.product : 0);
  row.log(kind, "_extent", notes.innermost);
  for (size_t i = 0; i < position_names().size(); ++i)
    row.plain(kind, position_names()[i], static_cast<size_t>(notes.position) == i ? 1 : 0);
}

void write_buffer(Row& row, std::string_view name, const BufferUse* used) {
  const BufferUse use = used ? *used : BufferUse();
  using Reuse = BufferUse::Reuse;
  row.plain(name, "_read", use.reads && !use.writes);
  row.plain(name, "_write", use.writes && !use.reads);
  row.plain(name, "_read_write", use.reads && use.writes);
  row.log(name, "_bytes", use.bytes);
  row.log(name, "_unique_bytes", use.unique_bytes);
  row.log(name, "_lines", use.lines);
  row.log(name, "_unique_lines", use.unique_lines);
  row.plain(name, "_reuse_by_loop", used && use.reuse == Reuse::kLoop);
  row.plain(name, "_reuse_by_others", used && use.reuse == Reuse::kSerial);
  row.plain(name, "_reuse_none", used && use.reuse == Reuse::kNone);
  row.log(name, "_reuse_iterations", use.reuse_iterations);
  row.log(name, "_reuse_bytes", use.reuse_bytes);
  row.log(name, "_reuse_count", use.reuse_count);
  // What is never used again costs as if it were used half a time.
  const double uses = use.reuse_count > 0 ? use.reuse_count : 0.5;
  row.log(name, "_bytes_a_use", use.bytes / uses);
  row.log(name, "_unique_bytes_a_use", use.unique_bytes / uses);
  row.log(name, "_lines_a_use", use.lines / uses);
  row.log(name, "_unique_lines_a_use", use.unique_lines / uses);
  row.log(name, "_stride", use.stride);
}

void write(Row row, const Statement& s) {
  const Operations& o = s.operations;
  for (size_t i = 0; i < kKinds; ++i) row.log("float_", kKindNames[i], o.floats[i]);
  for (size_t i = 0; i < kKinds; ++i) row.log("int_", kKindNames[i], o.ints[i]);
  row.log("bool_op", o.booleans);
  row.log("select_op", o.selects);
  write_notes(row, "vectorize", s.vectors);
  write_notes(row, "unroll", s.copies);
  write_notes(row, "parallel", s.threads);
  row.plain("is_gpu", s.on_device);
  static constexpr const char* kAxes[] = {"blockIdx_x",  "blockIdx_y",  "blockIdx_z", "threadIdx_x",
                                          "threadIdx_y", "threadIdx_z", "vthread"};
  for (size_t i = 0; i < s.device.size(); ++i) row.log(kAxes[i], "_extent", s.device[i]);
  static constexpr const char* kBufferNames[kBuffers] = {"b0", "b1", "b2", "b3", "b4"};
  for (size_t i = 0; i < kBuffers; ++i)
    write_buffer(row, kBufferNames[i], i < s.buffers.size() ? &s.buffers[i] : nullptr);
  static constexpr const char* kNumbers[kIntensities] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  for (size_t i = 0; i < kIntensities; ++i) row.log("intensity_", kNumbers[i], s.intensity[i]);
  row.log("alloc_bytes", s.allocated_bytes);
  row.log("alloc_outer_product", s.allocated_outer);
  row.log("alloc_inner_product", s.allocated_inner);
  row.log("alloc_product", s.allocated_bytes * s.allocated_outer);
  row.log("outer_product", s.product);
  row.log("loops", s.loops);
  row.log("auto_unroll_max_step", s.max_unroll);
}

class StatementReader : public NestWalk {
 public:
  explicit StatementReader(std::vector<float>& rows) : rows_(rows) {}

 private:
  void enter(const ForNode& loop, int64_t extent) override { loops_.push_back({&loop, static_cast<double>(extent)}); }
  void leave() override { loops_.pop_back(); }
  void on_allocate(const AllocateNode& n) override { allocated_[n.buffer.get()] = loops_.size(); }

  void on_store(const StoreNode& store) override {
    Statement s;
    for (const Loop& loop : loops_) s.product *= loop.extent;
    s.loops = static_cast<double>(loops_.size());
    accesses_.clear();
    count(store.value, s.operations, s.product);
    if (store.mask) count(store.mask, s.operations, s.product);
    add_access(store.buffer.get(), store.indices[0], true);
    read_loops(s);
    read_buffers(s);
    read_intensity(s);
    if (const auto found = allocated_.find(store.buffer.get()); found != allocated_.end()) {
      double elements = 1;
      for (const Expr& extent : store.buffer->shape) elements *= static_cast<double>(estimate_int(extent, middle(), 1));
      s.allocated_bytes = elements * store.buffer->dtype.element_bytes();
      s.allocated_outer = s.allocated_inner = 1;
      for (size_t i = 0; i < loops_.size(); ++i)
        (i < found->second ? s.allocated_outer : s.allocated_inner) *= loops_[i].extent;
    }
    write({&rows_, nullptr}, s);
  }

  void count(const Expr& e, Operations& o, double times) {
    switch (e.kind()) {
      case ExprKind::kLoad: {
        const auto* n = e.as<LoadNode>();
        if (n->mask) count(n->mask, o, times);
        return add_access(n->buffer.get(), n->indices[0], false);
      }
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        const DType type = n->a.dtype();
        const bool floats = type.is_float();
        if (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub) {
          const auto is_product = [](const Expr& x) {
            const auto* product = x.as<BinaryNode>();
            return product && product->op == BinaryOp::kMul;
          };
          if (is_product(n->a) || is_product(n->b)) {
            o.count(floats, kMad, times);
            const bool right = is_product(n->b);
            count(right ? n->a : n->b, o, times);
            const auto* product = (right ? n->b : n->a).as<BinaryNode>();
            count(product->a, o, times);
            return count(product->b, o, times);
          }
          o.count(floats, kAddSub, times);
        } else if (n->op == BinaryOp::kMul) {
          o.count(floats, kMul, times);
        } else if (n->op == BinaryOp::kDiv || n->op == BinaryOp::kFloorDiv || n->op == BinaryOp::kFloorMod) {
          o.count(floats, kDivMod, times);
        } else if (n->op == BinaryOp::kAnd || n->op == BinaryOp::kOr) {
          o.booleans += times;
        } else if (e.dtype().is_bool() || n->op == BinaryOp::kMin || is_maximum(n->op)) {
          o.count(floats, kCompare, times);
        } else {
          o.count(floats, kOther, times);
        }
        count(n->a, o, times);
        return count(n->b, o, times);
      }
      case ExprKind::kNot:
        o.booleans += times;
        return count(e.as<NotNode>()->a, o, times);
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        o.selects += times;
        count(n->condition, o, times);
        count(n->if_true, o, times);
        return count(n->if_false, o, times);
      }
      case ExprKind::kCast:
        return count(e.as<CastNode>()->a, o, times);
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        const bool floats = e.dtype().is_float();
        const bool pure_math = !n->name.starts_with("llvm.") && n->name != "prefetch" && n->name != "likely";
        if (pure_math)
          o.count(floats, kMath, times);
        else if (n->name != "likely")
          o.count(floats, kOther, times);
        for (const Expr& arg : n->args) count(arg, o, times);
        return;
      }
      default:
        return;
    }
  }

  void add_access(const BufferNode* buffer, const Expr& index, bool is_write) {
    accesses_.push_back({buffer, is_write, strides_of(index)});
  }

  // Where a loop stands among those that move the store (spatial), or only what it reads (reduce).
  Position position_of(size_t loop) const {
    const Access& store = accesses_.back();
    const auto moves_store = [&](size_t i) { return store.strides[i] != 0; };
    const auto moves_loads = [&](size_t i) {
      return std::any_of(accesses_.begin(), accesses_.end() - 1, [&](const Access& a) { return a.strides[i] != 0; });
    };
    const bool spatial = moves_store(loop);
    if (!spatial && !moves_loads(loop)) return Position::kNone;
    const auto is_alike = [&](size_t i) { return spatial ? moves_store(i) : !moves_store(i) && moves_loads(i); };
    bool inside = false, outside = false;
    for (size_t i = 0; i < loops_.size(); ++i)
      if (i != loop && is_alike(i)) (i > loop ? inside : outside) = true;
    if (!inside) return spatial ? Position::kInnerSpatial : Position::kInnerReduce;
    if (!outside) return spatial ? Position::kOuterSpatial : Position::kOuterReduce;
    return spatial ? Position::kMiddleSpatial : Position::kMiddleReduce;
  }

  void read_loops(Statement& s) {
    const auto note = [&](Notes& notes, size_t i) {
      notes.loops += 1;
      notes.product *= loops_[i].extent;
      notes.innermost = loops_[i].extent;
      const Position here = position_of(i);
      notes.position = here;
    };
    for (size_t i = 0; i < loops_.size(); ++i) {
      const ForNode& loop = *loops_[i].node;
      switch (loop.loop_kind) {
        case ForKind::kVectorized:
          note(s.vectors, i);
          break;
        case ForKind::kUnrolled:
          note(s.copies, i);
          break;
        case ForKind::kParallel:
          note(s.threads, i);
          break;
        case ForKind::kThreadBinding: {
          static constexpr const char* kAxes[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z", "threadIdx.x",
                                                  "threadIdx.y", "threadIdx.z", "vthread"};
          for (size_t axis = 0; axis < s.device.size(); ++axis)
            if (loop.thread_axis == kAxes[axis]) s.device[axis] = loops_[i].extent;
          s.on_device = true;
          break;
        }
        case ForKind::kSerial:
          break;
      }
      if (const auto* step = loop.annotations.find("auto_unroll_max_step"))
        if (const auto* n = std::get_if<int64_t>(step)) s.max_unroll = std::max(s.max_unroll, static_cast<double>(*n));
    }
  }

  /// What the loops from `from` inwards touch by one access.
  Touched touched(const Access& access, size_t from) const {
    return touched_by(access.strides, from, [&](size_t i) { return loops_[i].extent; });
  }

  /// The distinct bytes that the loops from `from` inwards touch, of all buffers.
  double bytes_inside(size_t from) const {
    PointerMap<const BufferNode*, double> bytes;
    for (const Access& access : accesses_) {
      double& most = bytes[access.buffer];
      most = std::max(most, touched(access, from).elements * access.buffer->dtype.element_bytes());
    }
    double sum = 0;
    for (const auto& [buffer, n] : bytes) sum += n;
    return sum;
  }

  void read_buffers(Statement& s) const {
    std::vector<const BufferNode*> order;
    for (const Access& access : accesses_)
      if (std::ranges::find(order, access.buffer) == order.end()) order.push_back(access.buffer);
    for (const BufferNode* buffer : order) {
      BufferUse use;
      const Access* widest = nullptr;
      double count = 0;
      const double element = buffer->dtype.element_bytes();
      for (const Access& access : accesses_) {
        if (access.buffer != buffer) continue;
        (access.is_write ? use.writes : use.reads) = true;
        count += 1;
        const Touched all = touched(access, 0);
        if (all.elements * element > use.unique_bytes || !widest) {
          widest = &access;
          use.unique_bytes = all.elements * element;
          use.unique_lines = all.lines(element);
        }
      }
      // The innermost loop that moves it.
      for (size_t i = loops_.size(); i-- > 0 && use.stride == 0;)
        if (loops_[i].extent > 1) use.stride = std::abs(static_cast<double>(widest->strides[i]));
      use.bytes = s.product * element;
      const bool innermost_moves = !loops_.empty() && widest->strides.back() != 0;
      const double share = innermost_moves ? std::min(1.0, use.stride * element / kLine) : 1.0;
      use.lines = std::max(1.0, s.product * share);
      find_reuse(*widest, count, use);
      s.buffers.push_back(use);
    }
    std::stable_sort(s.buffers.begin(), s.buffers.end(), [](const BufferUse& a, const BufferUse& b) {
      return a.lines != b.lines ? a.lines > b.lines : a.unique_bytes > b.unique_bytes;
    });
    if (s.buffers.size() > kBuffers) s.buffers.resize(kBuffers);
  }

  void find_reuse(const Access& access, double accesses, BufferUse& use) const {
    double iterations = 1;
    for (size_t i = loops_.size(); i-- > 0;) {
      if (access.strides[i] == 0 && loops_[i].extent > 1) {
        use.reuse = BufferUse::Reuse::kLoop;
        use.reuse_iterations = iterations;
        use.reuse_bytes = bytes_inside(i + 1);
        use.reuse_count = loops_[i].extent;
        return;
      }
      iterations *= loops_[i].extent;
    }
    if (accesses <= 1) return;
    use.reuse = BufferUse::Reuse::kSerial;
    use.reuse_iterations = 1;
    use.reuse_bytes = bytes_inside(loops_.size());
    use.reuse_count = accesses - 1;
  }

  // Points (operations so far, operations for each byte), from the innermost loop outwards, and lines between them.
  void read_intensity(Statement& s) const {
    const double each = s.operations.all() / s.product;
    std::vector<std::pair<double, double>> points;
    double iterations = 1;
    for (size_t i = loops_.size(); i-- > 0;) {
      iterations *= loops_[i].extent;
      points.emplace_back(each * iterations, each * iterations / bytes_inside(i));
    }
    if (points.empty() || points.back().first == 0) return;
    size_t at = 0;
    for (size_t i = 0; i < kIntensities; ++i) {
      const double operations = points.back().first * static_cast<double>(i + 1) / kIntensities;
      while (at + 1 < points.size() && points[at].first < operations) ++at;
      if (at == 0 || points[at].first == points[at - 1].first) {
        s.intensity[i] = points[at].second;
        continue;
      }
      const auto& [x0, y0] = points[at - 1];
      const auto& [x1, y1] = points[at];
      s.intensity[i] = y0 + (y1 - y0) * (operations - x0) / (x1 - x0);
    }
  }

  std::vector<float>& rows_;
  std::vector<Loop> loops_;
  std::map<const BufferNode*, size_t> allocated_;  // with how many loops around
  std::vector<Access> accesses_;                   // of the statement at hand, the store last
};

}  // namespace

std::vector<float> store_features(const Func& kernel) {
  std::vector<float> rows;
  StatementReader(rows).visit(kernel->body);
  FETTLE_CHECK(rows.size() % kStoreFeatures == 0);
  return rows;
}

const std::vector<std::string>& store_feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    write({nullptr, &result}, Statement());
    return result;
  }();
  return names;
}

}  // namespace fettle
