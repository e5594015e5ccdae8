#pragma once
// Row: what is recorded of one space of one workload on one target.

#include <optional>
#include <string>
#include <vector>

#include "tests/digests/spaces.h"

namespace fettle::digests {

/// The first points of each row stand in it one by one: they alone are made for a quick check. Of the first of these
/// that is legal the lowered code is recorded.
inline constexpr int64_t kFirst = 3;

struct Row {
  std::string space, target, subject;
  int64_t points = 0;
  int64_t refused = 0;             // of these
  std::vector<std::string> first;  // programs of the first points; "----" where refused
  std::string lowered;
  std::string programs;  // of all points
  std::string steps;     // of all points, as steps_text() has them

  /// Whether its task is one of a model's, of which fewer points are made.
  bool of_model() const { return subject.find(": ") != std::string::npos; }
  /// What tells it from others.
  std::string key() const { return space + " | " + target + " | " + subject; }
};

/// `points`: how many are made where the space has as many. Quick: the first alone, and what is of all points is empty.
Row make_row(const PointMaker& maker, const std::string& subject, const Target& target, const std::string& target_name,
             int64_t points, bool quick);

/// One line of a table, and back; nothing where a line is none.
std::string to_line(const Row& row);
std::optional<Row> parse_row(const std::string& line);

/// What `made` has otherwise than `recorded`, one sentence each. A quick row is compared in what it has.
std::vector<std::string> differences(const Row& recorded, const Row& made);

}  // namespace fettle::digests
