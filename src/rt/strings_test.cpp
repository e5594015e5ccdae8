#include "rt/strings.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rt/host_strings.h"
#include "rt/model_context.h"
#include "rt/testing.h"
#include "rt/utf8.h"

namespace fettle::rt {
namespace {

std::string text_of(FettleString string) { return {string.data, static_cast<size_t>(string.bytes)}; }

TEST(Strings, EqualOnesHaveOneNumber) {
  FettleStrings strings;
  const auto number_of = [&](std::string_view text) {
    return strings.number_of(text.data(), static_cast<int64_t>(text.size()));
  };
  EXPECT_EQ(number_of(""), 0);
  EXPECT_EQ(number_of("a"), 1);
  EXPECT_EQ(number_of(std::string_view("a\0b", 3)), 2);
  EXPECT_EQ(number_of("a"), 1);
  std::vector<int64_t> numbers;
  for (int i = 0; i < 5000; ++i) numbers.push_back(number_of("text " + std::to_string(i)));
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(number_of("text " + std::to_string(i)), numbers[static_cast<size_t>(i)]);
    EXPECT_EQ(text_of(strings.at(numbers[static_cast<size_t>(i)])), "text " + std::to_string(i));
  }
  EXPECT_EQ(strings.count(), 5003);
  EXPECT_EQ(text_of(strings.at(0)), "");
  EXPECT_EQ(strings.at(5003).bytes, -1);
  EXPECT_EQ(strings.at(-1).bytes, -1);
  strings.release();
}

TEST(Strings, NumbersCountOnFromTheBase) {
  FettleStrings base, strings;
  EXPECT_EQ(base.number_of("a", 1), 1);
  strings.clear(&base);
  EXPECT_EQ(strings.number_of("b", 1), 2);
  EXPECT_EQ(strings.number_of("a", 1), 1);
  strings.clear(&base);
  EXPECT_EQ(strings.at(2).bytes, -1);
  EXPECT_EQ(strings.number_of("c", 1), 2);
  EXPECT_EQ(text_of(strings.at(1)), "a");
  EXPECT_EQ(text_of(strings.at(2)), "c");
  strings.release();
  base.release();
}

TEST(Strings, MemoryIsThatOfTheLargestRound) {
  FettleStrings strings;
  int64_t bytes = 0;
  for (int round = 0; round < 1000; ++round) {
    strings.clear(nullptr);
    for (int i = 0; i < 300; ++i) {
      const std::string text((i * 37) % 900 + 1, static_cast<char>('a' + round % 26));
      ASSERT_GT(strings.number_of(text.data(), static_cast<int64_t>(text.size())), 0);
    }
    if (round == 0) bytes = strings.bytes();
    ASSERT_EQ(strings.bytes(), bytes) << round;
  }
  strings.release();
}

TEST(Utf8, CharactersAreReadAndWritten) {
  for (const int32_t code : {0x24, 0xe4, 0x20ac, 0x1f600, 0x10ffff}) {
    char bytes[4];
    const int32_t length = encode_utf8(code, bytes);
    EXPECT_EQ(decode_utf8(bytes, length).code, code);
    EXPECT_EQ(decode_utf8(bytes, length).bytes, length);
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(decode_utf8(bad, static_cast<int64_t>(std::string_view(bad).size())).code, -1) << bad;
    EXPECT_EQ(decode_utf8(bad, static_cast<int64_t>(std::string_view(bad).size())).bytes, 1) << bad;
  }
}

TEST(Utf8, CasesAreUnicodes) {
  const std::pair<int32_t, int32_t> pairs[] = {{'a', 'A'},       {0xe4, 0xc4},     {0xff, 0x178},
                                               {0x101, 0x100},   {0x3c9, 0x3a9},   {0x434, 0x414},
                                               {0x1e9e, 0x1e9e}, {0x10d0, 0x1c90}, {0x10428, 0x10400}};
  for (const auto& [lower, upper] : pairs) EXPECT_EQ(to_upper(lower), upper) << lower;
  for (const auto& [lower, upper] : pairs)
    if (lower != upper) {
      EXPECT_EQ(to_lower(upper), lower) << upper;
    }
  EXPECT_EQ(to_upper(0xdf), 0xdf);    // ß has no capital of one character
  EXPECT_EQ(to_lower(0x130), 0x69);   // İ
  EXPECT_EQ(to_lower(0x1e9e), 0xdf);  // ẞ
  EXPECT_EQ(to_upper(0x1f600), 0x1f600);
  EXPECT_EQ(to_upper(-1), -1);
}

// A model of strings: y = x with "!", a constant, behind each.
const int64_t open_list[] = {-1};
const int64_t ends[] = {1};

int32_t list_resize(FettleContext*, void** buffers, const int64_t* ints) {
  auto* table = static_cast<int64_t*>(buffers[0]);
  table[0] = 0;
  table[1] = ints[0];
  return FETTLE_OK;
}

int32_t loud_program(FettleContext* context, void** buffers, const int64_t* ints) {
  int64_t mark = 1;
  void* given[] = {buffers[0], &mark, buffers[1]};
  const int64_t integers[] = {3, FETTLE_STRING, 1, ints[1], FETTLE_STRING, 0, FETTLE_STRING, 1, ints[1]};
  return fettle_call_kernel(context, 0, fettle_host_string_concat, given, integers);
}

struct Loud {
  FettleTensor x = tensor("x", FETTLE_STRING, open_list, 1), y = tensor("y", FETTLE_STRING, open_list, 1);
  const char* const name = "concat";
  const char* const origin = "";
  FettleModelInfo info = describe("loud", &x, 1, &y, 1, loud_program);

  Loud() {
    info.resize = list_resize;
    info.n_sizes = 2;
    info.kernel_names = &name;
    info.kernel_origins = &origin;
    info.n_kernels = 1;
    info.string_bytes = "!";
    info.string_ends = ends;
    info.n_strings = 1;
  }
  Loud(const Loud&) = delete;
  Loud& operator=(const Loud&) = delete;
};

std::vector<FettleString> strings_of(const std::vector<std::string>& texts) {
  std::vector<FettleString> strings;
  for (const std::string& text : texts) strings.push_back({text.data(), static_cast<int64_t>(text.size())});
  return strings;
}

std::vector<std::string> texts_of(const FettleTensor& tensor) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < tensor.shape[0]; ++i)
    texts.push_back(text_of(static_cast<const FettleString*>(tensor.data)[i]));
  return texts;
}

int32_t run(const Running& running, const std::vector<FettleString>& strings, FettleTensor& y,
            const int64_t* strides = nullptr) {
  const int64_t extents[] = {strides == nullptr ? static_cast<int64_t>(strings.size())
                                                : static_cast<int64_t>(strings.size()) / strides[0]};
  FettleTensor x = tensor("x", FETTLE_STRING, extents, 1, strings.data());
  x.strides = strides;
  return fettle_rt_run(running.context, &x, &y);
}

FettleTensor blank() {
  FettleTensor y{};
  y.struct_bytes = sizeof y;
  return y;
}

TEST(StringModel, TakesAndGivesStrings) {
  const Loud loud;
  const Running running(loud.info);
  FettleTensor y = blank();
  const std::vector<std::string> texts = {"", "Grüße", "!", std::string("a\0b", 3), ""};
  const std::vector<FettleString> strings = strings_of(texts);
  ASSERT_EQ(run(running, strings, y), FETTLE_OK) << running.error();
  EXPECT_EQ(texts_of(y), (std::vector<std::string>{"!", "Grüße!", "!!", std::string("a\0b!", 4), "!"}));
  EXPECT_EQ(fettle_tensor_bytes(&y), 5 * 16);
  // What came out goes in again, where it lies.
  for (int i = 0; i < 3; ++i) {
    std::vector<FettleString> again(static_cast<const FettleString*>(y.data),
                                    static_cast<const FettleString*>(y.data) + y.shape[0]);
    ASSERT_EQ(run(running, again, y), FETTLE_OK) << running.error();
  }
  EXPECT_EQ(texts_of(y)[1], "Grüße!!!!");
  const int64_t every_second[] = {2};
  const std::vector<std::string> four = {"a", "b", "c", "d"};
  ASSERT_EQ(run(running, strings_of(four), y, every_second), FETTLE_OK) << running.error();
  EXPECT_EQ(texts_of(y), (std::vector<std::string>{"a!", "c!"}));
}

TEST(StringModel, WritesWhereTheCallerHasRoom) {
  const Loud loud;
  const Running running(loud.info);
  FettleString memory[2] = {};
  const int64_t two[] = {2};
  FettleTensor y = tensor("y", FETTLE_STRING, two, 1, memory);
  ASSERT_EQ(run(running, strings_of({"p", "q"}), y), FETTLE_OK) << running.error();
  EXPECT_EQ(y.data, memory);
  EXPECT_EQ(texts_of(y), (std::vector<std::string>{"p!", "q!"}));
  y = tensor("y", FETTLE_STRING, two, 1, memory);
  y.capacity_bytes = 16;
  EXPECT_EQ(run(running, strings_of({"p", "q"}), y), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(running.error(), "output 'y' takes 32 bytes, as string[2], and has room for 16");
}

TEST(StringModel, RefusesWhatIsNoString) {
  const Loud loud;
  const Running running(loud.info);
  FettleTensor y = blank();
  EXPECT_EQ(run(running, {{"a", 1}, {nullptr, 3}}, y), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(running.error(), "input 'x': string 1 has 3 bytes, and its data are a null pointer");
  EXPECT_EQ(run(running, {{"a", -2}}, y), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(running.error(), "input 'x': string 0 has -2 bytes");
  EXPECT_EQ(run(running, {{nullptr, 0}}, y), FETTLE_OK);
  EXPECT_EQ(texts_of(y), std::vector<std::string>{"!"});
}

TEST(StringModel, MemoryStaysFlat) {
  const Loud loud;
  const Running running(loud.info);
  FettleTensor y = blank();
  int64_t bytes = 0;
  for (int call = 0; call < 1000; ++call) {
    std::vector<std::string> texts;
    for (int i = 0; i < 100; ++i) texts.push_back("call " + std::to_string(1000 + call) + " " + std::to_string(i));
    ASSERT_EQ(run(running, strings_of(texts), y), FETTLE_OK);
    const int64_t now = of(running.context)->call_strings[0].bytes() + of(running.context)->call_strings[1].bytes();
    if (call == 1) bytes = now;
    if (call > 1) {
      ASSERT_EQ(now, bytes) << call;
    }
  }
}

TEST(StringModel, ContextsRunAtOnce) {
  const Loud loud;
  const Running running(loud.info, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      FettleContext* context = fettle_rt_create_context(running.model);
      for (int call = 0; call < 200; ++call) {
        const std::vector<std::string> texts = {"!", std::to_string(t), "call " + std::to_string(call)};
        const std::vector<FettleString> strings = strings_of(texts);
        const int64_t extents[] = {3};
        const FettleTensor x = tensor("x", FETTLE_STRING, extents, 1, strings.data());
        FettleTensor y = blank();
        ASSERT_EQ(fettle_rt_run(context, &x, &y), FETTLE_OK);
        ASSERT_EQ(texts_of(y), (std::vector<std::string>{"!!", texts[1] + "!", texts[2] + "!"}));
      }
      fettle_rt_destroy_context(context);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fettle::rt
