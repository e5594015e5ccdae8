#pragma once
// A decider fills in what a part of a schedule leaves open. A part (tune/parts/) names each choice, its candidates and
// the one that its own model prefers. A search space samples, a template asks a knob, and the constructed default takes
// what is preferred.

#include <map>
#include <string>
#include <vector>

#include "schedule/named_values.h"
#include "schedule/schedule.h"

namespace fettle {

/// One choice: `candidates` (integers, or values by their names), of which number `preferred` is best by what is known
/// without measuring.
struct Choice {
  std::string name;
  NamedValues candidates;
  size_t preferred = 0;
  /// How likely each candidate is where one is drawn; empty: all alike.
  std::vector<double> weights = {};
};

class Decider {
 public:
  virtual ~Decider() = default;
  /// One of the candidates: its place. It is a step of the schedule's trace, under "<address prefix>/<name>".
  /// Errors: E230 what was asked for is no candidate · those of sample_categorical
  virtual Result<size_t> pick_place(Schedule& s, Choice choice) = 0;
  /// The candidate itself, of integers.
  Result<int64_t> pick(Schedule& s, Choice choice);
  /// Whether another point may be had where the one picked turns out not to be legal.
  virtual bool draws() const = 0;
};

/// Samples: the points of a search space (sample_categorical).
class SamplingDecider : public Decider {
 public:
  Result<size_t> pick_place(Schedule& s, Choice choice) override;
  bool draws() const override { return true; }
};

/// One for all threads: it holds nothing.
Decider& sampling_decider();

/// Takes what is preferred, but for choices that are named otherwise: the constructed default and its neighbours.
class PreferringDecider : public Decider {
 public:
  struct Instead {
    std::map<std::string, size_t> ranks = {};    // by choice: the candidate of this number, or the last
    std::map<std::string, int64_t> values = {};  // by choice: this candidate, an integer
  };
  PreferringDecider() = default;
  explicit PreferringDecider(Instead instead) : instead_(std::move(instead)) {}
  Result<size_t> pick_place(Schedule& s, Choice choice) override;
  bool draws() const override { return false; }

 private:
  Instead instead_;
};

}  // namespace fettle
