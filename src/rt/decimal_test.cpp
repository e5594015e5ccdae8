#include "rt/decimal.h"

#include <gtest/gtest.h>

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace fettle::rt {
namespace {

FettleString as_string(const std::string& text) { return {text.data(), static_cast<int64_t>(text.size())}; }

std::string printed(double value) {
  char text[kMostNumberChars];
  return {text, static_cast<size_t>(print_number(value, text))};
}

std::string by_libc(double value, const char* format = "%.8g") {
  char text[64];
  snprintf(text, sizeof text, format, value);
  return text;
}

double number_of(const std::string& text) {
  double value = 0;
  EXPECT_TRUE(read_number(as_string(text), &value)) << text;
  return value;
}

/// Doubles of all magnitudes.
double random_double(std::mt19937_64& random) {
  for (;;) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) return value;
  }
}

TEST(Decimal, PrintsAsLibcDoes) {
  for (const double value :
       {0.0, -0.0, 1.0, 1.5, 0.1, 1e10, 123456789.0, 1e-4, 1e-5, 99999999.5, 9.99999995, 0.099975586, 1e8, 12345678.0,
        5e-324, 1.7976931348623157e308, 2.5, 100000000.5, 1.00000005})
    EXPECT_EQ(printed(value), by_libc(value));
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value = random_double(random), usual = std::ldexp(value, -std::ilogb(value)) * (i % 1000);
    EXPECT_EQ(printed(value), by_libc(value));
    EXPECT_EQ(printed(usual), by_libc(usual));
  }
  EXPECT_EQ(printed(std::nan("")), "NaN");
  EXPECT_EQ(printed(HUGE_VAL), "INF");
  EXPECT_EQ(printed(-HUGE_VAL), "-INF");
}

TEST(Decimal, ReadsAsLibcDoes) {
  for (const char* text :
       {"1",
        "-1.5",
        " 2.5 ",
        "+3",
        ".5",
        "5.",
        "1e5",
        "1E-5",
        "0.1",
        "1e400",
        "-1e400",
        "1e-400",
        "0",
        "-0",
        "000",
        "0.000001e6",
        "4.9e-324",
        "2.4e-324",
        "2.5e-324",
        "2.2250738585072011e-308",
        "9007199254740993",
        "9007199254740992.99999999999999999999",
        "1e99999999999999999999",
        "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017"})
    EXPECT_EQ(std::bit_cast<uint64_t>(number_of(text)), std::bit_cast<uint64_t>(strtod(text, nullptr))) << text;
  // Halfway, and a little more far behind.
  const std::string half = "1.00000000000000011102230246251565404236316680908203125";
  EXPECT_EQ(number_of(half), 1.0);
  EXPECT_EQ(number_of(half + std::string(1000, '0') + "1"), 1.0000000000000002);
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const double value = random_double(random);
    for (const char* format : {"%.17g", "%.6g", "%.30g"}) {
      const std::string text = by_libc(value, format);
      EXPECT_EQ(number_of(text), strtod(text.c_str(), nullptr)) << text;
    }
  }
  EXPECT_TRUE(std::isnan(number_of("NaN")));
  EXPECT_TRUE(std::isnan(number_of("-nan")));
  EXPECT_EQ(number_of("inf"), HUGE_VAL);
  EXPECT_EQ(number_of("-Infinity"), -HUGE_VAL);
  for (const char* text :
       {"", " ", "abc", "1.5abc", "0x10", "1e", "1e+", ".", "-", "1 2", "1_0", "infin", "--1", "1,5"}) {
    double value = 0;
    EXPECT_FALSE(read_number(as_string(text), &value)) << text;
  }
}

TEST(Decimal, IntegersAreExact) {
  uint64_t value = 0;
  const auto reads = [&](const std::string& text, bool is_signed) {
    return read_integer(as_string(text), is_signed, &value);
  };
  EXPECT_TRUE(reads("9223372036854775807", true));
  EXPECT_EQ(value, static_cast<uint64_t>(INT64_MAX));
  EXPECT_TRUE(reads("-9223372036854775808", true));
  EXPECT_EQ(value, uint64_t{1} << 63);
  EXPECT_FALSE(reads("9223372036854775808", true));
  EXPECT_FALSE(reads("-9223372036854775809", true));
  EXPECT_TRUE(reads("18446744073709551615", false));
  EXPECT_EQ(value, UINT64_MAX);
  EXPECT_FALSE(reads("18446744073709551616", false));
  EXPECT_TRUE(reads(" +007.9 ", true));
  EXPECT_EQ(value, 7u);
  for (const char* text : {"", "1e3", "abc", "3 4", "0x10", ".5", "-"}) EXPECT_FALSE(reads(text, true)) << text;
  char text[kMostNumberChars];
  for (const int64_t number : {int64_t{0}, int64_t{-7}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(std::string(text, static_cast<size_t>(print_integer(number, text))), std::to_string(number));
}

}  // namespace
}  // namespace fettle::rt
