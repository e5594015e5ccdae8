#include "frontend/comprehension/initial_values.h"

#include <algorithm>

namespace fettle::comprehension {
namespace {

// The variable of an index ±v + constant.
struct Direction {
  std::string variable;
  int sign = 1;
};

std::optional<Direction> direction_of(const Form& form) {
  if (form->kind != IndexForm::Kind::kAffine || form->affine.terms.size() != 1) return std::nullopt;
  const auto& [name, coefficient] = *form->affine.terms.begin();
  if (coefficient == Dim(1)) return Direction{name, 1};
  if (coefficient == Dim(-1)) return Direction{name, -1};
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Edge>> edges_read_before_set(const Statement& made, const std::vector<std::string>& loops,
                                                       const TensorInfo& tensor) {
  if (made.tree->assignment != Assignment::kSet || !made.reduced.empty() || made.place.size() != loops.size())
    return std::nullopt;
  for (const auto& [name, range] : made.ranges.all())
    if (!range.begin.is_constant() || !range.end.is_constant()) return std::nullopt;
  // Each loop moves one dim, over all of it.
  std::vector<size_t> dims(loops.size());
  std::vector<int> signs(loops.size());
  std::vector<Affine> places;
  for (size_t d = 0; d < loops.size(); ++d) {
    const auto direction = direction_of(made.place[d]);
    if (!direction) return std::nullopt;
    const auto loop = std::ranges::find(loops, direction->variable);
    if (loop == loops.end()) return std::nullopt;
    const auto at = static_cast<size_t>(loop - loops.begin());
    if (signs[at] != 0) return std::nullopt;
    dims[at] = d;
    signs[at] = direction->sign;
    places.push_back(made.place[d]->affine - Affine{tensor.base[d]});
    const auto reached = made.ranges.interval(*affine_form(places.back()));
    if (!reached || !(reached->least == Dim(0)) || !(reached->most == tensor.extents[d] - 1)) return std::nullopt;
  }
  std::vector<Edge> edges;
  const auto add = [&](Edge edge) {
    if (std::ranges::find(edges, edge) == edges.end()) edges.push_back(edge);
  };
  for (const Access& access : made.reader.accesses()) {
    if (access.tensor != made.tree->name) continue;
    bool is_earlier = false;
    for (size_t at = 0; at < loops.size(); ++at) {
      const size_t d = dims[at];
      const Form& read = access.indices[d];
      if (read->kind != IndexForm::Kind::kAffine) return std::nullopt;
      const Affine apart = read->affine - places[d];
      if (!apart.is_constant() || !apart.constant.is_number()) return std::nullopt;
      // By so many iterations the read element is set later.
      const int64_t later = signs[at] * apart.constant.value();
      if (!is_earlier && later > 0) return std::nullopt;
      is_earlier = is_earlier || later < 0;
      const auto reached = made.ranges.interval(*read);
      if (!reached) return std::nullopt;
      if (reached->least.min() < 0) add({d, false});
      if ((tensor.extents[d] - 1 - reached->most).min() < 0) add({d, true});
    }
    if (!is_earlier) return std::nullopt;
  }
  return edges;
}

}  // namespace fettle::comprehension
