#include "codegen/c_family/names.h"

#include "ir/type.h"

namespace fettle::c_family {
namespace {

constexpr const char* kWords[] = {
    // C11, C++20
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "concept", "const",
    "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double", "else", "enum",
    "explicit", "export", "extern", "false", "final", "float", "for", "friend", "goto", "if", "inline", "int", "long",
    "mutable", "namespace", "new", "noexcept", "not", "nullptr", "operator", "or", "override", "private", "protected",
    "public", "register", "requires", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch",
    "template", "this", "throw", "true", "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using",
    "virtual", "void", "volatile", "while", "xor",
    // what headers define, and compilers for some systems
    "I", "INFINITY", "NAN", "NULL", "OVERFLOW", "UNDERFLOW", "DOMAIN", "EOF", "assert", "complex", "imaginary", "errno",
    "isnan", "linux", "near", "far", "main", "stdin", "stdout", "stderr", "unix",
    // OpenCL C, CUDA
    "barrier", "constant", "global", "half", "image2d_t", "kernel", "local", "pipe", "read_only", "read_write", "uchar",
    "uint", "ulong", "ushort", "vec_step", "write_only", "blockDim", "blockIdx", "gridDim", "threadIdx", "warpSize"};

/// Functions of mathematics, which are called with and without an 'f' behind them.
constexpr const char* kMath[] = {"exp", "log",   "sqrt", "rsqrt", "sin", "cos",       "tanh", "erf",  "pow",
                                 "fma", "floor", "ceil", "trunc", "abs", "nearbyint", "rint", "fabs", "round"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Helpers' names end in an element type: "min_f32"; two in "bits".
bool is_like_helper(std::string_view name) {
  const size_t cut = name.rfind('_');
  if (cut == std::string_view::npos) return false;
  const std::string_view end = name.substr(cut + 1);
  return end == "bits" || parse_dtype(end).has_value();
}

}  // namespace

std::string identifier(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool fine = is_letter(c) || is_digit(c) || c == '_';
    out += fine ? c : '_';
  }
  // Names that begin with an underscore, or contain two, belong to implementations.
  for (size_t at = out.find("__"); at != std::string::npos; at = out.find("__")) out.erase(at, 1);
  if (out.empty() || !is_letter(out[0])) out.insert(0, out.empty() || is_digit(out[0]) ? "v_" : "v");
  return out;
}

Names::Names(const std::vector<std::string>& more) : used_(more.begin(), more.end()) {
  for (const char* word : kWords) used_.insert(word);
  for (const std::string name : kMath) {
    used_.insert(name);
    used_.insert(name + "f");
  }
}

std::string Names::take(std::string_view wanted) {
  std::string base = identifier(wanted);
  if (is_like_helper(base)) base += base.back() == '_' ? "v" : "_v";
  std::string name = base;
  for (int n = 1; !used_.insert(name).second; ++n) name = base + (base.back() == '_' ? "" : "_") + std::to_string(n);
  return name;
}

}  // namespace fettle::c_family
