#include "pjrt/bytecode_text.h"

#include <atomic>

namespace fettle::pjrt {
namespace {

std::atomic<BytecodeReader> registered{nullptr};

}  // namespace

void set_bytecode_reader(BytecodeReader reader) { registered = reader; }

Result<std::string> text_of_bytecode(std::string_view code) {
  const BytecodeReader reader = registered;
  if (reader == nullptr) return fail(ErrorCode::E602, "nothing in this process reads bytecode (fettle.jax)", "program");
  int64_t bytes = 0;
  const char* text = reader(code.data(), static_cast<int64_t>(code.size()), &bytes);
  if (text == nullptr) return fail(ErrorCode::E602, "jaxlib cannot read the bytecode", "program");
  return std::string(text, static_cast<size_t>(bytes));
}

}  // namespace fettle::pjrt
