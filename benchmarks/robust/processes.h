#pragma once
// Who is alive.

#include <sys/types.h>

#include <string>
#include <vector>

namespace fettle::bench {

/// Processes that descend from `ancestor`, by /proc.
std::vector<pid_t> descendants(pid_t ancestor);
/// Its name, as far as the system keeps it; empty where it has gone.
std::string name_of(pid_t pid);
/// Memory that it holds for itself alone.
double private_mib(pid_t pid);
/// Takes in what orphans end here, until no process descends from this one. False: some still do after `seconds`; then
/// they are killed.
bool all_gone(double seconds);

}  // namespace fettle::bench
