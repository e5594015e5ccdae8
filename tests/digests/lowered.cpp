#include "tests/digests/lowered.h"

#include <fmt/format.h>

#include "ir/canonical.h"
#include "ir/text.h"
#include "lower/device/device.h"
#include "lower/lower.h"

namespace fettle::digests {
namespace {

void add(const IrModule& module, Lowered& result) {
  for (const auto& [name, func] : module.funcs) {
    result.canonical += fmt::format("{}\n{}\n", name, canonical_bytes(func));
    result.text += to_text(func) + "\n";
  }
}

Lowered refused(const Diagnostic& diagnostic) {
  const std::string text = fmt::format("refused: {}\n", diagnostic.to_string());
  return {text.substr(0, text.find(':', text.find(':') + 1)), text};
}

}  // namespace

Lowered lowered(const Schedule& schedule, const Target& target) {
  Lowered result;
  if (target.has_threads()) {
    const auto program = lower_for_device(schedule.func(), target);
    if (!program) return refused(program.error());
    result.canonical = canonical_bytes(program->host);
    for (const auto& [name, kernel] : program->kernels)
      result.canonical +=
          fmt::format("{} {} {}\n{}\n", name, kernel.shared_bytes, kernel.min_blocks, canonical_bytes(kernel.func));
    result.text = to_text(*program);
    return result;
  }
  const auto made = lower(schedule.func(), target);
  if (!made) return refused(made.error());
  add(made->kernel, result);
  add(made->prologue, result);
  return result;
}

}  // namespace fettle::digests
