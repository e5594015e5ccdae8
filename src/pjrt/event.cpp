#include "pjrt/event.h"

#include "pjrt/entry.h"

namespace fettle::pjrt {
namespace {

PJRT_Error* error_of(const PJRT_Event& event) {
  return event.code == PJRT_Error_Code_OK ? nullptr : make_error(event.code, event.message);
}

PJRT_Error* destroy(PJRT_Event_Destroy_Args& args) {
  release_event(args.event);
  return nullptr;
}

PJRT_Error* is_ready(PJRT_Event_IsReady_Args& args) {
  args.is_ready = args.event->is_ready;
  return nullptr;
}

PJRT_Error* error(PJRT_Event_Error_Args& args) {
  if (!args.event->is_ready)
    return make_error(PJRT_Error_Code_FAILED_PRECONDITION, "PJRT_Event_Error: the event is not ready yet");
  return error_of(*args.event);
}

PJRT_Error* await(PJRT_Event_Await_Args& args) {
  PJRT_Event& event = *args.event;
  if (!event.is_ready) {
    std::unique_lock lock(event.mutex);
    event.changed.wait(lock, [&] { return event.is_ready.load(); });
  }
  return error_of(event);
}

PJRT_Error* on_ready(PJRT_Event_OnReady_Args& args) {
  PJRT_Event& event = *args.event;
  if (!event.is_ready) {
    const std::lock_guard lock(event.mutex);
    if (!event.is_ready) {
      event.waiting.emplace_back(args.callback, args.user_arg);
      return nullptr;
    }
  }
  args.callback(error_of(event), args.user_arg);
  return nullptr;
}

PJRT_Error* create(PJRT_Event_Create_Args& args) {
  args.event = make_event(1);
  return nullptr;
}

PJRT_Error* set(PJRT_Event_Set_Args& args) {
  if (args.event->is_ready)
    return make_error(PJRT_Error_Code_FAILED_PRECONDITION, "PJRT_Event_Set: the event happened before");
  set_event(*args.event, args.error_code, std::string(args.error_message, args.error_message_size));
  return nullptr;
}

}  // namespace

PJRT_Event* ready_event() {
  static PJRT_Event* const event = [] {
    auto* made = new PJRT_Event;
    made->is_ready = true;
    return made;
  }();
  return event;
}

PJRT_Event* make_event(int32_t references) {
  auto* event = new PJRT_Event;
  event->references = references;
  return event;
}

void set_event(PJRT_Event& event, PJRT_Error_Code code, std::string message) {
  std::vector<std::pair<PJRT_Event_OnReadyCallback, void*>> waiting;
  {
    const std::lock_guard lock(event.mutex);
    event.code = code;
    event.message = std::move(message);
    event.is_ready = true;
    waiting.swap(event.waiting);
    event.changed.notify_all();
  }
  for (const auto& [callback, user] : waiting) callback(error_of(event), user);
}

void release_event(PJRT_Event* event) {
  if (event == nullptr || event == ready_event()) return;
  if (event->references.fetch_sub(1) == 1) delete event;
}

void add_events(PJRT_Api& api) {
  FETTLE_PJRT_ENTRY(api, PJRT_Event_Destroy, destroy);
  FETTLE_PJRT_ENTRY(api, PJRT_Event_IsReady, is_ready);
  FETTLE_PJRT_ENTRY(api, PJRT_Event_Error, error);
  FETTLE_PJRT_ENTRY(api, PJRT_Event_Await, await);
  FETTLE_PJRT_ENTRY(api, PJRT_Event_OnReady, on_ready);
  FETTLE_PJRT_ENTRY(api, PJRT_Event_Create, create);
  FETTLE_PJRT_ENTRY(api, PJRT_Event_Set, set);
}

}  // namespace fettle::pjrt
