#include "target/tensor_intrinsic.h"

#include <map>

#include "base/check.h"
#include "ir/text.h"

namespace fettle {
namespace {

Func parsed_once(std::string_view text) {
  thread_local std::map<const char*, Func> known;
  Func& func = known[text.data()];
  if (!func) {
    Result<Func> parsed = parse_func(text);
    FETTLE_CHECK_MSG(parsed.has_value(), parsed ? "" : parsed.error().to_string());
    func = *parsed;
  }
  return func;
}

}  // namespace

const TensorIntrinsicDef* find_tensor_intrinsic(std::string_view name) {
  for (const TensorIntrinsicDef* intrinsic : tensor_intrinsics())
    if (intrinsic->name == name) return intrinsic;
  return nullptr;
}

Func meaning_of(const TensorIntrinsicDef& intrinsic) { return parsed_once(intrinsic.meaning); }
Func implementation_of(const TensorIntrinsicDef& intrinsic) { return parsed_once(intrinsic.implementation); }

TileNest tile_nest(const Stmt& body) {
  TileNest nest;
  Stmt at = body;
  for (; at && at.as<ForNode>(); at = at.as<ForNode>()->body) nest.loops.push_back(at.as<ForNode>());
  if (!at) return nest;
  nest.block = at.as<BlockNode>();
  nest.store = (nest.block ? nest.block->body : at).as<StoreNode>();
  return nest;
}

}  // namespace fettle
