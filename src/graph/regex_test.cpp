#include "graph/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/testing.h"
#include "graph/strings.h"

namespace fettle {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  const auto program = compile_regex(pattern);
  EXPECT_TRUE(program) << pattern << ": " << (program ? "" : program.error().to_string());
  if (!program) return false;
  int64_t number = string_number(text);
  uint8_t result = 2;
  std::vector<int64_t> code = *program;
  void* const buffers[] = {&number, code.data(), &result};
  const int64_t integers[] = {3, 24, 0, 8, 1, std::ssize(code), 1, 0};
  EXPECT_TRUE(run_host_function("fettle_host_regex_match", buffers, integers, "match"));
  return result == 1;
}

void expect(std::string_view pattern, const std::vector<std::string>& matching,
            const std::vector<std::string>& others) {
  for (const std::string& text : matching) EXPECT_TRUE(matches(pattern, text)) << pattern << " on '" << text << "'";
  for (const std::string& text : others) EXPECT_FALSE(matches(pattern, text)) << pattern << " on '" << text << "'";
}

TEST(Regex, CharactersAndRepetition) {
  expect("", {""}, {"a"});
  expect("abc", {"abc"}, {"ab", "abcd", "xabc"});
  expect("a*b+c?", {"b", "aabbc", "bbb"}, {"", "a", "bcc"});
  expect("a{2,3}", {"aa", "aaa"}, {"a", "aaaa"});
  expect("a{2}", {"aa"}, {"a", "aaa"});
  expect("a{2,}", {"aa", "aaaaa"}, {"a"});
  expect("a{,3}", {"a{,3}"}, {"aa"});
  expect("a{0}", {""}, {"a"});
  expect("(ab|c)*d", {"d", "ababcd", "cd"}, {"abd c", "ad"});
  expect("a|b|", {"a", "b", ""}, {"ab"});
  expect("a*?b", {"aab", "b"}, {"a"});
  expect("(a*)*", {"", "aaa"}, {"b"});
  expect("(?:x(?P<name>y))+", {"xy", "xyxy"}, {"x"});
  expect("\\Qa.b*\\E", {"a.b*"}, {"axb"});
}

TEST(Regex, Classes) {
  expect("[a-c]+", {"abc"}, {"abd", ""});
  expect("[^a-c]", {"d", "ä", "\n"}, {"a", ""});
  expect("[]a-]+", {"]a-"}, {"b"});
  expect("[\\w.\\-]{0,25}@(yahoo|gmail)\\.com", {"a.b-c@gmail.com"}, {"a b@gmail.com", "a@gmailxcom"});
  expect("\\d\\D\\s\\S\\w\\W", {"1a b_-"}, {"1a b--"});
  expect("[[:alpha:]][[:^digit:]]", {"ab"}, {"a1", "1a"});
  expect("[\\d\\s]*", {"1 2"}, {"a"});
  expect("\\s", {" ", "\t"}, {"\v", "\xc2\xa0"});
}

TEST(Regex, CharactersAreUnicodes) {
  expect(".", {"a", "ä", "€", "😀"}, {"", "ab", "\n", "\xff"});
  expect("(?s).", {"\n"}, {});
  expect("[ä-ü]+", {"äöü"}, {"a"});
  expect("\\x41\\x{1F600}\\101", {"A😀A"}, {});
  expect("\\t\\n\\.\\\\", {"\t\n.\\"}, {});
}

TEST(Regex, Places) {
  expect("^a$", {"a"}, {"a\n"});
  expect("a$\nb", {}, {"a\nb"});
  expect("(?m)a$\n^b", {"a\nb"}, {});
  expect("\\Aa\\z", {"a"}, {});
  expect("a\\b b", {"a b"}, {"ab"});
  expect("a\\Bb", {"ab"}, {});
  expect("(\\W|^)x(\\W|$)", {"x", " x", "x ", "-x-"}, {"ax", "_x"});
}

TEST(Regex, CaseInsensitive) {
  expect("(?i)straße", {"STRAßE", "straẞe", "StRaße"}, {"strasse"});
  expect("(?i)[a-c]k", {"BK", "c\xe2\x84\xaa"}, {"dk"});  // the sign for kelvin
  expect("(?i)[^a]", {"b"}, {"A", "a"});
  expect("a(?i)b(?-i)c", {"aBc"}, {"ABc", "abC"});
  expect("a(?i:b)c", {"aBc"}, {"aBC"});
  expect("((?i)a)b", {"Ab"}, {"AB"});
}

TEST(Regex, WhatIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"(", "a '(' is not closed"},
      {")", "a ')' that closes nothing"},
      {"[a", "a '[' is not closed"},
      {"a**", "a repetition of a repetition"},
      {"*a", "nothing stands in front of a repetition"},
      {"a{1001}", "more than 1000 repetitions"},
      {"a{3,2}", "the least repetitions exceed the most"},
      {"\\pL", "classes of Unicode (\\p) are not supported"},
      {"(a)\\1", "back references are not supported"},
      {"(?=a)", "a group of a kind that is not supported"},
      {"[b-a]", "a range runs backwards"},
      {"[[:foo:]]", "there is no class [:foo:]"},
      {"a\\", "a '\\' at the end"},
      {"\\x{110000}", "there is no such character"},
      {"\xff", "it is not UTF-8"},
      {"\\y", "there is no escape \\y"},
      {"((a{1000}){1000}){1000}", "the pattern is too large"},
      {"((()){1000}){1000}", "the pattern is too large"},
  };
  for (const auto& [pattern, why] : cases) {
    const auto program = compile_regex(pattern);
    ASSERT_FALSE(program) << pattern;
    EXPECT_EQ(program.error().code, ErrorCode::E606);
    EXPECT_NE(program.error().message.find(why), std::string::npos) << program.error().message;
  }
  EXPECT_FALSE(compile_regex(std::string(100000, '(')));
}

TEST(Regex, TimeIsLinear) {
  // What makes a backtracking matcher try 2^n ways.
  std::string pattern, text;
  for (int i = 0; i < 200; ++i) pattern += "a?";
  for (int i = 0; i < 200; ++i) {
    pattern += "a";
    text += "a";
  }
  EXPECT_TRUE(matches(pattern, text));
  EXPECT_FALSE(matches("(a*)*b", std::string(100000, 'a')));
}

}  // namespace
}  // namespace fettle
