#pragma once
// Programs and traces that a user has written into files.

#include <string>

#include "base/result.h"
#include "schedule/trace/trace.h"

namespace fettle::cli {

/// Errors: E701, also beyond 64 MB.
Result<std::string> read_text(const std::string& path);

/// The diagnostic's place is in this file.
Diagnostic in_file(Diagnostic diagnostic, const std::string& file);

/// A trace, as text or as JSON. Errors: those of parse_trace and trace_from_json, in the file.
Result<ParsedTrace> parse_steps(const std::string& text, const std::string& file);

}  // namespace fettle::cli
