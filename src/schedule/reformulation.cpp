#include "schedule/reformulation.h"

#include "ir/annotations.h"

namespace fettle {
namespace {

std::string_view text_note(const BlockNode& block, const char* key) {
  const Attribute* annotation = block.annotations.find(key);
  const auto* text = annotation ? std::get_if<std::string>(annotation) : nullptr;
  return text ? std::string_view(*text) : std::string_view();
}

}  // namespace

std::string_view part_of(const BlockNode& block) { return text_note(block, kPartOfKey); }

std::string_view role_of(const BlockNode& block) { return text_note(block, kRoleKey); }

std::string_view numerics_name(Numerics numerics) {
  constexpr std::string_view kNames[] = {"exact", "reassociating", "approximate"};
  return kNames[static_cast<size_t>(numerics)];
}

const ReformulationDef* find_reformulation(std::string_view name) {
  for (const ReformulationDef* def : reformulation_defs())
    if (def->name == name) return def;
  return nullptr;
}

Numerics numerics_of(const Func& func) {
  const Attribute* annotation = func->annotations.find(kNumericsKey);
  const auto* name = annotation ? std::get_if<std::string>(annotation) : nullptr;
  if (!name) return Numerics::kExact;
  for (Numerics n : {Numerics::kReassociating, Numerics::kApproximate})
    if (*name == numerics_name(n)) return n;
  return Numerics::kExact;
}

double error_bound_of(const Func& func) {
  const Attribute* annotation = func->annotations.find(kErrorBoundKey);
  const auto* bound = annotation ? std::get_if<double>(annotation) : nullptr;
  return bound ? *bound : 0;
}

}  // namespace fettle
