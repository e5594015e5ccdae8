#pragma once
// The constants of a compiled model: each (content of its sources, how it is packed) is stored once, for all kernels.

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/kernels.h"
#include "graph/constant.h"
#include "graph/plan/plan.h"

namespace fettle {

/// Tensors of equal bytes are one content, whatever their names, shapes and places.
class Contents {
 public:
  /// The content's number, counted from 0.
  int number_of(const ConstantTensor& tensor);
  int64_t size_bytes(int number) const { return kept_[static_cast<size_t>(number)].size_bytes; }
  /// Of all distinct contents.
  int64_t total_bytes() const;

 private:
  std::vector<ConstantTensor> kept_;
  std::map<int64_t, std::vector<int>> of_size_;
  std::map<std::pair<const std::byte*, int64_t>, int> known_;
};

/// A constant that is stored, by the first call that needs it.
struct StoredConstant {
  int64_t size_bytes = 0;
  int call = 0;                              // index into Plan::calls
  size_t param = 0;                          // index into its kernel's parameters
  const ConstantTensor* as_it_is = nullptr;  // not null: a host function reads it
};

/// Which constants are stored, before any of them is made.
struct ConstantPlan {
  std::vector<StoredConstant> stored;
  /// [call][parameter of its kernel]: index into `stored`; -1: not a constant, or one that the kernel does not read.
  std::vector<std::vector<int>> of_call;
  std::vector<std::vector<int>> of_host_call;  // [host call][operand], likewise
  /// Those that constants hold, by their numbers in the process, ascending; the artefact's numbers begin with 1 there.
  std::vector<int64_t> strings;
  int64_t weight_bytes = 0;  // distinct contents of the model that its calls use

  int64_t stored_bytes() const;
};

/// The content of the parameter where it is one of the program's and a constant of this call; else null.
const ConstantTensor* constant_of(const Plan& plan, const PlannedCall& call, const KernelParam& param);

/// schedules: one a workload of the plan.
ConstantPlan plan_constants(const Plan& plan, const std::vector<ChosenSchedule>& schedules);

/// Bytes aligned to a cache line, kept alive by whom they belong to.
struct ConstantBytes {
  std::shared_ptr<const std::byte> bytes;
  int64_t size = 0;
};

/// Makes what is planned: copies, lays out, and runs each prologue as often as its sources differ. Each of `threads`
/// threads holds a copy of a tensor or two meanwhile. E303, E710.
Result<std::vector<ConstantBytes>> make_constants(const Plan& plan, const ConstantPlan& planned,
                                                  const std::vector<BuiltKernel>& kernels, int threads);

/// What an artefact has of its constants where these are packed when it is opened: by code for the machine that it is
/// opened on, whatever machine compiles it.
struct LateConstants {
  /// As planned.stored, then what prologues also read or make. Without bytes: a packing makes it.
  std::vector<ConstantBytes> constants;
  struct Packing {
    std::string entry;           // of a kernel's prologue
    std::vector<int> constants;  // of each of its buffers, in order
  };
  std::vector<Packing> packings;  // no two make one constant
};

/// Bytes that several targets of a model read. Equal ones are kept once.
class ConstantPool {
 public:
  /// The tensor's bytes, aligned; at one address where they are equal. E710.
  Result<ConstantBytes> keep(ConstantTensor tensor);

 private:
  Contents contents_;
  std::vector<ConstantTensor> seen_;  // contents are known by addresses, which must not be given again
  std::vector<ConstantBytes> kept_;   // by the content's number
};

/// Makes nothing of what is planned, and says how it is made. E710.
Result<LateConstants> defer_constants(const Plan& plan, const ConstantPlan& planned,
                                      const std::vector<BuiltKernel>& kernels, ConstantPool& pool);

/// Constants that are smaller are packed as each kernel likes.
inline constexpr int64_t kSharedFromBytes = 64 << 10;
inline constexpr size_t kMostPackings = 2;

/// At most kMostPackings packings of each content of kSharedFromBytes and more. Workloads have the choice in the order
/// of the plan. One that would pack a weight in a further way takes the default among the constructed schedules whose
/// packings exist, or else the default of the program that reads the weight as it lies.
/// settled: one a workload; these keep their schedules. Errors: those of describe_schedule.
Result<> share_packings(const Plan& plan, const std::vector<KernelRequest>& requests, const std::vector<bool>& settled,
                        const Target& target, int kernel_threads, std::vector<ChosenSchedule>& schedules);

}  // namespace fettle
