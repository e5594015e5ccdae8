#include "base/error.h"

#include <array>

#include "base/check.h"

namespace fettle {
namespace {

constexpr auto kTable = std::to_array<ErrorInfo>({
#define FETTLE_ERROR(code, meaning, remedy) {ErrorCode::code, #code, meaning, remedy},
#include "base/error_codes.inc"
#undef FETTLE_ERROR
});

constexpr ErrorInfo kNoError{ErrorCode::kNone, "", "", ""};

}  // namespace

const ErrorInfo& error_info(ErrorCode code) {
  const auto index = static_cast<size_t>(code);
  if (index == 0) return kNoError;
  FETTLE_CHECK(index <= kTable.size());
  return kTable[index - 1];
}

const ErrorInfo* find_error(std::string_view name) {
  for (const ErrorInfo& info : kTable)
    if (info.name == name) return &info;
  return nullptr;
}

const ErrorInfo* error_table(size_t* count) {
  *count = kTable.size();
  return kTable.data();
}

std::string Diagnostic::to_string() const {
  const ErrorInfo& info = error_info(code);
  std::string text;
  text.append(info.name).append(": ").append(info.meaning);
  if (!where.empty() || !message.empty()) {
    text.append(" (").append(where);
    if (!where.empty() && !message.empty()) text.append(": ");
    text.append(message).append(")");
  }
  text.append("; ").append(info.remedy);
  return text;
}

}  // namespace fettle
