#pragma once
// The `fettle` command.

namespace fettle::cli {

/// Parses the arguments, does what they say, reports. Returns the exit status: 0 done, 1 could not, 2 wrong usage.
int run(int argc, char** argv);

}  // namespace fettle::cli
