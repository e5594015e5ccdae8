#include "cost/loop_tree/known_calls.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/hash.h"
#include "ir/compare.h"

namespace fettle {

struct CallSite::Known {
  Func micro_kernel;
  std::vector<int64_t> key;
  size_t outer_loops = 0;
  std::vector<CostNode> bodies;
};

struct CallSite::Memory {
  static constexpr size_t kMost = 2048;
  std::unordered_multimap<uint64_t, Known> known;
};

CallSite::Memory& CallSite::memory() {
  thread_local Memory memory;
  return memory;
}

std::optional<CallSite> CallSite::of(const Func& micro_kernel, const std::vector<const BufferPlace*>& places,
                                     const std::vector<std::vector<int64_t>>& points, size_t outer_loops,
                                     double live_registers, int vector_bytes) {
  CallSite site;
  site.micro_kernel_ = micro_kernel;
  site.outer_loops_ = outer_loops;
  std::vector<int64_t>& key = site.key_;
  key = {vector_bytes, std::bit_cast<int64_t>(live_registers), static_cast<int64_t>(points.size())};
  for (const std::vector<int64_t>& point : points) key.insert(key.end(), point.begin(), point.end());
  for (size_t i = 0; i < places.size(); ++i) {
    const BufferPlace& place = *places[i];
    const int64_t bytes = micro_kernel->params[i].buffer->dtype.element_bytes();
    if (place.base_steps.size() > outer_loops) return std::nullopt;
    Origin here{place.buffer, place.base * bytes, {}};
    for (const int64_t step : place.base_steps) here.step_bytes.push_back(step * bytes);
    here.step_bytes.resize(outer_loops, 0);
    size_t local = 0;
    while (local < site.origins_.size() && site.origins_[local].buffer != place.buffer) ++local;
    if (local == site.origins_.size()) site.origins_.push_back(here);
    const Origin& origin = site.origins_[local];
    key.insert(key.end(), {static_cast<int64_t>(local), bytes, here.base_bytes - origin.base_bytes});
    const bool moves_alike = here.step_bytes == origin.step_bytes;
    key.push_back(moves_alike ? 0 : static_cast<int64_t>(outer_loops));
    for (size_t l = 0; l < outer_loops && !moves_alike; ++l) key.push_back(here.step_bytes[l] - origin.step_bytes[l]);
  }
  return site;
}

uint64_t CallSite::hash() const {
  uint64_t hash = hash_bytes(micro_kernel_->name);
  for (const int64_t part : key_) hash = hash_combine(hash, static_cast<uint64_t>(part));
  return hash;
}

std::optional<std::vector<CostNode>> CallSite::find() const {
  const auto [first, last] = memory().known.equal_range(hash());
  for (auto it = first; it != last; ++it) {
    const Known& known = it->second;
    // Micro-kernels have their names from what they do; equal names prove nothing.
    if (known.key != key_ || known.micro_kernel->name != micro_kernel_->name ||
        !structural_equal(known.micro_kernel, micro_kernel_))
      continue;
    std::vector<CostNode> bodies = known.bodies;
    for (CostNode& body : bodies) from_local(body, known.outer_loops);
    return bodies;
  }
  return std::nullopt;
}

void CallSite::keep(const std::vector<CostNode>& bodies) const {
  Known known{micro_kernel_, key_, outer_loops_, bodies};
  for (CostNode& body : known.bodies) to_local(body);
  auto& all = memory().known;
  if (all.size() >= Memory::kMost) all.clear();
  all.emplace(hash(), std::move(known));
}

int CallSite::local(int buffer) const {
  for (size_t i = 0; i < origins_.size(); ++i)
    if (origins_[i].buffer == buffer) return static_cast<int>(i);
  return -1;
}

void CallSite::to_local(CostNode& node) const {
  for (CostNode& child : node.children) to_local(child);
  for (Stream& stream : node.streams) {
    stream.buffer = local(stream.buffer);
    const Origin& origin = origins_[static_cast<size_t>(stream.buffer)];
    stream.low_bytes -= static_cast<double>(origin.base_bytes);
    for (size_t l = 0; l < outer_loops_; ++l) stream.step_bytes[l] -= static_cast<double>(origin.step_bytes[l]);
  }
  for (std::vector<int>* asked : {&node.asked_near, &node.asked_far})
    for (int& buffer : *asked)
      if (buffer >= 0) buffer = local(buffer);
}

void CallSite::from_local(CostNode& node, size_t outer_loops) const {
  for (CostNode& child : node.children) from_local(child, outer_loops);
  for (Stream& stream : node.streams) {
    const Origin& origin = origins_[static_cast<size_t>(stream.buffer)];
    stream.buffer = origin.buffer;
    stream.low_bytes += static_cast<double>(origin.base_bytes);
    // Other loops around: they move all accesses to a buffer alike, or there are as many as there were.
    auto& steps = stream.step_bytes;
    if (outer_loops > outer_loops_)
      steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(outer_loops - outer_loops_));
    else
      steps.insert(steps.begin(), outer_loops_ - outer_loops, 0.0);
    for (size_t l = 0; l < outer_loops_; ++l) steps[l] += static_cast<double>(origin.step_bytes[l]);
  }
  for (std::vector<int>* asked : {&node.asked_near, &node.asked_far})
    for (int& buffer : *asked)
      if (buffer >= 0) buffer = origins_[static_cast<size_t>(buffer)].buffer;
  if (node.kind == CostNode::Kind::kBody) node.work.carried_through_memory = is_carried_through_memory(node.streams);
}

}  // namespace fettle
