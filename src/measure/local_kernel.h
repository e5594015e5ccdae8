#pragma once
// A scheduled program compiled into this process, with buffers of its own: for benchmarks, tests and `fettle bench`.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "codegen/object_cache.h"
#include "codegen/relayout.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// Memory that several kernels of one program use in turn, one block for each parameter. Which pages of the machine a
/// buffer gets, and what of them collides in a cache indexed by physical addresses, changes times by several percent.
/// Kernels that are compared on the same pages differ by their programs alone. What the memory holds is of whoever
/// filled it last.
class SharedMemory {
 public:
  explicit SharedMemory(bool huge_pages) : huge_pages_(huge_pages) {}
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// At least `bytes` for the parameter at `index`: the block that others had, if it is large enough. E710.
  Result<void*> block(size_t index, int64_t bytes);

 private:
  struct Block {
    size_t index;
    void* memory;
    int64_t bytes;
  };
  const bool huge_pages_;
  std::vector<Block> blocks_;
};

struct LocalKernelOptions {
  int threads = 1;                       // of the team; the calling thread is one of them
  uint64_t seed = 0;                     // of what inputs and constants hold at first (fill.h)
  std::vector<int64_t> ints;             // the integer parameters, in order; each missing one takes its typical value
  bool plain = false;                    // compiled as the reference: Pipeline::kPlain
  bool huge_pages = false;               // ask for huge pages
  std::shared_ptr<ObjectCache> cache;    // of micro-kernels; null: none is kept
  std::shared_ptr<SharedMemory> memory;  // in place of buffers of its own
};

/// Lowered, compiled, linked; its constants' prologue has run; all buffers are filled, touched and ready.
/// Used by one thread at a time.
class LocalKernel {
 public:
  /// Errors: those of lowering and compiling (E301, E302, E303) · E709 an integer parameter or extent does not fit ·
  /// E710 no memory.
  static Result<LocalKernel> build(const Func& scheduled, const Target& target, const LocalKernelOptions& options = {});

  LocalKernel(LocalKernel&&) noexcept;
  LocalKernel& operator=(LocalKernel&&) noexcept;
  ~LocalKernel();

  /// One call. E710 where the kernel reports a failure.
  Result<> run();
  /// As run, without a Result: 0 is success.
  int32_t call();
  /// One call on the caller's memory: a pointer for each parameter, of physical_bytes(index) in the buffer's own layout
  /// and aligned as it says (buffer->alignment_bytes); null: the kernel's own buffer. E710 as above.
  Result<> run_on(std::span<void* const> buffers);
  /// Whether the parameter's own layout is the caller's order, so that the caller's memory may stand for it.
  bool in_callers_order(int index) const;
  /// Once more the work on constants alone, after set_logical on one of them. E710.
  Result<> run_prologue();

  // --- the parameters of the scheduled program, by their index
  int n_params() const;
  const Param& param(int index) const;
  /// Of the caller's order: dense, row-major.
  std::span<const int64_t> logical_shape(int index) const;
  int64_t logical_elems(int index) const;
  /// The buffer itself, in its own layout. A constant that only the prologue reads does not enter call().
  void* physical(int index);
  int64_t physical_bytes(int index) const;

  /// Sets a parameter from, or gets it in, the caller's order; `data` holds all of the elements.
  void set_logical_bytes(int index, std::span<const std::byte> data);
  std::vector<std::byte> logical_bytes(int index) const;
  template <class T>
  void set_logical(int index, std::span<const T> data) {
    set_logical_bytes(index, std::as_bytes(data));
  }
  template <class T>
  std::vector<T> logical(int index) const {
    const std::vector<std::byte> bytes = logical_bytes(index);
    FETTLE_CHECK(bytes.size() == static_cast<size_t>(logical_elems(index)) * sizeof(T));
    const T* data = reinterpret_cast<const T*>(bytes.data());
    return {data, data + logical_elems(index)};
  }

  /// Threads of the team.
  int threads() const;
  /// Bytes of machine code.
  int64_t code_bytes() const;

 private:
  struct State;
  const Relayout& layout(int index) const;
  Result<> run_buffers(std::span<void* const> buffers);
  explicit LocalKernel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fettle
