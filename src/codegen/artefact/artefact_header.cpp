#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

#include "codegen/artefact/artefact.h"
#include "model_api_text.h"

namespace fettle {
namespace {

std::string_view dtype_text(FettleDtype dtype) {
  static constexpr std::string_view names[] = {"?",   "bool", "i8",  "u8",  "i16",  "u16", "i32",
                                               "u32", "i64",  "u64", "f16", "bf16", "f32", "f64"};
  return names[dtype >= FETTLE_BOOL && dtype <= FETTLE_F64 ? dtype : 0];
}

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
    text += fmt::format(" *   {}[{}]  {}  {}[{}]\n", what, i, in_comment(tensors[i].name), dtype_text(tensors[i].dtype),
                        fmt::join(tensors[i].shape, ", "));
  }
  return text;
}

// PREFIX and GUARD stand for the model's own.
constexpr std::string_view kFunctions = R"(#ifndef GUARD
#define GUARD

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an instance: its threads (including the caller; 0: as many as it was compiled for, within what the machine has) and its
 * working memory. NULL on failure; then PREFIX_error(NULL) says why. Instances are independent of each other. */
FettleModel* PREFIX_create(int32_t threads);

/* The same with all options: the host program's own threads, pinning, huge pages. */
FettleModel* PREFIX_create_with(const FettleOptions* options);

/* Computes outputs[i] from inputs[i]: dense, row-major arrays of the types listed above, aligned to their element, in memory
 * of the caller's. Returns FETTLE_OK, or a negative FettleStatus; then PREFIX_error(model) says why. One thread at a time. */
int32_t PREFIX_run(FettleModel* model, const void* const* inputs, void* const* outputs);

/* Calls `hook` after each kernel of later runs; NULL: no more. */
void PREFIX_profile(FettleModel* model, FettleKernelHook hook, void* user);

/* Ends the instance's threads and frees its memory. NULL is fine. */
void PREFIX_destroy(FettleModel* model);

/* One sentence on the last failure of the instance, or, for NULL, of the last PREFIX_create that failed; "" if none did. */
const char* PREFIX_error(const FettleModel* model);

/* Names, types and shapes of inputs and outputs; what the model was compiled for. */
const FettleModelInfo* PREFIX_info(void);

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

Result<std::string> artefact_header(const Artefact& artefact) {
  FETTLE_TRY_VOID(check_artefact(artefact));
  std::string guard = artefact.prefix + "_H";
  for (char& c : guard) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = fmt::format("/* The compiled model '{}'. Written by {}.\n *\n", in_comment(artefact.name),
                                 in_comment(artefact.compiler));
  text += list("inputs", artefact.inputs) + list("outputs", artefact.outputs);
  text += " */\n\n";
  text += model_api_text;
  text += "\n";
  text += replace_all(replace_all(std::string(kFunctions), "GUARD", guard), "PREFIX", artefact.prefix);
  return text;
}

}  // namespace fettle
