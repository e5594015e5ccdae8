#include "graph/limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace fettle {
namespace {

constexpr LimitDef kDefs[] = {
    {"rank", &Limits::rank, "dims of a tensor"},
    {"elements", &Limits::elements, "elements of a tensor"},
    {"constant-bytes", &Limits::constant_bytes, "bytes of all constants"},
    {"nodes", &Limits::nodes, "nodes, those of bodies included"},
    {"nesting", &Limits::nesting, "bodies within bodies"},
    {"inputs", &Limits::inputs, "inputs of the model"},
    {"outputs", &Limits::outputs, "outputs of the model"},
    {"attribute-elements", &Limits::attribute_elements, "elements of an attribute"},
    {"string-bytes", &Limits::string_bytes, "bytes of a name or another text"},
    {"external-bytes", &Limits::external_bytes, "bytes of a file of external data"},
    {"folded-bytes", &Limits::folded_bytes, "bytes of a result that is computed while compiling"},
    {"folded-total-bytes", &Limits::folded_total_bytes, "bytes of all such results, less those that they are made of"},
    {"folded-steps", &Limits::folded_steps, "steps of all that is computed while compiling"},
};

}  // namespace

std::span<const LimitDef> limit_defs() { return kDefs; }

const LimitDef* find_limit(std::string_view name) {
  const auto found = std::ranges::find(kDefs, name, &LimitDef::name);
  return found == std::end(kDefs) ? nullptr : found;
}

Result<> check_limit(const Limits& limits, int64_t Limits::* limit, int64_t asked, std::string_view where) {
  if (asked <= limits.*limit) return {};
  const auto def = std::ranges::find(kDefs, limit, &LimitDef::value);
  FETTLE_CHECK(def != std::end(kDefs));
  return fail(ErrorCode::E608,
              fmt::format("{} {}, and at most {} are allowed: --limit {}=N raises that", asked, def->what,
                          limits.*limit, def->name),
              std::string(where.substr(0, 200)));
}

}  // namespace fettle
