#pragma once
// Who may talk to whom: addresses, the shared token, TLS certificates.
//
// On the loopback interface nothing is asked for. Anything else wants both a token and TLS, since whoever reaches a
// tracker can have code run on its devices.

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fettle {

struct Address {
  std::string host;  // without brackets
  int port = 0;

  /// 127.0.0.0/8, ::1 or localhost. Names are not looked up, so a name that leads to the loopback interface does not
  /// count.
  bool is_loopback() const;
  /// "127.0.0.1:9190", "[::1]:9190"; localhost is 127.0.0.1.
  std::string to_string() const;
};
/// "HOST:PORT", "[V6]:PORT"; port 0 to 65535. E709.
Result<Address> parse_address(std::string_view text);

struct CredentialFiles {
  std::filesystem::path token;
  std::filesystem::path tls_cert;  // this side's certificates, PEM
  std::filesystem::path tls_key;   // and key
  std::filesystem::path tls_ca;    // whom it trusts, PEM
};

struct Credentials {
  std::string token;          // empty: none
  std::string cert, key, ca;  // PEM
  bool tls = false;
};

/// What a server at `address` needs: beyond loopback a token, a certificate and its key; with an authority, it asks its
/// callers for certificates, too. Errors: E802 something is missing, or the token's file is open to others · E701.
Result<Credentials> server_credentials(const Address& address, const CredentialFiles& files);
/// What a caller of `address` needs: beyond loopback a token and an authority; a certificate and its key where the
/// server asks. Errors: as above.
Result<Credentials> client_credentials(const Address& address, const CredentialFiles& files);

/// A token is a line of 16 to 256 visible characters, in a file that only its owner can read or write. Errors: E802 ·
/// E701.
Result<std::string> read_token(const std::filesystem::path& file);

/// In a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace fettle
