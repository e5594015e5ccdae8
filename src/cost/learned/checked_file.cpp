#include "cost/learned/checked_file.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/output_file.h"

namespace fettle {

constexpr uintmax_t kLargestFile = 1u << 28;

Result<> write_checked(const std::string& path, std::string_view title, const std::vector<double>& numbers) {
  std::string text = fmt::format("{}\n", title);
  for (const double number : numbers) text += fmt::format("{}\n", number);
  text += digest_bytes(text).hex() + "\n";
  std::error_code ignored;
  const std::filesystem::path target(path);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), ignored);
  return write_file(target, text);
}

Result<std::vector<double>> read_checked(const std::string& path, std::string_view title) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return fail(ErrorCode::E701, path + ": " + error.message());
  if (size > kLargestFile) return fail(ErrorCode::E503, path + " is too large");
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  if (!file) return fail(ErrorCode::E701, path);
  const std::string text = content.str();
  constexpr size_t kDigest = 33;  // and a newline
  const size_t end = text.size() < kDigest ? 0 : text.size() - kDigest;
  if (end == 0 || text.substr(end) != digest_bytes(text.substr(0, end)).hex() + "\n")
    return fail(ErrorCode::E503, path + " is damaged");
  const size_t first = text.find('\n');
  if (text.substr(0, first) != title)
    return fail(ErrorCode::E503, fmt::format("{} holds \"{}\", not \"{}\"", path, text.substr(0, first), title));
  std::vector<double> numbers;
  for (size_t at = first + 1; at < end;) {
    const size_t stop = text.find('\n', at);
    double number = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + stop, number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + stop)
      return fail(ErrorCode::E503, path + " is damaged");
    numbers.push_back(number);
    at = stop + 1;
  }
  return numbers;
}

}  // namespace fettle
