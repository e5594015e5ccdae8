#pragma once
// Templates: a schedule by hand with named knobs. A knob is a sampling step with an address and a finite domain, so the
// space of a template can be counted, indexed and enumerated. (AutoTVM)
//
//   const Template matmul{"matmul", [](TemplateContext& t) -> Result<> {
//     FETTLE_TRY(const BlockRef c, get_block(t.schedule(), {"C"}));
//     FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(t.schedule(), {c}));
//     FETTLE_TRY(const std::vector<LoopRef> y, t.define_split("tile_y", loops[0], {.n = 2}));
//     FETTLE_TRY(const std::vector<LoopRef> x, t.define_split("tile_x", loops[1], {.n = 2}));
//     return reorder(t.schedule(), {{y[0], x[0], loops[2], y[1], x[1]}});
//   }};
//   ConfigSpace space = *config_space(matmul, func);                        // 10 x 10 ways for 512 x 512
//   Schedule s = *apply_template(matmul, func, space, *space.at(37));

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generations/autotvm/template/config_space.h"
#include "schedule/named_values.h"
#include "schedule/schedule.h"
#include "tune/space/space.h"

namespace fettle {

enum class SplitPolicy : uint8_t { kFactors, kPower2, kVerbose, kCandidates };  // see sample_split

struct SplitOptions {
  int64_t n = 2;  // parts
  SplitPolicy policy = SplitPolicy::kFactors;
  int64_t max_factor = 0;
  bool no_tail = false;
  std::vector<std::vector<int64_t>> candidates = {};
  /// Cuts for which it is false are no choices.
  std::function<bool(const std::vector<int64_t>& sizes)> filter = nullptr;
  /// Where factors do not divide the extent.
  Tail tail = Tail::kGuard;
};

/// Which orders of loops are choices; numbers are those of the loops as they are given.
struct ReorderOptions {
  enum class Policy : uint8_t {
    kIdentity,     // as given
    kAll,          // every permutation
    kIntervalAll,  // every permutation of the loops begin … end - 1
    kInterleave,   // every merge of `chains` that keeps the order within each
    kCandidates,   // those of `candidates`
  };
  Policy policy = Policy::kAll;
  size_t begin = 0, end = 0;
  std::vector<std::vector<int64_t>> chains = {};
  std::vector<std::vector<int64_t>> candidates = {};
  /// What decisions call the candidates, where their numbers hang on how many loops there are; empty: by their numbers.
  std::vector<std::string> names = {};
};

enum class LoopAnnotation : uint8_t { kNone, kUnroll, kVectorize, kParallel };
/// What becomes of loops, one annotation each.
struct AnnotateOptions {
  enum class Policy : uint8_t {
    kUnroll,              // all unrolled
    kTryUnroll,           // each unrolled or not
    kVectorize,           // the last in lanes
    kTryVectorize,        // the last in lanes or not
    kTryUnrollVectorize,  // each unrolled or not, the last perhaps in lanes
    kTryParallel,         // the first parallel or not
    kCandidates,
  };
  Policy policy = Policy::kTryUnroll;
  std::vector<std::vector<LoopAnnotation>> candidates = {};
};

/// What a template's body gets: the schedule, and ways to define knobs. Each definition is applied at once.
class TemplateContext {
 public:
  explicit TemplateContext(Schedule schedule, ConfigSpace* collect = nullptr)
      : schedule_(std::move(schedule)), collect_(collect) {}
  Schedule& schedule() { return schedule_; }

  /// Splits the loop as the knob says; returns the parts. Errors: E237 no choices · E239 the name is taken · those of
  /// sample_split and split
  Result<std::vector<LoopRef>> define_split(const std::string& name, LoopRef loop, const SplitOptions& options = {});
  /// Reorders the loops as the knob says; returns them in the new order. Errors: as above, and those of reorder
  Result<std::vector<LoopRef>> define_reorder(const std::string& name, const std::vector<LoopRef>& loops,
                                              const ReorderOptions& options = {});
  /// Unrolls, vectorizes or makes parallel, as the knob says; returns the annotations. Loops of one iteration are left
  /// alone.
  Result<std::vector<LoopAnnotation>> define_annotate(const std::string& name, const std::vector<LoopRef>& loops,
                                                      const AnnotateOptions& options = {});
  /// One of the values.
  Result<int64_t> define_knob(const std::string& name, const std::vector<int64_t>& values);
  /// One of the candidates: its place. A constraint sees an integer as it is, and of a named value its place.
  Result<size_t> define_choice(const std::string& name, const NamedValues& candidates);
  /// Leaves out configurations for which it is false.
  void constrain(const std::string& what, ConfigSpace::Constraint constraint);
  /// How many knobs were defined.
  size_t defined() const { return defined_; }

 private:
  // Registers the knob while collecting. Then takes its decision, one of `values` by its name: the place of that.
  Result<size_t> choose(const std::string& name, std::vector<Decision::List> values, NamedValues candidates);

  Schedule schedule_;
  ConfigSpace* collect_;
  size_t defined_ = 0;
};

struct Template {
  std::string name;
  std::function<Result<>(TemplateContext&)> body;
};

/// The template's knobs and constraints for this program: its body runs once, with the first choice of each. Which
/// knobs there are must not depend on what was chosen. Errors: those of the body
Result<ConfigSpace> config_space(const Template& made, const Func& workload,
                                 std::shared_ptr<const Target> target = nullptr);
/// The program that a configuration stands for. Errors: E238 it is not in the space · those of the body
Result<Schedule> apply_template(const Template& made, const Func& workload, const ConfigSpace& space,
                                const Config& config, std::shared_ptr<const Target> target = nullptr);

/// The template as a space to search: what `decisions` leaves open is drawn, each configuration that meets the
/// constraints equally likely where that is known after few attempts.
std::unique_ptr<Space> template_space(Template made);

}  // namespace fettle
