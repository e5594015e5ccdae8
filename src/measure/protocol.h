#pragma once
// What a tuner and its workers say to each other: messages of JSON, each behind its length, over a socket.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "target/target.h"

namespace fettle {

/// Raised with every change of a message.
inline constexpr int kProtocolVersion = 6;
inline constexpr uint32_t kMaxMessageBytes = 64u << 20;

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // none: for ever
Deadline in_seconds(double seconds);
double seconds_since(std::chrono::steady_clock::time_point start);

/// One end of a stream socket; owns it.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int fd) : fd_(fd) {}
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  int fd() const { return fd_; }
  void close();

  /// E406 where the other side has gone, or does not take it in time.
  Result<> send(std::string_view message, Deadline deadline = std::nullopt);
  /// The next whole message. E406: the other side has gone (the message is empty then), it is late ("late"), or it sent
  /// what is no message.
  Result<std::string> receive(Deadline deadline = std::nullopt);

 private:
  Result<> fill(size_t bytes, Deadline deadline);
  int fd_ = -1;
  std::string received_;
};

/// Target ↔ JSON text. E406 where a field is missing or mistyped.
std::string target_to_json(const Target& target);
Result<Target> target_from_json(std::string_view json);

}  // namespace fettle
