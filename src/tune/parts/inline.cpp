#include "tune/parts/inline.h"

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

/// Longer chains of readers end here.
constexpr int kMostConsumers = 16;

template <class Step>
bool try_step(Schedule& s, const std::string& name, const Step& step) {
  Schedule trial = s;
  const auto block = get_block(trial, {.name = name});
  if (!block || !step(trial, *block)) return false;
  s = std::move(trial);
  return true;
}

}  // namespace

bool try_inline(Schedule& s, const std::string& block) {
  return try_step(s, block, [](Schedule& on, BlockRef ref) { return compute_inline(on, {.block = ref}).has_value(); });
}

bool try_inline_into_producer(Schedule& s, const std::string& block) {
  return try_step(s, block,
                  [](Schedule& on, BlockRef ref) { return reverse_compute_inline(on, {.block = ref}).has_value(); });
}

void inline_consumers(Schedule& s, BlockRef block) {
  for (int n = 0; n < kMostConsumers; ++n) {
    Schedule trial = s;
    const auto consumers = get_consumers(trial, {.block = block});
    if (!consumers || consumers->size() != 1) return;
    if (!reverse_compute_inline(trial, {.block = consumers->front()})) return;
    s = std::move(trial);
  }
}

void inline_producers(Schedule& s, const std::string& block) {
  std::vector<std::string> names;
  for (const BlockNode* node : blocks_of(s.func().root())) {
    if (node->name == block) break;
    if (!node->init) names.push_back(node->name);
  }
  for (const std::string& name : names) try_inline(s, name);
}

}  // namespace fettle
