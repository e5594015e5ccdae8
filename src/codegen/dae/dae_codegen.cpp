#include "codegen/dae/dae_codegen.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "analysis/verify.h"
#include "codegen/dae/task_reader.h"
#include "codegen/dae/tokens.h"
#include "codegen/device/host_walk.h"
#include "ir/text.h"
#include "lower/decoupled.h"

namespace fettle::dae {
namespace {

// Walks a lowered program as the machine's host would, and writes down what is issued.
class Emitter : private HostWalk {
 public:
  Emitter(const Func& func, const Target& target, const CodegenOptions& options)
      : func_(func), target_(target), options_(options) {}

  Result<Program> emit() {
    program_.name = func_->name;
    program_.n_params = func_->params.size();
    for (const Param& param : func_->params) {
      FETTLE_TRY_VOID(add_memory(param.buffer));
      program_.param_is_output.push_back(param.kind == ParamKind::kOutput);
    }
    for (const MemoryScope& scope : target_.scopes) {
      if (scope.name == kScopeGlobal) continue;
      scratchpads_[scope.name] = {static_cast<int>(program_.memories.size()), 0};
      program_.memories.push_back({scope.name, true, scope.capacity_bytes, scope.alignment_bytes});
    }
    FETTLE_TRY_VOID(run(func_->body));
    return std::move(program_);
  }

 private:
  struct Scratchpad {
    int memory = -1;
    int64_t used_bytes = 0;
  };

  Result<> add_memory(const Buffer& buffer) {
    FETTLE_TRY(const int64_t elements, value(buffer->shape[0]));
    places_[buffer.get()] = {static_cast<int>(program_.memories.size()), 0};
    const int64_t bytes = elements * buffer->dtype.element_bytes();
    program_.memories.push_back({unique_name(buffer->name), false, bytes, buffer->dtype.element_bytes()});
    return {};
  }
  std::string unique_name(const std::string& name) const {
    std::string found = name;
    const auto taken = [&](const std::string& n) {
      return std::ranges::any_of(program_.memories, [&](const Memory& m) { return m.name == n; });
    };
    for (int i = 1; taken(found); ++i) found = fmt::format("{}_{}", name, i);
    return found;
  }

  Result<int64_t> value(const Expr& e) const override { return issued_value(e, ints_); }

  Result<> leaf(const Stmt& s) override {
    if (const auto* allocation = s.as<AllocateNode>()) return allocated(*allocation);
    if (const auto* task = s.as<AsyncNode>()) return issue(*task);
    return fail(ErrorCode::E301, "no unit does this:\n" + to_text(s), func_->name);
  }

  Result<> allocated(const AllocateNode& n) {
    const auto scratchpad = scratchpads_.find(n.buffer->scope);
    if (scratchpad == scratchpads_.end()) {
      if (n.buffer->scope != kScopeGlobal)
        return fail(ErrorCode::E301, fmt::format("buffer {} lies in scope \"{}\"", n.buffer->name, n.buffer->scope),
                    func_->name);
      // One place for the whole run: what is allocated in a loop uses it again.
      if (!places_.contains(n.buffer.get())) FETTLE_TRY_VOID(add_memory(n.buffer));
      return run(n.body);
    }
    Scratchpad& pad = scratchpad->second;
    const Memory& memory = program_.memories[static_cast<size_t>(pad.memory)];
    FETTLE_TRY(const int64_t elements, value(n.buffer->shape[0]));
    const int64_t granule = memory.granule_bytes;
    const int64_t bytes = (elements * n.buffer->dtype.element_bytes() + granule - 1) / granule * granule;
    if (pad.used_bytes + bytes > memory.bytes)
      return fail(ErrorCode::E230,
                  fmt::format("buffers alive with {} take {} bytes of scope \"{}\", which has {}", n.buffer->name,
                              pad.used_bytes + bytes, memory.name, memory.bytes),
                  func_->name);
    places_[n.buffer.get()] = {pad.memory, pad.used_bytes};
    pad.used_bytes += bytes;
    FETTLE_TRY_VOID(run(n.body));
    pad.used_bytes -= bytes;
    return {};
  }

  Result<> issue(const AsyncNode& node) {
    auto& reader = readers_[&node];
    if (!reader) {
      FETTLE_TRY(reader, read_task(node.body));
    }
    FETTLE_TRY_VOID(reader->instantiate(ints_, places_, *target_.accelerator, program_));
    if (static_cast<int64_t>(program_.stream.size()) > options_.max_instructions)
      return fail(ErrorCode::E301, fmt::format("more than {} instructions", options_.max_instructions), func_->name);
    return {};
  }

  const Func& func_;
  const Target& target_;
  const CodegenOptions& options_;
  Program program_;
  Places places_;
  std::unordered_map<std::string, Scratchpad> scratchpads_;
  std::unordered_map<const AsyncNode*, std::optional<Task>> readers_;
};

}  // namespace

Result<Program> emit_stream(const Func& lowered, const Target& target, const CodegenOptions& options) {
  if (!target.accelerator)
    return fail(ErrorCode::E301, "a target of kind \"" + target.kind + "\" has no units", lowered->name);
  FETTLE_TRY(Program program, Emitter(lowered, target, options).emit());
  if (options.tokens) insert_tokens(program);
  return program;
}

Result<Program> compile(const Func& scheduled, const Target& target, const CodegenOptions& options) {
  FETTLE_TRY_VOID(verify(scheduled, target));
  FETTLE_TRY(const Func lowered, lower_decoupled(scheduled, target));
  return emit_stream(lowered, target, options);
}

}  // namespace fettle::dae
