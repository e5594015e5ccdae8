#include "harness/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/output_file.h"

namespace fettle::bench {
namespace {

/// Four significant digits, without an exponent where that stays short: 0.9876, 115.9, 4096, 0.00012.
std::string number(double value) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (magnitude < -5 || magnitude > 9) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, std::clamp(3 - magnitude, 0, 8));
}

}  // namespace

bool Bound::holds(double value) const { return kind == Kind::kAtLeast ? value >= limit : value <= limit; }

std::string Bound::text() const { return fmt::format("{} {:g}", kind == Kind::kAtLeast ? ">=" : "<=", limit); }

void Report::add(std::string what, double value, std::string unit, std::optional<Bound> bound) {
  rows_.push_back({std::move(what), value, std::move(unit), bound});
}

bool Report::all_hold() const {
  return std::all_of(rows_.begin(), rows_.end(),
                     [](const Row& row) { return !row.bound || row.bound->holds(row.value); });
}

std::string Report::table() const {
  std::size_t what = 4;
  std::size_t value = 5;
  std::size_t unit = 4;
  for (const Row& row : rows_) {
    what = std::max(what, row.what.size());
    value = std::max(value, number(row.value).size());
    unit = std::max(unit, row.unit.size());
  }
  std::string out = fmt::format("{:<{}}  {:>{}}  {:<{}}  bound\n", "what", what, "value", value, "unit", unit);
  for (const Row& row : rows_) {
    std::string line = fmt::format("{:<{}}  {:>{}}  {:<{}}", row.what, what, number(row.value), value, row.unit, unit);
    if (row.bound) line += fmt::format("  {:<8} {}", row.bound->text(), row.bound->holds(row.value) ? "ok" : "MISSED");
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Report::json() const {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    nlohmann::ordered_json entry;
    entry["what"] = row.what;
    entry["value"] = std::isfinite(row.value) ? nlohmann::ordered_json(row.value) : nlohmann::ordered_json(nullptr);
    entry["unit"] = row.unit;
    entry["bound"] = row.bound ? nlohmann::ordered_json(row.bound->text()) : nlohmann::ordered_json(nullptr);
    entry["holds"] = row.bound ? nlohmann::ordered_json(row.bound->holds(row.value)) : nlohmann::ordered_json(nullptr);
    list.push_back(std::move(entry));
  }
  return list.dump(1) + "\n";
}

Result<void> Report::write(const std::string& folder) const {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  return write_file(fs::path(folder) / (name_ + ".json"), json());
}

}  // namespace fettle::bench
