#include "cost/loop_tree/body_reader.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/hash.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "target/caches.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

/// Lanes of one vector that lie in the same lines take half as long to be loaded one by one as others.
constexpr double kNearLane = 0.5;

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
// Pairs of 16 bits, whose sums are added by an instruction of their own. That runs on more ports than multiplications
// do, so both together count as one multiply-add.
bool multiplies_pairs(const Expr& e) {
  const auto* call = e.as<CallNode>();
  return call && call->name.starts_with("llvm.x86.avx") && call->name.find("pmadd") != std::string::npos &&
         call->name.find("pmaddub") == std::string::npos;
}

// Ascending positions at equal distances, the closest first:  0 4 8 | 100 104 108   →   4 x 3, 100 x 2
std::vector<StreamDim> find_dims(std::vector<int64_t> starts) {
  std::vector<StreamDim> dims;
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

// Scalars made of integers and conditions on them, without calls, conversions and choices.
bool is_index_arithmetic(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return true;
    case ExprKind::kVar:
      return !e.dtype().is_float() && !e.dtype().is_vector();
    case ExprKind::kBinary:
      return is_index_arithmetic(e.as<BinaryNode>()->a) && is_index_arithmetic(e.as<BinaryNode>()->b);
    default:
      return false;
  }
}

// A factor of a product that is added: multiply-adds take the sign of x * -1.
Expr unnegated(const Expr& factor) {
  const auto* widened = factor.as<BroadcastNode>();
  const Expr& e = widened ? widened->value : factor;
  const auto* product = e.as<BinaryNode>();
  const auto* by = product && product->op == BinaryOp::kMul ? product->b.as<FloatImmNode>() : nullptr;
  return by && by->value == -1 ? product->a : factor;
}

bool is_plain(const Expr& e) {
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
      return !reads_memory(e);
  }
}

}  // namespace

bool is_carried_through_memory(const std::vector<Stream>& streams) {
  for (const Stream& write : streams) {
    if (!write.is_write || write.step_bytes.empty() || write.step_bytes.back() != 0) continue;
    for (const Stream& read : streams)
      if (!read.is_write && read.buffer == write.buffer && read.step_bytes == write.step_bytes) return true;
  }
  return false;
}

void BodyReader::read(const Stmt& s) {
  enter_copies();
  if (const auto* target = s.as<StoreNode>()) {
    const int lanes = std::max<int>(target->value.dtype().lanes, lanes_of(target->indices[0]));
    read_widened(target->value, lanes);
    // A sum in registers is made under its mask at once.
    if (target->mask && target->buffer->scope != kScopeRegister) read_value(target->mask);
    access(target->buffer, target->indices[0], lanes, true);
  } else if (const auto* effect = s.as<EvaluateNode>()) {
    read_value(effect->value);
  }
}

void BodyReader::finish(CostNode& node) {
  node.kind = CostNode::Kind::kBody;
  node.asked_near = std::move(asked_near_);
  node.asked_far = std::move(asked_far_);
  std::sort(registers_.begin(), registers_.end(), [](const RegisterUse& a, const RegisterUse& b) {
    return a.buffer != b.buffer ? std::less<>()(a.buffer, b.buffer) : a.at < b.at;
  });
  for (size_t i = 0; i < registers_.size();) {
    int how = 0;
    const RegisterUse& first = registers_[i];
    for (; i < registers_.size() && registers_[i].buffer == first.buffer && registers_[i].at == first.at; ++i)
      how |= registers_[i].how;
    work_.accumulators += how == 3 ? 1 : 0;
    work_.touched_registers += 1;
  }
  struct Run {
    int64_t low_bytes, run_bytes;
  };
  std::vector<Run> touched, runs;
  for (Group& group : groups_) {
    // Equal accesses are made once.
    const auto before = [&](const Place& a, const Place& b) {
      if (a.low_bytes != b.low_bytes) return a.low_bytes < b.low_bytes;
      if (a.access == b.access) return false;
      const int la = accesses_[static_cast<size_t>(a.access)].lanes,
                lb = accesses_[static_cast<size_t>(b.access)].lanes;
      return la != lb ? la < lb : a.access < b.access;
    };
    if (!std::is_sorted(group.places.begin(), group.places.end(), before))
      std::sort(group.places.begin(), group.places.end(), before);
    touched.clear();
    double made = 0;
    const Place* last = nullptr;
    for (const Place& place : group.places) {
      const Access& a = accesses_[static_cast<size_t>(place.access)];
      if (!a.irregular) {
        if (last && last->low_bytes == place.low_bytes && accesses_[static_cast<size_t>(last->access)].lanes == a.lanes)
          continue;
        last = &place;
      }
      (group.is_write ? work_.stores : work_.loads) += pieces(a.lanes, a.element_bytes);
      if (a.broadcast) work_.broadcasts += 1;
      const bool contiguous = a.lanes == 1 || a.lane_step == 1;
      const bool is_near = !a.irregular && !group.is_write && std::abs(a.lane_step) * a.element_bytes < kCacheLineBytes;
      if (!contiguous || a.irregular) work_.gathers += (is_near ? kNearLane : 1) * a.lanes;
      if (a.irregular) {
        touched.push_back({place.low_bytes, 64});  // some line
      } else if (contiguous) {
        touched.push_back({place.low_bytes, static_cast<int64_t>(a.lanes) * a.element_bytes});
      } else {
        for (int64_t lane = 0; lane < a.lanes; ++lane)
          touched.push_back({place.low_bytes + lane * a.lane_step * a.element_bytes, a.element_bytes});
      }
    }
    made = static_cast<double>(touched.size());
    Stream stream;
    stream.buffer = group.buffer;
    stream.is_write = group.is_write;
    stream.accesses = made;
    stream.step_bytes.assign(group.steps.begin(), group.steps.end());
    // Runs that touch are one.
    const auto lower = [](const Run& a, const Run& b) { return a.low_bytes < b.low_bytes; };
    if (!std::is_sorted(touched.begin(), touched.end(), lower)) std::sort(touched.begin(), touched.end(), lower);
    stream.low_bytes = static_cast<double>(touched[0].low_bytes);
    runs.clear();
    for (const Run& a : touched) {
      if (!runs.empty() && a.low_bytes <= runs.back().low_bytes + runs.back().run_bytes) {
        runs.back().run_bytes = std::max(runs.back().run_bytes, a.low_bytes + a.run_bytes - runs.back().low_bytes);
      } else {
        runs.push_back(a);
      }
    }
    int64_t total = 0;
    std::vector<int64_t> starts;
    starts.reserve(runs.size());
    for (const Run& run : runs) {
      total += run.run_bytes;
      starts.push_back(run.low_bytes);
    }
    stream.run_bytes = static_cast<double>(total) / static_cast<double>(runs.size());
    stream.dims = find_dims(std::move(starts));
    node.streams.push_back(std::move(stream));
  }
  work_.carried_through_memory = is_carried_through_memory(node.streams);
  node.work = work_;
}

void BodyReader::enter_copies() {
  const auto& unrolled = *context_.around.unrolled;
  counts_.assign(unrolled.size(), 1);
  copies_ = 1;
  for (const UnrolledLoop& loop : unrolled) copies_ *= static_cast<double>(loop.extent);
}

bool BodyReader::uses_lane(const Expr& e) const {
  const VarNode* lane = context_.around.lane->var;
  if (!lane || !e) return false;
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
      return false;
    case ExprKind::kVar:
      return e.as<VarNode>() == lane;
    case ExprKind::kBinary:
      return uses_lane(e.as<BinaryNode>()->a) || uses_lane(e.as<BinaryNode>()->b);
    case ExprKind::kLoad:
      return uses_lane(e.as<LoadNode>()->indices[0]);
    default:
      return uses_var(e, lane);
  }
}

int BodyReader::lanes_of(const Expr& e) const { return uses_lane(e) ? context_.around.lane->lanes : e.dtype().lanes; }

double BodyReader::pieces(int lanes, int element_bytes) const {
  return std::max(1.0, std::ceil(static_cast<double>(lanes * element_bytes) / context_.vector_bytes));
}

void BodyReader::count(DType dtype, int lanes, double instructions, double flops_a_lane) {
  work_.arithmetic += copies_ * instructions * pieces(lanes, dtype.element_bytes());
  work_.flops += copies_ * flops_a_lane * lanes;
}

// As an operand of `lanes` lanes: one element of memory goes to all of them.
void BodyReader::read_widened(const Expr& e, int lanes) {
  if (lanes > 1 && e.dtype().lanes == 1 && lanes_of(e) == 1) {
    const auto* bits = e.as<CallNode>();  // a few bytes as one number
    broadcast_ =
        e.kind() == ExprKind::kLoad || (bits && bits->name == "bitcast" && bits->args[0].kind() == ExprKind::kLoad);
    const auto saved = std::pair(counts_, copies_);
    const bool is_worked_out = e.kind() == ExprKind::kBinary && reads_memory(e);  // once for all who take it
    if (!is_worked_out || !seen_before(e)) read_value(e);
    std::tie(counts_, copies_) = saved;
    broadcast_ = false;
    return;
  }
  read_value(e);
}

// Whether an equal call was read before; else only those copies of it count that differ.
bool BodyReader::seen_before(const Expr& e) {
  uint64_t key = structural_hash(e);
  if (context_.constants->size() > 0)
    for (const Var& var : collect_vars(e))
      if (const int64_t* value = context_.constants->find(var.get()))
        key = hash_combine(key, static_cast<uint64_t>(*value));
  if (std::find(seen_calls_.begin(), seen_calls_.end(), key) != seen_calls_.end()) return true;
  seen_calls_.push_back(key);
  const auto& unrolled = *context_.around.unrolled;
  for (size_t i = 0; i < unrolled.size(); ++i) {
    if (!counts_[i] || uses_var(e, unrolled[i].var)) continue;
    counts_[i] = 0;
    copies_ /= static_cast<double>(unrolled[i].extent);
  }
  return false;
}

// Of a tile unit, as place_tiles leaves it: a product, or a move of a tile, each of whose rows is a vector. False: it
// is none of these.
bool BodyReader::read_tile_call(const CallNode& call) {
  if (call.name.starts_with("llvm.x86.tdp")) {
    const double factors_each = call.name.find("bf16") != std::string::npos ? 2 : 4;  // of 32 bits
    work_.tile_products += copies_;
    work_.flops += copies_ * 2 * kTileRows * (kTileRowBytes / 4) * (kTileRowBytes / 4) * factors_each;
    return true;
  }
  const auto* address = call.args.size() == 3 ? call.args[1].as<AddressNode>() : nullptr;
  if (!address) return call.name.starts_with("llvm.x86.tilezero");
  const int bytes = address->buffer->dtype.element_bytes(), lanes = kTileRowBytes / bytes;
  const bool writes = call.name.starts_with("llvm.x86.tilestore");
  for (int row = 0; row < kTileRows; ++row) {
    const Expr first = address->indices[0] + Expr(row) * floordiv(call.args[2], Expr(bytes));
    access(address->buffer, ramp(first, Expr(1), lanes), lanes, writes);
  }
  return true;
}

void BodyReader::read_value(const Expr& e) {
  if (!e) return;
  switch (e.kind()) {
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      if (n->mask) {
        const auto saved = std::pair(counts_, copies_);
        if (!seen_before(n->mask)) read_value(n->mask);
        std::tie(counts_, copies_) = saved;
      }
      if (const auto* all = n->indices[0].as<BroadcastNode>()) {  // one element to all lanes
        broadcast_ = true;
        return access(n->buffer, all->value, 1, false);
      }
      return access(n->buffer, n->indices[0], lanes_of(e), false);
    }
    case ExprKind::kBinary: {
      if (is_index_arithmetic(e) && !uses_lane(e)) return;  // it is not counted
      const auto* n = e.as<BinaryNode>();
      const bool floats = n->a.dtype().is_float();
      const int lanes = std::max(lanes_of(n->a), lanes_of(n->b));
      const int bytes = e.dtype().element_bytes();
      if (floats && (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub)) {
        const auto product_of = [&](const Expr& side) -> const BinaryNode* {
          const auto* product = side.as<BinaryNode>();
          return product && product->op == BinaryOp::kMul && lanes_of(side) == lanes ? product : nullptr;
        };
        const BinaryNode* right = product_of(n->b);
        const BinaryNode* product = right ? right : product_of(n->a);
        if (product) {
          work_.fma += copies_ * pieces(lanes, bytes);
          work_.flops += copies_ * 2.0 * lanes;
          read_widened(right ? n->a : n->b, lanes);
          read_widened(unnegated(product->a), lanes);
          read_widened(unnegated(product->b), lanes);
          return;
        }
      }
      if (n->op == BinaryOp::kAdd && (multiplies_pairs(n->a) || multiplies_pairs(n->b))) {
        const auto& [sum, pairs] = multiplies_pairs(n->b) ? std::pair(n->a, n->b) : std::pair(n->b, n->a);
        work_.fma += copies_ * pieces(lanes, bytes);
        work_.flops += copies_ * 4.0 * lanes;
        read_widened(sum, lanes);
        for (const Expr& factor : pairs.as<CallNode>()->args) read_widened(factor, lanes);
        return;
      }
      read_widened(n->a, lanes);
      read_widened(n->b, lanes);
      // Scalar index arithmetic is not counted.
      if (n->a.dtype().is_int() && lanes == 1 && !reads_memory(e)) return;
      if (n->a.dtype().is_bool() && lanes == 1) return;
      if (n->op == BinaryOp::kDiv) work_.divisions += copies_ * pieces(lanes, bytes);
      return count(n->a.dtype(), lanes, 1, floats ? 1 : 0);
    }
    case ExprKind::kNot:
      return read_value(e.as<NotNode>()->a);
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      const int lanes = lanes_of(e);
      if (int64_t holds = 0;
          context_.constants->size() > 0 && evaluate_int(n->condition, *context_.constants, holds) == IntProblem::kNone)
        return read_value(holds ? n->if_true : n->if_false);
      const auto saved = std::pair(counts_, copies_);  // rows of a tile share what lanes are guarded for
      if (lanes > 1 && seen_before(e)) return;
      read_value(n->condition);
      read_widened(n->if_true, lanes);
      read_widened(n->if_false, lanes);
      count(e.dtype(), lanes, 1, 0);
      std::tie(counts_, copies_) = saved;
      return;
    }
    case ExprKind::kCast:
      read_value(e.as<CastNode>()->a);
      return count(e.dtype(), lanes_of(e), 1, 0);
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      if (n->name == "prefetch") {  // takes a load's place, of which there are enough
        const bool far = n->args.size() > 1;
        (far ? work_.far_requests : work_.near_requests) += copies_;
        const auto* address = n->args.empty() ? nullptr : n->args[0].as<AddressNode>();
        const int buffer = address ? context_.place(address->buffer.get()).buffer : -1;
        std::vector<int>& asked = far ? asked_far_ : asked_near_;
        if (address && std::ranges::find(asked, buffer) == asked.end()) asked.push_back(buffer);
        return;
      }
      if (n->name.starts_with("llvm.x86.t") && read_tile_call(*n)) return;
      const auto saved = std::pair(counts_, copies_);
      if (seen_before(e)) return;
      const int lanes = lanes_of(e);
      const double instructions = copies_ * pieces(lanes, e.dtype().element_bytes());
      for (const Expr& arg : n->args) read_widened(arg, lanes);
      if (const double steps = n->name.starts_with("llvm.") ? dot_steps(n->name) : 0; steps > 0) {
        work_.fma += instructions;
        work_.flops += copies_ * 2.0 * steps * lanes;
      } else if (n->name.starts_with("llvm.")) {
        count(e.dtype(), lanes, 1, 1);
      } else {
        if (n->name == "fma") {
          work_.fma += instructions;
          work_.flops += copies_ * 2.0 * lanes;
        } else if (n->name == "sqrt" || n->name == "rsqrt" || n->name == "sigmoid" || n->name == "tanh") {
          work_.divisions += instructions;
        }
        count(e.dtype(), lanes, call_cost(n->name), call_cost(n->name));
      }
      std::tie(counts_, copies_) = saved;
      return;
    }
    case ExprKind::kBroadcast:
      return read_widened(e.as<BroadcastNode>()->value, e.dtype().lanes);
    case ExprKind::kShuffle: {
      const auto* n = e.as<ShuffleNode>();
      const auto saved = std::pair(counts_, copies_);
      if (seen_before(e)) return;
      for (const Expr& v : n->vectors) read_value(v);
      count(e.dtype(), e.dtype().lanes, 1, 0);
      std::tie(counts_, copies_) = saved;
      return;
    }
    default:
      return;
  }
}

/// Calls fn(value, steps of the index) for every copy that differs, or for each; where `form` is not linear in them, by
/// looking at each.
template <class Fn>
void BodyReader::for_each_copy(const AccessForm& form, const Expr& index, bool each, const Fn& fn) {
  const auto& unrolled = *context_.around.unrolled;
  size_t turning[AccessForm::kMost];
  size_t n = 0;
  for (size_t i = 0; i < unrolled.size(); ++i)
    if (counts_[i] && unrolled[i].extent > 1 && (each || form.copies[i] != 0 || !form.copies_are_linear))
      turning[n++] = i;
  // The widest steps outermost: places then come in order, or nearly.
  if (form.copies_are_linear)
    std::sort(turning, turning + n,
              [&](size_t a, size_t b) { return std::abs(form.copies[a]) > std::abs(form.copies[b]); });
  int64_t at[AccessForm::kMost] = {};
  int64_t value = form.value;
  for (;;) {
    if (form.copies_are_linear) {
      fn(value, form.steps.data());
    } else {
      for (size_t d = 0; d < n; ++d)
        context_.around.env->set(unrolled[turning[d]].var, unrolled[turning[d]].min + at[d]);
      const AccessForm here = access_form(index, context_.around);
      fn(here.value, here.steps.data());
    }
    size_t d = n;
    for (; d > 0; --d) {
      const size_t i = turning[d - 1];
      if (++at[d - 1] < unrolled[i].extent) {
        value += form.copies[i];
        break;
      }
      value -= form.copies[i] * (unrolled[i].extent - 1);
      at[d - 1] = 0;
    }
    if (d == 0) break;
  }
  if (!form.copies_are_linear)
    for (size_t d = 0; d < n; ++d) context_.around.env->set(unrolled[turning[d]].var, unrolled[turning[d]].min);
}

void BodyReader::add_register_uses(const BufferNode* buffer, const Expr& index, int lanes, int element, bool is_write) {
  const int64_t bytes = static_cast<int64_t>(lanes) * element;
  for_each_copy(access_form(index, context_.around), index, false, [&](int64_t value, const int64_t*) {
    const int64_t start = value * element;
    for (int64_t at = start; at < start + bytes; at += context_.vector_bytes)
      registers_.push_back({buffer, at, is_write ? 2 : 1});
  });
}

BodyReader::Group& BodyReader::group_of(int buffer, bool is_write, const int64_t* steps) {
  const size_t n = context_.around.loops->size();
  for (Group& g : groups_)
    if (g.buffer == buffer && g.is_write == is_write && std::equal(g.steps.begin(), g.steps.end(), steps)) return g;
  return groups_.emplace_back(Group{buffer, is_write, {steps, steps + n}, {}});
}

void BodyReader::access(const Buffer& buffer, const Expr& index, int lanes, bool is_write) {
  const bool broadcast = broadcast_;
  broadcast_ = false;
  const int element = buffer->dtype.element_bytes();
  if (buffer->scope == kScopeRegister) return add_register_uses(buffer.get(), index, lanes, element, is_write);
  const BufferPlace& place = context_.place(buffer.get());
  const AccessForm form = access_form(index, context_.around);
  Access made{lanes, 1, element, !is_plain(index), broadcast};
  if (index.dtype().lanes > 1) {
    if (index.kind() != ExprKind::kBroadcast) made.irregular |= !native_lane_step(index, &made.lane_step);
  } else if (lanes > 1) {
    if (form.lanes_are_linear)
      made.lane_step = form.lane;
    else
      made.irregular = true;
  }
  accesses_.push_back(made);
  const int number = static_cast<int>(accesses_.size()) - 1;
  const size_t n = context_.around.loops->size();
  int64_t steps[AccessForm::kMost], last[AccessForm::kMost];
  Group* group = nullptr;
  for_each_copy(form, index, made.irregular, [&](int64_t value, const int64_t* own) {
    if (!group || (!form.copies_are_linear && !std::equal(own, own + n, last))) {
      std::copy(own, own + n, last);
      for (size_t i = 0; i < n; ++i)
        steps[i] = (own[i] + (i < place.base_steps.size() ? place.base_steps[i] : 0)) * element;
      group = &group_of(place.buffer, is_write, steps);
    }
    group->places.push_back({(place.base + value) * element, number});
  });
}

// Of code whose vectors are spelled out.
bool BodyReader::native_lane_step(const Expr& index, int64_t* stride) const {
  const IntEnv& env = *context_.around.env;
  if (const auto* r = index.as<RampNode>()) {
    *stride = estimate_int(r->stride, env);
    return true;
  }
  if (index.kind() == ExprKind::kBroadcast) {
    *stride = 0;
    return true;
  }
  const auto* n = index.as<BinaryNode>();
  int64_t a = 0, b = 0;
  if (!n || !native_lane_step(n->a, &a) || !native_lane_step(n->b, &b)) return false;
  if (n->op == BinaryOp::kAdd)
    *stride = a + b;
  else if (n->op == BinaryOp::kSub)
    *stride = a - b;
  else if (n->op == BinaryOp::kMul && a == 0)
    *stride = b * estimate_int(n->a, env);
  else if (n->op == BinaryOp::kMul && b == 0)
    *stride = a * estimate_int(n->b, env);
  else
    return false;
  return true;
}

}  // namespace fettle
