#pragma once
// Micro-kernels measured on this machine, once: what they and the movement of data really cost.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cost/predict/machine_costs.h"
#include "target/target.h"

namespace fettle {

/// How a micro-kernel reads its broadcast operand.
enum class RowMode : uint8_t {
  kPacked,    // one row after the other, in panels
  kInPlace,   // rows some distance apart
  kConflict,  // rows a multiple of a page apart: they share sets of the first-level cache
};
inline constexpr int kRowModes = 3;

/// A register tile: `rows` broadcasts times `vectors` vector loads a step.
struct TileCosts {
  int rows = 0, vectors = 0;
  /// Cycles a step with both operands in the first-level cache, in each mode.
  std::array<double, kRowModes> step_cycles{};
  /// Cycles a step, rows in place, where the vector operand comes from L2, L3, memory; 0: not measured.
  std::array<double, kSources> vector_step{};
  double call_cycles = 0;  // a call that overwrites its tile, beside its steps
  double add_cycles = 0;   // further cycles of one that adds to it
};

class MicroKernelTable {
 public:
  /// Measures: micro-kernels are compiled from a matmul as any program is, and timed on one thread. At most `limit_s`
  /// seconds (E407 where no micro-kernel could be built).
  static Result<MicroKernelTable> measure(const Target& target, double limit_s = 10);
  /// The table kept at `path`, else measured and kept there; what is damaged or of another machine is measured anew. A
  /// path that cannot be written is no error. Empty: it is measured, and kept nowhere.
  static Result<MicroKernelTable> load_or_measure(const Target& target, const std::string& path, double limit_s = 10);

  /// Whole or not at all. E702
  Result<> save(const std::string& path) const;
  /// E701 no such file · E503 damaged, of another machine or another version.
  static Result<MicroKernelTable> load(const std::string& path, const Target& target);
  /// As numbers, for Database::set_fact; and back. E503.
  std::vector<double> to_numbers() const;
  static Result<MicroKernelTable> from_numbers(const std::vector<double>& numbers);

  const MachineCosts& costs() const { return costs_; }
  const std::vector<TileCosts>& tiles() const { return tiles_; }
  double measure_seconds() const { return measure_seconds_; }

  /// Cycles a step of a micro-kernel's loop, estimated from the tile most like it: that tile's measured cycles over its
  /// analytic ones, times the analytic ones of `work`. rows_a_set: in kConflict, how many rows share a set of the
  /// first-level cache. exposed: as work_cycles has it.
  double step_cycles(const Work& work, RowMode mode, double rows_a_set = 0, double exposed = 1) const;
  /// The measured tile most like `work`, or null.
  const TileCosts* nearest(const Work& work) const;
  const TileCosts* nearest(double rows, double vectors) const;

  /// For tests and for those who measure elsewhere.
  MicroKernelTable() = default;
  MicroKernelTable(MachineCosts costs, std::vector<TileCosts> tiles, std::string machine)
      : machine_(std::move(machine)), costs_(costs), tiles_(std::move(tiles)) {}

 private:
  std::string machine_;  // fingerprint of the target
  MachineCosts costs_;
  std::vector<TileCosts> tiles_;
  double measure_seconds_ = 0;
};

}  // namespace fettle
