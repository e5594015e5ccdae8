#include "ir/interpret.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"
#include "ir/interpret_code.h"
#include "ir/visit.h"

namespace fettle {
namespace interp {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int kMaxCallDepth = 200;

struct EmptyCode : StmtCode {
  bool run(Frame&) const override { return true; }
};

struct ForCode : StmtCode {
  size_t slot = 0;
  Index min, extent;
  StmtPtr body;
  bool run(Frame& f) const override {
    const int64_t low = min.eval(f), high = low + extent.eval(f);
    if (f.machine->error) return false;
    for (int64_t i = low; i < high; ++i) {
      if (!f.machine->may_step()) return false;
      f.vars[slot].i = i;
      if (!body->run(f)) return false;
    }
    return true;
  }
};

struct SeqCode : StmtCode {
  std::vector<StmtPtr> stmts;
  bool run(Frame& f) const override {
    for (const StmtPtr& s : stmts)
      if (!s->run(f)) return false;
    return true;
  }
};

struct IfCode : StmtCode {
  ExprPtr condition;
  StmtPtr then_body, else_body;
  bool run(Frame& f) const override {
    const bool chosen = condition->scalar(f).i != 0;
    return !f.machine->error && (chosen ? then_body : else_body)->run(f);
  }
};

struct LetCode : StmtCode {
  size_t slot = 0;
  ExprPtr value;
  StmtPtr body;
  bool run(Frame& f) const override {
    if (value->lanes == 1) {
      f.vars[slot] = value->scalar(f);
    } else {
      value->vector(f, &f.vars[slot]);
    }
    return !f.machine->error && body->run(f);
  }
};

struct StoreCode : StmtCode {
  Place place;
  ExprPtr value;
  bool run(Frame& f) const override {
    if (place.lanes > 1) return run_vector(f);
    if (place.mask && !place.mask->scalar(f).i) return !f.machine->error;
    const Value v = value->scalar(f);
    char* p = place.address(f);
    if (f.machine->error) return false;
    write(place.storage, p, v);
    return true;
  }
  bool run_vector(Frame& f) const {
    Lanes values(place.lanes);
    Lanes at(place.lanes);
    value->vector(f, values.get());
    if (!place.addresses(f, at.get()) || f.machine->error) return false;
    for (int i = 0; i < place.lanes; ++i)
      if (at[i].p) write(place.storage, at[i].p, values[i]);
    return true;
  }
};

struct EvaluateCode : StmtCode {
  ExprPtr value;
  bool run(Frame& f) const override {
    Lanes out(value->lanes);
    value->vector(f, out.get());
    return !f.machine->error;
  }
};

bool allocate(const Program& program, Frame& f, size_t slot, DType type) {
  const int64_t count = program.shape_buffer(f, slot);
  if (count < 0) return false;
  BufferSlot& buffer = f.buffers[slot];
  buffer.owned.resize(static_cast<size_t>(count * type.element_bytes()));
  buffer.base = buffer.begin = buffer.owned.data();
  buffer.end = buffer.begin + buffer.owned.size();
  poison(buffer.begin, static_cast<int64_t>(buffer.owned.size()), type);
  return true;
}

struct AllocateCode : StmtCode {
  const Program* program = nullptr;
  size_t slot = 0;
  DType type;
  StmtPtr body;
  bool run(Frame& f) const override { return allocate(*program, f, slot, type) && body->run(f); }
};

struct BlockCode : StmtCode {
  struct Iter {
    size_t slot;
    Index binding, extent;
    bool starts_init;  // init waits for this one to be zero
  };
  const Program* program = nullptr;
  const BlockNode* node = nullptr;
  std::vector<Iter> iters;
  ExprPtr predicate;
  std::vector<std::pair<size_t, DType>> allocations;
  StmtPtr init, body;

  bool run(Frame& f) const override {
    if (predicate && !predicate->scalar(f).i) return !f.machine->error;
    bool first = true;
    for (const Iter& iter : iters) {
      const int64_t value = iter.binding.eval(f);
      if (static_cast<uint64_t>(value) >= static_cast<uint64_t>(iter.extent.eval(f))) return outside(f, iter, value);
      f.vars[iter.slot].i = value;
      first &= !iter.starts_init || value == 0;
    }
    for (const auto& [slot, type] : allocations)
      if (!allocate(*program, f, slot, type)) return false;
    if (init && first && !init->run(f)) return false;
    return body->run(f);
  }

  bool outside(Frame& f, const Iter& iter, int64_t value) const {
    const auto& var = node->iters[static_cast<size_t>(&iter - iters.data())].var;
    f.machine->fail(ErrorCode::E103, fmt::format("iterator {} of block {} is {}, outside of its extent {}", var->name,
                                                 node->name, value, iter.extent.eval(f)));
    return false;
  }
};

struct WhileCode : StmtCode {
  ExprPtr condition;
  StmtPtr body;
  bool run(Frame& f) const override {
    while (condition->scalar(f).i) {
      if (f.machine->error || !f.machine->may_step() || !body->run(f)) return false;
    }
    return !f.machine->error;
  }
};

struct CallCode : StmtCode {
  Program* callee = nullptr;
  std::vector<Place> buffers;
  std::vector<Index> ints;
  bool run(Frame& f) const override {
    std::vector<BufferSlot> slots;
    for (const Place& place : buffers) {
      const BufferSlot& from = f.buffers[static_cast<size_t>(place.slot)];
      // A flat address is an origin, which may lie outside (before the first column of a padded image, say): the
      // callee's accesses are what is checked.
      char* at = place.flat && place.lanes == 1 ? from.base + place.indices[0].eval(f) * place.element_bytes
                                                : place.address(f);
      if (!at || f.machine->error) return false;
      BufferSlot slot;
      slot.base = at;
      slot.begin = from.begin;
      slot.end = from.end;
      slots.push_back(std::move(slot));
    }
    std::vector<int64_t> values;
    for (const Index& i : ints) values.push_back(i.eval(f));
    return !f.machine->error && f.machine->call(*callee, std::move(slots), values);
  }
};

struct FailCode : StmtCode {
  std::string what;
  bool run(Frame& f) const override {
    f.machine->fail(ErrorCode::E104, what);
    return false;
  }
};

// Effects without a meaning for a program that runs in order.
bool is_hint(const Expr& e) {
  const auto* call = e.as<CallNode>();
  return call && (call->name == "barrier" || call->name == "prefetch" || call->name.starts_with("prefetch"));
}

}  // namespace

int64_t Program::shape_buffer(Frame& frame, size_t slot) const {
  const BufferShape& code = buffers[slot];
  BufferSlot& buffer = frame.buffers[slot];
  buffer.shape.clear();
  buffer.strides.clear();
  for (const ExprPtr& e : code.shape) buffer.shape.push_back(e->scalar(frame).i);
  for (const ExprPtr& e : code.strides) buffer.strides.push_back(e->scalar(frame).i);
  if (frame.machine->error) return -1;
  int64_t count = 1, span = 1;
  bool fits = true;
  const bool dense = code.strides.empty();
  if (dense) buffer.strides.resize(buffer.shape.size());
  for (size_t d = buffer.shape.size(); d-- > 0;) {
    const int64_t extent = buffer.shape[d];
    fits &= extent >= 0;
    if (dense) buffer.strides[d] = count;
    fits &= !__builtin_mul_overflow(count, extent, &count) && count <= kMaxBytes;
    int64_t reach = 0;
    fits &= !__builtin_mul_overflow(std::max<int64_t>(extent - 1, 0), buffer.strides[d], &reach) &&
            !__builtin_add_overflow(span, reach, &span) && span <= kMaxBytes;
  }
  if (!fits) {
    frame.machine->fail(ErrorCode::E104,
                        fmt::format("the shape of buffer {} is negative or too large", code.node->name));
    return -1;
  }
  return dense ? count : std::max<int64_t>(span, 0);
}

bool Machine::call(Program& program, std::vector<BufferSlot> slots, const std::vector<int64_t>& ints) {
  if (slots.size() != program.params || ints.size() != program.int_slots.size()) {
    fail(ErrorCode::E104, fmt::format("{} takes {} buffers and {} integers, not {} and {}", program.name,
                                      program.params, program.int_slots.size(), slots.size(), ints.size()));
    return false;
  }
  if (depth >= kMaxCallDepth) {
    fail(ErrorCode::E104, "functions call each other too deeply");
    return false;
  }
  std::unique_ptr<Frame> frame;
  if (program.idle.empty()) {
    frame = std::make_unique<Frame>();
    frame->machine = this;
    frame->vars.resize(static_cast<size_t>(program.vars) + 1);  // never empty
    frame->buffers.resize(program.buffers.size());
  } else {
    frame = std::move(program.idle.back());
    program.idle.pop_back();
  }
  for (size_t i = 0; i < ints.size(); ++i)
    frame->vars[static_cast<size_t>(program.int_slots[i])].i =
        Wrap(program.int_types[i])(static_cast<uint64_t>(ints[i]));
  ++depth;
  bool good = true;
  for (size_t i = 0; i < slots.size() && good; ++i) {
    frame->buffers[i] = std::move(slots[i]);
    good = program.shape_buffer(*frame, i) >= 0;
  }
  good = good && program.body->run(*frame);
  --depth;
  program.idle.push_back(std::move(frame));
  return good;
}

int Compiler::bind(const Var& var) {
  const int slot = program_.vars;
  program_.vars += var->dtype.lanes;
  vars_[var.get()] = slot;
  return slot;
}

int Compiler::declare(const Buffer& buffer) {
  Program::BufferShape shape{buffer.get(), {}, {}};
  for (const Expr& e : buffer->shape) shape.shape.push_back(expr(e));
  for (const Expr& e : buffer->strides) shape.strides.push_back(expr(e));
  const int slot = static_cast<int>(program_.buffers.size());
  program_.buffers.push_back(std::move(shape));
  buffers_[buffer.get()] = slot;
  return slot;
}

StmtPtr Compiler::unsupported(const std::string& what) {
  auto code = std::make_unique<FailCode>();
  code->what = what;
  return code;
}

StmtPtr Compiler::block(const BlockNode& n) {
  auto code = std::make_unique<BlockCode>();
  code->program = &program_;
  code->node = &n;
  if (n.predicate) code->predicate = expr(n.predicate);
  for (const IterVar& iter : n.iters) {
    const bool waits = iter.kind == IterKind::kReduce;
    code->iters.push_back({0, index(iter.binding), index(iter.extent), waits});
  }
  for (size_t i = 0; i < n.iters.size(); ++i) code->iters[i].slot = static_cast<size_t>(bind(n.iters[i].var));
  const bool outer = std::exchange(in_block, true);
  for (const Buffer& buffer : n.allocations)
    code->allocations.emplace_back(static_cast<size_t>(declare(buffer)), buffer->dtype);
  if (n.init) code->init = stmt(n.init);
  code->body = stmt(n.body);
  in_block = outer;
  return code;
}

StmtPtr Compiler::stmt(const Stmt& s) {
  if (!s) return std::make_unique<EmptyCode>();
  switch (s.kind()) {
    case StmtKind::kFor: {
      const auto* n = s.as<ForNode>();
      auto code = std::make_unique<ForCode>();
      code->min = index(n->min);
      code->extent = index(n->extent);
      code->slot = static_cast<size_t>(bind(n->var));
      code->body = stmt(n->body);
      return code;
    }
    case StmtKind::kSeq: {
      auto code = std::make_unique<SeqCode>();
      for (const Stmt& child : s.as<SeqNode>()->stmts) code->stmts.push_back(stmt(child));
      return code;
    }
    case StmtKind::kIf: {
      const auto* n = s.as<IfNode>();
      auto code = std::make_unique<IfCode>();
      code->condition = expr(n->condition);
      code->then_body = stmt(n->then_body);
      code->else_body = stmt(n->else_body);
      return code;
    }
    case StmtKind::kLet: {
      const auto* n = s.as<LetNode>();
      auto code = std::make_unique<LetCode>();
      code->value = expr(n->value);
      code->slot = static_cast<size_t>(bind(n->var));
      code->body = stmt(n->body);
      return code;
    }
    case StmtKind::kStore: {
      const auto* n = s.as<StoreNode>();
      auto code = std::make_unique<StoreCode>();
      code->place = place(n->buffer, n->indices, n->mask);
      code->value = expr(n->value);
      return code;
    }
    case StmtKind::kEvaluate: {
      const auto* n = s.as<EvaluateNode>();
      if (is_hint(n->value)) return std::make_unique<EmptyCode>();
      auto code = std::make_unique<EvaluateCode>();
      code->value = expr(n->value);
      return code;
    }
    case StmtKind::kBlock:
      return block(*s.as<BlockNode>());
    case StmtKind::kAllocate: {
      const auto* n = s.as<AllocateNode>();
      auto code = std::make_unique<AllocateCode>();
      code->program = &program_;
      code->slot = static_cast<size_t>(declare(n->buffer));
      code->type = n->buffer->dtype;
      code->body = stmt(n->body);
      return code;
    }
    case StmtKind::kWhile: {
      const auto* n = s.as<WhileNode>();
      auto code = std::make_unique<WhileCode>();
      code->condition = expr(n->condition);
      code->body = stmt(n->body);
      return code;
    }
    case StmtKind::kCallFunc: {
      const auto* n = s.as<CallFuncNode>();
      const auto found = machine_.programs.find(n->name);
      if (found == machine_.programs.end())
        return unsupported(fmt::format("there is no function '{}' to call", n->name));
      auto code = std::make_unique<CallCode>();
      code->callee = found->second.get();
      for (const Expr& arg : n->args) {
        if (const auto* address = arg.as<AddressNode>())
          code->buffers.push_back(place(address->buffer, address->indices, nullptr));
        else
          code->ints.push_back(index(arg));
      }
      return code;
    }
    case StmtKind::kAsync:
      return stmt(s.as<AsyncNode>()->body);
  }
  FETTLE_UNREACHABLE();
}

namespace {

void compile(Machine& machine, Program& program, const Func& func) {
  Compiler compiler(machine, program);
  for (const IntParam& param : func->int_params) {
    program.int_slots.push_back(compiler.bind(param.var));
    program.int_types.push_back(param.var->dtype);
  }
  program.params = func->params.size();
  for (const Param& param : func->params) compiler.declare(param.buffer);
  program.body = compiler.stmt(func->body);
}

Result<> run(const std::map<std::string, Func>& funcs, const std::string& entry, std::span<const BufferArg> buffers,
             std::span<const int64_t> ints, int64_t* steps_left = nullptr) {
  Machine machine;
  if (steps_left) machine.steps_left = steps_left;
  for (const auto& [name, func] : funcs) {
    auto& program = machine.programs[name] = std::make_unique<Program>();
    program->name = name;
  }
  for (const auto& [name, func] : funcs) compile(machine, *machine.programs[name], func);
  const auto found = machine.programs.find(entry);
  if (found == machine.programs.end()) return fail(ErrorCode::E104, "the module has no entry");
  std::vector<BufferSlot> slots(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    slots[i].base = slots[i].begin = static_cast<char*>(buffers[i].data);
    slots[i].end = slots[i].begin + buffers[i].size_bytes;
  }
  if (!machine.call(*found->second, std::move(slots), {ints.begin(), ints.end()})) {
    FETTLE_CHECK(machine.error);
    machine.error->where = entry;
    return fail(std::move(*machine.error));
  }
  return {};
}

}  // namespace
}  // namespace interp

Result<> interpret(const Func& func, std::span<const BufferArg> buffers, std::span<const int64_t> ints,
                   int64_t* steps_left) {
  return interp::run({{func->name, func}}, func->name, buffers, ints, steps_left);
}

Result<> interpret(const IrModule& module, std::span<const BufferArg> buffers, std::span<const int64_t> ints) {
  return interp::run(module.funcs, module.entry, buffers, ints);
}

}  // namespace fettle
