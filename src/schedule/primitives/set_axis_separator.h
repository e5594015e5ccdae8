#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Says at which dimensions a buffer's index falls apart into several: memory with rows and columns of its own.
///   set_axis_separator(B, 0, "write", [2]):   B[a, b, c]   →   (a, b) is the first index of memory, (c) the second
/// The annotation {axis_separator.B = [2]} stands on every block that touches the buffer. Targets of flat memory, as
/// CPUs are, make one index of all: results do not change.
/// buffer_index, buffer_index_type: the buffer, as the block's "read" or "write" of that number
/// axis_separators: rising numbers of the dimensions before which an index begins; none takes the annotation away
/// Returns nothing.
/// Errors: E206 no such block · E220 no such read or write · E241 separators that do not rise, or lie outside of the
///         dimensions; or buffer_index_type is neither "read" nor "write"
struct SetAxisSeparatorArgs {
  BlockRef block;
  int64_t buffer_index = 0;
  std::string buffer_index_type = "write";
  std::vector<int64_t> axis_separators;
  static constexpr auto fields = std::tuple{field("block", &SetAxisSeparatorArgs::block),
                                            field("buffer_index", &SetAxisSeparatorArgs::buffer_index),
                                            field("buffer_index_type", &SetAxisSeparatorArgs::buffer_index_type),
                                            field("axis_separators", &SetAxisSeparatorArgs::axis_separators)};
};
Result<> set_axis_separator(Schedule& s, const SetAxisSeparatorArgs& args);

}  // namespace fettle
