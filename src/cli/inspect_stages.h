#pragma once
// What graphs and programs are like on their way: `fettle inspect --after`.

#include <string>

#include "base/result.h"
#include "driver/compile.h"
#include "driver/load.h"

namespace fettle::cli {

/// The graph as each pass of that name leaves it. E709 no such pass, with the names that there are · errors of
/// load_model from before that pass.
Result<std::string> graph_after(const std::string& pass, const ModelFile& model, const InputShapes& shapes,
                                const OpenSizes& sizes, const Limits& limits);

/// A task's program after that many steps of its schedule (a number), after each step of that primitive, or after each
/// lowering pass of that name. E709 none of these, with all that there are.
Result<std::string> task_after(const std::string& stage, const TaskInfo& task, const Target& target);

}  // namespace fettle::cli
