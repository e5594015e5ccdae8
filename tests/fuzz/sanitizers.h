#pragma once
// What the sanitizers of a build with FETTLE_SANITIZE are to do. They report on the error stream.

namespace fettle::fuzz {

/// Whether this process has lost memory. False where nothing looks for that.
bool has_leaks();

}  // namespace fettle::fuzz
