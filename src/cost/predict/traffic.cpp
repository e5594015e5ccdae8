#include "cost/predict/traffic.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "base/pointer_map.h"
#include "base/small_vector.h"

namespace fettle {
namespace {

constexpr double kLine = 64, kPage = 4096;
// Where lines that lie side by side begin, nobody fetched ahead, and behind their end lines come for nothing: as many
// as these, from each source. By what made 45 tasks' candidates rank best.
constexpr std::array<double, kSources> kRunLines = {0.3, 2, 2};

using PerBuffer = SmallVector<double, 12>;  // one number a buffer
PerBuffer filled(size_t n, double value) {
  PerBuffer result;
  for (size_t i = 0; i < n; ++i) result.push_back(value);
  return result;
}

struct Dim {
  double stride, count;
};

// What one stream, or several whose places overlap, touch while some loops run: `runs` of lines side by side, each of
// `run_bytes` and `period` bytes or more from the next.
struct Box {
  int buffer;
  double low, access_bytes;
  SmallVector<Dim, 6> dims;  // of accesses, by rising strides

  double high = 0, lines = 0, runs = 0, run_bytes = 0, period = 0;
  double crowding = 1;  // all sets of a cache over those that the lines can lie in: as many times they fill those

  void measure() {
    double run = access_bytes, segments = 1, step = kPage;  // runs begin at multiples of it
    high = low + access_bytes;
    period = INFINITY;
    for (const Dim& d : dims) {
      high += d.stride * (d.count - 1);
      if (d.stride <= std::max(run, kLine))
        run += d.stride * (d.count - 1);
      else
        segments *= d.count;
    }
    for (const Dim& d : dims)
      if (d.stride > std::max(run, kLine) && d.count > 1) {
        step = static_cast<double>(std::gcd(static_cast<int64_t>(step), static_cast<int64_t>(d.stride)));
        period = std::min(period, d.stride);
      }
    const double whole = std::floor(run / kLine);
    const double run_lines = std::max(1.0, whole + (run - whole * kLine > 0 ? (whole > 0 ? 0.5 : 1) : 0));
    lines = segments * run_lines;
    runs = segments;
    run_bytes = run;
    crowding = segments > 1 ? std::max(1.0, step / (kLine * std::ceil(run_lines))) : 1;
  }
};

class Footprints {
 public:
  Footprints(const LoopTree& tree, int threads) : tree_(tree), threads_(threads) {}

  double extent_of(const CostNode& loop) const {
    if (!loop.parallel || threads_ <= 1) return loop.extent;
    return std::ceil(loop.extent / threads_);
  }

  /// Boxes of `node`, whose loops lie below `outer` others (their extents are on extents_).
  void collect(const CostNode& node, size_t outer, std::vector<Box>& boxes) {
    switch (node.kind) {
      case CostNode::Kind::kLoop:
        extents_.push_back(extent_of(node));
        collect(node.children[0], outer, boxes);
        extents_.pop_back();
        return;
      case CostNode::Kind::kCall:
        if (!node.children.empty()) collect(node.children[0], outer, boxes);
        return;
      case CostNode::Kind::kSeq:
        for (const CostNode& child : node.children) collect(child, outer, boxes);
        return;
      case CostNode::Kind::kChoice: {
        // Alternatives touch much the same: the largest counts.
        std::vector<Box> most;
        double most_lines = -1;
        for (const CostNode& child : node.children) {
          std::vector<Box> own;
          collect(child, outer, own);
          double lines = 0;
          for (const Box& box : own) lines += box.lines;
          if (lines > most_lines) {
            most_lines = lines;
            most = std::move(own);
          }
        }
        boxes.insert(boxes.end(), most.begin(), most.end());
        return;
      }
      case CostNode::Kind::kBody:
        for (const Stream& stream : node.streams) add(box_of(stream, extents_, outer), boxes);
        return;
    }
  }

  struct Total {
    PerBuffer lines, runs;  // distinct
    double bytes = 0, crowded_bytes = 0;
    /// Beyond the first level; there, rows in conflict are counted with the steps.
    double held(bool outer) const { return outer ? crowded_bytes : bytes; }
  };
  /// Remembered: a node has one place.
  const Total& total(const CostNode& node) {
    if (const auto known = numbers_.find(&node); known != numbers_.end()) return totals_[known->second];
    numbers_[&node] = totals_.size();
    return totals_.emplace_back(make_total(node, extents_.size()));
  }

  std::vector<double>& extents() { return extents_; }

  /// Of one run of a piece.
  static double lines_at_once(const Stream& stream) { return box_of(stream, {}, 0).lines; }

 private:
  Total make_total(const CostNode& node, size_t outer) {
    boxes_.clear();
    collect(node, outer, boxes_);
    Total result;
    const size_t n = tree_.buffers.size();
    result.lines = filled(n, 0);
    result.runs = filled(n, 0);
    PerBuffer low = filled(n, INFINITY), high = filled(n, -INFINITY), crowded = filled(n, 0);
    for (const Box& box : boxes_) {
      const auto b = static_cast<size_t>(box.buffer);
      result.lines[b] += box.lines;
      crowded[b] += box.lines * box.crowding;
      result.runs[b] += box.runs;
      low[b] = std::min(low[b], box.low);
      high[b] = std::max(high[b], box.high);
    }
    for (size_t b = 0; b < n; ++b) {
      if (result.lines[b] == 0) continue;
      const double crowding = crowded[b] / result.lines[b];
      result.lines[b] = std::min(result.lines[b], (high[b] - low[b]) / kLine + 1);
      if (tree_.buffers[b].bytes > 0)
        result.lines[b] = std::min(result.lines[b], std::ceil(tree_.buffers[b].bytes / kLine) + 1);
      // Few lines between the runs: they are as good as one.
      result.runs[b] = std::min(result.runs[b], std::max(1.0, (high[b] - low[b]) / kLine + 1 - result.lines[b]));
      result.bytes += result.lines[b] * kLine;
      result.crowded_bytes += result.lines[b] * kLine * crowding;
    }
    return result;
  }

  static Box box_of(const Stream& stream, const std::vector<double>& extents, size_t outer) {
    Dim dims[24];
    size_t n = 0;
    double low = stream.low_bytes;
    for (const StreamDim& d : stream.dims)
      if (n < 24) dims[n++] = {d.stride_bytes, d.count};
    for (size_t i = outer; i < extents.size() && i < stream.step_bytes.size(); ++i) {
      const double stride = std::abs(stream.step_bytes[i]);
      if (stride == 0 || extents[i] <= 1) continue;
      if (n < 24) dims[n++] = {stride, extents[i]};
      low -= stride * (extents[i] - 1) / 2;
    }
    std::sort(dims, dims + n, [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
    Box box{stream.buffer, low, stream.run_bytes, {}};
    for (size_t i = 0; i < n; ++i) {
      // Overlapping progressions are one: 3 rows from each of 112 rows are 114 rows.
      if (box.dims.size() > 0) {
        Dim& last = box.dims.back();
        const double multiple = dims[i].stride / last.stride;
        if (multiple == std::floor(multiple) && multiple <= last.count) {
          last.count += multiple * (dims[i].count - 1);
          continue;
        }
      }
      box.dims.push_back(dims[i]);
    }
    box.measure();
    for (size_t i = 0; i < box.dims.size();)
      if (!absorb(box, i)) ++i;
    return box;
  }

  // How often `shift` goes along each of the strides, the largest first, and what is left.
  struct Steps {
    SmallVector<double, 6> along;
    double rest;
  };
  static Steps steps_of(double shift, const SmallVector<Dim, 6>& dims) {
    Steps steps{{}, shift};
    for (size_t d = 0; d < dims.size(); ++d) steps.along.push_back(0);
    for (size_t d = dims.size(); d-- > 0;) {
      steps.along[d] = std::round(steps.rest / dims[d].stride);
      steps.rest -= steps.along[d] * dims[d].stride;
    }
    return steps;
  }

  // Copies that others of the box's dimensions shift by less than they go: the neighbours above, left, right and below
  // of each element lie (row - 1) elements apart. They are as many more along those.
  static bool absorb(Box& box, size_t at) {
    Box other = box;
    other.dims.clear();
    for (size_t d = 0; d < box.dims.size(); ++d)
      if (d != at) other.dims.push_back(box.dims[d]);
    const double more = box.dims[at].count - 1;
    const Steps steps = steps_of(box.dims[at].stride, other.dims);
    if (std::abs(steps.rest) > box.access_bytes) return false;
    for (size_t d = 0; d < other.dims.size(); ++d) {
      const double along = std::abs(steps.along[d]);
      if (along >= other.dims[d].count) return false;
      other.low += more * std::min(0.0, steps.along[d] * other.dims[d].stride);
      other.dims[d].count += more * along;
    }
    other.low += more * std::min(0.0, steps.rest);
    other.access_bytes += more * std::abs(steps.rest);
    other.measure();
    if (other.lines >= box.lines) return false;
    box = other;
    return true;
  }

  // The runs of one lie between those of the other: taps of weights in blocks of channels.
  static bool interleave(const Box& a, const Box& b) {
    if (a.period != b.period || std::isinf(a.period)) return false;
    const double shift = std::fmod(std::abs(a.low - b.low), a.period), run = std::max(a.run_bytes, b.run_bytes);
    return shift >= run && a.period - shift >= run;
  }

  // Makes `known` both, where the other has its strides and is shifted by less than it goes along each, as neighbours
  // that a stencil reads. False: they touch different places.
  static bool join_shifted(Box& known, const Box& box) {
    if (known.dims.size() != box.dims.size()) return false;
    const Steps steps = steps_of(box.low - known.low, known.dims);
    const double access = std::max(known.access_bytes, box.access_bytes);
    if (std::abs(steps.rest) > access) return false;
    Box both = known;
    for (size_t d = 0; d < known.dims.size(); ++d) {
      const double along = steps.along[d];
      if (known.dims[d].stride != box.dims[d].stride || along >= known.dims[d].count || -along >= box.dims[d].count)
        return false;
      both.low += std::min(0.0, along * known.dims[d].stride);
      both.dims[d].count = std::max(known.dims[d].count, along + box.dims[d].count) - std::min(0.0, along);
    }
    both.low += std::min(0.0, steps.rest);
    both.access_bytes = access + std::abs(steps.rest);
    both.measure();
    if (both.lines > known.lines + box.lines) return false;
    known = both;
    return true;
  }

  // Accesses of one place by several pieces count once. Only the latest are compared.
  static void add(const Box& box, std::vector<Box>& boxes) {
    size_t compared = 0;
    for (size_t i = boxes.size(); i-- > 0 && compared < 12;) {
      Box& known = boxes[i];
      if (known.buffer != box.buffer) continue;
      ++compared;
      const double slack = 0.02 * (box.high - box.low) + 1;
      if (std::abs(known.low - box.low) <= slack && std::abs(known.high - box.high) <= slack &&
          !interleave(known, box)) {
        known.lines = std::max(known.lines, box.lines);
        known.runs = std::max(known.runs, box.runs);
        return;
      }
      if (join_shifted(known, box)) return;
    }
    boxes.push_back(box);
  }

  const LoopTree& tree_;
  const int threads_;
  std::vector<double> extents_;
  std::vector<Box> boxes_;  // of the node at hand
  PointerMap<const CostNode*, size_t> numbers_;
  std::deque<Total> totals_;  // they stay where they are
};

// 1: it stays in a cache of that size; 0: it does not.
double fits(double bytes, double capacity) {
  const double ratio = bytes / capacity;
  return std::clamp((1.15 - ratio) / 0.4, 0.0, 1.0);
}

class Misses {
 public:
  /// run_lines: what the beginning of a run costs, in lines.
  Misses(Footprints& footprints, bool outer, double capacity, double run_lines)
      : footprints_(footprints), outer_(outer), capacity_(capacity), run_lines_(run_lines) {}

  /// Lines of each buffer that one run of `node` brings into the cache, which holds nothing before.
  PerBuffer of(const CostNode& node) {
    auto& extents = footprints_.extents();
    const Footprints::Total& all = footprints_.total(node);
    PerBuffer all_lines = all.lines;
    for (size_t b = 0; b < all_lines.size(); ++b) all_lines[b] += run_lines_ * all.runs[b];
    const double whole = fits(all.held(outer_), capacity_);
    if (whole == 1 || node.kind == CostNode::Kind::kBody) return all_lines;
    PerBuffer lines = filled(all_lines.size(), 0);
    const auto add = [&](const PerBuffer& more, double scale) {
      for (size_t b = 0; b < lines.size(); ++b) lines[b] += scale * more[b];
    };
    switch (node.kind) {
      case CostNode::Kind::kLoop: {
        const double extent = footprints_.extent_of(node);
        extents.push_back(extent);
        const double kept = fits(footprints_.total(node.children[0]).held(outer_), capacity_);
        if (kept > 0) add(all_lines, kept);
        if (kept < 1) add(of(node.children[0]), (1 - kept) * extent);
        extents.pop_back();
        break;
      }
      case CostNode::Kind::kSeq:
        for (const CostNode& child : node.children) add(of(child), 1);
        break;
      case CostNode::Kind::kChoice:
        for (size_t i = 0; i < node.children.size(); ++i) add(of(node.children[i]), node.shares[i]);
        break;
      case CostNode::Kind::kCall:
        if (!node.children.empty()) add(of(node.children[0]), 1);
        break;
      case CostNode::Kind::kBody:
        break;
    }
    for (size_t b = 0; b < lines.size(); ++b)
      lines[b] = whole * all_lines[b] + (1 - whole) * std::max(lines[b], all_lines[b]);
    return lines;
  }

 private:
  Footprints& footprints_;
  const bool outer_;
  const double capacity_, run_lines_;
};

template <class Fn>
void for_each_node(const CostNode& node, const Fn& fn) {
  fn(node);
  for (const CostNode& child : node.children) for_each_node(child, fn);
}

// Lines of each buffer that micro-kernels read before or after their loops, and whether it is read elsewhere, too. A
// micro-kernel without loops has no edges: what it reads is its work.
struct EdgeReads {
  PerBuffer lines;
  std::vector<bool> elsewhere;
};

// runs: of `node`, all in all.
void find_edges(const CostNode& node, const Footprints& footprints, double runs, bool at_edge, EdgeReads& reads) {
  for (const Stream& stream : node.streams) {
    if (stream.is_write) continue;
    const auto b = static_cast<size_t>(stream.buffer);
    if (at_edge)
      reads.lines[b] += runs * Footprints::lines_at_once(stream);
    else
      reads.elsewhere[b] = true;
  }
  if (node.kind == CostNode::Kind::kLoop) runs *= footprints.extent_of(node);
  for (size_t i = 0; i < node.children.size(); ++i) {
    const CostNode& child = node.children[i];
    const bool begins = node.kind == CostNode::Kind::kCall && has_loop(child);
    find_edges(child, footprints, i < node.shares.size() ? runs * node.shares[i] : runs,
               begins || (at_edge && node.kind != CostNode::Kind::kLoop), reads);
  }
}

}  // namespace

std::vector<const CostNode*> nests_of(const LoopTree& tree) {
  std::vector<const CostNode*> nests;
  if (tree.root.kind != CostNode::Kind::kSeq) return {&tree.root};
  for (const CostNode& child : tree.root.children) nests.push_back(&child);
  return nests;
}

double footprint_bytes(const LoopTree& tree, const CostNode& node) {
  Footprints footprints(tree, 1);
  return footprints.total(node).bytes;
}

std::vector<Traffic> traffic_of_nests(const LoopTree& tree, const MachineCosts& costs, int threads) {
  const std::vector<const CostNode*> nests = nests_of(tree);
  std::vector<Traffic> result(nests.size());
  Footprints footprints(tree, threads);
  for (size_t i = 0; i < nests.size(); ++i) {
    const std::vector<bool> none(tree.buffers.size(), false);
    std::vector<bool> written = none, near = none, far = none, panels = none;
    EdgeReads at_edges{filled(tree.buffers.size(), 0), none};
    find_edges(*nests[i], footprints, 1, false, at_edges);
    for_each_node(*nests[i], [&](const CostNode& node) {
      const bool is_step = node.work.fma > 0 && node.work.accumulators > 0;
      for (const Stream& stream : node.streams) {
        const auto b = static_cast<size_t>(stream.buffer);
        if (stream.is_write) written[b] = true;
        // Steps of register tiles that read a line or more each read panels.
        if (is_step && !stream.is_write && !stream.step_bytes.empty() && std::abs(stream.step_bytes.back()) >= kLine)
          panels[b] = true;
      }
      for (const int buffer : node.asked_near) near[static_cast<size_t>(buffer)] = true;
      for (const int buffer : node.asked_far) far[static_cast<size_t>(buffer)] = true;
    });
    std::array<double, kSources> near_lines{}, far_lines{}, sudden{};
    for (int level = 0; level < kSources; ++level) {
      const double capacity = costs.capacity_bytes[static_cast<size_t>(level)];
      Misses misses(footprints, level > 0, capacity, kRunLines[static_cast<size_t>(level)]);
      // What the whole kernel touches, or this nest and the one before it, may be in the cache still.
      const double warm = fits(footprints.total(tree.root).held(level > 0), capacity);
      const PerBuffer lines = misses.of(*nests[i]);
      PerBuffer kept = filled(lines.size(), warm);
      if (i > 0 && warm < 1) {
        const Footprints::Total& before = footprints.total(*nests[i - 1]);
        const Footprints::Total& own = footprints.total(*nests[i]);
        const double both = fits(before.held(level > 0) + own.held(level > 0), capacity);
        for (size_t b = 0; b < kept.size(); ++b)
          if (before.lines[b] > 0) kept[b] = std::max(kept[b], both);
      }
      for (size_t b = 0; b < lines.size(); ++b) {
        const double all = lines[b] * (1 - kept[b]), read = at_edges.lines[b];
        const double at_edge = read == 0 ? 0 : at_edges.elsewhere[b] ? std::min(all, read) : all;
        const double missed = all - at_edge;
        const auto at = static_cast<size_t>(level);
        result[i].edge[at] += at_edge;
        (written[b] ? result[i].written : result[i].read)[at] += missed;
        if (near[b]) near_lines[at] += missed;
        if (far[b]) far_lines[at] += missed;
        if (panels[b] && !(level == 0 ? near[b] : far[b]))
          sudden[at] += std::min(missed, footprints.total(*nests[i]).lines[b]);
      }
    }
    // Entering a level → coming from the next one.
    for (auto* lines : {&result[i].read, &result[i].written, &result[i].edge, &near_lines, &far_lines, &sudden})
      for (size_t level = 0; level + 1 < kSources; ++level)
        (*lines)[level] = std::max(0.0, (*lines)[level] - (*lines)[level + 1]);
    result[i].asked = far_lines;
    result[i].asked[0] = near_lines[0];
    result[i].sudden = sudden;
  }
  return result;
}

}  // namespace fettle
