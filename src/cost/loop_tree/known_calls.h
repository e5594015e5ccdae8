#pragma once
// What calls of micro-kernels look like in a loop tree, remembered from kernel to kernel: candidates of one search call
// the same few micro-kernels, from elsewhere.

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/loop_tree/body_reader.h"
#include "cost/loop_tree/loop_tree.h"

namespace fettle {

/// A call, and all that its part of the tree depends on. Buffers are numbered as they come, places count from the first
/// parameter that lies in the same buffer: where that lies moves the accesses and changes nothing else.
class CallSite {
 public:
  /// `places`: of the micro-kernel's parameters; `points`: the integers of its variants; `outer_loops`: around the
  /// call. Nothing where it is not of a kind that can be remembered.
  static std::optional<CallSite> of(const Func& micro_kernel, const std::vector<const BufferPlace*>& places,
                                    const std::vector<std::vector<int64_t>>& points, size_t outer_loops,
                                    double live_registers, int vector_bytes);

  /// The bodies of its variants, as read before; nothing where they were not.
  std::optional<std::vector<CostNode>> find() const;
  /// Remembers them. Each thread has a memory of its own, of bounded size.
  void keep(const std::vector<CostNode>& bodies) const;

 private:
  struct Origin {  // of a buffer
    int buffer = 0;
    int64_t base_bytes = 0;
    std::vector<int64_t> step_bytes;  // one a loop around the call
  };
  struct Known;
  struct Memory;
  static Memory& memory();

  uint64_t hash() const;
  int local(int buffer) const;
  void to_local(CostNode& node) const;
  void from_local(CostNode& node, size_t outer_loops) const;

  Func micro_kernel_;
  std::vector<int64_t> key_;
  std::vector<Origin> origins_;
  size_t outer_loops_ = 0;
};

}  // namespace fettle
