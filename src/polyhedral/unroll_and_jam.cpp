#include "polyhedral/unroll_and_jam.h"

#include "schedule/primitives.h"

namespace fettle {

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
