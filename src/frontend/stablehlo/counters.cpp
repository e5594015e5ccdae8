#include "frontend/stablehlo/counters.h"

#include <cstdlib>
#include <limits>

#include "frontend/stablehlo/importer.h"
#include "graph/op_util.h"

namespace fettle::stablehlo {
namespace {

std::optional<int64_t> constant_of(const Tensor& tensor) {
  if (!tensor.re || tensor.im || !tensor.re->is_constant() || tensor.re->constant->n_elems() != 1) return {};
  if (!tensor.re->dtype().is_int()) return {};
  return tensor.re->constant->int_at(0);
}

// Whether all of [min, max] are numbers of a type. Types of fewer bits are not followed.
bool holds(DType dtype, int64_t min, int64_t max) {
  if (!dtype.is_int() || dtype.bits < 32) return false;
  const int64_t least = dtype.code == TypeCode::kUInt ? 0 : std::numeric_limits<int32_t>::min();
  return min >= least && max <= std::numeric_limits<int32_t>::max();
}

}  // namespace

void keep_progression(Importer& importer, const Value* value, const Progression& progression) {
  if (progression.iterations >= 1 && holds(value->dtype(), progression.min(), progression.max()))
    importer.scope().progressions.insert_or_assign(value, progression);
}

const Progression* find_progression(Importer& importer, const Tensor& tensor) {
  if (!tensor.re || tensor.im) return nullptr;
  const auto& all = importer.scope().progressions;
  const auto found = all.find(tensor.re);
  return found == all.end() ? nullptr : &found->second;
}

void follow_progressions(OpImport& o, const Tensor& result) {
  if (o.in.empty() || !result.re || result.im || o.importer.scope().progressions.empty()) return;
  const Progression* of = find_progression(o.importer, o.in[0]);
  if (o.op.name == "stablehlo.convert" || o.op.name == "stablehlo.reshape") {
    if (of) keep_progression(o.importer, result.re, Progression(*of));
    return;
  }
  const bool adds = o.op.name == "stablehlo.add", subtracts = o.op.name == "stablehlo.subtract";
  if ((!adds && !subtracts) || o.in.size() != 2) return;
  const Progression* right = find_progression(o.importer, o.in[1]);
  const auto number = constant_of(o.in[of ? 1 : 0]);
  if ((of != nullptr) == (right != nullptr) || !number || std::abs(*number) > std::numeric_limits<int32_t>::max())
    return;
  Progression made = of ? *of : *right;
  if (subtracts && right) made.step = -made.step;
  made.first = (subtracts && right ? -made.first : made.first) + (subtracts && of ? -*number : *number);
  keep_progression(o.importer, result.re, made);
}

std::optional<bool> known_comparison(OpImport& o) {
  const Progression* of = find_progression(o.importer, o.in[0]);
  const auto number = constant_of(o.in[1]);
  if (!of || !number) return {};
  const std::string direction = o.text("comparison_direction");
  const auto either = [](bool yes, bool no) { return yes || no ? std::optional(yes) : std::nullopt; };
  if (direction == "LT") return either(of->max() < *number, of->min() >= *number);
  if (direction == "LE") return either(of->max() <= *number, of->min() > *number);
  if (direction == "GT") return either(of->min() > *number, of->max() <= *number);
  if (direction == "GE") return either(of->min() >= *number, of->max() < *number);
  return {};
}

}  // namespace fettle::stablehlo
