#include "frontend/stablehlo/read.h"
namespace fettle::stablehlo {
Result<Module> parse_bytecode(std::span<const std::byte>, const std::string& label, const Limits&) {
  return fail(ErrorCode::E603, "portable bytecode is not read yet: give the program's text", label);
}
}  // namespace fettle::stablehlo
