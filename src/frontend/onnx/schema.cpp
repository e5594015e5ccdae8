#include "frontend/onnx/schema.h"

#include <algorithm>

#include "onnx-ml.pb.h"

namespace fettle::onnx_reader {
namespace {

#include "onnx/schemas.inc"

// All versions of the operator, the oldest first.
std::span<const OperatorSchema> versions(std::string_view domain, std::string_view name) {
  const auto found = std::ranges::equal_range(kSchemas, std::pair(domain, name), {},
                                              [](const OperatorSchema& s) { return std::pair(s.domain, s.name); });
  return {found.begin(), found.end()};
}

}  // namespace

const FormalSchema* OperatorSchema::formal(std::span<const FormalSchema> formals, int i) {
  if (formals.empty()) return nullptr;
  if (static_cast<size_t>(i) < formals.size()) return &formals[static_cast<size_t>(i)];
  return formals.back().option == FormalSchema::kVariadic ? &formals.back() : nullptr;
}

const OperatorSchema* find_schema(std::string_view domain, std::string_view name, int64_t version) {
  const OperatorSchema* last = nullptr;
  for (const OperatorSchema& schema : versions(domain, name))
    if (schema.since_version <= version && (!schema.is_deprecated || !last)) last = &schema;
  return last;
}

std::vector<const OperatorSchema*> schemas_of(std::string_view domain, int64_t version) {
  std::vector<const OperatorSchema*> found;
  for (const OperatorSchema& schema : kSchemas) {
    if (schema.domain != domain || (!found.empty() && found.back()->name == schema.name)) continue;
    if (const OperatorSchema* known = find_schema(domain, schema.name, version)) found.push_back(known);
  }
  return found;
}

int newest_opset(std::string_view domain) {
  int newest = 0;
  for (const OperatorSchema& schema : kSchemas)
    if (schema.domain == domain) newest = std::max(newest, schema.since_version);
  return newest;
}

int first_version(std::string_view domain, std::string_view name) {
  const auto all = versions(domain, name);
  return all.empty() ? 0 : all.front().since_version;
}

bool is_onnx_domain(std::string_view domain) {
  return std::ranges::any_of(kSchemas, [&](const OperatorSchema& s) { return s.domain == domain; });
}

int64_t newest_ir_version() { return kNewestIrVersion; }

}  // namespace fettle::onnx_reader
