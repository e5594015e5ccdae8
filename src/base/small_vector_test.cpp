#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/ref.h"

namespace fettle {
namespace {

using Strings = SmallVector<std::string, 2>;

TEST(SmallVector, GrowsAndShrinks) {
  Strings v;
  EXPECT_TRUE(v.empty());
  for (int i = 0; i < 9; ++i) v.push_back("a string too long to be in place, number " + std::to_string(i));
  ASSERT_EQ(v.size(), 9u);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(v[i].back(), static_cast<char>('0' + i));
  v.erase(v.begin() + 1);
  EXPECT_EQ(v[1].back(), '2');
  v.erase(v.begin(), v.begin() + 2);
  EXPECT_EQ(v.size(), 6u);
  EXPECT_EQ(v.front().back(), '3');
  EXPECT_EQ(erase_if(v, [](const std::string& s) { return s.back() % 2 == 0; }), 3u);
  EXPECT_EQ(v.back().back(), '7');
  v.shrink_to(1);
  v.pop_back();
  EXPECT_TRUE(v.empty());
}

TEST(SmallVector, CopiesAndMoves) {
  for (const int n : {0, 1, 2, 3, 8}) {
    Strings v;
    for (int i = 0; i < n; ++i) v.push_back(std::string(40, static_cast<char>('a' + i)));
    Strings copy = v, other = {"x"};
    EXPECT_EQ(copy, v);
    other = v;
    EXPECT_EQ(other, v);
    Strings moved = std::move(copy);
    EXPECT_EQ(moved, v);
    copy = std::move(moved);
    EXPECT_EQ(copy, v);
    std::swap(copy, other);
    EXPECT_EQ(copy, v);
    copy.push_back(copy.empty() ? "first" : copy.front());  // an element of its own
    EXPECT_EQ(copy.size(), v.size() + 1);
    EXPECT_EQ(copy.back(), copy.size() == 1 ? "first" : copy.front());
  }
}

struct Small : RefCounted {
  int64_t value = 0;
};

// Objects may end in another thread than made them, and threads leave nothing behind that later ones could not use.
TEST(Pool, BlocksGoFromThreadToThread) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Ref<Small>> made;
    std::thread([&] {
      for (int64_t i = 0; i < 2000; ++i) {
        made.push_back(make_ref<Small>());
        made.back()->value = i;
      }
    }).join();
    for (int64_t i = 0; i < 2000; ++i) ASSERT_EQ(made[static_cast<size_t>(i)]->value, i);
    std::thread([&] { made.clear(); }).join();
  }
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  const auto count = [&](int by) { return calls += by; };
  const FunctionRef<int(int)> f = count;
  EXPECT_EQ(f(2), 2);
  EXPECT_EQ(f(3), 5);
  EXPECT_TRUE(f);
  EXPECT_FALSE(FunctionRef<int(int)>(nullptr));
}

}  // namespace
}  // namespace fettle
