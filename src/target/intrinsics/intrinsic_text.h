#pragma once
// Programs of intrinsics that are alike but for names, types and extents.

#include <algorithm>
#include <array>
#include <string_view>

namespace fettle {

/// A text that is put together when this program is compiled.
class IntrinsicText {
 public:
  consteval IntrinsicText& operator<<(std::string_view part) {
    std::copy(part.begin(), part.end(), chars_.begin() + size_);
    size_ += part.size();
    return *this;
  }
  consteval IntrinsicText& operator<<(int number) {
    if (number >= 10) *this << number / 10;
    const char digit[] = {static_cast<char>('0' + number % 10)};
    return *this << std::string_view(digit, 1);
  }
  constexpr operator std::string_view() const { return {chars_.data(), size_}; }

 private:
  std::array<char, 512> chars_{};
  size_t size_ = 0;
};

}  // namespace fettle
