#pragma once
// The machines that parse_target knows by name: one family a source in machines/.

#include <span>
#include <string_view>

#include "target/target.h"

namespace fettle {

struct TargetDef {
  std::string_view name;  // as users write it: "x86-64-avx512"
  Target (*make)();
  /// The target where options follow the name: " -arch sm_90". E709. Null: it takes none.
  Result<Target> (*make_with)(std::string_view options) = nullptr;
  std::string_view also = {};  // another name that compilers have for it: "x86-64-v4"
};

/// Every machine, from the sources in target/machines/.
std::span<const TargetDef* const> target_defs();

/// A CPU of these features, sorted as LLVM's feature string is, with the caches that CPUs usually have.
struct CpuSizes {
  std::string_view arch = "x86_64", cpu, features;
  int vector_bits, vector_registers;
};
Target usual_cpu(const CpuSizes& sizes);

}  // namespace fettle
