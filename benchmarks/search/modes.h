#pragma once
// The ways to search that are compared: a space, a strategy, and how they are used.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/search/search_strategy.h"
#include "tune/space/space.h"

namespace fettle::bench {

struct SearchMode {
  std::string name;
  std::string space;                 // of make_space()
  std::string strategy;              // of strategies()
  int batch = 8;                     // measured before the model learns
  bool as_published = false;         // the model is trained anew after each batch
  std::string cost_model = "trees";  // of cost_models()
  bool from_default = false;         // which is the first trial
};

/// "autotvm", "ansor", "metaschedule", "fettle" (the product's default), "random". The product's alone starts from its
/// constructed default.
const std::vector<SearchMode>& search_modes();
/// One of them, or "SPACE:STRATEGY[:COST_MODEL]"; Ansor's strategy has Ansor's model unless another is named, and what
/// searches the space of the rules starts from the default.
std::optional<SearchMode> find_mode(const std::string& name);

/// The space of this name of spaces(); "drawn-sketches" is Ansor's, and "sketches" the same with every program equally
/// likely. It remembers what it has derived, and is used by one thread.
std::unique_ptr<Space> make_space(const std::string& name);

}  // namespace fettle::bench
