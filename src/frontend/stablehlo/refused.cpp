#include "frontend/stablehlo/refused.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/importer.h"
#include "frontend/stablehlo/text_reader.h"
#include "frontend/stablehlo/vhlo.h"

namespace fettle::stablehlo {
namespace {

struct Refusal {
  std::string_view op, why;
};
constexpr std::string_view kOutside =
    "nobody outside is asked, or told, while a program runs: give it as an argument, or "
    "return it";
constexpr std::string_view kAsynchronous = "what is begun is done at once here: write the operators that it wraps";
constexpr std::string_view kInterpreter = "it is for StableHLO's interpreter alone";
constexpr Refusal kRefusals[] = {
    {"stablehlo.async_done", kAsynchronous},
    {"stablehlo.async_start", kAsynchronous},
    {"stablehlo.custom_call", "its target's code is not in the program"},
    {"stablehlo.infeed", kOutside},
    {"stablehlo.outfeed", kOutside},
    {"stablehlo.recv", kOutside},
    {"stablehlo.send", kOutside},
    {"interpreter.print", kInterpreter},
    {"interpreter.probe", kInterpreter},
    {"interpreter.run_parallel", kInterpreter},
    {"chlo.ragged_dot", "sizes of its groups are data: write it as products of each group"},
    {"chlo.scan", "write it as stablehlo.while"},
};

bool is_read_dialect(std::string_view dialect) {
  return dialect == "stablehlo" || dialect == "chlo" || dialect == "func" || dialect == "check";
}

}  // namespace

bool is_operator(std::string_view name) {
  if (has_form(name) || std::ranges::find(kRefusals, name, &Refusal::op) != std::end(kRefusals)) return true;
  for (const OpEntries* entries : op_entries())
    for (const OpEntry& entry : entries->list)
      if (entry.name.substr(0, entry.name.find(' ')) == name) return true;
  constexpr std::string_view kDialect = "stablehlo.";
  static const auto known = vhlo_operators();
  return name.starts_with(kDialect) && known.contains(name.substr(kDialect.size()));
}

std::string why_refused(const Op& op) {
  if (const auto* known = std::ranges::find(kRefusals, op.name, &Refusal::op); known != std::end(kRefusals))
    return std::string(known->why);
  const size_t dot = op.name.find('.');
  const std::string dialect = op.name.substr(0, dot);
  if (dialect == "mhlo")
    return "the dialect mhlo is not read: mlir-hlo-opt --hlo-legalize-to-stablehlo makes StableHLO of it";
  if (dot != std::string::npos && !is_read_dialect(dialect))
    return fmt::format("the dialect {} is not read: write the program in StableHLO, CHLO and func", dialect);
  if (!is_operator(op.name)) return "there is no such operator";
  return "there is nothing here that it could become";
}

}  // namespace fettle::stablehlo
