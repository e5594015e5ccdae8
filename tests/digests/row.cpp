#include "tests/digests/row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/hash.h"
#include "ir/canonical.h"
#include "tests/digests/lowered.h"
#include "tests/digests/steps.h"

namespace fettle::digests {
namespace {

constexpr size_t kDigits = 12, kFirstDigits = 4;
constexpr const char* kRefused = "----";

std::string digits(const std::string& bytes, size_t n = kDigits) { return digest_bytes(bytes).hex().substr(0, n); }

}  // namespace

Row make_row(const PointMaker& maker, const std::string& subject, const Target& target, const std::string& target_name,
             int64_t points, bool quick) {
  Row row{.space = maker.space, .target = target_name, .subject = subject};
  row.points = maker.points > 0 ? std::min(points, maker.points) : points;
  row.lowered = kRefused;
  std::string programs, steps;
  for (int64_t point = 0; point < (quick ? std::min(row.points, kFirst) : row.points); ++point) {
    const auto made = maker.make(static_cast<uint64_t>(point));
    const std::string canonical = made ? canonical_bytes(made->func()) : kRefused;
    if (point < kFirst) row.first.push_back(made ? digits(canonical, kFirstDigits) : kRefused);
    if (point < kFirst && made && row.lowered == kRefused) row.lowered = digits(lowered(*made, target).canonical);
    if (quick) continue;
    row.refused += made ? 0 : 1;
    programs += digest_bytes(canonical).hex();
    steps += made ? steps_text(made->trace()) : kRefused;
  }
  if (quick) return row;
  row.programs = digits(programs);
  row.steps = digits(steps);
  return row;
}

std::string to_line(const Row& row) {
  const std::string first = fmt::format("{}", fmt::join(row.first, "."));
  return fmt::format("{:<6} {:<24} {:>3} {:>3} {:<14} {:<12} {} {} {}", row.target, row.space, row.points, row.refused,
                     first, row.lowered, row.programs, row.steps, row.subject);
}

std::optional<Row> parse_row(const std::string& line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  Row row;
  std::istringstream in(line);
  std::string first;
  in >> row.target >> row.space >> row.points >> row.refused >> first >> row.lowered >> row.programs >> row.steps;
  std::getline(in >> std::ws, row.subject);
  if (!in) return std::nullopt;
  for (std::istringstream parts(first); std::getline(parts, first, '.');) row.first.push_back(first);
  return row;
}

std::vector<std::string> differences(const Row& recorded, const Row& made) {
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min(recorded.first.size(), made.first.size()); ++i)
    if (recorded.first[i] != made.first[i])
      result.push_back(fmt::format("point {} is {}", i,
                                   made.first[i] == kRefused       ? "refused now"
                                   : recorded.first[i] == kRefused ? "legal now"
                                                                   : "another program"));
  const bool first_alike = result.empty();
  if (recorded.points != made.points)
    result.push_back(fmt::format("{} points were recorded, {} are made", recorded.points, made.points));
  if (!made.programs.empty()) {
    if (recorded.refused != made.refused)
      result.push_back(fmt::format("{} points are refused, not {}", made.refused, recorded.refused));
    if (recorded.programs != made.programs && first_alike)
      result.push_back(fmt::format("a point from {} on is another program", kFirst));
    if (recorded.steps != made.steps && recorded.programs == made.programs)
      result.emplace_back("other steps lead to the same programs");
  }
  if (recorded.lowered != made.lowered && first_alike) result.emplace_back("the same program lowers to other code");
  return result;
}

}  // namespace fettle::digests
