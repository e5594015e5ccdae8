#pragma once
// What a compiled model is made of, for one target. For the sources of CompiledModel.

#include <string>
#include <vector>

#include "codegen/artefact/artefact.h"
#include "codegen/device_def.h"
#include "driver/compile.h"

namespace fettle {

struct CompiledModel::State {
  Artefact artefact;  // whose constants lie in `constants`
  std::vector<ConstantBytes> constants;
  int64_t weight_bytes = 0;
  std::vector<TaskInfo> tasks;
  std::string plan_text;
  GraphFunction function;
  std::vector<GraphCall> calls;
  const DeviceDef* device = nullptr;  // that kernels run on
};

}  // namespace fettle
