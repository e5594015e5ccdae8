#pragma once
// PointerMap: a map from addresses, made for a handful of entries.

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/small_vector.h"

namespace fettle {

/// As std::unordered_map of pointers, in the order of insertion. Up to 16 entries are searched one by one, the first
/// four need no memory of their own. Iterators and references end when an entry is added or erased.
template <class Key, class Value>
class PointerMap {
  static_assert(std::is_pointer_v<Key>);

 public:
  using value_type = std::pair<Key, Value>;
  using iterator = value_type*;
  using const_iterator = const value_type*;

  PointerMap() = default;
  PointerMap(std::initializer_list<value_type> entries) { insert(entries.begin(), entries.end()); }

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  const_iterator find(Key key) const { return entries_.begin() + index_of(key); }
  iterator find(Key key) { return entries_.begin() + index_of(key); }
  bool contains(Key key) const { return index_of(key) != size(); }
  size_t count(Key key) const { return contains(key); }
  /// The value of a key that is there.
  const Value& at(Key key) const { return find(key)->second; }

  Value& operator[](Key key) { return try_emplace(key).first->second; }
  /// The entry of the key, and whether it is new; an old one stays as it is.
  template <class... Args>
  std::pair<iterator, bool> try_emplace(Key key, Args&&... args) {
    if (const size_t i = index_of(key); i != size()) return {begin() + i, false};
    entries_.emplace_back(key, Value(std::forward<Args>(args)...));
    note(size() - 1);
    return {end() - 1, true};
  }
  template <class It>
  void insert(It first, It last) {
    for (; first != last; ++first) try_emplace(first->first, first->second);
  }
  size_t erase(Key key) {
    const size_t i = index_of(key);
    if (i == size()) return 0;
    entries_.erase(begin() + i);
    make_table();
    return 1;
  }
  void clear() {
    entries_.clear();
    table_.clear();
  }

 private:
  static constexpr size_t kSearched = 16;

  static size_t hash(Key key) { return (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15ull >> 20; }

  // size() where the key is not there.
  size_t index_of(Key key) const {
    if (table_.empty()) {
      for (size_t i = 0; i < size(); ++i)
        if (entries_[i].first == key) return i;
      return size();
    }
    for (size_t at = hash(key);; ++at) {
      const uint32_t i = table_[at % table_.size()];
      if (i == 0) return size();
      if (entries_[i - 1].first == key) return i - 1;
    }
  }
  // Enters entry i into the table, if one is needed.
  void note(size_t i) {
    if (size() <= kSearched) return;
    if (table_.size() < 2 * size()) return make_table();
    size_t at = hash(entries_[i].first);
    while (table_[at % table_.size()]) ++at;
    table_[at % table_.size()] = static_cast<uint32_t>(i + 1);
  }
  void make_table() {
    table_.clear();
    if (size() <= kSearched) return;
    table_.resize(4 * size());
    for (size_t i = 0; i < size(); ++i) {
      size_t at = hash(entries_[i].first);
      while (table_[at % table_.size()]) ++at;
      table_[at % table_.size()] = static_cast<uint32_t>(i + 1);
    }
  }

  SmallVector<value_type, 4> entries_;
  std::vector<uint32_t> table_;  // 1 + the index of an entry, by hash; empty while there are few
};

}  // namespace fettle
