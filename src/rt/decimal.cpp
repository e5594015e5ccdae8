#include "rt/decimal.h"

#include <string.h>

namespace fettle::rt {
namespace {

/// 0.d0d1d2… · 10^point, of at most kMost digits: those of any double, and of what lies between two.
class Decimal {
 public:
  static constexpr int32_t kMost = 800;

  int32_t count() const { return n_; }
  int32_t point() const { return point_; }
  int32_t digit(int32_t i) const { return digits_[i]; }
  void set_point(int32_t point) { point_ = point; }

  void append(int32_t digit) {
    if (n_ == 0 && digit == 0) {
      --point_;
    } else if (n_ < kMost) {
      digits_[n_++] = static_cast<uint8_t>(digit);
    } else {
      is_cut_ |= digit != 0;
    }
  }
  void append(uint64_t value) {
    char chars[24];
    const int32_t length = print_integer(value, chars);
    for (int32_t i = 0; i < length; ++i) append(chars[i] - '0');
    point_ = n_;
    trim();
  }

  /// Times 2^by.
  void shift(int32_t by) {
    constexpr int32_t kStep = 56;
    for (; by > kStep; by -= kStep) shift_left(kStep);
    for (; by < -kStep; by += kStep) shift_right(kStep);
    if (by > 0) shift_left(by);
    if (by < 0) shift_right(-by);
  }

  /// Keeps `n` digits, rounded to the nearest, and to even.
  void round(int32_t n) {
    if (n >= n_) return;
    const bool up = rounds_up(n);
    n_ = n;
    is_cut_ = false;
    if (up) {
      while (n_ > 0 && digits_[n_ - 1] == 9) --n_;
      if (n_ == 0) {
        digits_[n_++] = 1;
        ++point_;
      } else {
        ++digits_[n_ - 1];
      }
    }
    trim();
  }

  /// The nearest integer, the even one of two; below 2^63.
  uint64_t integer() const {
    uint64_t value = 0;
    for (int32_t i = 0; i < point_; ++i) value = value * 10 + (i < n_ ? digits_[i] : 0);
    return point_ >= 0 && rounds_up(point_) ? value + 1 : value;
  }

 private:
  bool rounds_up(int32_t n) const {
    if (n < 0 || n >= n_) return false;
    if (digits_[n] == 5 && n + 1 == n_) return is_cut_ || (n > 0 && digits_[n - 1] % 2 != 0);
    return digits_[n] >= 5;
  }

  void trim() {
    while (n_ > 0 && digits_[n_ - 1] == 0) --n_;
    if (n_ == 0) point_ = 0;
  }

  void shift_right(int32_t by) {
    uint64_t rest = 0;
    int32_t read = 0, write = 0;
    for (; rest >> by == 0; ++read) {
      if (read >= n_ && rest == 0) {
        n_ = point_ = 0;
        return;
      }
      rest = rest * 10 + (read < n_ ? digits_[read] : 0);
    }
    point_ -= read - 1;
    const uint64_t mask = (uint64_t{1} << by) - 1;
    for (; read < n_; ++read) {
      const uint64_t digit = rest >> by;
      rest = (rest & mask) * 10 + digits_[read];
      digits_[write++] = static_cast<uint8_t>(digit);
    }
    for (; rest > 0; rest = (rest & mask) * 10) {
      const uint64_t digit = rest >> by;
      if (write < kMost)
        digits_[write++] = static_cast<uint8_t>(digit);
      else
        is_cut_ |= digit != 0;
    }
    n_ = write;
    trim();
  }

  void shift_left(int32_t by) {
    constexpr int32_t kMore = 20;  // digits that come in front
    uint8_t made[kMost + kMore];
    int32_t at = kMost + kMore;
    uint64_t carry = 0;
    for (int32_t i = n_ - 1; i >= 0; --i) {
      carry += uint64_t{digits_[i]} << by;
      made[--at] = static_cast<uint8_t>(carry % 10);
      carry /= 10;
    }
    for (; carry > 0; carry /= 10) made[--at] = static_cast<uint8_t>(carry % 10);
    const int32_t count = kMost + kMore - at;
    point_ += count - n_;
    n_ = count < kMost ? count : kMost;
    memcpy(digits_, made + at, static_cast<size_t>(n_));
    for (int32_t i = n_; i < count; ++i) is_cut_ |= made[at + i] != 0;
    trim();
  }

  uint8_t digits_[kMost];
  int32_t n_ = 0, point_ = 0;
  bool is_cut_ = false;  // digits that are not 0 stood behind
};

constexpr int32_t kFractionBits = 52, kLeastExponent = -1022, kInfiniteExponent = 1024;

double from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
double infinity() { return from_bits(uint64_t{0x7ff} << kFractionBits); }

double nearest(Decimal& number) {
  constexpr int32_t kLargestPoint = 310, kLeastPoint = -330;
  if (number.count() == 0 || number.point() < kLeastPoint) return 0;
  if (number.point() > kLargestPoint) return infinity();
  // To [1/2, 1).
  constexpr int32_t kSteps[] = {0, 3, 6, 9, 13, 16, 19, 23, 26}, kLargeStep = 27,
                    kCount = sizeof kSteps / sizeof *kSteps;
  int32_t exponent = 0;
  while (number.point() > 0) {
    const int32_t step = number.point() < kCount ? kSteps[number.point()] : kLargeStep;
    number.shift(-step);
    exponent += step;
  }
  while (number.point() < 0 || number.digit(0) < 5) {
    const int32_t step = number.point() == 0 ? 1 : -number.point() < kCount ? kSteps[-number.point()] : kLargeStep;
    number.shift(step);
    exponent -= step;
  }
  --exponent;  // of a number in [1, 2)
  if (exponent < kLeastExponent) {
    number.shift(exponent - kLeastExponent);
    exponent = kLeastExponent;
  }
  number.shift(kFractionBits + 1);
  uint64_t fraction = number.integer();
  if (fraction == uint64_t{2} << kFractionBits) {
    fraction >>= 1;
    ++exponent;
  }
  if (exponent >= kInfiniteExponent) return infinity();
  const bool is_subnormal = fraction >> kFractionBits == 0;
  const uint64_t biased = is_subnormal ? 0 : static_cast<uint64_t>(exponent - kLeastExponent + 1);
  return from_bits(biased << kFractionBits | (fraction & ((uint64_t{1} << kFractionBits) - 1)));
}

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A text that is read from the left; white space around it is gone.
struct Reader {
  const char *at, *end;

  explicit Reader(FettleString text) : at(text.data), end(text.data + text.bytes) {
    while (at != end && is_blank(*at)) ++at;
    while (at != end && is_blank(end[-1])) --end;
  }
  bool is_done() const { return at == end; }
  bool sees_digit() const { return at != end && is_digit(*at); }
  bool take(char wanted) {
    if (at == end || (*at | 0x20) != wanted) return false;
    ++at;
    return true;
  }
  bool take(const char* word) {
    const char* from = at;
    for (; *word != 0; ++word)
      if (!take(*word)) {
        at = from;
        return false;
      }
    return true;
  }
  /// Of '+' and '-', which take() would take for others.
  bool take_sign() {
    const bool negative = at != end && *at == '-';
    if (negative || (at != end && *at == '+')) ++at;
    return negative;
  }
  bool take_point() {
    if (at == end || *at != '.') return false;
    ++at;
    return true;
  }
};

}  // namespace

int32_t print_integer(uint64_t value, char* to) {
  char digits[24];
  int32_t at = sizeof digits;
  do digits[--at] = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  const int32_t length = static_cast<int32_t>(sizeof digits) - at;
  memcpy(to, digits + at, static_cast<size_t>(length));
  return length;
}

int32_t print_integer(int64_t value, char* to) {
  if (value >= 0) return print_integer(static_cast<uint64_t>(value), to);
  *to = '-';
  return 1 + print_integer(0 - static_cast<uint64_t>(value), to + 1);
}

int32_t print_number(double value, char* to) {
  constexpr int32_t kDigits = 8, kLeastFixed = -4;
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const auto exponent = static_cast<int32_t>(bits >> kFractionBits & 0x7ff);
  uint64_t fraction = bits & ((uint64_t{1} << kFractionBits) - 1);
  char* const begin = to;
  const auto put = [&](const char* text) {
    while (*text != 0) *to++ = *text++;
    return static_cast<int32_t>(to - begin);
  };
  if (exponent == 0x7ff && fraction != 0) return put("NaN");
  if (bits >> 63 != 0) *to++ = '-';
  if (exponent == 0x7ff) return put("INF");
  if (exponent == 0 && fraction == 0) return put("0");
  if (exponent != 0) fraction |= uint64_t{1} << kFractionBits;
  Decimal number;
  number.append(fraction);
  number.shift((exponent == 0 ? 1 : exponent) + kLeastExponent - 1 - kFractionBits);
  number.round(kDigits);
  const int32_t power = number.point() - 1;
  const auto digit = [&](int32_t i) { return static_cast<char>('0' + (i < number.count() ? number.digit(i) : 0)); };
  const bool is_fixed = power >= kLeastFixed && power < kDigits;
  if (is_fixed && power < 0) {
    put("0.");
    for (int32_t i = power; i < -1; ++i) *to++ = '0';
    for (int32_t i = 0; i < number.count(); ++i) *to++ = digit(i);
    return static_cast<int32_t>(to - begin);
  }
  const int32_t whole = is_fixed ? number.point() : 1;
  for (int32_t i = 0; i < whole; ++i) *to++ = digit(i);
  if (number.count() > whole) *to++ = '.';
  for (int32_t i = whole; i < number.count(); ++i) *to++ = digit(i);
  if (is_fixed) return static_cast<int32_t>(to - begin);
  put(power < 0 ? "e-" : "e+");
  const int32_t magnitude = power < 0 ? -power : power;
  if (magnitude < 10) *to++ = '0';
  to += print_integer(static_cast<uint64_t>(magnitude), to);
  return static_cast<int32_t>(to - begin);
}

bool read_number(FettleString text, double* value) {
  Reader reader(text);
  const bool negative = reader.take_sign();
  const auto done = [&](double magnitude) {
    *value = negative ? -magnitude : magnitude;
    return reader.is_done();
  };
  if (reader.take("nan")) return done(from_bits(uint64_t{0x7ff8} << 48));
  if (reader.take("inf")) {
    reader.take("inity");
    return done(infinity());
  }
  Decimal number;
  int64_t whole = 0, digits = 0, power = 0;
  for (; reader.sees_digit(); ++digits, ++whole) number.append(*reader.at++ - '0');
  if (reader.take_point())
    for (; reader.sees_digit(); ++digits) number.append(*reader.at++ - '0');
  if (digits == 0) return false;
  if (reader.take('e')) {
    const bool is_small = reader.take_sign();
    if (!reader.sees_digit()) return false;
    constexpr int64_t kMostPower = int64_t{1} << 40;
    for (; reader.sees_digit(); ++reader.at)
      if (power < kMostPower) power = power * 10 + (*reader.at - '0');
    if (is_small) power = -power;
  }
  // append() has counted the zeros in front.
  const int64_t point = whole + number.point() + power;
  number.set_point(static_cast<int32_t>(point < -1000 ? -1000 : point > 1000 ? 1000 : point));
  return done(nearest(number));
}

bool read_integer(FettleString text, bool is_signed, uint64_t* value) {
  Reader reader(text);
  const bool negative = reader.take_sign();
  uint64_t magnitude = 0;
  if (!reader.sees_digit()) return false;
  for (; reader.sees_digit(); ++reader.at)
    if (__builtin_mul_overflow(magnitude, uint64_t{10}, &magnitude) ||
        __builtin_add_overflow(magnitude, static_cast<uint64_t>(*reader.at - '0'), &magnitude))
      return false;
  if (reader.take_point())
    while (reader.sees_digit()) ++reader.at;
  if (is_signed && magnitude > (uint64_t{1} << 63) - (negative ? 0 : 1)) return false;
  *value = negative ? 0 - magnitude : magnitude;
  return reader.is_done();
}

}  // namespace fettle::rt
