#include "remote/credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "codegen/test_util.h"

namespace fettle {
namespace {

class CredentialsTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const auto path = folder_.path / name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  CredentialFiles all() {
    const std::string pem = "-----BEGIN CERTIFICATE-----\n";
    return {file("token", "0123456789abcdef\n"), file("cert", pem), file("key", pem), file("ca", pem)};
  }
  testing::TempFolder folder_;
  const Address here_{"127.0.0.1", 9190}, away_{"10.0.0.7", 9190};
};

TEST(AddressTest, Forms) {
  for (const char* text : {"127.0.0.1:9190", "127.8.9.1:0", "[::1]:65535", "localhost:80"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_TRUE(address->is_loopback()) << text;
  }
  EXPECT_EQ(parse_address("localhost:80")->to_string(), "127.0.0.1:80");
  EXPECT_EQ(parse_address("[::1]:1")->to_string(), "[::1]:1");
  for (const char* text : {"0.0.0.0:9190", "[::]:1", "10.0.0.1:1", "localhost.example.org:1", "build-host:9190",
                           "127.1:1", "[::ffff:10.0.0.1]:5"})
    EXPECT_FALSE(parse_address(text)->is_loopback()) << text;
  for (const char* text : {"", ":", "host", "host:", ":9190", "host:65536", "host:-1", "host:1x", "::1:9190", "[::1]",
                           "[x]:1", "ho st:1", "unix:/tmp/x:1", "dns:///a:1", "[127.0.0.1]:1"})
    EXPECT_EQ(parse_address(text).error().code, ErrorCode::E709) << text;
}

TEST_F(CredentialsTest, LoopbackNeedsNothingAndAllElseATokenAndTls) {
  EXPECT_TRUE(server_credentials(here_, {}));
  EXPECT_TRUE(client_credentials(here_, {}));
  EXPECT_TRUE(server_credentials(away_, all()));
  EXPECT_TRUE(client_credentials(away_, all()));
  for (int missing = 0; missing < 3; ++missing) {
    CredentialFiles files = all();
    (missing == 0 ? files.token : missing == 1 ? files.tls_cert : files.tls_key).clear();
    const auto refused = server_credentials(away_, files);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::E802);
    EXPECT_NE(refused.error().to_string().find(missing == 0 ? "--token-file" : "--tls-"), std::string::npos);
  }
  CredentialFiles files = all();
  files.tls_cert.clear();
  files.tls_key.clear();
  EXPECT_TRUE(client_credentials(away_, files)) << "a caller needs no certificate, unless it is asked for one";
  files.tls_ca.clear();
  EXPECT_EQ(client_credentials(away_, files).error().code, ErrorCode::E802);
  EXPECT_EQ(server_credentials(away_, {}).error().code, ErrorCode::E802);
}

TEST_F(CredentialsTest, HalfOfTlsIsNone) {
  CredentialFiles files = all();
  files.tls_key.clear();
  EXPECT_EQ(server_credentials(here_, files).error().code, ErrorCode::E802);
  EXPECT_EQ(client_credentials(here_, files).error().code, ErrorCode::E802);
  EXPECT_EQ(server_credentials(here_, {.tls_ca = file("ca", "-----BEGIN ")}).error().code, ErrorCode::E802);
  EXPECT_EQ(server_credentials(here_, {.tls_cert = file("x", "no PEM"), .tls_key = file("y", "no PEM")}).error().code,
            ErrorCode::E802);
  EXPECT_EQ(server_credentials(here_, {.token = folder_.path / "none"}).error().code, ErrorCode::E701);
  EXPECT_EQ(server_credentials(here_, {.token = "/dev/zero"}).error().code, ErrorCode::E701);
}

TEST_F(CredentialsTest, Tokens) {
  EXPECT_EQ(*read_token(file("good", "0123456789abcdef\r\n")), "0123456789abcdef");
  for (const mode_t mode : {0640u, 0604u, 0666u})
    EXPECT_EQ(read_token(file("open", "0123456789abcdef", mode)).error().code, ErrorCode::E802);
  for (const std::string& text : {std::string(), std::string("short"), std::string(257, 'x'),
                                  std::string("two lines two\nlines two"), std::string("0123456789abcdef\0", 17)})
    EXPECT_EQ(read_token(file("bad", text)).error().code, ErrorCode::E802);
}

TEST(SameSecret, IsEquality) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_TRUE(same_secret("", ""));
  for (const auto& [a, b] :
       {std::pair("abc", "abd"), {"abc", "ab"}, {"ab", "abc"}, {"", "a"}, {"a", ""}, {"abab", "ab"}})
    EXPECT_FALSE(same_secret(a, b)) << a << " " << b;
}

}  // namespace
}  // namespace fettle
