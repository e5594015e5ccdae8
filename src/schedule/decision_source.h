#pragma once
// DecisionSource supplies a decision that neither a recorded trace nor a decision map has.

#include <cstdint>
#include <string_view>

#include "base/hash.h"
#include "base/random.h"

namespace fettle {

/// A random stream for each decision of a schedule. A value; equal ones draw the same.
class DecisionSource {
 public:
  /// By address: a decision does not depend on which others there are. What searches draw from; converts from the seed.
  DecisionSource(uint64_t seed) : seed_(seed) {}
  /// By number: the n-th decision of a schedule has the n-th stream, whatever its address is called. Points stay what
  /// they are where addresses are renamed.
  static DecisionSource by_number(uint64_t seed) {
    DecisionSource source(seed);
    source.by_number_ = true;
    return source;
  }

  uint64_t seed() const { return seed_; }
  /// The same kind of source with that seed.
  DecisionSource with_seed(uint64_t seed) const {
    DecisionSource source = *this;
    source.seed_ = seed;
    return source;
  }
  /// With a seed made of this one's and `number`.
  DecisionSource another(uint64_t number) const { return with_seed(hash_combine(seed_, number)); }
  /// The stream of the decision at `address`, before which a schedule took `number` others.
  RandomStream stream(std::string_view address, uint64_t number) const {
    return RandomStream{seed_, by_number_ ? number : hash_bytes(address)};
  }
  bool is_by_number() const { return by_number_; }

 private:
  uint64_t seed_ = 0;
  bool by_number_ = false;
};

}  // namespace fettle
