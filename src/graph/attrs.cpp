#include <algorithm>

#include "graph/graph.h"

namespace fettle {
namespace {

template <class Entries>
auto position(Entries& entries, std::string_view name) {
  return std::lower_bound(entries.begin(), entries.end(), name,
                          [](const auto& entry, std::string_view key) { return entry.first < key; });
}

template <class T>
const T* typed(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  return value ? std::get_if<T>(value) : nullptr;
}

}  // namespace

AttrValue dims_attr(std::vector<Dim> dims) {
  if (auto numbers = static_shape(dims)) return std::move(*numbers);
  return dims;
}

const AttrValue* Attrs::find(std::string_view name) const {
  const auto it = position(entries, name);
  return it != entries.end() && it->first == name ? &it->second : nullptr;
}

void Attrs::set(std::string name, AttrValue value) {
  const auto it = position(entries, name);
  if (it != entries.end() && it->first == name)
    it->second = std::move(value);
  else
    entries.emplace(it, std::move(name), std::move(value));
}

bool Attrs::erase(std::string_view name) {
  const auto it = position(entries, name);
  if (it == entries.end() || it->first != name) return false;
  entries.erase(it);
  return true;
}

int64_t Attrs::get_int(std::string_view name, int64_t otherwise) const {
  const auto* value = typed<int64_t>(*this, name);
  return value ? *value : otherwise;
}

double Attrs::get_float(std::string_view name, double otherwise) const {
  if (const auto* whole = typed<int64_t>(*this, name)) return static_cast<double>(*whole);
  const auto* value = typed<double>(*this, name);
  return value ? *value : otherwise;
}

std::string Attrs::get_string(std::string_view name, std::string otherwise) const {
  const auto* value = typed<std::string>(*this, name);
  return value ? *value : otherwise;
}

std::vector<int64_t> Attrs::get_ints(std::string_view name, std::vector<int64_t> otherwise) const {
  const auto* value = typed<std::vector<int64_t>>(*this, name);
  return value ? *value : otherwise;
}

const ConstantTensor* Attrs::get_tensor(std::string_view name) const { return typed<ConstantTensor>(*this, name); }

}  // namespace fettle
