#pragma once
// The other side of a DeviceProcess.
//
// It greets with an empty message, or says why the device does not open. Then it is asked again and again:
//   {"candidate": PROGRAM, "beside": PROGRAM or missing, "slots": [{"number": n, "bytes": n, "content": b}…],
//    "ints": [n…], "time": {…} or missing, "fetch": [number…], "misbehave": n}
//   PROGRAM: {"entry": name, "parts": [{"name": text, "bytes": n}…], "buffers": [number…]}
// Behind it come the parts' bytes, of `beside` where it is new, and the contents of slots. It answers with an empty
// message once the candidate is loaded and launched, then with {"status": n, "why": text, "timing": {…}}, and the bytes
// of the slots to be fetched.

#include <nlohmann/json.hpp>

#include "codegen/device_def.h"
#include "measure/json.h"
#include "measure/protocol.h"

namespace fettle {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Timing, median_s, min_s, half_width, samples, calls, raced_out, beside, pace, status)

/// Until the other end closes.
void serve_device(const DeviceDef& device, Channel& channel);

/// In messages of bounded size. E406.
Result<> send_bytes(Channel& channel, const void* data, int64_t bytes, Deadline deadline);
Result<> receive_bytes(Channel& channel, void* data, int64_t bytes, Deadline deadline);

}  // namespace fettle
