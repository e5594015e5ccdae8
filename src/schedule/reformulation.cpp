#include "schedule/reformulation.h"

namespace fettle {

std::string_view numerics_name(Numerics numerics) {
  constexpr std::string_view kNames[] = {"exact", "reassociating", "approximate"};
  return kNames[static_cast<size_t>(numerics)];
}

const ReformulationDef* find_reformulation(std::string_view name) {
  for (const ReformulationDef* def : reformulation_defs())
    if (def->name == name) return def;
  return nullptr;
}

}  // namespace fettle
