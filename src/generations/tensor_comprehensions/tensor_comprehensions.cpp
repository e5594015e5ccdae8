// Tensor Comprehensions (Vasilache et al., arXiv:1802.04730, 2018): polyhedral schedules whose options a genetic search
// tunes.

#include "generations/generation.h"
#include "generations/tensor_comprehensions/genetic_search.h"
#include "generations/tensor_comprehensions/polyhedral_space.h"

namespace fettle {
namespace {

constexpr SpaceDef kSpaces[] = {
    {.name = "polyhedral",
     .meaning = "isl's scheduler: fusion, skewing and tiles of all affine nests, dependences kept exactly",
     .make = make_polyhedral_space,
     .on_gpus = true},
};

constexpr StrategyDef kStrategies[] = {
    {"roulette", "Tensor Comprehensions' genetic search: parents by their speed, three for a child, ten elites",
     [](Workbench& bench, uint64_t seed) { return make_roulette_search(bench, {.seed = seed}); }},
};

}  // namespace

// Its own tuner measures a hundred candidates a generation, without a model, one program after the other.
extern constinit const GenerationDef tensor_comprehensions_generation = {
    .name = "tensor_comprehensions",
    .meaning = "Tensor Comprehensions: isl's schedules, options and tile sizes by genetic search without a model",
    .spaces = kSpaces,
    .strategies = kStrategies,
    .cost_models = {},
    .schedulers = {},
    .space = "polyhedral",
    .strategy = "roulette",
    .cost_model = "prediction",
    .scheduler = "round-robin",
    .batch = 100};

}  // namespace fettle
