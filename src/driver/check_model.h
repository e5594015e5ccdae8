#pragma once
// Whether a model file compiles, and if not, every reason.

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "driver/open.h"
#include "driver/plan_model.h"
#include "frontend/onnx/survey.h"
#include "graph/work.h"

namespace fettle {

struct ModelCheck {
  ModelSurvey survey;
  std::vector<Diagnostic> reasons;      // why it does not compile; none: it does
  bool is_cut_short = false;            // there may be more of them
  std::optional<PlannedModel> planned;  // of a model that compiles
  GraphWork work;                       // likewise

  /// Whether nothing in the file contradicts the standard: what is not supported does not.
  bool is_valid() const;
};

/// Plans the model; no machine code is made. What is refused is noted and taken out, with all that needs its results,
/// and the rest is tried again. A node whose inputs' types are not known for that reason is not judged.
/// Errors: E601, E602, E608 of reading the file · E704, E705, E709 options that do not fit it
Result<ModelCheck> check_model(const ModelFile& file, const OpenOptions& options);

}  // namespace fettle
