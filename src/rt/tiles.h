#pragma once
// Intel's tile unit (AMX): permission to use it, and the state of a thread's tile registers.

#include "rt/abi.h"

namespace fettle::rt {

/// Asks the system to let this process use the tile unit, whose registers make every thread's state larger. False
/// where it refuses (an old system, a filter of system calls, too small a stack for signals) or is not Linux on x86-64.
/// It may be asked again and costs a system call.
bool permit_tiles();

}  // namespace fettle::rt
