#include "tune/parts/gpu_width.h"

#include <algorithm>

namespace fettle {
namespace {

constexpr int64_t kAccessBytes = 16;  // the widest access of a thread
// Bytes that a thread asks for before it uses any, so that memory is busy; more where it waits for addresses first.
constexpr int64_t kLoadedBytes = 16, kLoadedBytesOfRows = 32;
constexpr int64_t kMostTurns = 4;
constexpr int64_t kBlocksToSpare = 8;  // for each multiprocessor: below that, threads have one turn

// The loop walks whole rows of a buffer whose rows lie one behind the other.
bool walks_rows(const AccessPattern& access, const BlockStructure& block, size_t last) {
  const auto& shape = access.buffer->shape;
  const int64_t* row = shape.empty() ? nullptr : as_int(shape.back());
  return access.buffer->strides.empty() && row && block.is(last, *row) &&
         access.dimension_of(block.vars[last]) == static_cast<int>(shape.size()) - 1;
}

}  // namespace

std::vector<int64_t> first_of(int64_t preferred, std::vector<int64_t> all) {
  std::erase(all, preferred);
  all.insert(all.begin(), preferred);
  return all;
}

Width width_of(const Target& target, const BlockStructure& block, size_t last, Guards guards) {
  int64_t element_bytes = block.store.buffer->dtype.element_bytes(), loaded_bytes = 0;
  for (const AccessPattern& load : block.loads) {
    const int64_t bytes = load.buffer->dtype.element_bytes();
    bool repeats = false;  // what is read again comes from a cache
    for (size_t i = 0; i < block.n_iters(); ++i) repeats |= load.strides[i] == 0 && block.extents[i] > 1;
    if (load.strides[last] != 0) element_bytes = std::max(element_bytes, bytes);
    if (!repeats) loaded_bytes += bytes;
  }
  Width width;
  const int64_t lanes = kAccessBytes / element_bytes;
  const bool along = block.store.strides[last] == 1 && !block.store.buffer->dtype.is_bool();
  const bool reads_along = std::ranges::all_of(block.loads, [&](const AccessPattern& load) {
    return load.strides[last] == 0 ||
           (load.strides[last] == 1 && (!load.guarded || (guards == Guards::kOfRows && walks_rows(load, block, last))));
  });
  const auto multiple = [&](int64_t stride) { return stride != AccessPattern::kIrregular && stride % lanes == 0; };
  // Rows that are found by what memory says begin where all rows do.
  const auto aligned = [&](const AccessPattern& access) {
    if (access.strides[last] != 1) return true;
    const bool of_rows = walks_rows(access, block, last) && block.extents[last] % lanes == 0;
    for (size_t i = 0; i < block.n_iters(); ++i)
      if (i != last && block.extents[i] > 1 &&
          (block.open[last] ||
           !(multiple(access.strides[i]) || (of_rows && access.strides[i] == AccessPattern::kIrregular))))
        return false;
    return true;
  };
  const bool divides = block.open[last] ? block.divisors[last] % lanes == 0 && block.divisors[last] > 0
                                        : block.extents[last] % lanes == 0;
  if (lanes > 1 && along && reads_along && divides && aligned(block.store) && std::ranges::all_of(block.loads, aligned))
    width.lanes = lanes;
  const int64_t units = target.gpu ? target.gpu->multiprocessors : 1;
  const bool waits = std::ranges::any_of(block.loads, [](const AccessPattern& load) {
    return std::ranges::find(load.strides, AccessPattern::kIrregular) != load.strides.end();
  });
  const int64_t wanted = waits ? kLoadedBytesOfRows : kLoadedBytes;
  while (width.turns < kMostTurns && width.turns * width.lanes * loaded_bytes < wanted &&
         block.points() / (2 * width.turns * width.lanes * kThreadsOfBlock) >= kBlocksToSpare * units)
    width.turns *= 2;
  return width;
}

}  // namespace fettle
