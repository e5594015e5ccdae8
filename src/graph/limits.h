#pragma once
// Limits on what a model may ask for. docs/limits.md lists them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fettle {

/// What exceeds one is refused before memory is taken or time is spent; `--limit NAME=N` changes it.
struct Limits {
  int64_t rank = 64;
  int64_t elements = int64_t{1} << 34;
  int64_t constant_bytes = int64_t{1} << 36;
  int64_t nodes = 1'000'000;
  int64_t nesting = 16;
  int64_t inputs = 100'000;
  int64_t outputs = 100'000;
  int64_t attribute_elements = int64_t{1} << 24;
  int64_t string_bytes = int64_t{1} << 24;
  int64_t external_bytes = int64_t{1} << 40;
  int64_t folded_bytes = int64_t{1} << 26;
  int64_t folded_total_bytes = int64_t{1} << 29;
  int64_t folded_steps = int64_t{1} << 30;
};

struct LimitDef {
  std::string_view name;  // "rank"
  int64_t Limits::* value;
  std::string_view what;  // "dims of a tensor"
};

std::span<const LimitDef> limit_defs();
/// Null: there is none of that name.
const LimitDef* find_limit(std::string_view name);

/// E608 `asked` is above the limit; the message has its name and how to raise it. `where`: the tensor or node.
Result<> check_limit(const Limits& limits, int64_t Limits::* limit, int64_t asked, std::string_view where = {});

}  // namespace fettle
