#include "rt/thread.h"

#include <signal.h>

namespace fettle::rt {

bool start_thread(pthread_t* thread, void* (*main)(void*), void* argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, size_t{8} << 20);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(thread, &attributes, main, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return failed == 0;
}

}  // namespace fettle::rt
