#pragma once
// What people see while a model is tuned: a live table on a terminal, plain lines in a pipe.

#include <chrono>
#include <string>

#include "tune/tuner.h"

namespace fettle::cli {

class TuneDisplay {
 public:
  /// live: standard error is a terminal, and the table is drawn over itself.
  explicit TuneDisplay(bool live) : live_(live) {}

  void show(const TuneProgress& progress);
  void say(const std::string& line);
  /// Leaves the last table as it is.
  void finish();

 private:
  void erase();

  bool live_;
  int lines_ = 0;  // of the table on the screen
  std::chrono::steady_clock::time_point last_{};
  TuneProgress latest_;
};

/// The table: tasks by their share of the model's time, at most `rows` of them.
std::string progress_table(const TuneProgress& progress, size_t rows);
/// One line: trials, estimated latency, time left.
std::string progress_line(const TuneProgress& progress);

}  // namespace fettle::cli
