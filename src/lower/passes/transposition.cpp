#include "lower/passes/transposition.h"

#include "lower/passes/passes.h"

namespace fettle {
namespace {

/// The parts of a register within which the cheapest shuffles work (x86).
constexpr int kPartBytes = kTransposedBytes;

}  // namespace

bool may_transpose(int64_t lanes, DType dtype) {
  return lanes * dtype.element_bytes() >= kPartBytes && lanes >= kFewestTransposed && lanes <= kMostTransposed &&
         (lanes & (lanes - 1)) == 0;
}

Transposition::Transposition(const Buffer& rows, int64_t n) : n_(static_cast<int>(n)) {
  buffers_.push_back(rows);
  const int part = kPartBytes / rows->dtype.element_bytes();
  // Each step makes vectors of half as many columns of twice as many rows, until each has one column of each part …
  for (int unit = 1; unit < part; unit *= 2) step(unit, halves(n_, part, unit), /*adjacent=*/true);
  // … and then of one.
  for (int distance = part; distance < n_; distance *= 2) step(distance, alternate_parts(n_, part));
}

// From each two vectors at this distance, in their places; adjacent: side by side.
void Transposition::step(int distance, const Choice& choice, bool adjacent) {
  const Buffer from = buffers_.back();
  const Buffer to = make_buffer(from->name, from->shape, from->dtype, kScopeRegister);
  for (int i = 0; i < n_; ++i) {
    if ((i & distance) != 0) continue;
    const int first = adjacent ? i + i % distance : i;
    const int second = adjacent ? first + 1 : i + distance;
    const std::vector<Expr> both = {load(from, {run(i)}), load(from, {run(i + distance)})};
    steps_.push_back(store(to, {run(first)}, shuffle(both, choice.first)));
    steps_.push_back(store(to, {run(second)}, shuffle(both, choice.second)));
  }
  buffers_.push_back(to);
}

// The lower and the upper halves of each part, `unit` lanes of either vector in turn.
//   parts of 4, unit 1: a0 b0 a1 b1 · a2 b2 a3 b3      unit 2: a0 a1 b0 b1 · a2 a3 b2 b3
Transposition::Choice Transposition::halves(int lanes, int part, int unit) {
  Choice choice;
  for (int begin = 0; begin < lanes; begin += part)
    for (int i = 0; i < part / 2; i += unit)
      for (const int vector : {0, lanes})
        for (int u = 0; u < unit; ++u) {
          choice.first.push_back(vector + begin + i + u);
          choice.second.push_back(vector + begin + i + u + part / 2);
        }
  return choice;
}

// The even and the odd parts: of the first vector, then of the second.
Transposition::Choice Transposition::alternate_parts(int lanes, int part) {
  Choice choice;
  for (const int vector : {0, lanes})
    for (int begin = 0; begin < lanes; begin += 2 * part)
      for (int i = 0; i < part; ++i) {
        choice.first.push_back(vector + begin + i);
        choice.second.push_back(vector + begin + part + i);
      }
  return choice;
}

}  // namespace fettle
