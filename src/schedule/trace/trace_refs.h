#pragma once
// References inside the arguments of steps, found and edited.

#include <optional>

#include "schedule/primitive.h"

namespace fettle {

/// Applies `edit` to every reference inside an argument.
template <class Edit>
void for_each_ref(ArgValue& arg, const Edit& edit) {
  if (auto* ref = std::get_if<StepRef>(&arg.value))
    edit(*ref);
  else if (auto* product = std::get_if<ArgValue::Product>(&arg.value))
    for (StepRef& factor : product->factors) edit(factor);
  else if (auto* list = std::get_if<std::vector<ArgValue>>(&arg.value))
    for (ArgValue& item : *list) for_each_ref(item, edit);
}

/// The arguments of a step with its references edited.
template <class Edit>
Result<std::shared_ptr<const void>> with_refs(const PrimitiveDef& def, const void* args, const Edit& edit) {
  std::vector<NamedArg> list = def.to_args(args);
  for (NamedArg& named : list) for_each_ref(named.value, edit);
  return def.from_args(list);
}

/// The loop or block in `func` that a step's result stands for; nothing where it is an integer, or gone.
std::optional<Stmt> find_output(const Func& func, const StepOutput& output);

}  // namespace fettle
