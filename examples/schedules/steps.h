#pragma once
// What the examples share: a program, the steps that make it fast, and a runner that checks and times each of them.

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_inplace.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/merge.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/schedule.h"

namespace fettle::examples {

using Loops = std::vector<LoopRef>;
using Blocks = std::vector<BlockRef>;

/// One state of a schedule: from the program as it was written, in one go.
struct Step {
  std::string title;
  std::string why;  // what it gains, in a few lines
  std::function<Result<>(Schedule&)> apply;
};

struct Subject {
  std::string name;
  std::string what;  // "C[512, 512] = A[512, 512] B[512, 512]"
  Func func;
  double flops = 0;         // nominal; 0: rates mean nothing here
  double tolerance = 1e-5;  // of the largest result, for what the last step's numerics allow
  std::vector<Step> steps;
};

/// Lanes of a vector of f32 on the schedule's target.
int64_t lanes_of(const Schedule& s);
/// "(n, c, h, w) -> (n, h, w, c)"; the text must be one.
IndexMap index_map(const std::string& text);

Result<> unroll_all(Schedule& s, const Loops& loops);
/// The loop as unrolled vectors.
Result<> as_vectors(Schedule& s, LoopRef loop, Tail tail = Tail::kExact);
/// Replaces the block's own loops below `depth` by those given, in order; nothing where one is enough.
Result<> in_order(Schedule& s, const Loops& loops);
/// Gives the block's result the scope "register".
Result<> in_registers(Schedule& s, BlockRef block);
/// Moves the named blocks under the loop, the last first.
Result<> all_at(Schedule& s, const std::vector<std::string>& names, LoopRef loop);

/// Runs the steps: prints time and share of this machine's peak after each, and false where one fails or computes
/// something else than the program as it was written. seconds: for timing each step.
bool run_steps(const Subject& subject, double seconds);

// --- the subjects, one file each
Subject gemm();
Subject convolution();
Subject depthwise();
Subject softmax();
Subject layer_norm();
Subject attention();
std::vector<Subject> all_subjects();

}  // namespace fettle::examples
