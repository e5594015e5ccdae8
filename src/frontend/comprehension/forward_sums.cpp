#include "frontend/comprehension/forward_sums.h"

#include <algorithm>

namespace fettle::comprehension {
namespace {

int times_read(const ExprTree& e, const std::string& name) {
  int times =
      (e.kind == ExprKind::kName || e.kind == ExprKind::kApply || e.kind == ExprKind::kExtent) && e.text == name;
  for (const ExprTree& arg : e.args) times += times_read(arg, name);
  return times;
}

int times_read(const StatementTree& tree, const std::string& name) {
  int times = times_read(tree.value, name);
  for (const ExprTree& index : tree.indices) times += times_read(index, name);
  for (const ClauseTree& clause : tree.clauses)
    times += times_read(clause.begin, name) + times_read(clause.end, name) + times_read(clause.value, name);
  return times;
}

bool same(const ExprTree& a, const ExprTree& b) {
  return a.kind == b.kind && a.text == b.text && a.integer == b.integer && a.real == b.real && a.dtype == b.dtype &&
         std::ranges::equal(a.args, b.args, same);
}

ExprTree binary(const char* op, ExprTree a, ExprTree b) {
  const Place place = a.place;
  return {.kind = ExprKind::kBinary, .place = place, .text = op, .args = {std::move(a), std::move(b)}};
}

// -a * b rather than -(a * b): a sign of what several products share is theirs, too.
ExprTree negated(ExprTree e) {
  if (e.kind == ExprKind::kBinary && (e.text == "*" || e.text == "/")) {
    e.args[0] = negated(std::move(e.args[0]));
    return e;
  }
  const Place place = e.place;
  return {.kind = ExprKind::kUnary, .place = place, .text = "-", .args = {std::move(e)}};
}

// An expression as rest ± factors * t.
struct Linear {
  std::optional<ExprTree> rest;
  std::vector<ExprTree> factors;
  bool is_taken = false;  // rather than added
};

std::optional<Linear> linear(const ExprTree& e, const std::string& t) {
  if (e.kind == ExprKind::kName) return Linear{};
  if (e.kind != ExprKind::kBinary) return std::nullopt;
  const bool is_left = times_read(e.args[0], t) > 0;
  const ExprTree &with = e.args[is_left ? 0 : 1], &other = e.args[is_left ? 1 : 0];
  std::optional<Linear> inner = linear(with, t);
  if (!inner) return std::nullopt;
  if (e.text == "*" && !inner->rest) {
    inner->factors.push_back(other);
    return inner;
  }
  if (e.text != "+" && e.text != "-") return std::nullopt;
  if (is_left) {
    inner->rest = inner->rest ? binary(e.text.c_str(), *inner->rest, other) : e.text == "+" ? other : negated(other);
    return inner;
  }
  inner->rest = inner->rest ? binary(e.text.c_str(), other, *inner->rest) : other;
  inner->is_taken = inner->is_taken != (e.text == "-");
  return inner;
}

}  // namespace

std::optional<std::vector<StatementTree>> forwarded(const StatementTree& sum, const StatementTree& use) {
  using Kind = StatementTree::Kind;
  if (sum.kind != Kind::kComprehension || use.kind != Kind::kComprehension) return std::nullopt;
  const bool is_sum = sum.indices.empty() && sum.assignment == Assignment::kAdd && sum.from_identity;
  if (!is_sum || use.assignment != Assignment::kSet || use.indices.empty() || use.name == sum.name) return std::nullopt;
  if (times_read(use, sum.name) != 1 || times_read(use.value, sum.name) != 1 || !use.clauses.empty())
    return std::nullopt;
  const ExprTree here{.kind = ExprKind::kApply, .place = use.place, .text = use.name, .args = use.indices};
  const ExprTree* added = &use.value;
  std::optional<ExprTree> divisor;
  if (added->kind == ExprKind::kBinary && added->text == "/" && times_read(added->args[1], sum.name) == 0) {
    divisor = added->args[1];
    added = &added->args[0];
  }
  const std::optional<Linear> parts = linear(*added, sum.name);
  if (!parts || !parts->rest) return std::nullopt;
  // Neither factors nor the divisor may change with the place.
  const auto reads_place = [&](const ExprTree& e) { return times_read(e, use.name) > 0; };
  if (std::ranges::any_of(parts->factors, reads_place)) return std::nullopt;
  const auto reads_here = [&](const auto& self, const ExprTree& e) -> bool {
    return same(e, here) || std::ranges::any_of(e.args, [&](const ExprTree& arg) { return self(self, arg); });
  };
  if (divisor && reads_here(reads_here, *divisor)) return std::nullopt;
  std::vector<StatementTree> made;
  if (!same(*parts->rest, here)) {
    made.push_back(use);
    made.back().value = *parts->rest;
  }
  StatementTree& update = made.emplace_back(use);
  update.assignment = Assignment::kAdd;
  update.clauses = sum.clauses;
  update.value = sum.value;
  for (const ExprTree& factor : parts->factors) update.value = binary("*", factor, update.value);
  if (parts->is_taken) update.value = negated(update.value);
  if (divisor) {
    made.push_back(use);
    made.back().value = binary("/", here, *divisor);
  }
  return made;
}

bool is_read_after_sums(const StatementTree& tree, const std::string& scalar) {
  for (size_t at = 0; at < tree.body.size(); ++at) {
    const StatementTree& here = tree.body[at];
    const StatementTree* before = at > 0 ? &tree.body[at - 1] : nullptr;
    const bool follows = before && before->kind == StatementTree::Kind::kComprehension && before->name == scalar &&
                         before->from_identity;
    if (times_read(here, scalar) > 0 && !follows) return false;
    if (!is_read_after_sums(here, scalar)) return false;
  }
  return true;
}

}  // namespace fettle::comprehension
