#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/ref.h"
#include "base/result.h"

namespace fettle {
namespace {

struct Counted : RefCounted {
  explicit Counted(int* alive) : alive_(alive) { ++*alive_; }
  ~Counted() override { --*alive_; }
  int* alive_;
};

TEST(Ref, DestroysWithTheLastReference) {
  int alive = 0;
  {
    Ref<Counted> a = make_ref<Counted>(&alive);
    Ref<const RefCounted> b = a;
    a = nullptr;
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Error, TableNamesEveryCodeOnce) {
  size_t count = 0;
  const ErrorInfo* table = error_table(&count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(find_error(table[i].name), &table[i]);
    EXPECT_EQ(&error_info(table[i].code), &table[i]);
    EXPECT_FALSE(table[i].remedy.empty());
  }
}

Result<int> half(int x) {
  if (x % 2) return fail(ErrorCode::E202, "odd");
  return x / 2;
}
Result<int> quarter(int x) {
  FETTLE_TRY(int h, half(x));
  return half(h);
}

TEST(Result, TryPropagates) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().code, ErrorCode::E202);
}

TEST(Random, DependsOnTheKeyAlone) {
  RandomStream a{1, 2, 3}, b{1, 2, 3}, c{1, 2, 4};
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
  for (int i = 0; i < 1000; ++i) EXPECT_LT(a.below(7), 7u);
}

TEST(Hash, DigestIsStable) {
  EXPECT_EQ(digest_bytes("fettle"), digest_bytes("fettle"));
  EXPECT_NE(digest_bytes("fettle"), digest_bytes("fettled"));
  EXPECT_EQ(digest_bytes("").hex().size(), 32u);
}

}  // namespace
}  // namespace fettle
