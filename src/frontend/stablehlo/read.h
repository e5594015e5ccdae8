#pragma once
// StableHLO programs from text, and from portable bytecode.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "frontend/stablehlo/module.h"
#include "graph/limits.h"

namespace fettle::stablehlo {

/// Whether the bytes begin as MLIR's bytecode does.
bool is_bytecode(std::span<const std::byte> bytes);

/// Of either kind.
/// E602 not MLIR, damaged, or of a version that is not read: names the operator, the file's version and Fettle's own ·
/// E608 a limit. label: the place that errors name, with line and column where it is text.
Result<Module> read_module(std::span<const std::byte> bytes, const std::string& label, const Limits& limits = {});

/// Generic and pretty forms of builtin, func, stablehlo, chlo and check.
Result<Module> parse_text(std::string_view text, const std::string& label, const Limits& limits = {});
/// Portable artifacts: VHLO from version 0.9 on.
Result<Module> parse_bytecode(std::span<const std::byte> bytes, const std::string& label, const Limits& limits = {});

/// The module in MLIR's generic form: what parse_text reads again.
std::string to_text(const Module& module);

}  // namespace fettle::stablehlo
