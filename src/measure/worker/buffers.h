#pragma once
// The memory that candidates of one workload run on, in the worker and the children that it forks.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/build.h"
#include "codegen/relayout.h"
#include "ir/func.h"
#include "measure/guarded_buffer.h"

namespace fettle {

/// Buffers are made once for each (parameter, layout), or, for what a prologue makes, once for each distinct packing.
class BufferStore {
 public:
  explicit BufferStore(uint64_t seed) : seed_(seed) {}

  /// What children write is shared; what they read alone is not, and lies in huge pages.
  struct Slot {
    std::shared_ptr<GuardedBuffer> memory;
    Relayout layout;
    bool filled = false;  // of what a prologue makes: it has run
    uint64_t number = 0;  // no other of this process has it
  };
  struct Arguments {
    std::vector<std::shared_ptr<Slot>> slots;     // one a kernel parameter
    std::vector<std::shared_ptr<Slot>> prologue;  // one a parameter of the prologue
    std::vector<std::shared_ptr<Slot>> packed;    // what the prologue makes

    bool needs_prologue() const;
    /// The prologue has run: what it made is no longer shared, and lies elsewhere. E710.
    Result<> keep_packed();
  };

  /// Memory for `built`: inputs and constants hold their seeded values; the first `n_params` parameters are those of
  /// the workload. E710 no memory.
  Result<Arguments> arguments(const BuiltKernel& built, size_t n_params);

  /// Fills outputs with what no kernel computes, so that what is not written shows. Pad lanes are zero.
  static void poison(const Slot& output);

 private:
  Result<std::shared_ptr<Slot>> slot(const std::string& key, const Relayout& layout, size_t index, Sharing sharing);
  /// Gives up what no candidate uses where the whole grows beyond its limit.
  void trim();

  uint64_t seed_;
  static uint64_t next_number_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
};

}  // namespace fettle
