#pragma once
// Who decides what a part of a schedule leaves open. A part (tune/parts/) names each choice, its candidates and the one
// that its own model prefers; a search space samples, a template asks a knob, the constructed default prefers.

#include <map>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// One choice: `candidates`, of which candidates[preferred] is best by what is known without measuring.
struct Choice {
  std::string name;
  std::vector<int64_t> candidates;
  size_t preferred = 0;
  /// How likely each candidate is where one is drawn; empty: all alike.
  std::vector<double> weights = {};
};

class Decider {
 public:
  virtual ~Decider() = default;
  /// One of the candidates. It is a step of the schedule's trace, under "<address prefix>/<name>".
  /// Errors: E230 what was asked for is no candidate · those of sample_categorical
  virtual Result<int64_t> pick(Schedule& s, Choice choice) = 0;
  /// Whether another point may be had where the one picked turns out not to be legal.
  virtual bool draws() const = 0;
};

/// Samples: the points of a search space (sample_categorical).
class SamplingDecider : public Decider {
 public:
  Result<int64_t> pick(Schedule& s, Choice choice) override;
  bool draws() const override { return true; }
};

/// One for all threads: it holds nothing.
Decider& sampling_decider();

/// Takes what is preferred, but for choices that are named otherwise: the constructed default and its neighbours.
class PreferringDecider : public Decider {
 public:
  struct Instead {
    std::map<std::string, size_t> ranks = {};    // by choice: the candidate of this number, or the last
    std::map<std::string, int64_t> values = {};  // by choice: this candidate
  };
  PreferringDecider() = default;
  explicit PreferringDecider(Instead instead) : instead_(std::move(instead)) {}
  Result<int64_t> pick(Schedule& s, Choice choice) override;
  bool draws() const override { return false; }

 private:
  Instead instead_;
};

}  // namespace fettle
