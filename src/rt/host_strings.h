#pragma once
// Host functions of strings (rt/host.h). Numbers, constants and what each returns stand at the functions.

#include "rt/host.h"

extern "C" {
/// (a, b) → y: a and b behind each other, where shapes broadcast.
int32_t fettle_host_string_concat(FettleContext* context, void** buffers, const int64_t* ints);
/// (x, delimiter) → (counts, most): into how many parts each string goes, and the largest of these numbers. Delimiter
/// "": runs of white space. Numbers: how often a string is split at most; -1: as often as can be.
int32_t fettle_host_string_count_parts(FettleContext* context, void** buffers, const int64_t* ints);
/// (x, delimiter) → y[…, most]: the parts, "" behind them. Numbers: as above.
int32_t fettle_host_string_split(FettleContext* context, void** buffers, const int64_t* ints);
/// (x, stop words) → (y, count): what is no stop word, in its order, and how many there are, at least one: "" stands
/// where none is left. Numbers: CaseChange; whether stop words are compared as they are.
int32_t fettle_host_string_normalize(FettleContext* context, void** buffers, const int64_t* ints);
/// (x, program) → y: whether a regular expression matches all of each string (rt/regex.h).
int32_t fettle_host_regex_match(FettleContext* context, void** buffers, const int64_t* ints);
/// rows [n, m] → (first, inverse, counts, count): BoundedUnique of strings. Numbers: 1, where the rows are in order.
int32_t fettle_host_string_unique(FettleContext* context, void** buffers, const int64_t* ints);
/// (x, keys [n]) → y: the place of each element among the keys, which ascend; n where it is none. NaN equals NaN, and
/// stands behind all numbers. Of i64, strings, f32 and f64.
int32_t fettle_host_find(FettleContext* context, void** buffers, const int64_t* ints);
/// (x, …) → y: numbers from strings and the other way round. Fails where a string is no number.
int32_t fettle_host_string_cast(FettleContext* context, void** buffers, const int64_t* ints);
}

namespace fettle::rt {

enum CaseChange : int64_t { kAsIs, kToLower, kToUpper };

}  // namespace fettle::rt
