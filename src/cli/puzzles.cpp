#include "cli/puzzles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "puzzle_pages.h"  // generated: kPuzzlePages, {name of the file, its text}

namespace fettle::cli {
namespace {

/// What lies between two texts.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t from = text.find(begin);
  FETTLE_CHECK(from != std::string_view::npos);
  text.remove_prefix(from + begin.size());
  const size_t to = text.find(end);
  FETTLE_CHECK(to != std::string_view::npos);
  return text.substr(0, to);
}

// Without marks that a reader of the page does not see.
std::string without_comments(std::string_view page) {
  std::string text;
  while (!page.empty()) {
    const size_t end = std::min(page.find('\n'), page.size() - 1);
    const std::string_view line = page.substr(0, end + 1);
    if (!line.starts_with("<!--")) text += line;
    page.remove_prefix(end + 1);
  }
  return text;
}

// "03_register_tile", and the page.
Puzzle read_puzzle(std::string_view file, std::string_view page) {
  Puzzle puzzle;
  puzzle.number = std::atoi(std::string(file.substr(0, 2)).c_str());
  puzzle.name = file.substr(3);
  puzzle.title = between(page, ": ", "\n");
  puzzle.program = between(page, "<!-- program -->\n```\n", "```");
  puzzle.bar = std::atof(std::string(between(page, "<!-- bar: ", " -->")).c_str());
  puzzle.text = without_comments(page);
  return puzzle;
}

}  // namespace

const std::vector<Puzzle>& puzzles() {
  static const std::vector<Puzzle> all = [] {
    std::vector<Puzzle> made;
    for (const auto& [file, page] : kPuzzlePages) made.push_back(read_puzzle(file, page));
    return made;
  }();
  return all;
}

Result<const Puzzle*> find_puzzle(const std::string& given) {
  for (const Puzzle& puzzle : puzzles())
    if (given == puzzle.name || given == std::to_string(puzzle.number)) return &puzzle;
  return fail(ErrorCode::E709, fmt::format("there is no puzzle '{}': they are 1 to {}", given, puzzles().size()),
              "PUZZLE");
}

}  // namespace fettle::cli
