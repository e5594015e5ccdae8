#pragma once
// What models and contexts are made of. For rt's own sources.

#include <pthread.h>

#include <atomic>

#include "rt/abi.h"
#include "rt/block.h"
#include "rt/device.h"
#include "rt/float_mode.h"
#include "rt/strings.h"
#include "rt/text.h"

struct FettleModel {
  const FettleModelInfo* info = nullptr;
  FettleTeam** teams = nullptr;  // of its streams; contexts take them in turn
  int32_t n_teams = 0;
  std::atomic<uint32_t> next_team{0};
  FettleScratch* scratch = nullptr;
  FettleStrings strings;         // of its constants
  FettleHostCalls host_calls{};  // `call` null: there are none
  fettle::rt::FloatMode float_mode = fettle::rt::kFlushesDenormals;
  int32_t huge_pages = 0;
  std::atomic<int32_t> users{1};  // whoever created it, and its contexts
  // Of a model whose kernels run on a device.
  fettle::rt::Device device;
  int32_t device_index = 0, no_graphs = 0;
  void* stream = nullptr;  // the caller's
  // Of a model on a device, or one whose constants are packed when it is opened.
  void** constants = nullptr;         // of each, its address; null: the description has it
  fettle::rt::Block constant_memory;  // that holds those which the description does not

  /// Where the model's kernels run; 0: here.
  int32_t device_kind() const { return device.is_open() ? device.driver->device : 0; }
};

namespace fettle::rt {

/// Of a state of the model.
struct StateMemory {
  Block block;                 // as large as the state can become
  int64_t* shape = nullptr;    // the extents that it has now
  int64_t* strides = nullptr;  // of its memory
};

/// Who may touch a context.
enum Phase : uint32_t {
  kIdle,
  kUsed,   // by a call on the caller's thread
  kBegun,  // by its own thread
  kDone,   // that thread is done; whoever waits takes what it came to
  kEnded,  // the thread returns
};

/// The launches of one call, as a whole: for other calls that are given the same addresses and sizes.
struct CallGraph {
  void* graph = nullptr;  // the driver's; null: none is made
  void** key = nullptr;   // the buffers and the table of sizes
};
constexpr int32_t kMostGraphs = 8;
/// Whether the launches of the call before can be a graph.
enum class LastCall : uint8_t { kNone, kRepeats, kCannotRepeat };

/// What a FettleContext of a model is. Its arrays lie behind it in one block.
struct ModelContext : FettleContext {
  FettleModel* model = nullptr;
  int64_t block_bytes = 0;
  std::atomic<uint32_t> phase{kIdle};
  Text error{};

  void** buffers = nullptr;  // inputs, outputs, states, arena, constants, table, stages' arenas: what `entry` is given
  Block arena;
  Block* stage_arenas = nullptr;     // of each stage
  void** stage_addresses = nullptr;  // likewise, in `buffers`
  // Sizes. Extents of tensors stand one after the other.
  bool sized = false;        // input_extents are those that the table was filled for
  int64_t* given = nullptr;  // of the inputs of this call
  int64_t* input_extents = nullptr;
  int64_t input_bytes = 0;            // of such extents
  int64_t* bounds = nullptr;          // of the outputs, at most
  int64_t output_bytes = 0;           // of such extents
  int64_t* table = nullptr;           // null: all sizes are fixed
  int64_t* output_extents = nullptr;  // in the table, or bounds
  int64_t* output_at = nullptr;       // of each output: where its extents begin there
  // Memory of tensors.
  Block* staged = nullptr;  // of each input: a dense copy of a strided one
  Block* owned = nullptr;   // of each output
  // Where kernels run on a device: `staged` lie there, and
  Block* dense = nullptr;         // of each input: a dense copy here of a strided one
  Block* made = nullptr;          // of each output: where it is made there, if the caller gave no place there
  void** taken_to = nullptr;      // of each output: where it is copied to here; null: it stays there
  int32_t has_host_tensors = 0;   // of this call: inputs or outputs lie here
  CallGraph graphs[kMostGraphs];  // the last that were used
  int32_t next_graph = 0;         // whose place is taken next
  void** last_key = nullptr;      // of the call before
  LastCall last_call = LastCall::kNone;
  int32_t key_words = 0;
  StateMemory* states = nullptr;
  int32_t* input_state = nullptr;   // of each input: the state that it is; -1: none
  int32_t* output_state = nullptr;  // of each output
  FettleAllocate allocate = nullptr;
  void* allocate_user = nullptr;
  FettleTensor* outputs = nullptr;  // of this call
  // Calls have these by turns: what one call gave may be what the next one is given.
  FettleStrings call_strings[2];
  // The thread on which calls are begun; made for the first one.
  FettleTensor* begun_outputs = nullptr;
  int32_t begun_status = FETTLE_OK;
  bool has_thread = false;
  pthread_t thread{};
};

inline ModelContext* of(FettleContext* context) { return static_cast<ModelContext*>(context); }

/// Runs the compiled code on a device: its graph, where there is one for what it is given (call_device.cpp).
int32_t run_entry(ModelContext& context);
/// Gives up all graphs.
void drop_graphs(ModelContext& context);
/// Where input i lies on the device, densely; *at is what `entry` is given.
int32_t place_input_on_device(ModelContext& context, int32_t i, const FettleTensor& expected, const FettleTensor& given,
                              void** at);
/// Copies outputs to where they were asked for, and waits, but where the caller waits for its stream.
int32_t take_from_device(ModelContext& context);
/// Of strings that lie densely: they become their numbers, which take half of the place.
int32_t number_strings(ModelContext& context, const FettleTensor& expected, const FettleTensor& given, void* data);
/// Whether a call may write there: what a call before gave may be an input of this one.
bool is_ours(const ModelContext& context, const void* data);
/// The device's reason as the context's sentence.
int32_t device_failed(ModelContext& context, int32_t status);

/// Makes ready what `entry` is given: shapes are checked, sizes computed, memory taken. Of the inputs only shapes are
/// looked at where `outputs` is null. Where it fails, context.error has the sentence.
int32_t prepare(ModelContext& context, const FettleTensor* inputs, FettleTensor* outputs);

/// Runs the compiled code on what is ready.
int32_t execute(ModelContext& context);

/// After a call that succeeded: outputs get their shapes and strings, states their lengths.
int32_t finish(ModelContext& context, FettleTensor* outputs);

/// Writes name, type and shape of output i.
void describe_output(const ModelContext& context, int32_t i, FettleTensor& output);

/// Whether what a caller gave is a tensor of this type and rank; `taken` is a copy. `what`: "input".
int32_t check_tensor(ModelContext& context, const char* what, const FettleTensor& expected, const FettleTensor* given,
                     FettleTensor& taken);
/// Whether its extents are those expected, and given where these are open.
int32_t check_extents(ModelContext& context, const char* what, const FettleTensor& expected, const FettleTensor& given);

/// The state as it began.
/// Whether the extent of the state along `axis` is another from call to call.
bool is_open(const ModelContext& context, int32_t state, int32_t axis);
int32_t reset_state(ModelContext& context, int32_t state);
/// Copies a tensor that the caller gave as the `what` that is called `name`.
int32_t load_state(ModelContext& context, int32_t state, const FettleTensor* given, const char* what, const char* name);
/// Copies the state to where the tensor has room, or shows where it lies.
int32_t show_state(ModelContext& context, int32_t state, FettleTensor& tensor);

/// Keeps the sentence and returns the status.
int32_t refuse(ModelContext& context, int32_t status, const Text& text);

}  // namespace fettle::rt
