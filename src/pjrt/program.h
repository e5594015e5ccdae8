#pragma once
// Compiled programs: what JAX calls executables.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "driver/compile.h"
#include "graph/graph.h"
#include "pjrt/array.h"
#include "pjrt/client.h"
#include "runtime/model.h"

namespace fettle::pjrt {

/// What one run of a program works with.
struct ProgramCall {
  ModelContext context;
  std::vector<FettleTensor> inputs, outputs;  // of the model, in its order
};

/// The types of a program's arguments and results. Tokens are among them, and the model has no tensors for those.
struct ProgramInterface {
  std::string name;
  std::vector<ShapeRef> inputs, outputs;
  std::vector<bool> donated;      // of each input: whether its memory is given up
  std::vector<int> written_over;  // of each output: the donated input whose memory it may have; -1: none
};

struct Program {
  ProgramInterface interface;
  Digest fingerprint;
  std::string code;     // as it was given
  std::string options;  // likewise
  Model model;
  std::optional<CompiledModel> compiled;  // nothing: it was loaded, from `library`
  std::string library;
  std::shared_ptr<const Graph> graph;  // as it was planned; null: it was loaded
  int64_t temporary_bytes = 0;

  // Calls that nobody works with. The one at hand costs no lock.
  std::atomic<ProgramCall*> at_hand{nullptr};
  std::mutex mutex;
  std::vector<std::unique_ptr<ProgramCall>> idle;

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { delete at_hand.load(); }

  Result<std::unique_ptr<ProgramCall>> take_call();
  void give_back(std::unique_ptr<ProgramCall> call);
};
using ProgramRef = std::shared_ptr<Program>;

/// Compiles StableHLO, text or bytecode. Errors: those of read_module, import_stablehlo, plan_source, build_model and
/// package_model · E603 more than one replica or partition, an open extent, or a type that PJRT does not have
Result<ProgramRef> compile_program(const PJRT_Client& client, std::string_view code, std::string_view options);

/// The program as bytes, for this build and processors like this one.
Result<std::string> serialize_program(Program& program);
/// Errors: E710 of another build or kind of processor, or damaged
Result<ProgramRef> load_program(const PJRT_Client& client, std::string_view bytes);

/// How models run: on the threads that all programs share.
struct ProgramRun {
  FettleHostTeam team{};
  FettleOptions options{};  // refers to it

  explicit ProgramRun(const PJRT_Client& client);
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;
};

/// Arguments and results are those of the model, one after the other, but for tokens. E710 they are not
Result<> check_interface(const ProgramInterface& interface, const Model& model);

void add_compilation(PJRT_Api& api);
void add_executables(PJRT_Api& api);
void add_execution(PJRT_Api& api);

}  // namespace fettle::pjrt

struct PJRT_Executable {
  fettle::pjrt::ProgramRef program;
  // What queries return, for as long as this lives.
  std::string fingerprint;
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  std::vector<const char*> memory_kinds;
  std::vector<size_t> memory_kind_sizes;
  std::vector<PJRT_NamedValue> costs;
};

struct PJRT_LoadedExecutable {
  PJRT_Client* client = nullptr;
  fettle::pjrt::ProgramRef program;
  std::atomic<bool> is_deleted{false};
  std::string fingerprint;
};
