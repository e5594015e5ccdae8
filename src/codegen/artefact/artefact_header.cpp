#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "codegen/artefact/artefact.h"
#include "model_api_text.h"
#include "model_functions_text.h"
#include "rt/tensor.h"

namespace fettle {
namespace {

/// Text from a model file, made harmless inside a C comment.
std::string in_comment(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const bool ends = c == '/' && !safe.empty() && safe.back() == '*';
    const bool control = static_cast<unsigned char>(c) < 32 || c == 127;
    safe += ends || control || c == '\\' ? '?' : c;
  }
  return safe;
}

std::string list(std::string_view what, const std::vector<ArtefactTensor>& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ArtefactTensor& tensor = tensors[i];
    std::vector<std::string> extents;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      const bool named = tensor.shape[d] < 0 && !tensor.axis_names.empty() && !tensor.axis_names[d].empty();
      extents.push_back(named                 ? in_comment(tensor.axis_names[d])
                        : tensor.shape[d] < 0 ? "?"
                                              : std::to_string(tensor.shape[d]));
    }
    const rt::ElementType* type = rt::find_element_type(tensor.dtype);
    text += fmt::format(" *   {}[{}]  {}  {}[{}]\n", what, i, in_comment(tensor.name), type ? type->name : "?",
                        fmt::join(extents, ", "));
  }
  return text;
}

// What functions of rt are called there; PREFIX and GUARD stand for the model's own.
constexpr std::string_view kBegin = R"(#ifndef GUARD
#define GUARD

#ifdef __cplusplus
extern "C" {
#endif

/* Names, types and shapes of inputs and outputs; what the model was compiled for. */
const FettleModelInfo* PREFIX_info(void);

/* Starts the model's threads. abi_version: FETTLE_ABI_VERSION, so that a program that was compiled with another version of
 * this file is refused. NULL for the options: as many threads as the model was compiled for, within what the machine has.
 * NULL on failure; then PREFIX_error(NULL) says why. */
FettleModel* PREFIX_open(uint32_t abi_version, const FettleOptions* options);

)";
constexpr std::string_view kEnd = R"(
#ifdef __cplusplus
}
#endif

#endif
)";

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

Result<std::string> artefact_header(std::span<const Artefact> targets) {
  FETTLE_TRY_VOID(check_artefacts(targets));
  const Artefact& artefact = targets[0];
  std::string guard = artefact.prefix + "_H";
  for (char& c : guard) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = fmt::format("/* The compiled model '{}'. Written by {}.\n *\n", in_comment(artefact.name),
                                 in_comment(artefact.compiler));
  text += list("inputs", artefact.inputs) + list("outputs", artefact.outputs);
  for (const ArtefactStructure& made : artefact.structures)
    text +=
        fmt::format(" *   {}  {}  {}[{}] to [{}]\n", in_comment(made.name), in_comment(made.type),
                    made.is_output ? "outputs" : "inputs", made.first_tensor, made.first_tensor + made.n_tensors - 1);
  if (targets.size() > 1) {
    text += " *\n * for, the first that the machine runs:";
    for (const Artefact& target : targets) text += " " + in_comment(target.target);
    text += "\n";
  }
  text += " */\n\n";
  text += model_api_text;
  text += "\n";
  text += replace_all(replace_all(std::string(kBegin), "GUARD", guard), "PREFIX", artefact.prefix);
  text += replace_all(std::string(model_functions_text), "fettle_rt", artefact.prefix);
  text += kEnd;
  return text;
}

}  // namespace fettle
