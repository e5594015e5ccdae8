#pragma once
// Functions of tensor comprehensions → graphs. docs/comprehensions.md says what the language is.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/frontend.h"

namespace fettle {

/// The names of the functions in a text, in its order. E611
Result<std::vector<std::string>> comprehension_names(std::string_view text);

/// The graph of the function called `name`; empty: of the last one. Its inputs are the parameters, its outputs the
/// results, by their names; its sizes are those of the parameters' types. Each statement is a node.
/// label: of the text, before line and column of errors.
/// E603 a function of CUDA's that Fettle does not have · E608 a limit · E611, E612, E613 where the language is broken ·
/// E709 there is no such function
Result<Graph> import_comprehension(std::string_view text, std::string_view name = {}, const std::string& label = "",
                                   const Limits& limits = {});

/// The same as a model, called like the function.
Result<ImportedModel> comprehension_model(std::string_view text, std::string_view name = {}, const Limits& limits = {});

/// What is wrong with the function called `name` and with what it calls; empty: with all functions of the text. Each
/// problem that follows from no other one, where the text can be read. `where` is "line:column".
std::vector<Diagnostic> check_comprehensions(std::string_view text, std::string_view name = {},
                                             const Limits& limits = {});

}  // namespace fettle
