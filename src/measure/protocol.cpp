#include "measure/protocol.h"
#include "measure/json.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr size_t kHeaderBytes = 8;
constexpr uint32_t kMagic = 0x4c545446;  // "FTTL"

// True when ready; false when late. Errors count as ready: the call that follows reports them.
bool wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    int timeout_ms = -1;
    if (deadline) {
      const double left = std::chrono::duration<double, std::milli>(*deadline - Clock::now()).count();
      timeout_ms = static_cast<int>(std::clamp(left + 1, 0.0, 1e8));
    }
    pollfd one{fd, events, 0};
    const int ready = ::poll(&one, 1, timeout_ms);
    if (ready > 0) return true;
    if (ready < 0 && errno == EINTR) continue;
    return false;
  }
}

uint32_t word_at(const std::string& bytes, size_t at) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + at, 4);
  return word;
}

}  // namespace

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Deadline in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Channel::Channel(Channel&& other) noexcept : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
    received_ = std::move(other.received_);
  }
  return *this;
}

Channel::~Channel() { close(); }

void Channel::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  received_.clear();
}

Result<> Channel::send(std::string_view message, Deadline deadline) {
  if (fd_ < 0) return fail(ErrorCode::E406);
  if (message.size() > kMaxMessageBytes) return fail(ErrorCode::E406, "a message is too large");
  const uint32_t header[2] = {kMagic, static_cast<uint32_t>(message.size())};
  std::string bytes(reinterpret_cast<const char*>(header), sizeof header);
  bytes += message;
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd_, POLLOUT, deadline)) return fail(ErrorCode::E406, "late");
    } else if (errno != EINTR) {
      return fail(ErrorCode::E406);
    }
  }
  return {};
}

Result<> Channel::fill(size_t bytes, Deadline deadline) {
  while (received_.size() < bytes) {
    if (!wait_for(fd_, POLLIN, deadline)) return fail(ErrorCode::E406, "late");
    char chunk[65536];
    const ssize_t n = ::recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n == 0) return fail(ErrorCode::E406);
    if (n > 0)
      received_.append(chunk, static_cast<size_t>(n));
    else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
      return fail(ErrorCode::E406);
  }
  return {};
}

Result<std::string> Channel::receive(Deadline deadline) {
  if (fd_ < 0) return fail(ErrorCode::E406);
  FETTLE_TRY_VOID(fill(kHeaderBytes, deadline));
  const uint32_t size = word_at(received_, 4);
  if (word_at(received_, 0) != kMagic || size > kMaxMessageBytes)
    return fail(ErrorCode::E406, "it sent what is no message");
  FETTLE_TRY_VOID(fill(kHeaderBytes + size, deadline));
  std::string message = received_.substr(kHeaderBytes, size);
  received_.erase(0, kHeaderBytes + size);
  return message;
}

std::string target_to_json(const Target& target) { return Json(target).dump(); }

Result<Target> target_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  // The JSON library reports what does not fit by throwing: caught here, where it is expected.
  try {
    return json.get<Target>();
  } catch (const Json::exception& error) {
    return fail(ErrorCode::E406, fmt::format("no description of a target: {}", error.what()));
  }
}

}  // namespace fettle
