#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Chooses n factors whose product is exactly the extent of a loop, those from partition_pos on with a product that is
/// a multiple of innerpart_factor.
///   v0, v1, v2 = sample_partitioned_tile(loop=l, n=3, partition_pos=1, innerpart_factor=16, name="i")
///   with l of 256: 4, 2, 32 or 16, 1, 16 or …
/// So the inner part holds whole tensor intrinsics, or vectors. Where partition_pos is n, or innerpart_factor does not
/// divide the extent, it is sample_perfect_tile without a limit. Each prime factor is placed at random, the same for
/// all places that are open to it. The decision is the list of factors, outermost first.
/// Returns n integers, outermost first.
/// Errors: E202 n not in 1 … 16, partition_pos not in 0 … n, or innerpart_factor < 1 · E206 no such loop
///         E221 the extent is not a constant in 1 … 2^40 · E223 the factors of a replayed decision do not fit
struct SamplePartitionedTileArgs {
  LoopRef loop;
  int64_t n = 2;
  int64_t partition_pos = 0;
  int64_t innerpart_factor = 1;
  std::string name;
  static constexpr auto fields =
      std::tuple{field("loop", &SamplePartitionedTileArgs::loop), field("n", &SamplePartitionedTileArgs::n),
                 field("partition_pos", &SamplePartitionedTileArgs::partition_pos),
                 field("innerpart_factor", &SamplePartitionedTileArgs::innerpart_factor),
                 field("name", &SamplePartitionedTileArgs::name)};
};
Result<std::vector<ValueRef>> sample_partitioned_tile(Schedule& s, const SamplePartitionedTileArgs& args);

}  // namespace fettle
