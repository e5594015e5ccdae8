#include "graph/plan/host_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/annotations.h"
#include "ir/device_annotations.h"
#include "rt/model_api.h"

namespace fettle {
namespace {

class HostWriter {
 public:
  HostWriter(const HostInterface& interface, SizeTable& table)
      : table_(table),
        func_(make_ref<FuncNode>()),
        on_device_(interface.on_device),
        counters_at_(interface.counters_at),
        counter_is_given_(static_cast<size_t>(interface.n_loops), false) {
    add("input", interface.input_bytes, ParamKind::kInput);
    first_output_ = func_->params.size();
    add("output", interface.output_bytes, ParamKind::kOutput);
    first_state_ = func_->params.size();
    add("state", interface.state_bytes, ParamKind::kOutput);
    arena_ = func_->params.size();
    add("arena", {interface.arena_bytes}, ParamKind::kOutput);
    add("constant", interface.constant_bytes, ParamKind::kConstant);
    if (!table_.empty()) {
      table_buffer_ = make_buffer("table", {static_cast<int64_t>(std::ssize(table_.entries()))}, kI64);
      func_->params.push_back({table_buffer_, ParamKind::kOutput, false});
      first_stage_ = func_->params.size();
      add("stage", interface.stage_arena_bytes, ParamKind::kOutput);
    }
    std::vector<int64_t> late;
    for (size_t i = 0; i < interface.late_outputs.size(); ++i)
      if (interface.late_outputs[i]) late.push_back(static_cast<int64_t>(first_output_ + i));
    for (size_t i = 0; i < interface.stage_arena_bytes.size(); ++i)
      late.push_back(static_cast<int64_t>(first_stage_ + i));
    if (!late.empty()) func_->annotations.set(kLateKey, std::move(late));
    for (int i = 0; i < interface.n_loops; ++i) counters_.push_back(make_buffer(fmt::format("i{}", i), {1}, kI64));
  }

  Func write(const std::string& name, const std::vector<HostStep>& steps) {
    func_->name = name;
    func_->annotations.set(kHostKey, int64_t{1});
    if (on_device_) {
      func_->annotations.set(kOnDeviceKey, int64_t{1});
      note_given_counters(steps);
    }
    Stmt body = all(steps);
    for (const Buffer& read : reads_) body = allocate(read, std::move(body));
    for (int i = 0; i < static_cast<int>(table_.entries().size()); ++i) func_->int_params.push_back({.var = entry(i)});
    func_->body = std::move(body);
    return Func(func_);
  }

 private:
  void add(const char* kind, const std::vector<Dim>& sizes, ParamKind param_kind) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      // Of what a run tells, nothing is known where the program begins.
      const Expr bytes = table_.is_late(sizes[i]) ? Expr(1) : value_of(max(sizes[i], 1));
      func_->params.push_back({make_buffer(fmt::format("{}{}", kind, i), {bytes}, kU8), param_kind, false});
    }
  }

  // An entry of the table.
  const Var& entry(int index) {
    while (std::ssize(entries_) <= index) entries_.push_back(make_var(fmt::format("t{}", entries_.size()), kI64));
    return entries_[static_cast<size_t>(index)];
  }
  Expr value_of(const Dim& dim) {
    if (dim.is_number()) return Expr(dim.value());
    const int index = table_.index_of(dim);
    if (table_.stage_of(index) > 0) return load(table_buffer_, {Expr(int64_t{index})});
    return Expr(entry(index));
  }

  const Buffer& buffer_of(const HostAddress& address) const {
    const auto index = static_cast<size_t>(address.index);
    switch (address.kind) {
      case HostAddress::Kind::kInput:
        return func_->params[index].buffer;
      case HostAddress::Kind::kOutput:
        return func_->params[first_output_ + index].buffer;
      case HostAddress::Kind::kState:
        return func_->params[first_state_ + index].buffer;
      case HostAddress::Kind::kConstant:
        return func_->params[arena_ + 1 + index].buffer;
      case HostAddress::Kind::kCounter:
        return counters_[index];
      case HostAddress::Kind::kArena:
        break;
    }
    return func_->params[index == 0 ? arena_ : first_stage_ + index - 1].buffer;
  }

  /// Which counters kernels are given.
  void note_given_counters(const std::vector<HostStep>& steps) {
    for (const HostStep& step : steps) {
      if (step.kind == HostStep::Kind::kCall)
        for (const HostAddress& address : step.call.buffers)
          if (address.kind == HostAddress::Kind::kCounter) counter_is_given_[static_cast<size_t>(address.index)] = true;
      note_given_counters(step.body);
      note_given_counters(step.otherwise);
    }
  }

  /// An argument of a call.
  Expr argument(const HostAddress& address) {
    if (on_device_ && address.kind == HostAddress::Kind::kCounter)
      return address_of(func_->params[arena_].buffer, {value_of(counters_at_) + address.index * kCounterBytes});
    return address_of(buffer_of(address), {offset_of(address)});
  }
  /// Where kernels find the loop's counter becomes what it is.
  Stmt put_counter(int loop) {
    if (!on_device_ || !counter_is_given_[static_cast<size_t>(loop)]) return {};
    return call_func(kDevicePut, {argument({.kind = HostAddress::Kind::kCounter, .index = loop}), counter(loop)});
  }

  /// Where `bytes` bytes at the address can be read; `before` brings them there.
  struct Place {
    Buffer buffer;
    Expr offset;
  };
  Place readable(const HostAddress& address, int bytes, std::vector<Stmt>& before) {
    if (!on_device_) return {buffer_of(address), offset_of(address)};
    reads_.push_back(make_buffer(fmt::format("read{}", reads_.size()), {8}, kU8));
    const Buffer& here = reads_.back();
    before.push_back(call_func(kDeviceFetch, {address_of(here, {0}), argument(address), Expr(int64_t{bytes})}));
    return {here, Expr(0)};
  }

  Expr counter(int loop) const { return load(counters_[static_cast<size_t>(loop)], {0}); }

  Expr offset_of(const HostAddress& address) {
    Expr offset = value_of(address.offset_bytes);
    for (const auto& [loop, bytes] : address.steps) offset = offset + counter(loop) * value_of(bytes);
    return offset;
  }

  // A little-endian integer of `bytes` bytes.
  Expr integer_at(const HostAddress& address, int bytes, std::vector<Stmt>& before) {
    if (address.kind == HostAddress::Kind::kCounter) return counter(address.index);
    const Place at = readable(address, bytes, before);
    Expr value = int_imm(0, kI64);
    for (int i = 0; i < bytes; ++i) {
      Expr byte = cast(kI64, load(at.buffer, {at.offset + int64_t{i}}));
      // The highest byte has the sign.
      if (i + 1 == bytes) byte = select(lt(byte, 128), byte, byte - 256);
      value = value + byte * (int64_t{1} << (8 * i));
    }
    return value;
  }

  Expr truth_at(const HostAddress& address, std::vector<Stmt>& before) {
    const Place at = readable(address, 1, before);
    return ne(load(at.buffer, {at.offset}), int_imm(0, kU8));
  }

  Stmt all(const std::vector<HostStep>& steps) {
    std::vector<Stmt> stmts;
    for (const HostStep& step : steps) {
      switch (step.kind) {
        case HostStep::Kind::kCall:
          stmts.push_back(call(step.call));
          break;
        case HostStep::Kind::kBranch:
          stmts.push_back(branch(step));
          break;
        case HostStep::Kind::kLoop:
          stmts.push_back(loop(step));
          break;
        case HostStep::Kind::kSizes:
          stmts.push_back(reach(step));
          break;
        case HostStep::Kind::kSections:
          stmts.push_back(sections(step));
          break;
        case HostStep::Kind::kSection:
          stmts.push_back(all(step.body));
          break;
      }
    }
    return seq(std::move(stmts));
  }

  Stmt call(const HostCall& call) {
    std::vector<Expr> args;
    for (const HostAddress& address : call.buffers) args.push_back(argument(address));
    args.push_back(int64_t{call.number});
    for (const Dim& size : call.sizes) args.push_back(value_of(size));
    if (call.turn) args.push_back(*call.turn < 0 ? Expr(int64_t{0}) : floormod(counter(*call.turn), Expr(int64_t{2})));
    Stmt made = call_func(call.kernel, args);
    for (size_t i = call.classes.size(); i-- > 0;) {
      const HostClass& of = call.classes[i];
      const Expr is_of = le(value_of(call.sizes[static_cast<size_t>(of.size)]), Expr(of.most));
      made = if_then(is_of, call_func(of.kernel, args), std::move(made));
    }
    return made;
  }

  Stmt reach(const HostStep& step) {
    std::vector<Expr> args = {address_of(table_buffer_, {0}), Expr(int64_t{step.stage})};
    std::vector<Stmt> stmts;
    for (const HostInteger& read : step.read)
      args.push_back(read.at ? integer_at(*read.at, read.bytes, stmts) : Expr(read.number));
    stmts.push_back(call_func(kReachStage, std::move(args)));
    return seq(std::move(stmts));
  }

  /// A call for the tracer; nothing where it is not told.
  static Stmt mark(int number, FettleStepEvent event) {
    return number < 0 ? Stmt() : call_func(kMarkStep, {Expr(int64_t{number}), Expr(int64_t{event})});
  }
  static Stmt marked(int number, Stmt body) {
    if (!body) return body;
    return seq({mark(number, FETTLE_STEP_BEGIN), std::move(body), mark(number, FETTLE_STEP_END)});
  }

  Stmt branch(const HostStep& step) {
    Stmt then = marked(step.mark, all(step.body)), otherwise = marked(step.otherwise_mark, all(step.otherwise));
    if (!then && !otherwise) return {};
    std::vector<Stmt> stmts;
    const Expr condition = truth_at(*step.condition, stmts);
    stmts.push_back(then ? if_then(condition, std::move(then), std::move(otherwise))
                         : if_then(logical_not(condition), std::move(otherwise)));
    return seq(std::move(stmts));
  }

  Stmt sections(const HostStep& step) {
    const Var section = make_var("section", kI64);
    Stmt chosen;
    for (size_t i = step.body.size(); i-- > 0;) {
      Stmt body = all({step.body[i]});
      chosen = chosen ? if_then(lt(section, static_cast<int64_t>(i) + 1), std::move(body), std::move(chosen))
                      : std::move(body);
    }
    return make_for(section, 0, static_cast<int64_t>(step.body.size()), std::move(chosen), ForKind::kParallel);
  }

  Stmt loop(const HostStep& step) {
    const Buffer& count = counters_[static_cast<size_t>(step.loop)];
    Expr goes_on = bool_imm(true);
    std::vector<Stmt> reads;  // before each time that it is looked whether the loop goes on
    if (step.limit) goes_on = lt(counter(step.loop), value_of(*step.limit));
    if (step.limit_at) goes_on = lt(counter(step.loop), integer_at(*step.limit_at, step.limit_bytes, reads));
    if (step.condition) goes_on = logical_and(goes_on, truth_at(*step.condition, reads));
    const Stmt read = seq(std::move(reads));
    Stmt body = seq({mark(step.mark, FETTLE_STEP_NEXT), all(step.body), store(count, {0}, counter(step.loop) + 1),
                     put_counter(step.loop), read});
    return allocate(count, seq({store(count, {0}, int_imm(0, kI64)), put_counter(step.loop), read,
                                marked(step.mark, Stmt(make_ref<WhileNode>(std::move(goes_on), std::move(body))))}));
  }

  SizeTable& table_;
  std::vector<Var> entries_;
  Ref<FuncNode> func_;
  size_t first_output_ = 0, first_state_ = 0, arena_ = 0, first_stage_ = 0;
  Buffer table_buffer_;
  std::vector<Buffer> counters_;
  const bool on_device_;
  const Dim counters_at_;
  std::vector<bool> counter_is_given_;
  std::vector<Buffer> reads_;  // where what lies on a device is read
};

}  // namespace

Func host_program(const std::string& name, const HostInterface& interface, const std::vector<HostStep>& steps,
                  SizeTable& table) {
  // What the first asks for makes the table complete.
  HostWriter(interface, table).write(name, steps);
  return HostWriter(interface, table).write(name, steps);
}

}  // namespace fettle
