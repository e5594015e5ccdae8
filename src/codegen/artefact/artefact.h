#pragma once
// A compiled model as a file: OUT.so, which needs libc only, and OUT.h, with which C programs use it.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rt/model_api.h"

namespace fettle {

struct ArtefactTensor {
  std::string name;
  FettleDtype dtype = FETTLE_F32;
  std::vector<int64_t> shape;           // -1: open
  std::vector<std::string> axis_names;  // of open extents, "" where it is fixed; empty: all are
};

/// FettleState, whose tensor's shape is its capacity.
struct ArtefactState {
  ArtefactTensor tensor;
  int32_t input = 0, output = 0, length_axis = -1;
};

/// FettleStructure.
struct ArtefactStructure {
  std::string name, type;
  bool is_output = false;
  int32_t first_tensor = 0, n_tensors = 0;
};

/// FettleStage, by the symbol of its function.
struct ArtefactStage {
  std::string resize;
  int32_t arena_bytes_at = 0, keeps = 0;
};

/// Data that the file carries as they are: mapped when used, shared between processes, never written to. Where several
/// targets have the same bytes, at one address, the file has them once.
struct ArtefactConstant {
  ArtefactTensor tensor;
  std::span<const std::byte> bytes;  // must live until write_artefact returns
  bool is_packed_late = false;       // there are no bytes: a packing makes them when the model is opened
};

/// FettlePacking, by the symbol of its function.
struct ArtefactPacking {
  std::string run;
  std::vector<int32_t> constants;
};

/// All that goes into an artefact, for one target.
struct Artefact {
  std::string name;                     // of the model
  std::string prefix = "fettle_model";  // of the exported functions; a C identifier
  std::string compiler = "fettle";      // with its version
  std::string target;                   // its name, where the artefact has several: "x86-64-avx2"
  std::string target_cpu;
  std::string target_features;  // those the code needs, as rt/cpu.h has them: "avx2,fma"
  std::vector<ArtefactTensor> inputs;
  std::vector<ArtefactTensor> outputs;
  std::vector<ArtefactState> states;
  std::vector<ArtefactStructure> structures;
  std::vector<ArtefactConstant> constants;
  std::vector<ArtefactPacking> packings;
  std::vector<std::string> strings;           // of constants: the first has number 1
  std::vector<std::string> kernel_names;      // by the index that the host program gives to fettle_call_kernel
  std::vector<std::string> kernel_origins;    // of each: the nodes that it does the work of, one a line
  std::vector<std::vector<uint8_t>> objects;  // relocatable ELF objects
  std::string entry;                          // symbol of the host program, a FettleKernel (rt/abi.h has its buffers)
  int32_t default_threads = 1;
  int32_t default_streams = 1;
  int32_t device = 0;       // that kernels run on, a FettleDevice; 0: the CPU
  std::string driver;       // symbol of its driver (rt/device.h); empty: the CPU
  int64_t arena_bytes = 0;  // where all sizes are fixed
  // Open sizes (rt/abi.h has the table).
  int32_t n_sizes = 0;  // entries of the table; 0: all sizes are fixed
  std::string resize;   // symbol of what fills the table; empty where all sizes are fixed
  std::vector<std::string> size_errors;
  std::vector<ArtefactStage> stages;
  std::vector<int32_t> output_stages;         // FettleModelInfo's, where there are stages
  std::vector<FettleKernelWork> kernel_work;  // of each kernel, or of none
  std::vector<std::string> step_names;        // of loops and branches, by the number that fettle_mark_step is given
};

/// Strings one after the other, as FettleModelInfo has them.
struct StringList {
  std::string bytes;
  std::vector<int64_t> ends;
};
StringList string_list(const std::vector<std::string>& strings);

/// What code compiled for LLVM's feature string needs of a processor, in the form of Artefact::target_features: without
/// what is switched off, and without instructions that no compiler chooses by itself. The tile unit is needed where an
/// object uses it alone: a system may keep it from a process that has all else.
///   "+avx2,+clzero,-avx512f,+fma"  →  "avx2,fma"
std::string needed_features(std::string_view llvm_features, std::span<const std::vector<uint8_t>> objects = {});

/// Whether the prefix is a C identifier that is free, each kernel has origins (perhaps none) and its work, rt knows all
/// features, and what is said of sizes and states fits together. E303.
Result<> check_artefact(const Artefact& artefact);
/// Whether each is right, and whether they can be the targets of one artefact. E303.
Result<> check_artefacts(std::span<const Artefact> targets);

/// Links objects, constants, descriptions and rt to a shared library. Exports PREFIX_open, _info and a function for
/// each of rt/model_functions.h, and the data `fettle_artefact` by which runtime/library.h knows it. Beside it goes its
/// header, OUT.h. Neither is touched where one of them cannot be written. Errors: E303 objects do not link, or
/// the prefix or a feature's name is none · E702 a file cannot be written · E709 `out` ends in .h.
Result<> write_artefact(const Artefact& artefact, const std::filesystem::path& out);
/// The same of several targets, the best first, which have names. Each has its own code and description; a program
/// gets the first that its machine runs. E303 also: two have one name, or their inputs, outputs or states differ.
Result<> write_artefact(std::span<const Artefact> targets, const std::filesystem::path& out);

/// The text of OUT.h: C, self-contained, documented with the model's inputs and outputs. E303 as above.
Result<std::string> artefact_header(std::span<const Artefact> targets);

}  // namespace fettle
