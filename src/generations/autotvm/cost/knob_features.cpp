#include "generations/autotvm/cost/knob_features.h"

#include "base/hash.h"

namespace fettle {

KnobFeatures knob_features(const DecisionMap& decisions) {
  KnobFeatures result;
  for (const auto& [address, decision] : decisions)
    for (size_t i = 0; i < decision.size(); ++i) {
      result.values.push_back(static_cast<float>(decision[i]));
      result.names.push_back(decision.size() == 1 ? address : address + "[" + std::to_string(i) + "]");
    }
  for (const std::string& name : result.names) result.columns = hash_bytes(name, result.columns);
  return result;
}

}  // namespace fettle
