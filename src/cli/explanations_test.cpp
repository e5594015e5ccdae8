#include "cli/explanations.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace fettle::cli {
namespace {

namespace fs = std::filesystem;

std::span<const ErrorInfo> codes() {
  size_t count = 0;
  const ErrorInfo* first = error_table(&count);
  return {first, count};
}

/// The codes that follow `before` in the text: "E201".
void collect(const std::string& text, const std::string& before, std::set<std::string>& found) {
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    const std::string code = text.substr(at + before.size(), 4);
    if (code.size() == 4 && code[0] == 'E' && code.find_first_not_of("0123456789", 1) == std::string::npos)
      found.insert(code);
  }
}

TEST(Explanations, OneForEachCodeInTheirOrder) {
  ASSERT_EQ(explanations().size(), codes().size());
  for (size_t i = 0; i < codes().size(); ++i) {
    const Explanation& explanation = explanations()[i];
    EXPECT_EQ(explanation.code, codes()[i].code) << codes()[i].name;
    EXPECT_GT(explanation.cause.size(), 20u) << codes()[i].name;
    EXPECT_TRUE(explanation.cause.ends_with('.')) << codes()[i].name;
    EXPECT_FALSE(explanation.example.empty()) << codes()[i].name;
    EXPECT_FALSE(codes()[i].remedy.empty()) << codes()[i].name;
    EXPECT_EQ(&explanation_of(codes()[i].code), &explanation);
  }
}

TEST(Explanations, EveryCodeIsUsedAndEveryOneSpokenOfExists) {
  std::set<std::string> used, spoken_of;
  for (const auto& entry : fs::recursive_directory_iterator(FETTLE_SOURCE_DIR "/src")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".cpp") && !name.ends_with(".h")) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!name.ends_with("_test.cpp")) collect(text, "ErrorCode::", used);
    collect(text, "Errors: ", spoken_of);
    collect(text, " · ", spoken_of);
  }
  for (const ErrorInfo& info : codes())
    EXPECT_TRUE(used.contains(std::string(info.name))) << info.name << " is never given";
  for (const std::string& code : spoken_of)
    EXPECT_NE(find_error(code), nullptr) << code << " is in a comment, and no code";
}

}  // namespace
}  // namespace fettle::cli
