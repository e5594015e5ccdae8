#pragma once
// Identifiers for the variables of a program. They are legal and short, and each names one variable at a time.

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fettle::c_family {

/// `name` with everything that no identifier may contain replaced: "A'" → "A_". Not empty, begins with a letter.
std::string identifier(std::string_view name);

/// The names in use at one place of a function.
class Names {
 public:
  /// Words of C, C++ and OpenCL C, the standard headers' macros, and `more` are never given out.
  explicit Names(const std::vector<std::string>& more = {});

  /// A free identifier like `wanted` ("i", else "i_1", …), in use until release().
  std::string take(std::string_view wanted);
  void release(const std::string& name) { used_.erase(name); }
  void reserve(std::string name) { used_.insert(std::move(name)); }

 private:
  std::set<std::string> used_;
};

}  // namespace fettle::c_family
