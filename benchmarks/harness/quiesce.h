#pragma once

namespace fettle::bench {

/// Whether any thread of this process other than the caller is running or ready to run.
bool other_threads_busy();

/// Sleeps until no other thread of this process runs, so that a pool that still spins after its last piece of work does
/// not disturb what is timed next. Pools may then keep their own way of waiting (spinning makes them faster), and the
/// next one still has the machine to itself. Returns false if some thread was still busy after timeout_ms.
bool quiesce(double timeout_ms = 200);

}  // namespace fettle::bench
