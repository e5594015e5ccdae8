#include "remote/credentials.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace fettle {
namespace {

constexpr size_t kMinTokenBytes = 16, kMaxTokenBytes = 256;
constexpr size_t kMaxFileBytes = 1 << 20;

// With its mode; pipes and devices are not read.
Result<std::string> read_small(const std::filesystem::path& file, mode_t* mode = nullptr) {
  const auto cannot = [&](const char* why) { return fail(ErrorCode::E701, why, file.string()); };
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot(std::strerror(errno));
  struct stat status{};
  std::string text;
  const bool known = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (known) {
    char chunk[4096];
    ssize_t n = 0;
    while (text.size() <= kMaxFileBytes && (n = ::read(fd, chunk, sizeof chunk)) > 0)
      text.append(chunk, static_cast<size_t>(n));
  }
  ::close(fd);
  if (!known) return cannot("it is no file");
  if (text.size() > kMaxFileBytes) return cannot("it has more than 1 MiB");
  if (mode) *mode = status.st_mode;
  return text;
}

Result<std::string> read_pem(const std::filesystem::path& file) {
  if (file.empty()) return std::string();
  FETTLE_TRY(std::string text, read_small(file));
  if (text.find("-----BEGIN ") == std::string::npos) return fail(ErrorCode::E802, "it holds no PEM", file.string());
  return text;
}

// Reads all that is given, and says what is missing.
Result<Credentials> read_all(const Address& address, const CredentialFiles& files, bool server) {
  Credentials c;
  if (!files.token.empty()) {
    FETTLE_TRY(c.token, read_token(files.token));
  }
  FETTLE_TRY(c.cert, read_pem(files.tls_cert));
  FETTLE_TRY(c.key, read_pem(files.tls_key));
  FETTLE_TRY(c.ca, read_pem(files.tls_ca));
  if (c.cert.empty() != c.key.empty())
    return fail(ErrorCode::E802, "a certificate and its key belong together",
                c.cert.empty() ? "--tls-cert" : "--tls-key");
  c.tls = server ? !c.cert.empty() : !c.ca.empty();
  if (!c.tls && !(server ? c.ca : c.cert).empty())
    return fail(ErrorCode::E802, "without it there is no TLS", server ? "--tls-cert" : "--tls-ca");
  if (address.is_loopback() || (c.tls && !c.token.empty())) return c;
  std::string missing;
  if (c.token.empty()) missing += " --token-file";
  if (!c.tls) missing += server ? " --tls-cert --tls-key" : " --tls-ca";
  return fail(ErrorCode::E802, fmt::format("beyond this machine, as with {}, a shared token and TLS are needed; give{}",
                                           address.to_string(), missing));
}

}  // namespace

bool Address::is_loopback() const {
  in_addr v4{};
  in6_addr v6{};
  if (host == "localhost") return true;
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

std::string Address::to_string() const {
  if (host == "localhost") return fmt::format("127.0.0.1:{}", port);
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  const auto wrong = [&] { return fail(ErrorCode::E709, fmt::format("'{}' is not of the form HOST:PORT", text)); };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  in6_addr v6{};
  Address address{std::string(host)};
  if (bracketed != (host.find(':') != std::string_view::npos)) return wrong();
  if (bracketed && ::inet_pton(AF_INET6, address.host.c_str(), &v6) != 1) return wrong();
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
           c == ':';
  };
  if (host.empty() || host.size() > 253 || !std::all_of(host.begin(), host.end(), plain)) return wrong();
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (error != std::errc() || end != digits.data() + digits.size() || address.port < 0 || address.port > 65535)
    return wrong();
  return address;
}

Result<Credentials> server_credentials(const Address& address, const CredentialFiles& files) {
  return read_all(address, files, true);
}

Result<Credentials> client_credentials(const Address& address, const CredentialFiles& files) {
  return read_all(address, files, false);
}

Result<std::string> read_token(const std::filesystem::path& file) {
  const auto refused = [&](const std::string& why) { return fail(ErrorCode::E802, why, file.string()); };
  mode_t mode = 0;
  FETTLE_TRY(std::string token, read_small(file, &mode));
  if ((mode & 077) != 0) return refused("others can get at the token; chmod 600 makes it the owner's alone");
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes)
    return refused(fmt::format("a token has {} to {} characters", kMinTokenBytes, kMaxTokenBytes));
  if (!std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return refused("a token is one line of visible ASCII characters");
  return token;
}

bool same_secret(std::string_view a, std::string_view b) {
  volatile unsigned char different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    different = static_cast<unsigned char>(different | (a[i] ^ (b.empty() ? '\0' : b[i % b.size()])));
  return different == 0;
}

}  // namespace fettle
