#pragma once
// Functions, of their operator in the generic form.

#include "base/result.h"
#include "frontend/stablehlo/module.h"

namespace fettle::stablehlo {

/// What a "func.func" says. One without a body has arguments all the same. E602 it lacks a name, a type or arguments
Result<Function> to_function(Op op);
/// Names of functions are unlike. E602
Result<> check_names(const Module& module, std::string_view label);
/// sym_name, if there is one, as the module's name; the rest as its attributes.
void name_module(Module& module, Attributes attributes);

}  // namespace fettle::stablehlo
