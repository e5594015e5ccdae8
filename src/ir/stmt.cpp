#include "ir/stmt.h"

#include <algorithm>

#include "base/check.h"
#include "ir/func.h"
#include "ir/int_arithmetic.h"

namespace fettle {

const Attribute* Annotations::find(std::string_view key) const {
  for (const auto& [k, value] : entries)
    if (k == key) return &value;
  return nullptr;
}

void Annotations::set(std::string key, Attribute value) {
  const auto at = std::lower_bound(entries.begin(), entries.end(), key,
                                   [](const auto& entry, const std::string& k) { return entry.first < k; });
  if (at != entries.end() && at->first == key)
    at->second = std::move(value);
  else
    entries.insert(at, {std::move(key), std::move(value)});
}

bool Annotations::erase(std::string_view key) {
  return std::erase_if(entries, [&](const auto& entry) { return entry.first == key; }) > 0;
}

int64_t Annotations::get_int(std::string_view key, int64_t otherwise) const {
  const Attribute* value = find(key);
  const int64_t* number = value ? std::get_if<int64_t>(value) : nullptr;
  return number ? *number : otherwise;
}

Stmt make_for(Var var, Expr min, Expr extent, Stmt body, ForKind kind) {
  auto loop = make_ref<ForNode>(std::move(var), std::move(min), std::move(extent), std::move(body));
  loop->loop_kind = kind;
  return Stmt(loop);
}

Stmt seq(std::vector<Stmt> stmts) {
  std::vector<Stmt> flat;
  flat.reserve(stmts.size());
  for (Stmt& s : stmts) {
    if (!s) continue;
    if (const auto* inner = s.as<SeqNode>())
      flat.insert(flat.end(), inner->stmts.begin(), inner->stmts.end());
    else
      flat.push_back(std::move(s));
  }
  if (flat.empty()) return nullptr;
  if (flat.size() == 1) return flat.front();
  return Stmt(make_ref<SeqNode>(std::move(flat)));
}

Stmt if_then(Expr condition, Stmt then_body, Stmt else_body) {
  return Stmt(make_ref<IfNode>(std::move(condition), std::move(then_body), std::move(else_body)));
}

Stmt store(Buffer buffer, std::vector<Expr> indices, Expr value, Expr mask) {
  return Stmt(make_ref<StoreNode>(std::move(buffer), std::move(indices), std::move(value), std::move(mask)));
}

Stmt evaluate(Expr value) { return Stmt(make_ref<EvaluateNode>(std::move(value))); }

Stmt allocate(Buffer buffer, Stmt body) { return Stmt(make_ref<AllocateNode>(std::move(buffer), std::move(body))); }

Stmt let(Var var, Expr value, Stmt body) {
  return Stmt(make_ref<LetNode>(std::move(var), std::move(value), std::move(body)));
}

Stmt call_func(std::string name, std::vector<Expr> args) {
  return Stmt(make_ref<CallFuncNode>(std::move(name), std::move(args)));
}

const BlockNode& Func::root() const {
  const auto* block = get()->body.as<BlockNode>();
  FETTLE_CHECK_MSG(block, "the function is lowered: it has no root block");
  return *block;
}

int64_t typical_of(const IntParam& param) {
  const int64_t wanted = std::clamp(param.typical > 0 ? param.typical : kUsualValue, param.min, param.max);
  const int64_t below = floordiv_int(wanted, param.multiple_of) * param.multiple_of;
  if (below >= std::max<int64_t>(param.min, 1)) return below;
  // The least that it may have, above nothing.
  const int64_t least = std::max<int64_t>(param.min, 1);
  const int64_t above = -floordiv_int(-least, param.multiple_of) * param.multiple_of;
  return above <= param.max ? above : below;
}

const Param* Func::find_param(const BufferNode* buffer) const {
  for (const Param& param : get()->params)
    if (param.buffer.get() == buffer) return &param;
  return nullptr;
}

}  // namespace fettle
