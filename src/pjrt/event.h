#pragma once
// Events: what says that work is done.

#include <xla/pjrt/c/pjrt_c_api.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

/// The caller has one reference; whoever makes it happen may have another.
struct PJRT_Event {
  std::atomic<int32_t> references{1};
  std::atomic<bool> is_ready{false};
  std::mutex mutex;
  std::condition_variable changed;
  PJRT_Error_Code code = PJRT_Error_Code_OK;
  std::string message;
  std::vector<std::pair<PJRT_Event_OnReadyCallback, void*>> waiting;
};

namespace fettle::pjrt {

/// The event of what is done when a function returns. It costs nothing, and is one for all.
PJRT_Event* ready_event();

/// One that set_event makes happen, with `references` of them.
PJRT_Event* make_event(int32_t references);
/// Tells all who wait. Once an event.
void set_event(PJRT_Event& event, PJRT_Error_Code code = PJRT_Error_Code_OK, std::string message = {});
void release_event(PJRT_Event* event);

void add_events(PJRT_Api& api);

}  // namespace fettle::pjrt
