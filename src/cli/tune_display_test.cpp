#include "cli/tune_display.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace fettle::cli {
namespace {

TuneProgress some_progress() {
  TuneProgress progress;
  for (int i = 0; i < 20; ++i) {
    TuneProgress::Task task;
    task.label = "Conv_Add_HardSwish_and_what_follows 0123456" + std::to_string(i);
    task.weight = 3;
    task.trials = 1234 + i;
    task.default_s = 1.25e-3 * (i + 1);
    task.best_s = 0.75e-3 * (i + 1);
    task.share = 0.05;
    progress.tasks.push_back(task);
  }
  progress.current = 2;
  progress.trials = 12345;
  progress.failed = 12;
  progress.default_s = 0.1;
  progress.estimated_s = 0.08;
  progress.elapsed_s = 123;
  progress.left_s = 177;
  return progress;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(TuneDisplay, NoLineIsLongerThanTheTerminal) {
  for (size_t columns : {200, 100, 89, 80, 79, 60, 59, 40, 39, 20, 8, 1}) {
    const std::string table = progress_table(some_progress(), 6, columns);
    for (const std::string& line : lines_of(table)) EXPECT_LE(line.size(), columns) << line;
    EXPECT_EQ(lines_on_screen(table, columns), static_cast<int>(lines_of(table).size()));
  }
}

TEST(TuneDisplay, WhatMattersMostStays) {
  const auto has = [](size_t columns, const std::string& text) {
    return progress_table(some_progress(), 6, columns).find(text) != std::string::npos;
  };
  for (size_t columns : {100, 80, 60, 40}) {
    EXPECT_TRUE(has(columns, "best")) << columns;
    EXPECT_TRUE(has(columns, "share")) << columns;
    EXPECT_TRUE(has(columns, "and 14 more")) << columns;
    EXPECT_TRUE(has(columns, "177 s left")) << columns;
    EXPECT_TRUE(has(columns, "> Conv_Add")) << columns;
    EXPECT_EQ(has(columns, "     untuned"), columns >= 60) << columns;
    EXPECT_EQ(has(columns, " calls  trials"), columns >= 80) << columns;
  }
}

TEST(TuneDisplay, LinesThatANarrowerTerminalWrapsAreCounted) {
  EXPECT_EQ(lines_on_screen("", 40), 0);
  EXPECT_EQ(lines_on_screen("a\n\nb\n", 40), 3);
  EXPECT_EQ(lines_on_screen(std::string(41, 'x') + "\n", 40), 2);
  EXPECT_EQ(lines_on_screen(std::string(40, 'x') + "\n", 40), 1);
}

}  // namespace
}  // namespace fettle::cli
