#pragma once
// Objects linked into this process.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// Machine code in this process: one or more objects linked with each other and with the run-time system, and with
/// symbols of libc. The code lives as long as the JitModule; many may live at once. Loading takes well under a
/// millisecond.
class JitModule {
 public:
  /// A symbol that the objects may use, besides those of the run-time system and of libc.
  struct Symbol {
    std::string name;
    void* address = nullptr;
  };

  /// Errors: E303 an object is malformed, or a symbol is not found.
  static Result<JitModule> load(std::span<const std::vector<uint8_t>> objects, std::span<const Symbol> symbols = {});
  static Result<JitModule> load(const std::vector<uint8_t>& object) { return load({&object, 1}); }

  JitModule(JitModule&&) noexcept;
  JitModule& operator=(JitModule&&) noexcept;
  ~JitModule();

  /// The address of an exported symbol, or null.
  void* lookup(std::string_view name) const;
  template <class Function>
  Function* function(std::string_view name) const {
    return reinterpret_cast<Function*>(lookup(name));
  }
  /// Bytes of memory that code and data take, in whole pages.
  int64_t size_bytes() const;

 private:
  struct State;
  explicit JitModule(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fettle
