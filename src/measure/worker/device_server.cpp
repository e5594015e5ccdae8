#include "measure/worker/device_server.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "measure/worker/candidate.h"
#include "rt/device.h"

namespace fettle {
namespace {

using Json = nlohmann::json;
constexpr int64_t kPieceBytes = 16 << 20;
constexpr double kShortSeconds = 1e-4;
constexpr int64_t kShortCalls = 16;

/// Code on the device. Each has a queue of its own, which keeps what is loaded apart: images may come to lie where
/// others were.
struct Program {
  LoadedImage image;
  DeviceStream stream;
  std::vector<void*> buffers;
};

class Server {
 public:
  Server(const DeviceDef& device, Channel& channel) : device_(device), channel_(channel) {}

  /// E406: the other side has gone.
  Result<> answer(const std::string& text) {
    const Json message = Json::parse(text, nullptr, false);
    why_.clear();
    int32_t status = FETTLE_OK;
    Timing timing;
    const auto done = run(message, timing, status);
    if (!done && done.error().code == ErrorCode::E406) return fail(done.error());
    if (!done) {
      status = device_status(done.error());
      why_ = done.error().message;
    }
    FETTLE_TRY_VOID(channel_.send(Json{{"status", status}, {"why", why_}, {"timing", timing}}.dump()));
    if (status != FETTLE_OK) return {};
    for (const uint64_t number : message.at("fetch").get<std::vector<uint64_t>>()) {
      const Slot& slot = slots_.at(number);
      std::vector<char> content(static_cast<size_t>(slot.bytes));
      FETTLE_TRY_VOID(device_.copy_from(content.data(), slot.memory.get(), slot.bytes));
      if (message.at("misbehave") == static_cast<int>(Misbehaviour::kCorrupt))
        std::memset(content.data(), 0x3f, std::min<size_t>(4, content.size()));
      FETTLE_TRY_VOID(send_bytes(channel_, content.data(), slot.bytes, std::nullopt));
    }
    return {};
  }

 private:
  struct Slot {
    std::shared_ptr<std::byte> memory;
    int64_t bytes = 0;
  };

  /// The device's errors are one code; what they say of memory is told apart by their words.
  static int32_t device_status(const Diagnostic& why) {
    for (const char* words : {"no memory", "memory ran out", "OUT_OF_MEMORY"})
      if (why.message.find(words) != std::string::npos) return FETTLE_OUT_OF_MEMORY;
    return FETTLE_DEVICE_FAILED;
  }

  Result<> run(const Json& message, Timing& timing, int32_t& status) {
    ints_ = message.at("ints").get<std::vector<int64_t>>();
    FETTLE_TRY(std::vector<CodePart> code, receive_code(message.at("candidate")));
    std::vector<CodePart> other;
    if (message.contains("beside")) {
      FETTLE_TRY(other, receive_code(message.at("beside")));
    }
    FETTLE_TRY_VOID(place_slots(message.at("slots")));
    if (!other.empty()) {
      beside_.reset();
      FETTLE_TRY(beside_, load(message.at("beside"), other));
      FETTLE_TRY_VOID(device_.launch(beside_->stream, beside_->image, beside_->buffers, ints_));
    }
    if (message.contains("beside")) beside_->buffers = buffers_of(message.at("beside"));
    FETTLE_TRY(Program candidate, load(message.at("candidate"), code));
    FETTLE_TRY_VOID(misbehave(static_cast<Misbehaviour>(message.at("misbehave").get<int>())));
    FETTLE_TRY_VOID(begin(candidate));
    FETTLE_TRY_VOID(channel_.send(""));
    if (!message.contains("time")) return device_.launch(candidate.stream, candidate.image, candidate.buffers, ints_);
    const auto options = message.at("time").get<TimingOptions>();
    const TimeCalls own = calls_of(candidate, options.flush_bytes);
    timing = message.contains("beside") ? time_beside(own, calls_of(*beside_, options.flush_bytes), options)
                                        : time_call(own, options);
    status = timing.status;
    return {};
  }

  Result<std::vector<CodePart>> receive_code(const Json& program) {
    std::vector<CodePart> code;
    for (const Json& part : program.at("parts")) {
      std::vector<uint8_t> bytes(part.at("bytes").get<size_t>());
      FETTLE_TRY_VOID(receive_bytes(channel_, bytes.data(), static_cast<int64_t>(bytes.size()), std::nullopt));
      code.push_back({part.at("name"), std::make_shared<const std::vector<uint8_t>>(std::move(bytes))});
    }
    return code;
  }

  /// What is no longer used goes first.
  Result<> place_slots(const Json& wanted) {
    std::map<uint64_t, Slot> kept;
    for (const Json& one : wanted)
      if (const auto found = slots_.find(one.at("number")); found != slots_.end()) kept.insert(*found);
    slots_ = std::move(kept);
    std::optional<Diagnostic> failed;
    for (const Json& one : wanted) {
      Slot& slot = slots_[one.at("number")];
      slot.bytes = one.at("bytes");
      if (!slot.memory && !failed) {
        auto made = device_.allocate(slot.bytes);
        if (made)
          slot.memory = std::move(*made);
        else
          failed = made.error();
      }
      if (!one.at("content").get<bool>()) continue;
      std::vector<char> content(static_cast<size_t>(slot.bytes));
      FETTLE_TRY_VOID(receive_bytes(channel_, content.data(), slot.bytes, std::nullopt));
      if (!failed) FETTLE_TRY_VOID(device_.copy_to(slot.memory.get(), content.data(), slot.bytes));
    }
    if (failed) return fail(std::move(*failed));
    return {};
  }

  std::vector<void*> buffers_of(const Json& program) {
    std::vector<void*> buffers;
    for (const uint64_t number : program.at("buffers").get<std::vector<uint64_t>>())
      buffers.push_back(slots_.at(number).memory.get());
    return buffers;
  }

  Result<Program> load(const Json& program, const std::vector<CodePart>& code) {
    Program made;
    FETTLE_TRY(made.image, load_image(code, program.at("entry")));
    FETTLE_TRY(made.stream, device_.open_stream(1));
    made.buffers = buffers_of(program);
    return made;
  }

  /// Launches without waiting: the driver loads the code first, and may have to compile it.
  Result<> begin(const Program& program) {
    FettleQueue& queue = *program.stream->queue;
    if (queue.enter() == FETTLE_OK &&
        program.image.function(program.stream.get(), const_cast<void**>(program.buffers.data()), ints_.data()) ==
            FETTLE_OK)
      return {};
    return fail(ErrorCode::E710, queue.why.chars);
  }

  /// A short call by itself would be the host's time for a launch, so several are timed instead.
  TimeCalls calls_of(const Program& program, int64_t flush_bytes) {
    return [this, &program, flush_bytes](int64_t calls) {
      const auto time = [&](int64_t n) {
        return device_.time(program.stream, program.image, program.buffers, ints_, {n, flush_bytes});
      };
      auto seconds = time(calls);
      if (calls == 1 && flush_bytes == 0 && seconds && *seconds < kShortSeconds) {
        seconds = time(kShortCalls);
        if (seconds) *seconds /= static_cast<double>(kShortCalls);
      }
      if (seconds) return CallTimes{*seconds, FETTLE_OK};
      why_ = seconds.error().message;
      return CallTimes{0, device_status(seconds.error())};
    };
  }

  static Result<> misbehave(Misbehaviour what) {
    switch (what) {
      case Misbehaviour::kCrash:
        *static_cast<volatile int32_t*>(nullptr) = 1;
        break;
      case Misbehaviour::kHang:
        for (;;) ::pause();
      case Misbehaviour::kExit:
        ::_exit(0);
      case Misbehaviour::kAllocate:
        return fail(ErrorCode::E710, "the device has no memory for it");
      case Misbehaviour::kFail:
        return fail(ErrorCode::E710, "a kernel failed");
      default:
        break;
    }
    return {};
  }

  const DeviceDef& device_;
  Channel& channel_;
  std::map<uint64_t, Slot> slots_;
  std::optional<Program> beside_;
  std::vector<int64_t> ints_;
  std::string why_;
};

}  // namespace

Result<> send_bytes(Channel& channel, const void* data, int64_t bytes, Deadline deadline) {
  for (int64_t at = 0; at < bytes; at += kPieceBytes)
    FETTLE_TRY_VOID(channel.send(
        {static_cast<const char*>(data) + at, static_cast<size_t>(std::min(kPieceBytes, bytes - at))}, deadline));
  return {};
}

Result<> receive_bytes(Channel& channel, void* data, int64_t bytes, Deadline deadline) {
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    FETTLE_TRY(const std::string piece, channel.receive(deadline));
    if (static_cast<int64_t>(piece.size()) != std::min(kPieceBytes, bytes - at))
      return fail(ErrorCode::E406, "a piece of another size");
    std::memcpy(static_cast<char*>(data) + at, piece.data(), piece.size());
  }
  return {};
}

void serve_device(const DeviceDef& device, Channel& channel) {
  const auto opened = device.open_stream(1);
  if (!channel.send(opened ? "" : opened.error().to_string()) || !opened) return;
  Server server(device, channel);
  for (;;) {
    const auto message = channel.receive();
    if (!message || !server.answer(*message)) return;
  }
}

}  // namespace fettle
