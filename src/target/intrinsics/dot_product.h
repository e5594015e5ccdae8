#pragma once
// The meaning of instructions that sum neighbouring products: C[n] += A[k] · B[n, k].

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
  std::array<char, 320> chars_{};
  size_t size_ = 0;
};

/// a, b, sum: the types of what is multiplied, and of the sums.
consteval IntrinsicText dot_product(std::string_view name, std::string_view a, std::string_view b, std::string_view sum,
                                    int n, int k) {
  IntrinsicText text;
  text << "func " << name << "(A: " << a << "[" << k << "], B: " << b << "[" << n << ", " << k << "], C: " << sum << "["
       << n << "] output):\n";
  text << "  for j in " << n << ":\n    for k in " << k << ":\n      block C(vj: spatial[" << n << "] = j, vk: reduce["
       << k << "] = k):\n        reads A[vk], B[vj, vk]\n        writes C[vj]\n        C[vj] = C[vj] + " << sum
       << "(A[vk]) * " << sum << "(B[vj, vk])\n";
  return text;
}

}  // namespace fettle
