#include "cost/body_reader.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/pool.h"
#include "ir/compare.h"
#include "ir/visit.h"

namespace fettle {
namespace {

// Vector instructions that a call takes.
double call_cost(const std::string& name) {
  static const std::unordered_map<std::string, double> costs = {
      {"exp", 26}, {"log", 30},    {"tanh", 24},  {"erf", 80},  {"sigmoid", 18}, {"rsqrt", 5}, {"sin", 20},
      {"cos", 20}, {"pow", 36},    {"round", 1},  {"floor", 1}, {"ceil", 1},     {"trunc", 1}, {"abs", 1},
      {"fma", 0},  {"bitcast", 0}, {"likely", 0}, {"isnan", 1}, {"sqrt", 0}};
  const auto found = costs.find(name);
  return found == costs.end() ? 4 : found->second;
}

// Multiply-adds in one lane of a dot product by the machine's name for it; 0: no dot product.
double dot_steps(const std::string& name) {
  for (const char* dot : {"vpdpbusd", ".sdot.", ".udot.", ".usdot."})
    if (name.find(dot) != std::string::npos) return 4;
  return name.find("dpbf16ps") != std::string::npos ? 2 : 0;
}

struct Access {
  int64_t low_bytes;
  int64_t run_bytes;
};

struct Group {
  int buffer;
  bool is_write;
  std::vector<double> steps;
  std::vector<Access> accesses;
};

// Positions at equal distances, the closest first:  0 4 8 | 100 104 108   →   4 x 3, 100 x 2
std::vector<StreamDim> find_dims(std::vector<int64_t> starts, int64_t run_bytes) {
  std::vector<StreamDim> dims;
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  (void)run_bytes;
  while (starts.size() > 1 && dims.size() < 6) {
    int64_t gap = INT64_MAX;
    for (size_t i = 1; i < starts.size(); ++i) gap = std::min(gap, starts[i] - starts[i - 1]);
    std::vector<int64_t> firsts = {starts[0]};
    for (size_t i = 1; i < starts.size(); ++i)
      if (starts[i] - starts[i - 1] > gap + gap / 2) firsts.push_back(starts[i]);
    dims.push_back({static_cast<double>(gap), static_cast<double>(starts.size()) / static_cast<double>(firsts.size())});
    if (firsts.size() == starts.size()) break;
    starts = std::move(firsts);
  }
  return dims;
}

class Reader {
 public:
  explicit Reader(const BodyContext& context) : context_(context) {}

  void read(const Stmt& s) {
    if (const auto* target = s.as<StoreNode>()) {
      read_value(target->value);
      if (target->mask) read_value(target->mask);
      access(target->buffer, target->indices[0], target->value.dtype(), true);
    } else if (const auto* effect = s.as<EvaluateNode>()) {
      read_value(effect->value);
    }
  }

  void finish(CostNode& node) {
    work_.accumulators = static_cast<double>(
        std::count_if(registers_.begin(), registers_.end(), [](const auto& entry) { return entry.second == 3; }));
    for (Group& group : groups_) {
      Stream stream;
      stream.buffer = group.buffer;
      stream.is_write = group.is_write;
      stream.accesses = static_cast<double>(group.accesses.size());
      stream.step_bytes = group.steps;
      // Runs that touch are one.
      std::sort(group.accesses.begin(), group.accesses.end(),
                [](const Access& a, const Access& b) { return a.low_bytes < b.low_bytes; });
      stream.low_bytes = static_cast<double>(group.accesses[0].low_bytes);
      std::vector<Access> runs;
      for (const Access& a : group.accesses) {
        if (!runs.empty() && a.low_bytes <= runs.back().low_bytes + runs.back().run_bytes) {
          runs.back().run_bytes = std::max(runs.back().run_bytes, a.low_bytes + a.run_bytes - runs.back().low_bytes);
        } else {
          runs.push_back(a);
        }
      }
      int64_t total = 0;
      std::vector<int64_t> starts;
      for (const Access& run : runs) {
        total += run.run_bytes;
        starts.push_back(run.low_bytes);
      }
      stream.run_bytes = static_cast<double>(total) / static_cast<double>(runs.size());
      stream.dims = find_dims(std::move(starts), static_cast<int64_t>(stream.run_bytes));
      node.streams.push_back(std::move(stream));
    }
    for (const Stream& write : node.streams) {
      if (!write.is_write || write.step_bytes.empty() || write.step_bytes.back() != 0) continue;
      for (const Stream& read : node.streams)
        work_.carried_through_memory |=
            !read.is_write && read.buffer == write.buffer && read.step_bytes == write.step_bytes;
    }
    node.work = work_;
  }

 private:
  double pieces(DType dtype) const {
    const int bytes = dtype.lanes * dtype.element_bytes();
    return std::max(1.0, std::ceil(static_cast<double>(bytes) / context_.vector_bytes));
  }

  void count(DType dtype, double instructions, double flops_a_lane) {
    work_.arithmetic += instructions * pieces(dtype);
    work_.flops += flops_a_lane * dtype.lanes;
  }

  void read_value(const Expr& e) {
    if (!e) return;
    switch (e.kind()) {
      case ExprKind::kLoad: {
        const auto* n = e.as<LoadNode>();
        if (n->mask) read_value(n->mask);
        access(n->buffer, n->indices[0], e.dtype(), false);
        return;
      }
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        const bool floats = n->a.dtype().is_float();
        if (floats && (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub)) {
          const auto* left = n->a.as<BinaryNode>();
          const auto* right = n->b.as<BinaryNode>();
          const BinaryNode* product = right && right->op == BinaryOp::kMul ? right
                                      : left && left->op == BinaryOp::kMul ? left
                                                                           : nullptr;
          if (product) {
            work_.fma += pieces(e.dtype());
            work_.flops += 2.0 * e.dtype().lanes;
            read_value(product == right ? n->a : n->b);
            read_value(product->a);
            read_value(product->b);
            return;
          }
        }
        read_value(n->a);
        read_value(n->b);
        // Scalar index arithmetic is not counted.
        if (n->a.dtype().is_int() && !n->a.dtype().is_vector() && !contains_load(e)) return;
        if (n->a.dtype().is_bool() && !n->a.dtype().is_vector()) return;
        if (n->op == BinaryOp::kDiv) work_.divisions += pieces(e.dtype());
        count(n->a.dtype(), 1, floats ? 1 : 0);
        return;
      }
      case ExprKind::kNot:
        return read_value(e.as<NotNode>()->a);
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        read_value(n->condition);
        read_value(n->if_true);
        read_value(n->if_false);
        return count(e.dtype(), 1, 0);
      }
      case ExprKind::kCast:
        read_value(e.as<CastNode>()->a);
        return count(e.dtype(), 1, 0);
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        if (n->name == "prefetch") {  // takes a load's place, of which there are enough
          (n->args.size() > 1 ? work_.asks_far : work_.asks_near) = true;
          return;
        }
        if (!seen_calls_.insert(structural_hash(e)).second) return;
        for (const Expr& arg : n->args) read_value(arg);
        if (n->name == "fma") {
          work_.fma += pieces(e.dtype());
          work_.flops += 2.0 * e.dtype().lanes;
        } else if (n->name == "sqrt" || n->name == "rsqrt" || n->name == "sigmoid" || n->name == "tanh") {
          work_.divisions += pieces(e.dtype());
        } else if (n->name.starts_with("llvm.")) {
          const double steps = dot_steps(n->name);
          if (steps == 0) return count(e.dtype(), 1, 1);
          work_.fma += pieces(e.dtype());
          work_.flops += 2.0 * steps * e.dtype().lanes;
          return;
        }
        return count(e.dtype(), call_cost(n->name), call_cost(n->name));
      }
      case ExprKind::kBroadcast: {
        const Expr& value = e.as<BroadcastNode>()->value;
        const auto* bits = value.as<CallNode>();  // a few bytes as one number
        broadcast_ = value.kind() == ExprKind::kLoad ||
                     (bits && bits->name == "bitcast" && bits->args[0].kind() == ExprKind::kLoad);
        read_value(value);
        broadcast_ = false;
        return;
      }
      case ExprKind::kShuffle: {
        const auto* n = e.as<ShuffleNode>();
        if (!seen_calls_.insert(structural_hash(e)).second) return;
        for (const Expr& v : n->vectors) read_value(v);
        return count(e.dtype(), 1, 0);
      }
      case ExprKind::kRamp:
        return;
      default:
        return;
    }
  }

  // Sums and products of variables: no search for loads.
  static bool is_plain(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::kIntImm:
      case ExprKind::kVar:
        return true;
      case ExprKind::kBinary:
        return is_plain(e.as<BinaryNode>()->a) && is_plain(e.as<BinaryNode>()->b);
      case ExprKind::kRamp:
        return is_plain(e.as<RampNode>()->base);
      case ExprKind::kBroadcast:
        return is_plain(e.as<BroadcastNode>()->value);
      default:
        return !contains_load(e);
    }
  }

  static bool contains_load(const Expr& e) {
    bool found = false;
    walk(e, [&](const Expr& x) {
      found |= x.kind() == ExprKind::kLoad;
      return !found;
    });
    return found;
  }

  void access(const Buffer& buffer, const Expr& index, DType dtype, bool is_write) {
    const bool broadcast = broadcast_;
    broadcast_ = false;
    const int element = buffer->dtype.element_bytes();
    if (buffer->scope == kScopeRegister) {
      const int64_t start = estimate_int(index, *context_.env) * element;
      const int64_t bytes = static_cast<int64_t>(dtype.lanes) * element;
      for (int64_t at = start; at < start + bytes; at += context_.vector_bytes)
        registers_[{buffer.get(), at}] |= is_write ? 2 : 1;
      return;
    }
    const BufferPlace place = context_.place(buffer.get());
    const auto address = [&] {
      return ((place.base ? estimate_int(place.base, *context_.env) : 0) + estimate_int(index, *context_.env)) *
             element;
    };
    const int64_t here = address();
    int64_t lane_step = 1;
    bool irregular = !is_plain(index);
    if (dtype.lanes > 1) {
      const auto* r = index.as<RampNode>();
      if (r)
        lane_step = estimate_int(r->stride, *context_.env);
      else if (index.kind() != ExprKind::kBroadcast)
        irregular |= !find_ramp_stride(index, &lane_step);
    }
    const bool contiguous = dtype.lanes == 1 || lane_step == 1;
    const int64_t run = contiguous && !irregular ? static_cast<int64_t>(dtype.lanes) * element : element;
    // Equal loads are made once.
    const std::tuple<int, int64_t, int, bool> key{place.buffer, here, dtype.lanes, is_write};
    if (!irregular && !seen_.insert(key).second) return;
    if (is_write)
      work_.stores += pieces(dtype);
    else
      work_.loads += pieces(dtype);
    if (broadcast) work_.broadcasts += 1;
    if (!contiguous || irregular) work_.gathers += dtype.lanes;

    std::vector<double> steps;
    for (const auto& [var, extent] : *context_.loops) {
      if (extent <= 1) {
        steps.push_back(0);
        continue;
      }
      const int64_t middle = context_.env->value(var);
      context_.env->set(var, middle + 1);
      steps.push_back(static_cast<double>(address() - here));
      context_.env->set(var, middle);
    }
    Group* group = nullptr;
    for (Group& g : groups_)
      if (g.buffer == place.buffer && g.is_write == is_write && g.steps == steps) group = &g;
    if (!group) {
      groups_.push_back({place.buffer, is_write, std::move(steps), {}});
      group = &groups_.back();
    }
    const int64_t copies = contiguous || irregular ? 1 : dtype.lanes;
    for (int64_t lane = 0; lane < copies; ++lane) group->accesses.push_back({here + lane * lane_step * element, run});
    if (irregular) group->accesses.back().run_bytes = 64;  // some line
  }

  bool find_ramp_stride(const Expr& index, int64_t* stride) const {
    if (const auto* r = index.as<RampNode>()) {
      *stride = estimate_int(r->stride, *context_.env);
      return true;
    }
    if (index.kind() == ExprKind::kBroadcast) {
      *stride = 0;
      return true;
    }
    const auto* n = index.as<BinaryNode>();
    int64_t a = 0, b = 0;
    if (!n || !find_ramp_stride(n->a, &a) || !find_ramp_stride(n->b, &b)) return false;
    if (n->op == BinaryOp::kAdd)
      *stride = a + b;
    else if (n->op == BinaryOp::kSub)
      *stride = a - b;
    else if (n->op == BinaryOp::kMul && a == 0)
      *stride = b * estimate_int(n->a, *context_.env);
    else if (n->op == BinaryOp::kMul && b == 0)
      *stride = a * estimate_int(n->b, *context_.env);
    else
      return false;
    return true;
  }

  const BodyContext& context_;
  Work work_;
  std::vector<Group> groups_;
  template <class T>
  using Set = std::set<T, std::less<T>, PoolAllocator<T>>;
  using Register = std::pair<const BufferNode*, int64_t>;
  std::map<Register, int, std::less<Register>, PoolAllocator<std::pair<const Register, int>>>
      registers_;  // 1 read, 2 written
  Set<std::tuple<int, int64_t, int, bool>> seen_;
  Set<uint64_t> seen_calls_;
  bool broadcast_ = false;
};

}  // namespace

void read_body(const std::vector<Stmt>& stmts, const BodyContext& context, CostNode& node) {
  node.kind = CostNode::Kind::kBody;
  Reader reader(context);
  for (const Stmt& s : stmts) reader.read(s);
  reader.finish(node);
}

}  // namespace fettle
