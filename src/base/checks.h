#pragma once
// Checks that a test can switch off, to see that whatever they prevent would be noticed.
//
//   if (!independent && checks("parallel.races")) return fail(ErrorCode::E210, …);
//
// Only tests make DisabledChecks; everywhere else all checks are made.

#include <string>
#include <string_view>
#include <vector>

namespace fettle {

namespace detail {
/// Null: every check is made.
inline thread_local const std::vector<std::string>* disabled_checks = nullptr;
bool is_enabled(std::string_view name);
}  // namespace detail

/// True, but where a test has switched the check `name` off.
inline bool checks(std::string_view name) { return !detail::disabled_checks || detail::is_enabled(name); }

/// The named checks let everything pass on this thread for as long as this lives.
class DisabledChecks {
 public:
  explicit DisabledChecks(std::vector<std::string> names) : names_(std::move(names)), before_(detail::disabled_checks) {
    if (!names_.empty()) detail::disabled_checks = &names_;
  }
  ~DisabledChecks() { detail::disabled_checks = before_; }
  DisabledChecks(const DisabledChecks&) = delete;
  DisabledChecks& operator=(const DisabledChecks&) = delete;

 private:
  std::vector<std::string> names_;
  const std::vector<std::string>* before_;
};

}  // namespace fettle
