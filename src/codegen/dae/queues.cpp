#include "codegen/dae/queues.h"

#include <fmt/format.h>

namespace fettle::dae {

Queues::Queues(const Program& program) : program_(program) {
  for (size_t i = 0; i < program.stream.size(); ++i)
    queues_[static_cast<size_t>(program.stream[i].unit)].push_back(static_cast<int64_t>(i));
}

bool Queues::done() const {
  for (size_t u = 0; u < kUnits; ++u)
    if (next_[u] < queues_[u].size()) return false;
  return true;
}

int64_t Queues::head(Unit unit) const {
  const auto u = static_cast<size_t>(unit);
  return next_[u] < queues_[u].size() ? queues_[u][next_[u]] : -1;
}

bool Queues::can_run(Unit unit) const {
  const int64_t position = head(unit);
  if (position < 0) return false;
  const Instruction& i = program_.stream[static_cast<size_t>(position)];
  for (size_t u = 0; u < kUnits; ++u)
    if (const Tokens& t = tokens(static_cast<Unit>(u), unit); i.wait[u] && t.taken == t.givers.size()) return false;
  return true;
}

int64_t Queues::pop(Unit unit) {
  const int64_t position = head(unit);
  const Instruction& i = program_.stream[static_cast<size_t>(position)];
  const auto own = static_cast<size_t>(unit);
  for (size_t u = 0; u < kUnits; ++u) {
    if (i.wait[u]) ++tokens_[u][own].taken;
    if (i.signal[u]) tokens_[own][u].givers.push_back(position);
  }
  ++next_[own];
  return position;
}

int64_t Queues::giver(Unit from, Unit to) const {
  const Tokens& t = tokens(from, to);
  return t.givers[t.taken];
}

int64_t Queues::tokens_left() const {
  int64_t count = 0;
  for (const auto& row : tokens_)
    for (const Tokens& t : row) count += static_cast<int64_t>(t.givers.size() - t.taken);
  return count;
}

tl::unexpected<Diagnostic> Queues::stuck() const {
  std::string text = "units wait for each other for ever:";
  for (size_t u = 0; u < kUnits; ++u) {
    const int64_t position = head(static_cast<Unit>(u));
    if (position < 0) continue;
    const Instruction& i = program_.stream[static_cast<size_t>(position)];
    for (size_t v = 0; v < kUnits; ++v)
      if (const Tokens& t = tokens_[v][u]; i.wait[v] && t.taken == t.givers.size())
        text += fmt::format("\n  {} waits for {} at instruction {}: {}", name_of(static_cast<Unit>(u)),
                            name_of(static_cast<Unit>(v)), position, to_text(program_, i));
  }
  return fail(ErrorCode::E302, text, program_.name);
}

}  // namespace fettle::dae
