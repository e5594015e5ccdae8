#include "schedule/primitives/set_axis_separator.h"

#include "analysis/sites.h"
#include "ir/annotations.h"
#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_set_axis_separator(const Schedule& s, const SetAxisSeparatorArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, accessed_buffer(s.func(), block, args.buffer_index_type, args.buffer_index));
  int64_t before = 0;
  for (const int64_t separator : args.axis_separators) {
    if (separator <= before || separator >= static_cast<int64_t>(buffer->shape.size()))
      return refused(ErrorCode::E241, func, &block, "separators must rise from 1 to less than the {} dimensions of {}",
                     std::to_string(buffer->shape.size()), buffer->name);
    before = separator;
  }
  // Every block that touches the buffer says the same.
  const std::string key = std::string(kAxisSeparatorKey) + "." + buffer->name;
  Func result = func;
  for (const BlockSite& site : block_sites(func)) {
    if (!read_region(*site.block, buffer.get()) && !write_region(*site.block, buffer.get())) continue;
    const BlockNode* now = find_block(result->body, site.block->name);
    result = replace_in(result, now, with(*now, [&](BlockNode& b) {
                          b.annotations.erase(key);
                          if (!args.axis_separators.empty()) b.annotations.set(key, args.axis_separators);
                        }));
  }
  return Applied{result, {}};
}

}  // namespace

extern constinit const PrimitiveDef set_axis_separator_def =
    define_primitive<SetAxisSeparatorArgs, apply_set_axis_separator>("set_axis_separator", 1);

Result<> set_axis_separator(Schedule& s, const SetAxisSeparatorArgs& args) {
  return run<void>(s, set_axis_separator_def, args);
}

}  // namespace fettle
