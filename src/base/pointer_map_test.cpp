#include "base/pointer_map.h"

#include <gtest/gtest.h>

#include <string>
#include <unordered_map>

namespace fettle {
namespace {

TEST(PointerMap, AsAnUnorderedMap) {
  std::vector<int> keys(100);
  PointerMap<const int*, std::string> map;
  std::unordered_map<const int*, std::string> plain;
  for (int round = 0; round < 3; ++round)
    for (size_t i = static_cast<size_t>(round); i < keys.size(); i += 3) {
      const int* key = &keys[i];
      EXPECT_EQ(map.contains(key), plain.contains(key));
      map[key] = plain[key] = std::to_string(i);
      EXPECT_FALSE(map.try_emplace(key, "another").second);
      EXPECT_EQ(map.at(key), std::to_string(i));
      EXPECT_EQ(map.size(), plain.size());
    }
  for (size_t i = 0; i < keys.size(); i += 2) EXPECT_EQ(map.erase(&keys[i]), plain.erase(&keys[i]));
  EXPECT_EQ(map.erase(&keys[0]), 0u);
  for (const int& key : keys) {
    const auto found = map.find(&key);
    EXPECT_EQ(found != map.end(), plain.contains(&key));
    EXPECT_TRUE(found == map.end() || found->second == plain[&key]);
  }
  const PointerMap<const int*, std::string> copy = map;
  EXPECT_EQ(copy.size(), 50u);
  map.clear();
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(copy.count(&keys[1]), 1u);
}

TEST(PointerMap, KeepsTheOrderOfInsertion) {
  int keys[3];
  const PointerMap<const int*, int> map{{&keys[2], 1}, {&keys[0], 2}, {&keys[2], 3}};
  ASSERT_EQ(map.size(), 2u);
  EXPECT_EQ(map.begin()->first, &keys[2]);
  EXPECT_EQ(map.begin()->second, 1);
}

}  // namespace
}  // namespace fettle
