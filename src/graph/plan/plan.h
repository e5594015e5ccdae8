#pragma once
// The plan of a model says which kernels run in which order, and where every value lies.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"
#include "graph/plan/costs.h"
#include "graph/plan/memory.h"
#include "graph/plan/partition.h"
#include "graph/view.h"
#include "ir/func.h"

namespace fettle {

/// Memory that values lie in.
struct Storage {
  enum class Kind : uint8_t {
    kInput,
    kOutput,
    kArena,
    kState,  // outlives calls
    kConstant,
    kCounter,  // the number of a loop's iteration, an i64
    kWindow,   // a part of another storage, which moves with a loop's iterations
  };
  Kind kind = Kind::kArena;
  DType dtype;
  Dim size_bytes = 0;
  int index = 0;                    // which input, output or state of the model, or which loop's counter
  const Value* constant = nullptr;  // kConstant: the value, whose content it is
  /// kConstant: the content in the order in which it lies, where this is not the value's own; else null.
  std::shared_ptr<const ConstantTensor> turned = nullptr;
  Dim offset_bytes = 0;  // kArena: its place, in the arena of `stage`; kWindow: where in `base` it begins
  int stage = 0;         // kArena, kOutput: that of its size
  // kWindow: it moves over `base` by `step_bytes`, which may be negative, an iteration of loop `loop` (-1: not at all).
  int base = -1, loop = -1;
  Dim step_bytes = 0;
  int in_place_of = -1;  // kArena: it is this storage, whose content nobody needs any more when it is written

  /// kConstant: what it holds. Null: it is no constant.
  const ConstantTensor* content() const { return turned ? turned.get() : constant ? &*constant->constant : nullptr; }
};

/// A kernel of its own for some sizes.
struct SizeClass {
  Func func;  // the workload's, with the class's range and typical values
  Digest hash;
  int param = 0;  // which integer parameter decides
  int64_t most = 0;
};

/// A piece of work that may occur many times in a model, and in many models.
struct PlannedWorkload {
  Func func;      // canonical; its integer parameters are sizes
  Digest hash;    // canonical_hash(func)
  int count = 0;  // calls in this plan
  std::vector<SizeClass> classes =
      {};  // the first whose `most` is no less than the parameter; else the workload itself
};

/// Where an argument of a kernel begins.
struct Operand {
  int storage = -1;
  Dim offset_bytes = 0;
};

/// One call.
struct PlannedCall {
  int workload = -1;              // index into Plan::workloads
  std::string name;               // "conv2d_7: Conv_Add", unique in the plan
  std::vector<Operand> operands;  // one a parameter of the workload's func
  std::vector<Dim> sizes;         // one an integer parameter
  Provenance provenance;          // the model's nodes that it does the work of, or through whose views it reads
  const Node* anchor = nullptr;   // of the group that it computes; null for a copy
  int64_t live_bytes = -1;        // of arenas, by values that are alive while it runs; -1: sizes are open
};

/// A call of a host function (rt/host.h). Its operands lie densely, row-major.
struct PlannedHostCall {
  std::string name;
  const char* function = nullptr;
  std::vector<Operand> operands;
  size_t n_inputs = 0;        // how many of them are read; the others are written
  std::vector<Dim> integers;  // that it is given
  Provenance provenance;
  int64_t live_bytes = -1;  // as of a PlannedCall
};

/// "conv1: Conv_Relu, from Conv conv1, Relu relu1"
std::string label_of(const PlannedCall& call);

/// An integer of 32 or 64 bits that the host program reads.
struct PlannedInteger {
  Operand at;  // storage -1: it is `number`
  int bytes = 8;
  int64_t number = 0;
};

/// A group of nodes, and what becomes of it.
struct PlannedGroup {
  enum class Kind : uint8_t {
    kKernel,
    kView,           // memory is renamed
    kConcatenation,  // parts are made where they belong; the others are copied there
    kAppended,       // what a loop's value grows by, written behind it
    kControl,        // a loop or a branch around other groups
    kSizes,          // tells sizes
    kHost,           // a host function
  };
  Group group;
  Kind kind = Kind::kKernel;
  std::string call;  // its name, where there is one call
};

/// Sizes that come to be known while the model runs, and memory for what depends on them. Stages are numbered from 1
/// on, in the order in which they are first reached; 0 stands for what the inputs' sizes tell.
struct SizeStage {
  std::vector<Dim> sizes;   // one an integer that its steps read: a size to be defined, or what the integer must be
  std::string reason = {};  // why what is no size must be what it is, for an error
  bool keeps = false;       // what its arena holds survives when it is made larger
  Dim arena_bytes = 0;
  std::vector<ArenaPlace> places;
};

/// What the host program does, one after the other: a call, sizes that are read, or control flow around more steps.
/// Sections run at once, each on one thread: they need nothing of one another (sections.h).
struct PlanStep {
  enum class Kind : uint8_t { kCall, kHost, kBranch, kLoop, kSizes, kSections, kSection };
  Kind kind = Kind::kCall;
  const Node* node = nullptr;        // kBranch, kLoop: whose bodies it runs
  int call = -1;                     // kCall: index into Plan::calls; kHost: into Plan::host_calls
  int stage = 0;                     // kSizes: all that depends on this stage is computed anew
  std::vector<PlannedInteger> read;  // kSizes: one for each of the stage's sizes
  Operand condition;                 // a truth value; kLoop: read before each iteration, or storage -1
  std::vector<PlanStep> body;        // kBranch: where the condition is true; kSections: each is a kSection
  std::vector<PlanStep> otherwise;   // kBranch
  int loop = -1;                     // kLoop: which counter counts its iterations
  std::optional<Dim> limit;          // of iterations, where it is a size
  Operand limit_at;                  // or where it lies, an i64 or i32; storage -1: there is none
  std::vector<int> kept;             // kLoop: storages whose content one iteration leaves to the next
  std::vector<int> carries;          // kLoop: calls at its end that copy results to where the next iteration reads them
};

/// How images lie in memory, for the whole graph.
enum class ImageLayout : uint8_t {
  kChannelsLast,   // [n, c, h, w] as n, h, w, c
  kChannelsFirst,  // as the model says
};
std::string_view to_string(ImageLayout layout);

/// How constant weights of convolutions lie in memory.
enum class WeightOrder : uint8_t {
  kAsGiven,  // [oc, ic, kh, kw]: a schedule packs them as it likes
  kAsImages,  // as the image that they are multiplied with: of channels last oc, kh, kw, ic; of depthwise ones kh, kw, oc
};

/// Refers to the graph that it was made of, which must live as long.
struct Plan {
  ImageLayout layout = ImageLayout::kChannelsLast;
  std::vector<int> fused;  // as in PlanOptions
  std::vector<Storage> storages;
  std::vector<PlannedWorkload> workloads;
  std::vector<PlannedCall> calls;           // in the order in which steps mention them, each once
  std::vector<PlannedHostCall> host_calls;  // likewise
  std::vector<PlanStep> steps;
  std::vector<PlannedGroup> groups;  // all of them, those of bodies behind the node that runs them
  int n_loops = 0;
  Dim arena_bytes = 0;
  std::vector<ArenaPlace> places;  // what `arena_bytes` and offsets depend on, beside the model's sizes
  std::vector<SizeStage> stages;   // stage k is stages[k - 1], with an arena of its own
  int views = 0;                   // nodes that cost nothing
  int in_place = 0;                // calls that write over an input
};

struct PlanOptions {
  ImageLayout layout = ImageLayout::kChannelsLast;
  WeightOrder weights = WeightOrder::kAsGiven;
  /// Which of fusible_nodes(graph), by number, become one kernel with what comes before them.
  std::vector<int> fused;
};

/// The stage from which on the dim is known; 0: from the beginning.
int stage_of(const Plan& plan, const Dim& dim);
/// The storage that `storage` is a part of; itself where it is no window.
int whole_of(const Plan& plan, int storage);
/// Whether the call does nothing: a copy of a value to itself.
bool copies_to_itself(const Plan& plan, const PlannedCall& call);

/// Plans a sorted, typed, static graph; the arena is empty until assign_memory. Errors: those of node_compute.
///
/// Convolutions, pooling and their kin hand on images in `options.layout`; what follows keeps its largest input's
/// order; all else is row-major. Kernels read any strides, so within the model no value is ever converted for its own
/// sake: where two orders meet, the kernel that reads the other order pays, and its cost says so. At the edges of the
/// model images of many channels are copied: what convolutions and their kin read or hand out. Weights that only
/// convolutions read lie in `options.weights`.
Result<Plan> make_plan(const Graph& graph, const PlanOptions& options = {});

/// The plans of one graph, each made when it is first asked for, and once.
class Plans {
 public:
  explicit Plans(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}
  /// For as long as `graph` lives.
  explicit Plans(const Graph& graph) : Plans(std::shared_ptr<const Graph>(std::shared_ptr<void>(), &graph)) {}

  const std::shared_ptr<const Graph>& graph() const { return graph_; }
  /// Without memory assigned; lives as long as this. Errors: those of make_plan.
  Result<const Plan*> get(const PlanOptions& options = {});
  /// How many there are.
  int made() const { return static_cast<int>(plans_.size()); }

 private:
  std::shared_ptr<const Graph> graph_;
  std::map<std::tuple<ImageLayout, WeightOrder, std::vector<int>>, Plan> plans_;
};

/// Plans with each layout and keeps the one whose calls cost least, all together; channels last where it is not plainly
/// worse. Then fuses those nodes whose one kernel costs plainly less than several. One of `plans`.
/// worth_leaving: costs are estimates, and channels last are rarely wrong: of their time what the other layout must
/// promise.
Result<const Plan*> choose_plan(Plans& plans, int threads, KernelCosts& costs, double worth_leaving = 0.8);
/// The programs of fusible_nodes(graph), in their order, each in one kernel with what comes before it.
Result<std::vector<Func>> fused_programs(const Graph& graph, ImageLayout layout);
/// The nodes that are worth fusing in this layout, for PlanOptions: where one kernel costs plainly less than several
/// and what they hand over. Nothing is planned but the programs that are compared.
/// `compared`, where it is not null, is told of each.
struct FusionCost {
  const Node* node = nullptr;
  double apart_s = 0;         // of the kernels
  double intermediate_s = 0;  // what these lose by what they hand over
  double together_s = 0;
  bool is_worth_it = false;
};
Result<std::vector<int>> choose_fused(const Graph& graph, ImageLayout layout, int threads, KernelCosts& costs,
                                      std::vector<FusionCost>* compared = nullptr);
/// Σ calls · seconds(workload).
double plan_seconds(const Plan& plan, int threads, KernelCosts& costs);

/// Gives every intermediate storage its place in the arena. A call of an elementwise workload writes over an input that
/// is used no more, if `may_run_in_place` says so of the workload: its kernel must compute every element once. What a
/// loop carries is written where the next iteration reads it, if nobody reads the old value any more: the copy at the
/// loop's end is then one of a value to itself.
void assign_memory(Plan& plan, const std::function<bool(int workload)>& may_run_in_place);

/// An input whose memory an output may lie in: no step reads the input once the output is written. Whoever runs the
/// model may give both the same memory, and has the output alone afterwards.
struct OverwrittenInput {
  int input = 0, output = 0;
  friend bool operator==(const OverwrittenInput&, const OverwrittenInput&) = default;
};
/// All such pairs of one size, by output and input. Of `may_run_in_place` as assign_memory, which has run.
std::vector<OverwrittenInput> overwritten_inputs(const Plan& plan,
                                                 const std::function<bool(int workload)>& may_run_in_place);

/// One line a call, then storages and sizes.
std::string to_text(const Plan& plan);

}  // namespace fettle
