#pragma once
// What records are about: a canonical loop program, on a target, with a number of threads.

#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// A loop program as it is stored: its text, and the hash that is equal for programs equal under renaming.
/// Free of references, so that it may cross threads.
struct Workload {
  std::string text;
  Digest hash;

  /// The Func's name.
  std::string name() const;
};

Workload make_workload(const Func& func);
/// E101, E102 where `text` is no program.
Result<Workload> parse_workload(std::string_view text);
/// Equal hashes, and equal programs under renaming: a hash alone proves nothing.
bool same_workload(const Workload& a, const Workload& b);

/// What decides which records apply.
struct TaskKey {
  Workload workload;
  std::string target_features;  // Target::feature_key()
  Digest fingerprint;           // Target::fingerprint()
  int threads = 1;
  std::string versions;  // of primitives, lowering and code generation
};
TaskKey make_task_key(const Func& func, const Target& target, int threads, std::string versions);

}  // namespace fettle
