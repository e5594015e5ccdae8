#include "cost/predict/estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

namespace fettle {
namespace {

// Of the time that lines arrive late, measured where nothing else is read: what is left of it where they are asked for,
// and what becomes of it for panels from beyond the second-level cache, beside all else that a register tile reads.
constexpr double kAskedShows = 0.25, kSuddenShows = 3;

class Estimator {
 public:
  Estimator(const LoopTree& tree, const MachineCosts& costs, int threads, const MicroKernelTable* micro_kernels)
      : tree_(tree), costs_(costs), threads_(std::max(1, threads)), micro_kernels_(micro_kernels) {}

  Estimate run() {
    const std::vector<const CostNode*> nests = nests_of(tree_);
    const std::vector<Traffic> traffic = traffic_of_nests(tree_, costs_, threads_);
    const double crowd = 1 + 0.4 * (costs_.streams * threads_ - 1);  // on what threads share
    for (size_t i = 0; i < nests.size(); ++i) {
      const double work_before = out_.step_s + out_.edge_s + out_.plain_s, calls_before = out_.calls;
      visit(*nests[i], 1, 0, nullptr, false);
      const double work_s = out_.step_s + out_.edge_s + out_.plain_s - work_before;
      std::array<double, kSources> move_s{}, late_s{};
      double move_all_s = 0;
      for (size_t level = 0; level < kSources; ++level) {
        const double lines = traffic[i].read[level] + traffic[i].written[level];
        const double weighted = traffic[i].read[level] + costs_.write_weight[level] * traffic[i].written[level];
        move_s[level] = weighted * costs_.line_cycles[level] / costs_.hz * (level + 1 == kSources ? crowd : 1);
        const double late = lines - (1 - kAskedShows) * traffic[i].asked[level] +
                            (level > 0 ? kSuddenShows - 1 : 0) * traffic[i].sudden[level];
        late_s[level] =
            (late * costs_.latency_cycles[level] + traffic[i].edge[level] * costs_.edge_line_cycles[level]) / costs_.hz;
        out_.edge_lines[level] += traffic[i].edge[level];
        move_all_s += move_s[level];
        out_.read_lines[level] += traffic[i].read[level];
        out_.written_lines[level] += traffic[i].written[level];
      }
      const double wait_s = together(work_s, move_all_s, out_.calls > calls_before ? 8 : 3) - work_s;
      for (size_t level = 0; level < kSources; ++level)
        out_.stall_s[level] += late_s[level] + (move_all_s > 0 ? wait_s * move_s[level] / move_all_s : 0);
    }
    out_.nests = static_cast<double>(nests.size());
    out_.micro_kernels = static_cast<double>(names_.size());
    out_.footprint_bytes = footprint_bytes(tree_, tree_.root);
    for (const CostBuffer& buffer : tree_.buffers)
      (buffer.scratch ? out_.scratch_bytes : out_.parameter_bytes) += buffer.bytes;
    return out_;
  }

 private:
  // `loop`: the one right around `node`; runs: of `node`, all in all.
  void visit(const CostNode& node, double runs, double depth, const CostNode* loop, bool in_micro_kernel) {
    out_.depth = std::max(out_.depth, depth);
    switch (node.kind) {
      case CostNode::Kind::kLoop: {
        double extent = node.extent;
        if (node.parallel) {
          out_.fork_s += threads_ > 1 ? runs * costs_.fork_join_seconds : 0;
          out_.parallel_extent = std::max(out_.parallel_extent, extent);
          out_.parallel_loops += 1;
          if (threads_ > 1 && extent > 0) {
            const double own = std::ceil(extent / threads_);
            out_.parallel_waste = std::max(out_.parallel_waste, own * threads_ / extent);
            extent = own;
          }
        }
        const bool innermost = node.children[0].kind == CostNode::Kind::kBody;
        const double cycles = innermost ? runs * costs_.loop_cycles : runs * extent * costs_.outer_loop_cycles;
        (in_micro_kernel ? out_.edge_s : out_.plain_s) +=
            cycles * (in_micro_kernel ? costs_.edge_share : 1) / costs_.hz;
        if (in_micro_kernel && innermost)
          out_.edge_s += runs * code_missing_ * code_bytes(node.children[0]) * costs_.code_byte_cycles / costs_.hz;
        out_.loops += runs;
        out_.iterations += runs * extent;
        visit(node.children[0], runs * extent, depth + 1, &node, in_micro_kernel);
        return;
      }
      case CostNode::Kind::kSeq:
        for (const CostNode& child : node.children)
          visit(child, runs, depth, parts_of_step(node, loop, in_micro_kernel), in_micro_kernel);
        return;
      case CostNode::Kind::kChoice:
        for (size_t i = 0; i < node.children.size(); ++i)
          visit(node.children[i], runs * node.shares[i], depth, parts_of_step(node, loop, in_micro_kernel),
                in_micro_kernel);
        return;
      case CostNode::Kind::kCall:
        out_.calls += runs;
        out_.edge_s += runs * costs_.call_cycles * costs_.edge_share / costs_.hz;
        out_.variants += static_cast<double>(node.variants.size());
        for (size_t i = 0; i < node.children.size(); ++i) {
          names_.insert(node.variants[i].name);
          const double bytes = code_bytes(node.children[i]);
          out_.code_bytes = std::max(out_.code_bytes, bytes);
          code_missing_ = std::clamp(4 * (bytes / costs_.code_bytes - 0.75), 0.0, 1.0);
          micro_kernel_loops_ = has_loop(node.children[i]);
          // While the sums of one call wait for each other, those of the next begin.
          exposed_ = std::min(1.0, (costs_.call_cycles + instructions(node.children[i])) / costs_.in_flight);
          visit(node.children[i], runs * node.shares[i], depth, nullptr, true);
        }
        return;
      case CostNode::Kind::kBody:
        return body(node, runs, loop, in_micro_kernel);
    }
  }

  // What a micro-kernel's innermost loop repeats may be several pieces, or one of several: they are what it does in a
  // step.
  static const CostNode* parts_of_step(const CostNode& node, const CostNode* loop, bool in_micro_kernel) {
    return in_micro_kernel && loop && !has_loop(node) ? loop : nullptr;
  }

  // Steps of a tile share what they broadcast only where the registers hold it beside all that they read: else each
  // reads for itself, as code generation has it (codegen/llvm/crowded_steps.h).
  Work as_read(Work work) const {
    if (work.accumulators <= 0 || work.live_registers + work.loads + 1 <= costs_.registers) return work;
    const double steps = std::floor(work.fma / work.accumulators);
    if (steps < 2 || work.broadcasts <= 0) return work;
    const double vectors = std::max(1.0, work.vector_loads() / steps);
    const double broadcasts = std::max(work.broadcasts, steps * work.accumulators / vectors);
    work.loads += broadcasts - work.broadcasts;
    work.broadcasts = broadcasts;
    return work;
  }

  void body(const CostNode& node, double runs, const CostNode* loop, bool in_micro_kernel) {
    const Work work = as_read(node.work);
    out_.near_requests += runs * work.near_requests;
    out_.far_requests += runs * work.far_requests;
    out_.flops += runs * work.flops;
    out_.fma += runs * work.fma;
    out_.arithmetic += runs * work.arithmetic;
    out_.loads += runs * work.loads;
    out_.broadcasts += runs * work.broadcasts;
    out_.stores += runs * work.stores;
    out_.gathers += runs * work.gathers;
    out_.divisions += runs * work.divisions;
    const bool is_step = in_micro_kernel && loop && work.fma > 0 && work.accumulators > 0;
    if (!is_step) {
      // What is before and after a micro-kernel's loops overlaps with other micro-kernels; without loops it is the work
      // itself.
      const double shows = in_micro_kernel && !loop && micro_kernel_loops_ ? costs_.edge_share : 1;
      const double lanes = in_micro_kernel ? 1 : lanes_of_steps(node, loop);
      const double cycles = lanes > 1 ? work_cycles(work, costs_, false) / lanes
                                      : work_cycles(work, costs_, loop != nullptr, in_micro_kernel ? exposed_ : 1);
      const double seconds = runs * cycles * shows / costs_.hz;
      (in_micro_kernel ? out_.edge_s : out_.plain_s) += seconds;
      if (!in_micro_kernel) {
        out_.plain_flops += runs * work.flops;
        out_.scalar_runs += runs;
      }
      return;
    }
    const auto [mode, rows_a_set] = row_mode(node);
    // Several steps in one iteration are as many of those that were measured.
    const double steps = work.fma > 0 ? std::max(1.0, std::floor(work.fma / work.accumulators)) : 1;
    Work step = work;
    for (double* part : {&step.fma, &step.arithmetic, &step.loads, &step.broadcasts, &step.stores, &step.far_requests})
      *part /= steps;
    double cycles = steps * work_cycles(step, costs_, true, exposed_);
    // Beyond some ways of a set, rows' lines come anew; more so beside others that use the same cache.
    const double crowded = mode == RowMode::kConflict
                               ? 0.1 * work.broadcasts * std::clamp((rows_a_set - 4) / costs_.l1_ways, 0.0, 1.0)
                               : 0;
    if (micro_kernels_ && work.broadcasts > 0) {
      // What a tile takes beyond its arithmetic belongs to the loop around it: it shows once an iteration.
      const double steady = (steps - 1) * work_cycles(step, costs_, true, exposed_);
      const double alone = steady + micro_kernels_->step_cycles(step, RowMode::kInPlace, 0, exposed_);
      cycles = mode == RowMode::kConflict
                   ? std::max(steps * micro_kernels_->step_cycles(step, mode, rows_a_set, exposed_), alone + crowded)
                   : steady + micro_kernels_->step_cycles(step, mode, 0, exposed_);
    } else {
      cycles += crowded;
    }
    out_.step_s += runs * cycles / costs_.hz;
    out_.steps += runs;
    (mode == RowMode::kConflict ? out_.steps_conflict
     : mode == RowMode::kPacked ? out_.steps_packed
                                : out_.steps_in_place) += runs;
    out_.step_rows += runs * work.broadcasts;
    out_.step_vectors += runs * work.vector_loads();
    if (costs_.fma_latency * work.fma / work.accumulators > work.fma / costs_.fma_per_cycle) out_.latency_bound += runs;
    out_.spilled += runs * std::max(0.0, step.live_registers + step.vector_loads() + 1 - costs_.registers);
  }

  // Sums in registers that are no micro-kernel's are those of programs in order that no lanes were asked for. Of steps
  // that go along memory code generation makes lanes, and several sums, which do not wait for each other.
  double lanes_of_steps(const CostNode& node, const CostNode* loop) const {
    if (!loop || node.work.accumulators <= 0 || node.work.gathers > 0) return 1;
    double element_bytes = 0;
    for (const Stream& stream : node.streams) {
      if (stream.is_write || stream.step_bytes.empty()) return 1;
      const double step = stream.step_bytes.back();
      if (step != 0 && step != stream.run_bytes) return 1;
      if (step != 0) element_bytes = std::max(element_bytes, stream.run_bytes);
    }
    return element_bytes > 0 ? std::max(1.0, std::min(costs_.vector_bytes / element_bytes, loop->extent)) : 1;
  }

  // By the stream that moves least from step to step: it is the one whose elements are broadcast.
  std::pair<RowMode, double> row_mode(const CostNode& node) const {
    const Stream* rows = nullptr;
    for (const Stream& stream : node.streams) {
      if (stream.is_write || stream.step_bytes.empty()) continue;
      if (!rows || std::abs(stream.step_bytes.back()) < std::abs(rows->step_bytes.back())) rows = &stream;
    }
    std::pair<RowMode, double> mode{RowMode::kPacked, 0};
    if (!rows) return mode;
    for (const StreamDim& dim : rows->dims) {
      if (dim.count <= 1.5) continue;
      mode.first = std::max(mode.first, RowMode::kInPlace);
      const auto stride = static_cast<int64_t>(std::abs(dim.stride_bytes));
      const auto way = static_cast<int64_t>(costs_.l1_way_bytes);
      const double places = static_cast<double>(way / std::max<int64_t>(64, std::gcd(stride, way)));
      if (dim.count / places > costs_.l1_ways / 3) mode = {RowMode::kConflict, dim.count / places};
    }
    return mode;
  }

  // That one run executes.
  static double instructions(const CostNode& node) {
    const Work& work = node.work;
    double sum = node.kind == CostNode::Kind::kBody
                     ? work.fma + work.arithmetic + work.loads + work.stores + work.tile_products
                     : 0;
    for (size_t i = 0; i < node.children.size(); ++i)
      sum += (node.kind == CostNode::Kind::kChoice ? node.shares[i] : 1) * instructions(node.children[i]);
    return node.kind == CostNode::Kind::kLoop ? node.extent * (sum + 2) : sum;
  }

  static double code_bytes(const CostNode& node) {
    const Work& work = node.work;
    double bytes = 9 * (work.fma + work.arithmetic + work.loads + work.stores) + 40;
    if (node.kind != CostNode::Kind::kBody) bytes = 0;
    for (const CostNode& child : node.children) bytes += code_bytes(child);
    return bytes;
  }

  const LoopTree& tree_;
  const MachineCosts& costs_;
  const int threads_;
  const MicroKernelTable* micro_kernels_;
  Estimate out_;
  std::set<std::string> names_;
  bool micro_kernel_loops_ = false;
  double exposed_ = 1;       // share of the latencies of the micro-kernel's sums that nothing hides
  double code_missing_ = 0;  // share of the micro-kernel's code that is not at hand when it is needed
};

}  // namespace

double together(double work, double movement, double sharpness) {
  const double most = std::max(work, movement);
  if (most <= 0) return 0;
  return most * std::pow(std::pow(work / most, sharpness) + std::pow(movement / most, sharpness), 1 / sharpness);
}

double Estimate::seconds() const {
  double sum = step_s + edge_s + plain_s + fork_s;
  for (const double stall : stall_s) sum += stall;
  return sum;
}

Estimate estimate(const LoopTree& tree, const MachineCosts& costs, int threads, const MicroKernelTable* micro_kernels) {
  return Estimator(tree, costs, threads, micro_kernels).run();
}

}  // namespace fettle
