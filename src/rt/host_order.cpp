// Host functions that order, or look up what is in order.

#include <string.h>

#include "rt/host_strings.h"
#include "rt/strings.h"

namespace fettle::rt {
namespace {

/// Below 0: a comes first; as bytes, which is the order of UTF-8's characters, too.
int32_t compare(FettleString a, FettleString b) {
  const int32_t order = memcmp(a.data, b.data, static_cast<size_t>(a.bytes < b.bytes ? a.bytes : b.bytes));
  return order != 0 ? order : a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
}

/// Rows of strings, by the first element that differs.
struct Rows {
  const FettleStrings& strings;
  const int64_t* numbers;
  int64_t width;

  int32_t compare_rows(int64_t a, int64_t b) const {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t x = numbers[a * width + c], y = numbers[b * width + c];
      if (x == y) continue;
      return compare(strings.at(x), strings.at(y));
    }
    return 0;
  }
  /// Of two equal rows, the one that is met first.
  bool is_ahead(int64_t a, int64_t b) const {
    const int32_t order = compare_rows(a, b);
    return order != 0 ? order < 0 : a < b;
  }
};

/// Sorts items with as much memory again: merges runs, twice as long each time.
template <class Ahead>
void sort(int64_t* items, int64_t* spare, int64_t count, const Ahead& is_ahead) {
  for (int64_t run = 1; run < count; run *= 2) {
    for (int64_t begin = 0; begin < count; begin += 2 * run) {
      const int64_t middle = begin + run < count ? begin + run : count;
      const int64_t end = begin + 2 * run < count ? begin + 2 * run : count;
      int64_t left = begin, right = middle;
      for (int64_t to = begin; to < end; ++to) {
        const bool takes_right = left == middle || (right < end && is_ahead(items[right], items[left]));
        spare[to] = items[takes_right ? right++ : left++];
      }
    }
    memcpy(items, spare, static_cast<size_t>(count) * sizeof(int64_t));
  }
}

bool is_nan(int64_t) { return false; }
bool is_nan(double value) { return __builtin_isnan(value); }
template <class T>
bool is_less(T a, T b) {
  return a < b || (is_nan(b) && !is_nan(a));  // NaN is behind all others
}

template <class T>
void find_all(const HostTensor& x, const HostTensor& keys, const HostTensor& y) {
  for (int64_t i = 0; i < x.count; ++i) {
    const T wanted = x.as<T>()[i];
    int64_t low = 0, high = keys.count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (is_less(keys.as<T>()[middle], wanted))
        low = middle + 1;
      else
        high = middle;
    }
    const bool found = low < keys.count && !is_less(wanted, keys.as<T>()[low]);
    y.as<int64_t>()[i] = found ? low : keys.count;
  }
}

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" int32_t fettle_host_string_unique(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor x = given.tensor(0);
  const int64_t n = x.shape[0];
  auto *first = given.tensor(1).as<int64_t>(), *inverse = given.tensor(2).as<int64_t>();
  auto *counts = given.tensor(3).as<int64_t>(), *count = given.tensor(4).as<int64_t>();
  const Rows rows{*context->strings, x.as<int64_t>(), x.shape[1]};
  HostMemory memory(context);
  if (!memory.grow(2 * n * static_cast<int64_t>(sizeof(int64_t)))) return host_out_of_memory(context);
  auto *order = memory.as<int64_t>(), *spare = order + n;
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  sort(order, spare, n, [&](int64_t a, int64_t b) { return rows.is_ahead(a, b); });
  int64_t groups = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || rows.compare_rows(order[i - 1], order[i]) != 0) {
      counts[groups] = 0;
      first[groups++] = order[i];
    }
    inverse[order[i]] = groups - 1;
    ++counts[groups - 1];
  }
  if (given.number(0) == 0) {  // as they are met
    for (int64_t g = 0; g < groups; ++g) order[g] = g;
    sort(order, spare, groups, [&](int64_t a, int64_t b) { return first[a] < first[b]; });
    for (int64_t g = 0; g < groups; ++g) spare[order[g]] = g;
    for (int64_t i = 0; i < n; ++i) inverse[i] = spare[inverse[i]];
    for (int64_t g = 0; g < groups; ++g) {
      order[g] = 0;
      first[g] = -1;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (first[inverse[i]] < 0) first[inverse[i]] = i;
      ++order[inverse[i]];
    }
    memcpy(counts, order, static_cast<size_t>(groups) * sizeof(int64_t));
  }
  for (int64_t g = groups; g < n; ++g) first[g] = counts[g] = 0;
  *count = groups;
  return FETTLE_OK;
}

extern "C" int32_t fettle_host_find(FettleContext*, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor x = given.tensor(0), keys = given.tensor(1), y = given.tensor(2);
  if (x.dtype == FETTLE_F32)
    find_all<float>(x, keys, y);
  else if (x.dtype == FETTLE_F64)
    find_all<double>(x, keys, y);
  else
    find_all<int64_t>(x, keys, y);
  return FETTLE_OK;
}
