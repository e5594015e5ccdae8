#include "rt/host.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "rt/context.h"
#include "rt/host_strings.h"
#include "rt/regex.h"
#include "rt/strings.h"

namespace fettle::rt {
namespace {

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

/// Calls of host functions, with scratch blocks.
class Host : public testing::Test {
 protected:
  Host() : owned_(1) { owned_.get()->strings = &strings_; }
  ~Host() override { strings_.release(); }

  Ints numbers_of(const Texts& texts) {
    Ints numbers;
    for (const std::string& text : texts)
      numbers.push_back(strings_.number_of(text.data(), static_cast<int64_t>(text.size())));
    return numbers;
  }
  Texts texts_of(const Ints& numbers) const {
    Texts texts;
    for (const int64_t number : numbers) {
      const FettleString string = strings_.at(number);
      texts.emplace_back(string.data, static_cast<size_t>(string.bytes));
    }
    return texts;
  }

  struct Given {
    int32_t dtype;
    Ints shape;
    void* data;
  };
  int32_t call(FettleKernel function, const std::vector<Given>& tensors, const Ints& numbers = {}) {
    std::vector<void*> buffers;
    Ints integers = {static_cast<int64_t>(tensors.size())};
    for (const Given& tensor : tensors) {
      buffers.push_back(tensor.data);
      integers.insert(integers.end(), {tensor.dtype, static_cast<int64_t>(tensor.shape.size())});
      integers.insert(integers.end(), tensor.shape.begin(), tensor.shape.end());
    }
    integers.insert(integers.end(), numbers.begin(), numbers.end());
    return function(owned_.get(), buffers.data(), integers.data());
  }
  std::string reason() { return owned_.get()->reason; }

 private:
  OwnedContext owned_;
  FettleStrings strings_;
};

TEST_F(Host, FunctionsAreFoundByName) {
  for (int32_t i = 0; i < kHostFunctionCount; ++i)
    EXPECT_EQ(find_host_function(kHostFunctions[i].name), &kHostFunctions[i]);
  EXPECT_EQ(find_host_function("fettle_host_nothing"), nullptr);
}

TEST_F(Host, StopWordsAreDropped) {
  Ints x = numbers_of({"Ä", "b", "STOP", std::string(5000, 'x')}), stops = numbers_of({"stop", "ä"}), y(4, -1);
  int64_t count = -1;
  const auto normalized = [&](CaseChange change, int64_t is_case_sensitive) {
    EXPECT_EQ(call(fettle_host_string_normalize,
                   {{FETTLE_STRING, {4}, x.data()},
                    {FETTLE_STRING, {2}, stops.data()},
                    {FETTLE_STRING, {4}, y.data()},
                    {FETTLE_I64, {}, &count}},
                   {change, is_case_sensitive}),
              FETTLE_OK);
    return texts_of(y);
  };
  EXPECT_EQ(normalized(kToUpper, 0), (Texts{"B", std::string(5000, 'X'), "", ""}));
  EXPECT_EQ(count, 2);
  EXPECT_EQ(normalized(kAsIs, 1), (Texts{"Ä", "b", "STOP", std::string(5000, 'x')}));
  EXPECT_EQ(count, 4);
}

TEST_F(Host, PartsAreCountedAndCut) {
  Ints x = numbers_of({"a--b", "", "--"}), delimiter = numbers_of({"--"}), counts(3), y(6, -1);
  int64_t most = -1;
  ASSERT_EQ(call(fettle_host_string_count_parts,
                 {{FETTLE_STRING, {3}, x.data()},
                  {FETTLE_STRING, {}, delimiter.data()},
                  {FETTLE_I64, {3}, counts.data()},
                  {FETTLE_I64, {}, &most}},
                 {-1}),
            FETTLE_OK);
  EXPECT_EQ(counts, (Ints{2, 1, 2}));
  EXPECT_EQ(most, 2);
  ASSERT_EQ(
      call(fettle_host_string_split,
           {{FETTLE_STRING, {3}, x.data()}, {FETTLE_STRING, {}, delimiter.data()}, {FETTLE_STRING, {3, 2}, y.data()}},
           {-1}),
      FETTLE_OK);
  EXPECT_EQ(texts_of(y), (Texts{"a", "b", "", "", "", ""}));
}

TEST_F(Host, RowsAreSorted) {
  Ints x = numbers_of({"b", "x", "a", "y", "b", "x", "a", ""}), first(4), inverse(4), counts(4);
  int64_t count = -1;
  const auto unique = [&](int64_t is_sorted) {
    EXPECT_EQ(call(fettle_host_string_unique,
                   {{FETTLE_STRING, {4, 2}, x.data()},
                    {FETTLE_I64, {4}, first.data()},
                    {FETTLE_I64, {4}, inverse.data()},
                    {FETTLE_I64, {4}, counts.data()},
                    {FETTLE_I64, {}, &count}},
                   {is_sorted}),
              FETTLE_OK);
    EXPECT_EQ(count, 3);
  };
  unique(1);
  EXPECT_EQ(first, (Ints{3, 1, 0, 0}));
  EXPECT_EQ(inverse, (Ints{2, 1, 2, 0}));
  EXPECT_EQ(counts, (Ints{1, 1, 2, 0}));
  unique(0);
  EXPECT_EQ(first, (Ints{0, 1, 3, 0}));
  EXPECT_EQ(inverse, (Ints{0, 1, 0, 2}));
  EXPECT_EQ(counts, (Ints{2, 1, 1, 0}));
}

TEST_F(Host, KeysAreFound) {
  float x[] = {1, __builtin_nanf(""), 2, 0.5f}, keys[] = {0.5f, 1, __builtin_nanf("")};
  Ints y(4);
  ASSERT_EQ(call(fettle_host_find, {{FETTLE_F32, {4}, x}, {FETTLE_F32, {3}, keys}, {FETTLE_I64, {4}, y.data()}}),
            FETTLE_OK);
  EXPECT_EQ(y, (Ints{1, 2, 3, 0}));
}

// [a-cx]+
TEST_F(Host, PatternsAreMatched) {
  Ints program = {4, kRegexClass, 0, 2, kRegexSplit, 3, 0, kRegexMatch, 0, 0, kRegexMatch, 0, 0, 'a', 'c', 'x', 'x'};
  Ints x = numbers_of({"abx", "", "d", "ad", "c"});
  uint8_t y[5];
  ASSERT_EQ(call(fettle_host_regex_match,
                 {{FETTLE_STRING, {5}, x.data()}, {FETTLE_I64, {17}, program.data()}, {FETTLE_BOOL, {5}, y}}),
            FETTLE_OK);
  EXPECT_EQ(Ints(y, y + 5), (Ints{1, 0, 0, 0, 1}));
}

TEST_F(Host, CastsSayWhatIsNoNumber) {
  Ints x = numbers_of({"-3", "300"}), text(2);
  int8_t y[2];
  ASSERT_EQ(call(fettle_host_string_cast, {{FETTLE_STRING, {2}, x.data()}, {FETTLE_I8, {2}, y}}), FETTLE_OK);
  EXPECT_EQ(Ints(y, y + 2), (Ints{-3, 44}));
  ASSERT_EQ(call(fettle_host_string_cast, {{FETTLE_I8, {2}, y}, {FETTLE_STRING, {2}, text.data()}}), FETTLE_OK);
  EXPECT_EQ(texts_of(text), (Texts{"-3", "44"}));
  x = numbers_of({"1", "1e3"});
  EXPECT_EQ(call(fettle_host_string_cast, {{FETTLE_STRING, {2}, x.data()}, {FETTLE_I8, {2}, y}}), FETTLE_KERNEL_FAILED);
  EXPECT_EQ(reason(), "the string '1e3' is no number of type i8");
}

}  // namespace
}  // namespace fettle::rt
