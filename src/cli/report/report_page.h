#pragma once
// A report of a tuning run as one HTML file that opens without a network.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "report/comparison.h"

namespace fettle::cli {

struct ReportContent {
  RunReport run;
  std::optional<MachinePeaks> peaks;  // of the run's machine
  std::optional<RunReport> before;    // another run, to compare with
  std::string name = "this run", before_name = "the other";
  bool is_compiled = false;  // both are of compiled models, whose kernels were timed
};

/// What the page is drawn from.
nlohmann::json report_json(const ReportContent& content);

/// The page: template, style, script and data, all of them in it. Whatever names hold is shown as it is.
std::string report_page(const ReportContent& content);

/// Writes it, whole or not at all. E702.
Result<> write_report_page(const ReportContent& content, const std::filesystem::path& out);

/// JSON as the text of a <script> element: "</script>" → "\u003c/script\u003e".
std::string json_in_script(const nlohmann::json& json);

}  // namespace fettle::cli
