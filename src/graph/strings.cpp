#include "graph/strings.h"

#include <fmt/format.h>

#include <mutex>

#include "rt/host.h"
#include "rt/strings.h"

namespace fettle {
namespace {

struct Table {
  std::mutex mutex;
  FettleStrings strings;
};

Table& table() {
  static Table made;
  return made;
}

}  // namespace

int64_t string_number(std::string_view text) {
  const std::lock_guard lock(table().mutex);
  const int64_t number = table().strings.number_of(text.data(), std::ssize(text));
  FETTLE_CHECK_MSG(number >= 0, "memory ran out");
  return number;
}

std::string_view string_of(int64_t number) {
  const std::lock_guard lock(table().mutex);
  const FettleString string = table().strings.at(number);
  FETTLE_CHECK(string.bytes >= 0);
  return {string.data, static_cast<size_t>(string.bytes)};
}

Result<ConstantTensor> string_tensor(std::span<const std::string> strings, std::vector<int64_t> shape) {
  FETTLE_TRY(TensorBuilder made, make_tensor(kString, std::move(shape)));
  auto numbers = made.elems<int64_t>();
  FETTLE_CHECK(numbers.size() == strings.size());
  for (size_t i = 0; i < strings.size(); ++i) numbers[i] = string_number(strings[i]);
  return std::move(made).finish();
}

ConstantTensor string_scalar(std::string_view text) { return string_tensor({{std::string(text)}}, {}).value(); }

std::vector<std::string> to_strings(const ConstantTensor& tensor) {
  std::vector<std::string> strings;
  for (const int64_t number : tensor.elems<int64_t>()) strings.emplace_back(string_of(number));
  return strings;
}

Result<> run_host_function(const char* name, std::span<void* const> buffers, std::span<const int64_t> ints,
                           const std::string& where) {
  const rt::HostFunction* function = rt::find_host_function(name);
  FETTLE_CHECK_MSG(function, name);
  const std::lock_guard lock(table().mutex);
  FettleContext context{};
  context.strings = &table().strings;
  std::vector<void*> given(buffers.begin(), buffers.end());
  if (function->run(&context, given.data(), ints.data()) == FETTLE_OK) return {};
  return fail(ErrorCode::E605, context.reason ? context.reason : "a host function failed", where);
}

}  // namespace fettle
