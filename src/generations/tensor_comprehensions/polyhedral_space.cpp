#include "generations/tensor_comprehensions/polyhedral_space.h"

#include <fmt/format.h>

#include "ir/query.h"
#include "polyhedral/scheduler.h"
#include "schedule/primitives/sample_categorical.h"
#include "tune/parts/decider.h"

namespace fettle {
namespace {

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
    const auto choose = [&](const char* name, std::vector<std::string> names, std::vector<double> weights) {
      return sampling_decider().pick_place(s, {.name = name, .candidates = names, .weights = std::move(weights)});
    };
    FETTLE_TRY(const size_t fusion, choose("fusion", {"max", "preserve_3_coincident", "min"}, {0.4, 0.4, 0.2}));
    options.fusion = static_cast<FusionStrategy>(fusion);
    FETTLE_TRY(const size_t skewing, choose("skewing", {"allowed", "none"}, {0.8, 0.2}));
    options.allow_skewing = skewing == 0;
    for (int level = 0; level < 3; ++level) {
      FETTLE_TRY(const ValueRef size,
                 sample_categorical(s, {{8, 16, 32, 64, 128, 256}, {1, 1, 1, 1, 1, 1}, fmt::format("tile_{}", level)}));
      options.tiles.emplace_back(size);
    }
    const BlockNode& root = workload.root();
    int element_bytes = 1;
    each_node<BlockNode>(root.body, [&](const BlockNode& block) {
      for (const Region& write : block.writes)
        element_bytes = std::max(element_bytes, write.buffer->dtype.element_bytes());
    });
    options.lanes = target->vector_lanes(element_bytes);
    options.parallel = threads > 1;
    FETTLE_TRY_VOID(reschedule_program(s, options));
    return s;
  }
};

}  // namespace

std::unique_ptr<Space> make_polyhedral_space() { return std::make_unique<PolyhedralSpace>(); }

}  // namespace fettle
