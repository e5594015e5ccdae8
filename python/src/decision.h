#pragma once
// A decision in Python: a list of integers, or the name of a value.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "schedule/decision.h"

namespace nanobind::detail {

template <>
struct type_caster<fettle::Decision> {
  NB_TYPE_CASTER(fettle::Decision, const_name("list[int] | str"))

  bool from_python(handle from, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (make_caster<std::string> text; text.from_python(from, flags, cleanup)) {
      value = std::move(text.value);
      return fettle::is_value_name(value.value());
    }
    make_caster<fettle::Decision::List> list;
    if (!list.from_python(from, flags, cleanup)) return false;
    value = std::move(list.value);
    return true;
  }
  static handle from_cpp(const fettle::Decision& decision, rv_policy policy, cleanup_list* cleanup) noexcept {
    if (!decision.value().empty()) return make_caster<std::string>::from_cpp(decision.value(), policy, cleanup);
    return make_caster<fettle::Decision::List>::from_cpp(decision.list(), policy, cleanup);
  }
};

}  // namespace nanobind::detail
