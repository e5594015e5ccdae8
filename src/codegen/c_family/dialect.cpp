#include "codegen/c_family/dialect.h"

namespace fettle::c_family {
namespace {

bool is_small_float(DType t) { return t.is_float() && t.bits == 16; }

int width_index(int bits) { return bits <= 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3; }

}  // namespace

std::string Dialect::storage_type(DType type) const {
  if (type.is_bool()) return uint_types[0];
  if (is_small_float(type)) return uint_types[1];
  return value_type(type);
}

std::string Dialect::value_type(DType type) const {
  if (type.is_bool()) return bool_type;
  if (type.is_float()) return type.bits == 64 ? "double" : "float";
  if (type.code == TypeCode::kHandle) return "void *";
  return (type.code == TypeCode::kUInt ? uint_types : int_types)[width_index(type.bits)];
}

const ScopeSpelling& Dialect::scope(const std::string& scope_name) const {
  static const ScopeSpelling kNone;
  const auto found = scopes.find(scope_name);
  return found == scopes.end() ? kNone : found->second;
}

}  // namespace fettle::c_family
