#include "measure/protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace fettle {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    a = Channel(ends[0]);
    b = Channel(ends[1]);
  }
  Channel a, b;
};

TEST(Protocol, MessagesKeepTheirBounds) {
  Pair pair;
  ASSERT_TRUE(pair.a.send("one"));
  ASSERT_TRUE(pair.a.send(""));
  ASSERT_TRUE(pair.a.send(std::string("three\0!", 7)));
  EXPECT_EQ(*pair.b.receive(), "one");
  EXPECT_EQ(*pair.b.receive(), "");
  EXPECT_EQ(*pair.b.receive(), std::string("three\0!", 7));
}

TEST(Protocol, LargeMessagesGoThrough) {
  Pair pair;
  const std::string large(8 << 20, 'x');
  std::thread sender([&] { EXPECT_TRUE(pair.a.send(large)); });
  EXPECT_EQ(pair.b.receive()->size(), large.size());
  sender.join();
  EXPECT_EQ(pair.a.send(std::string(kMaxMessageBytes + 1, 'x')).error().code, ErrorCode::E406);
}

TEST(Protocol, ItIsLateOrGone) {
  Pair pair;
  EXPECT_EQ(pair.b.receive(in_seconds(0.01)).error().message, "late");
  EXPECT_EQ(pair.b.send(std::string(16 << 20, 'x'), in_seconds(0.05)).error().message, "late");
  pair.a.close();
  const auto gone = pair.b.receive();
  EXPECT_EQ(gone.error().code, ErrorCode::E406);
  EXPECT_NE(gone.error().message, "late");
  EXPECT_FALSE(pair.b.send("x"));
}

TEST(Protocol, NoiseIsNoMessage) {
  for (const std::string& noise : {std::string("hello, I am no message"), std::string("FTTL\xff\xff\xff\xff", 8)}) {
    Pair pair;
    ASSERT_EQ(::write(pair.a.fd(), noise.data(), noise.size()), static_cast<ssize_t>(noise.size()));
    EXPECT_EQ(pair.b.receive().error().message, "it sent what is no message");
  }
}

TEST(Protocol, AMessageCutShort) {
  Pair pair;
  const char half[] = {'F', 'T', 'T', 'L', 10, 0, 0, 0, 'a'};
  ASSERT_EQ(::write(pair.a.fd(), half, sizeof half), static_cast<ssize_t>(sizeof half));
  pair.a.close();
  EXPECT_FALSE(pair.b.receive());
}

TEST(Protocol, TargetsArriveWhole) {
  const Target target = detect_host(3);
  const auto back = target_from_json(target_to_json(target));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->fingerprint(), target.fingerprint());
  EXPECT_EQ(back->feature_key(), target.feature_key());
  EXPECT_EQ(target_to_json(*back), target_to_json(target));
  EXPECT_EQ(target_from_json("{}").error().code, ErrorCode::E406);
  EXPECT_EQ(target_from_json("nonsense").error().code, ErrorCode::E406);
  EXPECT_EQ(target_from_json("{\"kind\": 5}").error().code, ErrorCode::E406);
}

}  // namespace
}  // namespace fettle
