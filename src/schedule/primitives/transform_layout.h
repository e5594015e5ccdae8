#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Stores a buffer in another layout: its shape becomes that of the map's outputs, and all accesses and regions follow.
///   B' = transform_layout(B, (k, n) -> (n // 32, k, n % 32)):   B[vk, vn]   →   B'[vn // 32, vk, vn % 32]
/// A block that only fills an internal buffer, in a plain nest that is not scheduled yet (a packing copy), is rewritten
/// to walk through the new layout in order. It sets pad lanes, which exist where an extent is not divided, to zero:
///   for p0 in 3, p1 in K, p2 in 32: B'[p0, p1, p2] = select(p0*32 + p2 < n, A[p1, p0*32 + p2], 0)
/// Other writers keep their loops; where there are pad lanes, a block <buffer>_pad that clears them precedes the first.
/// So pad lanes are zero, always. Of inputs and constants the caller provides them so.
///
/// block, buffer_index, buffer_index_type: the buffer, as the block's "read" or "write" of that number
/// index_map: from logical indices to physical ones; sums of digits (x, x // c, x % c, x // c % d, x*e + y)
/// pad:       whether extents may be rounded up
/// The buffer must be internal, or a parameter that is constant or free_layout (its layout then tells the caller).
/// Errors: E206 no such block · E217 no bijection, or it pads and must not · E218 a parameter's layout is fixed, or the
///         buffer has strides of its own · E220 no such read or write · E241 buffer_index_type is neither "read" nor
///         "write"
struct TransformLayoutArgs {
  BlockRef block;
  int64_t buffer_index = 0;
  std::string buffer_index_type = "write";
  IndexMap index_map;
  bool pad = true;
  static constexpr auto fields =
      std::tuple{field("block", &TransformLayoutArgs::block), field("buffer_index", &TransformLayoutArgs::buffer_index),
                 field("buffer_index_type", &TransformLayoutArgs::buffer_index_type),
                 field("index_map", &TransformLayoutArgs::index_map), field("pad", &TransformLayoutArgs::pad)};
};
Result<> transform_layout(Schedule& s, const TransformLayoutArgs& args);

}  // namespace fettle
