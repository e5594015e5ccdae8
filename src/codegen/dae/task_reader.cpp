#include "codegen/dae/task_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "target/match_statement.h"
#include "target/tensor_intrinsic.h"

namespace fettle::dae {
namespace {

constexpr const char* kGemm = "dae_gemm_16x16";

class Reader {
 public:
  explicit Reader(const Stmt& body) : body_(body) {}

  Result<Task> run() {
    Stmt at = body_;
    const ForNode* tile = nullptr;
    for (; at && !at.as<StoreNode>();) {
      if (const auto* choice = at.as<IfNode>()) {
        for (const ForNode* loop : task_.loops)
          if (uses_var(choice->condition, loop->var.get())) return refuse("a guard moves with the loops of the task");
        task_.conditions.push_back(choice->condition);
        at = choice->then_body;
      } else if (const auto* loop = at.as<ForNode>()) {
        const auto* note = std::get_if<std::string>(loop->annotations.find(kTensorizeKey));
        if (note && *note == kGemm) {
          tile = loop;
          break;
        }
        task_.loops.push_back(loop);
        at = loop->body;
      } else {
        return refuse("no unit does this");
      }
    }
    for (const ForNode* loop : task_.loops)
      for (const ForNode* other : task_.loops)
        if (uses_var(loop->min, other->var.get()) || uses_var(loop->extent, other->var.get()))
          return refuse("the bounds of loop " + loop->var->name + " move with loop " + other->var->name);
    Result<> done = tile ? read_gemm(Stmt(make_ref<ForNode>(*tile))) : read_store(*at.as<StoreNode>());
    FETTLE_TRY_VOID(done);
    return std::move(task_);
  }

 private:
  tl::unexpected<Diagnostic> refuse(const std::string& why) const {
    return fail(ErrorCode::E301, why, "task\n" + to_text(body_));
  }

  Result<Task::Access> access(const Buffer& buffer, const Expr& index, const std::vector<const ForNode*>& loops) {
    Task::Access result{buffer, index, {}};
    for (const ForNode* loop : loops) {
      const auto split = split_linear(result.base, loop->var.get());
      if (!split) return refuse(fmt::format("{} does not step evenly with loop {}", to_text(index), loop->var->name));
      result.coefficients.push_back(analyzer_.simplify(split->coeff));
      result.base = split->rest;
    }
    result.base = analyzer_.simplify(result.base);
    for (const ForNode* loop : loops) {
      bool moves = uses_var(result.base, loop->var.get());
      for (const Expr& c : result.coefficients) moves |= uses_var(c, loop->var.get());
      if (moves) return refuse(to_text(index) + " is not linear in loop " + loop->var->name);
    }
    return result;
  }
  Result<> add_source(Task::Operation& operation, const LoadNode& source) {
    FETTLE_TRY(Task::Access made, access(source.buffer, source.indices[0], task_.loops));
    operation.src.push_back(std::move(made));
    return {};
  }

  // --- gemm ---
  using Found = std::unordered_map<const BufferNode*, std::pair<Buffer, Expr>>;

  Result<> read_gemm(const Stmt& s) {
    const Func meaning = meaning_of(*find_tensor_intrinsic(kGemm));
    const TileNest pattern = tile_nest(meaning.root().body), tile = tile_nest(s);
    if (!tile.store || tile.loops.size() != 2) return refuse(std::string(kGemm) + " is two loops around a store");
    constexpr const char* kScopes[] = {"inp", "wgt", "acc"};
    Found found;
    const auto note = [&](Found& state, const Buffer& pb, const std::vector<Expr>&, const Buffer& db,
                          const std::vector<Expr>& d) {
      if (!(pb->dtype == db->dtype) || d.size() != 1) return false;
      for (size_t p = 0; p < 3; ++p)
        if (meaning->params[p].buffer == pb && db->scope != kScopes[p]) return false;
      const auto [known, fresh] = state.emplace(pb.get(), std::pair{db, d[0]});
      return fresh || (known->second.first == db && structural_equal(known->second.second, d[0]));
    };
    if (!match_store(*pattern.store, *tile.store, found, note))
      return refuse(std::string(kGemm) + " is acc[j] += i32(inp[k]) * i32(wgt[j, k])");
    std::vector<const ForNode*> loops = task_.loops;
    loops.insert(loops.end(), tile.loops.begin(), tile.loops.end());
    Task::Operation gemm;
    gemm.op = Opcode::kGemm;
    std::vector<Task::Access> accesses;
    for (const Param& param : meaning->params) {
      const auto& [buffer, index] = found.at(param.buffer.get());
      FETTLE_TRY(Task::Access a, access(buffer, index, loops));
      accesses.push_back(std::move(a));
    }
    // Steps of inp, wgt and acc with j and k.
    constexpr int64_t kSteps[3][2] = {{0, 1}, {16, 1}, {1, 0}};
    const size_t n = task_.loops.size();
    const bool j_first = is_one(accesses[2].coefficients[n]);
    for (size_t p = 0; p < 3; ++p) {
      for (size_t l = 0; l < 2; ++l)
        if (!is_int(accesses[p].coefficients[n + l], kSteps[p][l == 0 ? !j_first : j_first]) ||
            !is_int(tile.loops[l]->extent, 16) || !is_zero(tile.loops[l]->min))
          return refuse(std::string(kGemm) + " needs dense vectors, and squares of weights that are stored row by row");
      accesses[p].coefficients.resize(n);
    }
    gemm.src = {accesses[0], accesses[1]};
    gemm.dst = accesses[2];
    task_.operations.push_back(std::move(gemm));
    return {};
  }

  // --- everything else ---
  Result<> read_store(const StoreNode& s) {
    if (s.mask || s.indices.size() != 1 || s.indices[0].dtype().is_vector()) return refuse("no unit does this");
    FETTLE_TRY(const Task::Access dst, access(s.buffer, s.indices[0], task_.loops));
    const auto* source = s.value.as<LoadNode>();
    Task::Operation copy;
    copy.dst = dst;
    if (s.buffer->scope == kScopeGlobal) {
      const auto* narrowed = s.value.as<CastNode>();
      if (narrowed) source = narrowed->a.as<LoadNode>();
      if (!source || source->buffer->scope != "acc") return refuse("the store unit copies acc to memory");
      const DType to = s.buffer->dtype, from = source->buffer->dtype;
      if (!to.is_int() || !from.is_int() || to.bits > from.bits)
        return refuse("the store unit narrows integers, and keeps everything else as it is");
      copy.op = Opcode::kStore;
      copy.unit = Unit::kStore;
    }
    const bool sums = s.buffer->scope == "acc";
    if (copy.op == Opcode::kNop && source && source->buffer->scope == kScopeGlobal) {
      copy.op = Opcode::kLoad;
      copy.unit = sums ? Unit::kCompute : Unit::kLoad;
    }
    if (copy.op != Opcode::kNop) {
      FETTLE_TRY_VOID(add_source(copy, *source));
      task_.operations.push_back(std::move(copy));
      return {};
    }
    if (!sums) return refuse("the load unit copies memory to " + s.buffer->scope);
    if (!(s.buffer->dtype == kI32)) return refuse("the ALU works on i32");
    FETTLE_TRY_VOID(read_alu(dst, s.value));
    return check_chain(dst);
  }

  static std::optional<AluOp> alu_op(BinaryOp op) {
    constexpr std::pair<BinaryOp, AluOp> kOps[] = {{BinaryOp::kAdd, AluOp::kAdd}, {BinaryOp::kSub, AluOp::kSub},
                                                   {BinaryOp::kMul, AluOp::kMul}, {BinaryOp::kMax, AluOp::kMax},
                                                   {BinaryOp::kMin, AluOp::kMin}, {BinaryOp::kShr, AluOp::kShiftRight}};
    for (const auto& [known, alu] : kOps)
      if (known == op) return alu;
    return {};
  }
  static bool is_operand(const Expr& e) {
    const auto* source = e.as<LoadNode>();
    return as_int(e) || (source && source->buffer->scope == "acc" && !source->mask && source->buffer->dtype == kI32);
  }

  // dst = ((x op a) op b) …: one operation after another, each but the first on dst itself.
  Result<> read_alu(const Task::Access& dst, const Expr& value) {
    Task::Operation alu;
    alu.op = Opcode::kAlu;
    alu.dst = dst;
    if (const int64_t* number = as_int(value)) {
      alu.alu = AluOp::kFill;
      alu.immediate = *number;
    } else if (is_operand(value)) {
      alu.alu = AluOp::kMove;
      FETTLE_TRY_VOID(add_source(alu, *value.as<LoadNode>()));
    } else {
      const auto* binary = value.as<BinaryNode>();
      const auto op = binary ? alu_op(binary->op) : std::nullopt;
      if (!op) return refuse("the ALU has no " + to_text(value));
      Expr left = binary->a, right = binary->b;
      const bool commutes = *op != AluOp::kSub && *op != AluOp::kShiftRight;
      if (commutes && (!is_operand(right) || (as_int(left) && !as_int(right)))) std::swap(left, right);
      if (!is_operand(right)) return refuse("the right operand of the ALU is a sum or a number, not " + to_text(right));
      alu.alu = *op;
      if (left.as<LoadNode>() && is_operand(left)) {
        FETTLE_TRY_VOID(add_source(alu, *left.as<LoadNode>()));
      } else {
        FETTLE_TRY_VOID(read_alu(dst, left));
        alu.src.push_back(dst);
      }
      if (const int64_t* other = as_int(right))
        alu.immediate = *other;
      else
        FETTLE_TRY_VOID(add_source(alu, *right.as<LoadNode>()));
    }
    task_.operations.push_back(std::move(alu));
    return {};
  }

  // Several operations run one after the other over all of the task: none may read what an earlier one has written
  // over.
  Result<> check_chain(const Task::Access& dst) {
    if (task_.operations.size() == 1) return {};
    for (size_t i = 0; i < task_.operations.size(); ++i)
      for (size_t k = 0; k < task_.operations[i].src.size(); ++k) {
        const Task::Access& src = task_.operations[i].src[k];
        if (!(src.buffer == dst.buffer) || (i > 0 && k == 0)) continue;
        if (i > 0 || !structural_equal(src.base, dst.base) || !structural_equal(src.coefficients, dst.coefficients))
          return refuse("the ALU writes over what a later operation of the same expression reads");
      }
    for (size_t l = 0; l < dst.coefficients.size(); ++l)
      if (is_zero(dst.coefficients[l]) && !is_one(task_.loops[l]->extent))
        return refuse("an expression of several operations is no update in place");
    return {};
  }

  const Stmt& body_;
  Task task_;
  Analyzer analyzer_;
};

// --- writing down ------------------------------------------------------------------------------------------------

struct Loop {
  int64_t extent = 1;
  std::vector<int64_t> strides;  // dst, then sources, in bytes
};

// Two loops that every operand walks as one become one.
void merge(std::vector<Loop>& loops) {
  std::erase_if(loops, [](const Loop& l) { return l.extent == 1; });
  for (size_t i = loops.size(); i-- > 1;) {
    const Loop &outer = loops[i - 1], &inner = loops[i];
    bool one = true;
    for (size_t k = 0; k < inner.strides.size(); ++k) one &= outer.strides[k] == inner.strides[k] * inner.extent;
    if (!one) continue;
    loops[i].extent *= outer.extent;
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
}

// The dense loop goes last, the longest of the others before it.
void arrange_transfer(std::vector<Loop>& loops, const std::vector<int64_t>& element_bytes) {
  const auto dense = [&](const Loop& l) { return l.strides == element_bytes; };
  const auto run = std::ranges::find_if(loops, dense);
  Loop row{1, element_bytes};
  if (run != loops.end()) {
    row = *run;
    loops.erase(run);
  }
  const auto longest = std::ranges::max_element(loops, {}, &Loop::extent);
  if (longest != loops.end()) std::rotate(longest, longest + 1, loops.end());
  loops.push_back(row);
}

}  // namespace

Result<Task> read_task(const Stmt& body) { return Reader(body).run(); }

Result<int64_t> issued_value(const Expr& e, const IntEnv& values) {
  int64_t value = 0;
  if (evaluate_int(e, values, value) != IntProblem::kNone)
    return fail(ErrorCode::E301, to_text(e) + " is not known when instructions are issued");
  return value;
}

Result<> Task::instantiate(IntEnv& values, const Places& places, const AcceleratorUnits& units,
                           Program& program) const {
  for (const Expr& condition : conditions) {
    FETTLE_TRY(const int64_t holds, issued_value(condition, values));
    if (!holds) return {};
  }
  std::vector<int64_t> mins, extents;
  for (const ForNode* loop : loops) {
    FETTLE_TRY(const int64_t min, issued_value(loop->min, values));
    FETTLE_TRY(const int64_t extent, issued_value(loop->extent, values));
    if (extent <= 0) return {};
    mins.push_back(min);
    extents.push_back(extent);
  }
  for (const Operation& operation : operations)
    FETTLE_TRY_VOID(append(operation, mins, extents, values, places, units, program));
  return {};
}

Result<> Task::append(const Operation& operation, const std::vector<int64_t>& mins, const std::vector<int64_t>& extents,
                      const IntEnv& values, const Places& places, const AcceleratorUnits& units,
                      Program& program) const {
  Instruction instruction;
  instruction.op = operation.op;
  instruction.unit = operation.unit;
  instruction.alu = operation.alu;
  instruction.immediate = operation.immediate;
  std::vector<Loop> nest(extents.size());
  for (size_t l = 0; l < extents.size(); ++l) nest[l].extent = extents[l];
  std::vector<int64_t> element_bytes, granules;
  const auto add = [&](const Access& access, Operand& operand) -> Result<> {
    const auto place = places.find(access.buffer.get());
    if (place == places.end()) return fail(ErrorCode::E301, "buffer " + access.buffer->name + " lies nowhere");
    const int64_t bytes = access.buffer->dtype.element_bytes();
    FETTLE_TRY(int64_t offset, issued_value(access.base, values));
    for (size_t l = 0; l < extents.size(); ++l) {
      FETTLE_TRY(const int64_t step, issued_value(access.coefficients[l], values));
      offset += step * mins[l];
      nest[l].strides.push_back(step * bytes);
    }
    operand.memory = place->second.memory;
    operand.dtype = access.buffer->dtype;
    operand.offset_bytes = place->second.offset_bytes + offset * bytes;
    element_bytes.push_back(bytes);
    const Memory& memory = program.memories[static_cast<size_t>(operand.memory)];
    granules.push_back(memory.is_scratchpad ? memory.granule_bytes : 1);
    return {};
  };
  FETTLE_TRY_VOID(add(operation.dst, instruction.dst));
  for (size_t k = 0; k < operation.src.size(); ++k) FETTLE_TRY_VOID(add(operation.src[k], instruction.src[k]));
  merge(nest);
  const bool transfer = operation.op == Opcode::kLoad || operation.op == Opcode::kStore;
  if (transfer) arrange_transfer(nest, element_bytes);
  if (!transfer && nest.empty()) nest.push_back({1, element_bytes});

  const auto each = [&](auto fn) {
    fn(size_t{0}, instruction.dst);
    for (size_t k = 0; k < operation.src.size(); ++k) fn(k + 1, instruction.src[k]);
  };
  bool aligned = true;
  const size_t checked = transfer ? nest.size() - 1 : nest.size();
  if (operation.op != Opcode::kAlu)
    each([&](size_t k, const Operand& operand) {
      aligned &= operand.offset_bytes % granules[k] == 0;
      for (size_t l = 0; l < checked; ++l) aligned &= nest[l].extent == 1 || nest[l].strides[k] % granules[k] == 0;
    });
  if (!aligned)
    return fail(ErrorCode::E230,
                fmt::format("a place in a scratchpad is not aligned to what the unit handles at once:\n{}",
                            to_text(program, instruction)),
                "buffer " + operation.dst.buffer->name);

  // Loops that one instruction has no room for become several instructions.
  const size_t room = transfer ? 2 : static_cast<size_t>(units.max_compute_loops) + (operation.op == Opcode::kAlu);
  const size_t outside = nest.size() > room ? nest.size() - room : 0;
  for (size_t l = outside; l < nest.size(); ++l) instruction.extents.push_back(nest[l].extent);
  each([&](size_t k, Operand& operand) {
    for (size_t l = outside; l < nest.size(); ++l) operand.strides_bytes.push_back(nest[l].strides[k]);
  });
  const auto repeat = [&](const auto& self, size_t level, const Instruction& at) -> void {
    if (level == outside) {
      program.stream.push_back(at);
      return;
    }
    Instruction next = at;
    for (int64_t i = 0; i < nest[level].extent; ++i) {
      self(self, level + 1, next);
      next.dst.offset_bytes += nest[level].strides[0];
      for (size_t k = 0; k < operation.src.size(); ++k) next.src[k].offset_bytes += nest[level].strides[k + 1];
    }
  };
  repeat(repeat, 0, instruction);
  return {};
}

}  // namespace fettle::dae
