#pragma once
// The puzzles of docs/puzzles/: a program, and how fast a schedule has to make it.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle::cli {

struct Puzzle {
  int number = 0;
  std::string_view name;     // "register_tile"
  std::string_view title;    // "A tile in registers"
  std::string_view program;  // in the loop language
  double bar = 0;            // how many times the time of Fettle's own schedule is allowed
  std::string text;          // the page, for a terminal
};

/// In order.
const std::vector<Puzzle>& puzzles();

/// By its number, or by its name. E709.
Result<const Puzzle*> find_puzzle(const std::string& given);

}  // namespace fettle::cli
