#include "schedule/primitives/cache_read.h"

#include <algorithm>

#include "base/checks.h"
#include "ir/path.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/staging.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The hull of what the blocks read of `buffer` below `top`, a range for each dimension.
std::vector<Range> read_hull(const Func& func, const Buffer& buffer, const Stmt& top,
                             const std::vector<const BlockNode*>& readers) {
  std::vector<Range> hull;
  Analyzer analyzer;
  bind_loops(analyzer, loops_around(func, top.get()));
  for (const BlockNode* reader : readers) {
    // A reader outside of `top` is bounded as if nothing were known of its loops: all of the buffer.
    const bool below = !path_to(top, reader).empty();
    Footprint footprint(func, loops_around(func, top.get()), loops_between(top, reader));
    add_reads(hull, *reader, buffer, analyzer, [&](const Range& read, const Expr& whole) {
      const auto found = below ? footprint.of(read) : std::nullopt;
      return found ? clipped(*found, whole) : Range{int_imm(0), whole};
    });
  }
  return hull;
}

Result<Applied> apply_cache_read(const Schedule& s, const CacheReadArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto* block = stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, read_buffer(*block, args.read_index));
  FETTLE_TRY_VOID(check_scope(s, args.scope, block));
  if (write_region(*block, buffer.get()) && checks("cache_read.in_place"))
    return refused(ErrorCode::E211, func, block, "block {} also writes {}", block->name, buffer->name);
  const BlockNode* scope = enclosing_block(func, block);

  if (is_in_init(*scope, block))
    return refused(ErrorCode::E211, func, block, "block {} is part of an init", block->name);
  const std::vector<const BlockNode*> producers = producers_of(*scope, buffer.get());
  const StmtNode* anchor = anchor_of(*scope, block, producers);
  const Stmt top = path_to(scope->body, anchor).back();

  const std::vector<const BlockNode*> order = blocks_of(*scope);
  const BlockNode* first_below = blocks_under(top).front();
  std::vector<const BlockNode*> readers{block};
  for (const BlockRef& ref : args.consumer_blocks) {
    FETTLE_TRY(const Stmt other, s.block(ref));
    const auto* reader = other.as<BlockNode>();
    if (reader == block) continue;
    if (!read_region(*reader, buffer.get()) || write_region(*reader, buffer.get()))
      return refused(ErrorCode::E220, func, reader, "block {} does not read {}, or also writes it", reader->name,
                     buffer->name);
    const auto at = std::ranges::find(order, reader);
    if (at == order.end() || at < std::ranges::find(order, first_below))
      return refused(ErrorCode::E215, func, reader, "block {} runs before the copy", reader->name);
    for (const BlockNode* writer : producers) {
      const auto written = std::ranges::find(order, writer);
      if (written >= std::ranges::find(order, first_below) && written < at && checks("cache_read.overwritten"))
        return refused(ErrorCode::E215, func, writer, "block {} overwrites {} between the copy and block {}",
                       writer->name, buffer->name, reader->name);
    }
    readers.push_back(reader);
  }

  Analyzer analyzer = analyzer_over(func, loops_around(func, anchor));
  const Buffer cache = cache_buffer(func, buffer, args.scope);
  const std::string name = unique_block_name(func, buffer->name + "_" + args.scope);
  const Stmt copy = copy_nest(name, buffer, cache, read_hull(func, buffer, top, readers), analyzer);

  // Put the copy in place first: the readers keep their identity.
  Func result = edit_scope(func, scope->name, {.anchor = anchor, .before = copy, .allocate = {cache}});
  for (const BlockNode* reader : readers) {
    const BlockNode* now = find_block(result->body, reader->name);
    const Stmt fresh = with_buffer(*now, buffer, cache);
    result = replace_owned(std::move(result), now, fresh);
  }
  return Applied{result, {name}};
}

}  // namespace

extern constinit const PrimitiveDef cache_read_def = define_primitive<CacheReadArgs, apply_cache_read>("cache_read", 1);

Result<BlockRef> cache_read(Schedule& s, const CacheReadArgs& args) { return run<BlockRef>(s, cache_read_def, args); }

}  // namespace fettle
