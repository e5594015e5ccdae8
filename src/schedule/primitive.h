#pragma once
// What a primitive is: a name, an argument struct whose list of fields makes text, JSON and hash, and a pure function
// from a schedule to its next program.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "schedule/decision.h"
#include "schedule/refs.h"

namespace fettle {

class Schedule;

/// A result of a step: a loop (its variable), a block (its name), or an integer.
using StepOutput = std::variant<Var, std::string, int64_t>;

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::StepOutput);

namespace fettle {

/// What a primitive returns: the next program and its results. Sampling and query steps leave `func` null.
struct Applied {
  Func func;
  std::vector<StepOutput> outputs;
  // Sampling steps only (see sampling.h): what was drawn or reused, and the address that it is kept under.
  std::optional<Decision> decision = std::nullopt;
  std::string address = {};
};

template <class Struct, class Member>
struct Field {
  std::string_view name;
  Member Struct::* member;
};
template <class Struct, class Member>
constexpr Field<Struct, Member> field(std::string_view name, Member Struct::* member) {
  return {name, member};
}

struct NamedArg {
  std::string_view name;
  ArgValue value;
};

/// One primitive, sampling or query. `apply` takes the argument struct behind the pointer.
struct PrimitiveDef {
  std::string_view name;
  int version;
  bool samples;  // draws a decision, kept under an address
  bool queries;  // leaves the program as it is and decides nothing: may be left out where nothing uses its results
  Result<Applied> (*apply)(const Schedule&, const void* args);
  std::vector<NamedArg> (*to_args)(const void* args);
  /// Missing fields keep their defaults; E224 for unknown or mistyped ones.
  Result<std::shared_ptr<const void>> (*from_args)(std::span<const NamedArg>);
};

namespace detail {

template <class Args>
std::vector<NamedArg> fields_to_args(const void* args) {
  const auto& typed = *static_cast<const Args*>(args);
  std::vector<NamedArg> list;
  std::apply([&](const auto&... f) { (list.push_back({f.name, to_arg(typed.*(f.member))}), ...); }, Args::fields);
  return list;
}

tl::unexpected<Diagnostic> bad_argument(std::string_view name);

template <class Args>
Result<std::shared_ptr<const void>> fields_from_args(std::span<const NamedArg> list) {
  auto typed = std::make_shared<Args>();
  for (const NamedArg& given : list) {
    bool known = false, fits = false;
    std::apply(
        [&](const auto&... f) {
          ((f.name == given.name ? (known = true, fits = from_arg(given.value, (*typed).*(f.member))) : false), ...);
        },
        Args::fields);
    if (!known || !fits) return bad_argument(given.name);
  }
  return std::shared_ptr<const void>(std::move(typed));
}

}  // namespace detail

/// `constinit const PrimitiveDef split_def = define_primitive<SplitArgs, apply_split>("split", 1);`
template <class Args, Result<Applied> (*Apply)(const Schedule&, const Args&)>
constexpr PrimitiveDef define_primitive(std::string_view name, int version, bool samples = false,
                                        bool queries = false) {
  return {name,
          version,
          samples,
          queries,
          [](const Schedule& s, const void* args) { return Apply(s, *static_cast<const Args*>(args)); },
          &detail::fields_to_args<Args>,
          &detail::fields_from_args<Args>};
}
template <class Args, Result<Applied> (*Apply)(const Schedule&, const Args&)>
constexpr PrimitiveDef define_sampling(std::string_view name, int version) {
  return define_primitive<Args, Apply>(name, version, true, false);
}
template <class Args, Result<Applied> (*Apply)(const Schedule&, const Args&)>
constexpr PrimitiveDef define_query(std::string_view name, int version) {
  return define_primitive<Args, Apply>(name, version, false, true);
}

/// Every primitive, from the sources in schedule/primitives/.
std::span<const PrimitiveDef* const> primitive_defs();
/// The primitive named `name`, or null.
const PrimitiveDef* find_primitive(std::string_view name);

}  // namespace fettle
