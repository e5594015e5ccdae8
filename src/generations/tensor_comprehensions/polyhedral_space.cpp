#include "generations/tensor_comprehensions/polyhedral_space.h"

#include <fmt/format.h>

#include "generations/tensor_comprehensions/device_mapping.h"
#include "ir/query.h"
#include "polyhedral/scheduler.h"
#include "schedule/primitives/sample_categorical.h"
#include "tune/parts/decider.h"

namespace fettle {
namespace {

constexpr std::array<std::string_view, 2> kSkewing = {"allowed", "none"}, kOrthant = {"positive", "any"};

// Orders found for one program are used again for others of its points.
class PolyhedralSpace : public Space {
 public:
  std::string name() const override { return "polyhedral"; }
  bool draws_by_address() const override { return true; }
  std::unique_ptr<Space> clone() const override { return std::make_unique<PolyhedralSpace>(); }

  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    Schedule s(workload, std::move(source), std::move(decisions));
    s.set_target(target);
    s.set_address_prefix("polyhedral");
    PolyhedralOptions options;
    const auto choose = [&](const char* name, std::span<const std::string_view> among, std::vector<double> weights) {
      const std::vector<std::string> names(among.begin(), among.end());
      return sampling_decider().pick_place(s, {.name = name, .candidates = names, .weights = std::move(weights)});
    };
    FETTLE_TRY(const size_t fusion, choose("fusion", kFusionNames, {0.4, 0.4, 0.2}));
    options.fusion = static_cast<FusionStrategy>(fusion);
    FETTLE_TRY(const size_t skewing, choose("skewing", kSkewing, {0.8, 0.2}));
    options.allow_skewing = skewing == 0;
    FETTLE_TRY(const size_t orthant, choose("orthant", kOrthant, {0.8, 0.2}));
    options.positive_orthant = orthant == 0;
    options.for_device = target->has_threads();
    if (threads > 1 || options.for_device) {
      FETTLE_TRY(const size_t order, choose("tile_order", kTileOrderNames, {0.2, 0.4, 0.4}));
      options.tile_order = static_cast<TileOrder>(order);
    }
    for (int level = 0; level < 3; ++level) {
      FETTLE_TRY(const ValueRef size,
                 sample_categorical(s, {{8, 16, 32, 64, 128, 256}, {1, 1, 1, 1, 1, 1}, fmt::format("tile_{}", level)}));
      options.tiles.emplace_back(size);
    }
    if (options.for_device) {
      options.found = found_for(workload);
      FETTLE_TRY_VOID(reschedule_program(s, options));
      FETTLE_TRY_VOID(map_to_device(s, *target, sampling_decider()));
      return s;
    }
    FETTLE_TRY(options.unroll, sample_categorical(s, {{1, 2, 4, 8, 16}, {1, 1, 1, 1, 1}, "unroll"}));
    const BlockNode& root = workload.root();
    int element_bytes = 1;
    each_node<BlockNode>(root.body, [&](const BlockNode& block) {
      for (const Region& write : block.writes)
        element_bytes = std::max(element_bytes, write.buffer->dtype.element_bytes());
    });
    options.lanes = target->vector_lanes(element_bytes);
    options.parallel = threads > 1;
    options.found = found_for(workload);
    FETTLE_TRY_VOID(reschedule_program(s, options));
    return s;
  }

 private:
  std::shared_ptr<FoundOrders> found_for(const Func& workload) const {
    if (of_ != workload) {
      of_ = workload;
      found_ = make_found_orders();
    }
    return found_;
  }

  mutable Func of_;
  mutable std::shared_ptr<FoundOrders> found_;  // of that program
};

}  // namespace

std::unique_ptr<Space> make_polyhedral_space() { return std::make_unique<PolyhedralSpace>(); }

}  // namespace fettle
