#pragma once
// Threads of rt. For rt's own sources.

#include <pthread.h>

namespace fettle::rt {

/// Starts a thread that takes no signals, on a stack of 8 MiB. False where the system refuses.
bool start_thread(pthread_t* thread, void* (*main)(void*), void* argument);

}  // namespace fettle::rt
