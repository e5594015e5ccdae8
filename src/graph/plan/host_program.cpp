#include "graph/plan/host_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/annotations.h"

namespace fettle {

Func host_program(const std::string& name, const HostInterface& interface, const std::vector<HostCall>& calls) {
  auto func = make_ref<FuncNode>();
  func->name = name;
  func->annotations.set(kHostKey, int64_t{1});
  const auto add = [&](const char* kind, const std::vector<int64_t>& sizes, ParamKind param_kind) {
    for (size_t i = 0; i < sizes.size(); ++i)
      func->params.push_back(
          {make_buffer(fmt::format("{}{}", kind, i), {std::max<int64_t>(sizes[i], 1)}, kU8), param_kind, false});
  };
  add("input", interface.input_bytes, ParamKind::kInput);
  add("output", interface.output_bytes, ParamKind::kOutput);
  add("arena", {interface.arena_bytes}, ParamKind::kOutput);
  add("constant", interface.constant_bytes, ParamKind::kConstant);

  const size_t first_output = interface.input_bytes.size(), arena = first_output + interface.output_bytes.size();
  const auto param_of = [&](const HostAddress& address) {
    const auto index = static_cast<size_t>(address.index);
    switch (address.kind) {
      case HostAddress::Kind::kInput:
        return index;
      case HostAddress::Kind::kOutput:
        return first_output + index;
      case HostAddress::Kind::kArena:
        return arena;
      case HostAddress::Kind::kConstant:
        break;
    }
    return arena + 1 + index;
  };
  std::vector<Stmt> stmts;
  for (size_t i = 0; i < calls.size(); ++i) {
    std::vector<Expr> args;
    for (const HostAddress& address : calls[i].buffers)
      args.push_back(address_of(func->params[param_of(address)].buffer, {address.offset_bytes}));
    args.push_back(static_cast<int64_t>(i));
    stmts.push_back(call_func(calls[i].kernel, std::move(args)));
  }
  func->body = seq(std::move(stmts));
  return Func(func);
}

}  // namespace fettle
