#pragma once
// A page in headless Chromium, driven through its DevTools protocol over a pipe.

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fettle::testing_support {

class Browser {
 public:
  /// Starts Chromium with a profile in `folder`. Null, with the reason in `why`, where it is not installed or does not
  /// answer.
  static std::unique_ptr<Browser> start(const std::string& folder, std::string* why);
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;
  /// Ends it, and all that it started.
  ~Browser();

  void set_window(int width, int height, bool dark);
  /// Opens a file and waits until it is loaded.
  bool open(const std::string& path);
  /// The value of a JavaScript expression; {"exception": …} where it throws.
  nlohmann::json evaluate(const std::string& expression);
  /// Presses a key: "Tab", "Enter", " ".
  void press(const std::string& key);
  /// Writes what the window shows, or, with `whole`, all of the page, as a PNG file.
  bool screenshot(const std::string& path, bool whole = false);

  /// Errors and warnings of the console, and exceptions that nobody caught.
  const std::vector<std::string>& problems() const { return problems_; }
  /// What the page asked for, beside itself.
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  Browser() = default;
  nlohmann::json call(const std::string& method, nlohmann::json params = nlohmann::json::object());
  bool wait_for(const std::string& event);
  /// One message; null after too long.
  nlohmann::json receive();
  void take(const nlohmann::json& message);

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string buffer_, session_, page_;
  int last_id_ = 0;
  std::vector<std::string> events_, problems_, requests_;
};

}  // namespace fettle::testing_support
