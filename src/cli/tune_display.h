#pragma once
// What people see while a model is tuned: a live table on a terminal, plain lines in a pipe.

#include <chrono>
#include <string>

#include "tune/tuner.h"

namespace fettle::cli {

class TuneDisplay {
 public:
  /// live: standard error is a terminal, and the table is drawn over itself, as wide as the terminal is at the moment.
  explicit TuneDisplay(bool live) : live_(live) {}

  void show(const TuneProgress& progress);
  void say(const std::string& line);
  /// Leaves the last table as it is.
  void finish();

 private:
  void erase();

  bool live_;
  std::string drawn_;  // the table on the screen
  std::chrono::steady_clock::time_point last_{};
  TuneProgress latest_;
};

/// The table: tasks by their share of the model's time, at most `rows` of them, and the progress below. No line is
/// longer than `columns`: where that is little, the names get less room, then columns are left out.
std::string progress_table(const TuneProgress& progress, size_t rows, size_t columns);
/// One line: trials, estimated latency, time left.
std::string progress_line(const TuneProgress& progress);
/// Of a terminal with so many columns, how many lines the text takes, those wrapped counted as what they are.
int lines_on_screen(const std::string& text, size_t columns);

}  // namespace fettle::cli
