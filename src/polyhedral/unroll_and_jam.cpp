#include "polyhedral/unroll_and_jam.h"

#include <algorithm>

#include "ir/query.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

constexpr int64_t kFewRows = 4, kManyRows = 8;
// Cycles: a store and the load of what it wrote, a division, and divisions or other operations side by side.
constexpr double kThroughMemory = 8, kDivision = 13, kDivisionBeside = 5, kOperationBeside = 0.5;

// The most cycles from an element of `buffer` to the value. Less than 0: none is read.
double longest_chain(const Expr& value, const Buffer& buffer, int latency) {
  constexpr double kNone = -1e9;
  if (const auto* read = value.as<LoadNode>()) return read->buffer == buffer ? 0 : kNone;
  double longest = kNone;
  walk(value, [&](const Expr& e) {
    if (e.get() != value.get()) longest = std::max(longest, longest_chain(e, buffer, latency));
    return e.get() == value.get();
  });
  const auto* binary = value.as<BinaryNode>();
  if (!binary) return longest;
  return longest + (binary->op == BinaryOp::kDiv ? kDivision : latency);
}

}  // namespace

int64_t rows_to_jam(const BlockNode& block, int latency) {
  double waits = 0, works = 0;
  each_node<StoreNode>(block.body, [&](const StoreNode& store) {
    waits = std::max(waits, kThroughMemory + longest_chain(store.value, store.buffer, latency));
    each_node<BinaryNode>(store.value, [&](const BinaryNode& op) {
      if (op.dtype == store.buffer->dtype) works += op.op == BinaryOp::kDiv ? kDivisionBeside : kOperationBeside;
    });
  });
  return waits > kFewRows * works ? kManyRows : kFewRows;
}

std::optional<JammedRows> jam_rows(const IndexMap& map, size_t members, bool rows_wait, int64_t rows) {
  if (members < 2 || map.outputs.size() != members) return std::nullopt;
  const Expr row = map.outputs[members - 2], along = map.outputs[members - 1];
  JammedRows jammed{.map = map, .factors = std::vector<int64_t>(members + 1, 1), .rows = rows};
  jammed.map.outputs.resize(members - 2);
  jammed.map.outputs.insert(jammed.map.outputs.end(),
                            {floordiv(row, Expr(rows)), rows_wait ? along + row : along, row});
  jammed.factors.back() = rows;
  return jammed;
}

Result<> write_rows_out(Schedule& s, const std::string& block, const JammedRows& jammed) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  if (loops.empty()) return {};
  FETTLE_TRY(const Stmt innermost, s.loop(loops.back()));
  const int64_t* extent = as_int(innermost.as<ForNode>()->extent);
  if (!extent || *extent != jammed.rows) return {};
  return unroll(s, {loops.back()});
}

}  // namespace fettle
