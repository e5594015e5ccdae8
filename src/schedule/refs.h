#pragma once
// References by which the arguments of a step name results of earlier steps, and numbers made of them.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/func.h"

namespace fettle {

/// Output `output` of step number `step` of the trace.
struct StepRef {
  int32_t step = -1;
  int32_t output = 0;
  friend bool operator==(const StepRef&, const StepRef&) = default;
};

struct LoopRef : StepRef {
  LoopRef() = default;
  explicit LoopRef(StepRef ref) : StepRef(ref) {}
};

struct BlockRef : StepRef {
  BlockRef() = default;
  explicit BlockRef(StepRef ref) : StepRef(ref) {}
};

/// A sampled or queried integer.
struct ValueRef : StepRef {
  ValueRef() = default;
  explicit ValueRef(StepRef ref) : StepRef(ref) {}
};

/// An integer argument: a literal, a step's output, or a product of these.
struct IntRef {
  int64_t literal = 1;            // the constant factor
  std::vector<ValueRef> factors;  // multiplied with it

  IntRef() = default;
  IntRef(int64_t value) : literal(value) {}
  IntRef(int value) : literal(value) {}
  IntRef(ValueRef ref) : factors{ref} {}
};
IntRef operator*(IntRef a, const IntRef& b);

/// A factor that split works out from the others.
inline constexpr int64_t kInfer = -1;

/// An argument of any step, as trace text, JSON and hashes see it.
struct ArgValue {
  struct Product {
    int64_t literal = 1;
    std::vector<StepRef> factors;
    friend bool operator==(const Product&, const Product&) = default;
  };
  std::variant<std::monostate, bool, int64_t, double, std::string, StepRef, Product, std::vector<ArgValue>> value;
  friend bool operator==(const ArgValue&, const ArgValue&) = default;
};

// Conversions between argument fields and ArgValue; from_arg is false where the kind does not fit.
ArgValue to_arg(bool x);
ArgValue to_arg(int64_t x);
ArgValue to_arg(int x);
ArgValue to_arg(double x);
ArgValue to_arg(const std::string& x);
ArgValue to_arg(const StepRef& x);
ArgValue to_arg(const IntRef& x);
ArgValue to_arg(Tail x);
ArgValue to_arg(IterKind x);
ArgValue to_arg(const IndexMap& x);  // "(i, j) -> (i // 16, j, i % 16)"
ArgValue to_arg(const Attribute& x);
bool from_arg(const ArgValue& a, bool& x);
bool from_arg(const ArgValue& a, int64_t& x);
bool from_arg(const ArgValue& a, int& x);
bool from_arg(const ArgValue& a, double& x);
bool from_arg(const ArgValue& a, std::string& x);
bool from_arg(const ArgValue& a, StepRef& x);
bool from_arg(const ArgValue& a, IntRef& x);
bool from_arg(const ArgValue& a, Tail& x);
bool from_arg(const ArgValue& a, IterKind& x);
bool from_arg(const ArgValue& a, IndexMap& x);
bool from_arg(const ArgValue& a, Attribute& x);

template <class T>
ArgValue to_arg(const std::vector<T>& list) {
  std::vector<ArgValue> items;
  items.reserve(list.size());
  for (const T& item : list) items.push_back(to_arg(item));
  return {std::move(items)};
}
template <class T>
bool from_arg(const ArgValue& a, std::vector<T>& list) {
  const auto* items = std::get_if<std::vector<ArgValue>>(&a.value);
  if (!items) return false;
  list.resize(items->size());
  for (size_t i = 0; i < items->size(); ++i)
    if (!from_arg((*items)[i], list[i])) return false;
  return true;
}

std::string_view tail_name(Tail tail);  // "exact", "guard", "partition", …

}  // namespace fettle
