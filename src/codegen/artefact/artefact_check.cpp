#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <tuple>

#include "codegen/artefact/artefact.h"
#include "rt/cpu.h"

namespace fettle {
namespace {

/// What is wrong with what is said of constants; null: nothing.
const char* wrong_packings(const Artefact& artefact) {
  std::vector<bool> is_made(artefact.constants.size(), false);
  for (const ArtefactPacking& packing : artefact.packings)
    for (const int32_t i : packing.constants) {
      if (i < 0 || static_cast<size_t>(i) >= is_made.size()) return "a packing is of a constant that is not there";
      if (!artefact.constants[static_cast<size_t>(i)].is_packed_late) continue;
      if (is_made[static_cast<size_t>(i)]) return "two packings make one constant";
      is_made[static_cast<size_t>(i)] = true;
    }
  for (size_t i = 0; i < is_made.size(); ++i)
    if (artefact.constants[i].is_packed_late != is_made[i]) return "no packing makes a constant that has no bytes";
  return nullptr;
}

/// What is wrong with what is said of sizes, states and structures; null: nothing.
const char* wrong_sizes(const Artefact& artefact) {
  const auto is_open = [](const ArtefactTensor& tensor) { return std::ranges::count(tensor.shape, -1) > 0; };
  if ((artefact.n_sizes > 0) != !artefact.resize.empty()) return "sizes are open, but nothing computes them";
  int64_t extents = 1;
  for (const auto* tensors : {&artefact.inputs, &artefact.outputs}) {
    for (const ArtefactTensor& tensor : *tensors) {
      if (artefact.n_sizes == 0 && is_open(tensor)) return "a tensor has an open extent, but all sizes are fixed";
      if (!tensor.axis_names.empty() && tensor.axis_names.size() != tensor.shape.size())
        return "a tensor does not have one name for each axis";
      if (tensors == &artefact.outputs) extents += static_cast<int64_t>(tensor.shape.size());
    }
  }
  if (artefact.n_sizes > 0 && artefact.n_sizes < extents)
    return "the table of sizes has no room for the outputs' extents";
  for (const ArtefactStage& stage : artefact.stages)
    if (stage.arena_bytes_at < 0 || stage.arena_bytes_at >= artefact.n_sizes)
      return "the size of a stage's arena is not in the table of sizes";
  if (!artefact.stages.empty() && artefact.output_stages.size() != artefact.outputs.size())
    return "not every output has its stage";
  for (const ArtefactState& state : artefact.states) {
    const auto has = [&](const std::vector<ArtefactTensor>& tensors, int32_t i) {
      return i >= 0 && i < static_cast<int32_t>(tensors.size()) &&
             tensors[static_cast<size_t>(i)].shape.size() == state.tensor.shape.size() &&
             tensors[static_cast<size_t>(i)].dtype == state.tensor.dtype;
    };
    if (!has(artefact.inputs, state.input) || !has(artefact.outputs, state.output) || is_open(state.tensor) ||
        state.length_axis >= static_cast<int32_t>(state.tensor.shape.size()))
      return "a state does not fit the input and the output that it stands for";
  }
  for (const ArtefactStructure& made : artefact.structures) {
    const auto n_tensors = static_cast<int64_t>((made.is_output ? artefact.outputs : artefact.inputs).size());
    if (made.first_tensor < 0 || made.n_tensors < 1 || made.first_tensor > n_tensors - made.n_tensors)
      return "a structure's tensors are not among the model's";
  }
  return nullptr;
}

}  // namespace

Result<> check_artefact(const Artefact& artefact) {
  const std::string& prefix = artefact.prefix;
  bool identifier = !prefix.empty() && std::isdigit(static_cast<unsigned char>(prefix[0])) == 0;
  for (const char c : prefix) identifier = identifier && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
  if (!identifier) return fail(ErrorCode::E303, fmt::format("the prefix '{}' is not a C identifier", prefix));
  if (artefact.kernel_origins.size() != artefact.kernel_names.size())
    return fail(ErrorCode::E303, "not every kernel has its origins");
  if (!artefact.kernel_work.empty() && artefact.kernel_work.size() != artefact.kernel_names.size())
    return fail(ErrorCode::E303, "not every kernel has its work");
  if (const char* wrong = wrong_sizes(artefact)) return fail(ErrorCode::E303, wrong);
  if (const char* wrong = wrong_packings(artefact)) return fail(ErrorCode::E303, wrong);
  if (prefix == "fettle_artefact" || prefix.starts_with("fettle_rt"))
    return fail(ErrorCode::E303, fmt::format("the prefix '{}' is taken", prefix));
  char unknown[32];
  if (fettle_cpu_check(artefact.target_features.c_str(), unknown, sizeof unknown) == 2)
    return fail(ErrorCode::E303, fmt::format("the CPU feature '{}' is not known to rt", unknown));
  return {};
}

namespace {

/// What callers see of a tensor, a state, …
auto seen(const ArtefactTensor& tensor) {
  return std::tuple(tensor.name, tensor.dtype, tensor.shape, tensor.axis_names);
}

auto seen(const ArtefactState& state) {
  return std::tuple_cat(seen(state.tensor), std::tuple(state.input, state.output, state.length_axis));
}

auto seen(const ArtefactStructure& made) {
  return std::tuple(made.name, made.type, made.is_output, made.first_tensor, made.n_tensors);
}

/// Whether both targets show callers the same.
bool look_alike(const Artefact& a, const Artefact& b) {
  const auto same = [](const auto& of_a, const auto& of_b) {
    return std::ranges::equal(of_a, of_b, [](const auto& x, const auto& y) { return seen(x) == seen(y); });
  };
  return a.name == b.name && a.prefix == b.prefix && same(a.inputs, b.inputs) && same(a.outputs, b.outputs) &&
         same(a.states, b.states) && same(a.structures, b.structures);
}

}  // namespace

Result<> check_artefacts(std::span<const Artefact> targets) {
  if (targets.empty()) return fail(ErrorCode::E303, "an artefact needs a target");
  std::set<std::string> names;
  for (const Artefact& artefact : targets) {
    FETTLE_TRY_VOID(check_artefact(artefact));
    if (targets.size() == 1) break;
    if (artefact.target.empty()) return fail(ErrorCode::E303, "of several targets each needs a name");
    if (!names.insert(artefact.target).second)
      return fail(ErrorCode::E303, fmt::format("two targets are called '{}'", artefact.target));
    if (!look_alike(targets[0], artefact))
      return fail(ErrorCode::E303, fmt::format("inputs, outputs or states of {} differ from those of {}",
                                               artefact.target, targets[0].target));
  }
  return {};
}

}  // namespace fettle
