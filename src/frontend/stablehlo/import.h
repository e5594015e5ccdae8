#pragma once
// StableHLO programs → graphs.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/frontend.h"
#include "frontend/stablehlo/module.h"

namespace fettle {

/// The graph of one of the module's public functions; `function` is empty: of `main`, or of the only one. Inputs are
/// called as their location or attributes say, else "arg0", "arg1"; outputs as jax.result_info says, else "result0". A
/// complex tensor is one of real numbers with a last dim of 2, at the graph's border too. Tokens are left out.
/// E602 no public function · E603 operators that are not supported, all of them listed · E605, E606 an operator is
/// inconsistent · E608 a limit · E709 no such function, or several and no `main`
Result<Graph> import_stablehlo(const stablehlo::Module& module, const Limits& limits = {},
                               std::string_view function = {});

/// Every reason why there is no graph, each with its place; none: there is one. What an operator takes of another that
/// fails is not judged.
std::vector<Diagnostic> stablehlo_problems(const stablehlo::Module& module, const Limits& limits = {},
                                           std::string_view function = {});
/// What the program that the function reaches says of itself.
ModelSurvey survey_stablehlo(const stablehlo::Module& module, std::string_view function = {});

/// Reads and imports bytes of text or bytecode. Errors: those of read_module and import_stablehlo.
Result<ImportedModel> import_stablehlo_bytes(std::span<const std::byte> bytes, const std::string& label = "model",
                                             const Limits& limits = {});

}  // namespace fettle
