#pragma once
// Functions and modules.

#include <map>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace fettle {

enum class ParamKind : uint8_t {
  kInput,
  kOutput,
  kConstant,  // an input whose content is known when the program is compiled
};

/// The layout of a constant or free_layout parameter may be changed by a trace (transform_layout): the buffer then
/// has the physical shape, and buffer->layout tells how the caller gets there.
struct Param {
  Buffer buffer;
  ParamKind kind = ParamKind::kInput;
  bool free_layout = false;
};

/// An integer parameter with what may be assumed of it: min <= var <= max, var % multiple_of == 0. What is `typical` is
/// no assumption: choices are made for it, and programs that differ in it alone are equal.
struct IntParam {
  Var var;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  int64_t multiple_of = 1;
  int64_t typical = 0;  // 0: nobody said
};
/// What choices take the parameter for: what is typical, else kUsualValue; the nearest value below that it may have, or
/// its least one.
int64_t typical_of(const IntParam& param);
inline constexpr int64_t kUsualValue = 128;

/// A loop program. Before lowering `body` is a BlockNode without iterators, named "root"; after it, plain
/// statements with flat accesses. Params are passed in order: buffers, then integers.
struct FuncNode : RefCounted {
  std::string name;
  std::vector<Param> params;
  std::vector<IntParam> int_params;
  Annotations annotations;
  Stmt body;
};

class Func : public Ref<const FuncNode> {
 public:
  using Ref<const FuncNode>::Ref;
  Func() = default;
  Func(Ref<const FuncNode> ref) : Ref(std::move(ref)) {}
  Func(const Ref<FuncNode>& ref) : Ref(ref) {}

  const BlockNode& root() const;
  const Param* find_param(const BufferNode* buffer) const;
};

/// A copy of `func` with fields changed by `edit`.
template <class Edit>
Func with(const Func& func, Edit edit) {
  auto copy = make_ref<FuncNode>(*func);
  edit(*copy);
  return Func(copy);
}

/// Named Funcs that may call each other; the entry is the one that the outside calls.
struct IrModule {
  std::map<std::string, Func> funcs;
  std::string entry;
};

}  // namespace fettle
