#include "support/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace fettle::testing_support {
namespace {

using nlohmann::json;

constexpr int kAnswerSeconds = 120;  // on a machine that does much else

std::string decoded(const std::string& base64) {
  std::string bytes;
  unsigned bits = 0;
  int n = 0;
  for (const char c : base64) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) continue;
    bits = bits << 6 | static_cast<unsigned>(value);
    if ((n += 6) < 8) continue;
    n -= 8;
    bytes += static_cast<char>(bits >> n & 0xff);
  }
  return bytes;
}

}  // namespace

std::unique_ptr<Browser> Browser::start(const std::string& folder, std::string* why) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return *why = "no pipes", nullptr;
  signal(SIGPIPE, SIG_IGN);  // one that could not be started is told by its silence
  const std::string profile = "--user-data-dir=" + folder;
  const pid_t process = fork();
  if (process == 0) {
    setpgid(0, 0);
    // Commands come on 3, answers go to 4; high numbers first, so that neither is overwritten.
    const int in = fcntl(to[0], F_DUPFD, 10), out = fcntl(from[1], F_DUPFD, 10), null = ::open("/dev/null", O_RDWR);
    for (const int standard : {0, 1, 2}) dup2(null, standard);
    dup2(in, 3);
    dup2(out, 4);
    close(in);
    close(out);
    execlp("chromium", "chromium", "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
           "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run", "--hide-scrollbars",
           profile.c_str(), "about:blank", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  std::unique_ptr<Browser> browser(new Browser);
  browser->process_ = process;
  browser->to_ = to[1];
  browser->from_ = from[0];
  const json target = browser->call("Target.createTarget", {{"url", "about:blank"}});
  if (!target.contains("targetId"))
    return *why = "chromium does not answer; is it installed? scripts/setup.sh --test installs it", nullptr;
  browser->session_ = browser->call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}})
                          .value("sessionId", "");
  for (const char* domain : {"Page.enable", "Runtime.enable", "Log.enable", "Network.enable"}) browser->call(domain);
  return browser;
}

Browser::~Browser() {
  // It ends when nobody can command it any more; what does not is made to.
  close(to_);
  close(from_);
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) {
    ended = waitpid(process_, nullptr, WNOHANG) == process_;
    if (!ended) usleep(50'000);
  }
  kill(-process_, SIGKILL);
  if (!ended) waitpid(process_, nullptr, 0);
}

void Browser::set_window(int width, int height, bool dark) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  call("Emulation.setEmulatedMedia",
       {{"features", json::array({{{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}}})}});
}

bool Browser::open(const std::string& path) {
  page_ = "file://" + path;
  problems_.clear();
  requests_.clear();
  events_.clear();
  return !call("Page.navigate", {{"url", page_}}).contains("errorText") && wait_for("Page.loadEventFired");
}

json Browser::evaluate(const std::string& expression) {
  const json answer =
      call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (answer.contains("exceptionDetails")) return {{"exception", answer["exceptionDetails"].dump()}};
  return answer.contains("result") ? answer["result"].value("value", json()) : json();
}

void Browser::press(const std::string& key) {
  const int code = key == "Tab" ? 9 : key == "Enter" ? 13 : key == " " ? 32 : 0;
  json down = {
      {"type", "keyDown"}, {"key", key}, {"code", key == " " ? "Space" : key}, {"windowsVirtualKeyCode", code}};
  if (key == "Enter") down["text"] = "\r";
  if (key == " ") down["text"] = " ";
  call("Input.dispatchKeyEvent", down);
  down.erase("text");
  down["type"] = "keyUp";
  call("Input.dispatchKeyEvent", down);
}

bool Browser::screenshot(const std::string& path, bool whole) {
  const json answer = call("Page.captureScreenshot", {{"format", "png"}, {"captureBeyondViewport", whole}});
  std::ofstream file(path, std::ios::binary);
  file << decoded(answer.value("data", ""));
  return file.good() && answer.contains("data");
}

json Browser::call(const std::string& method, json params) {
  json message = {{"id", ++last_id_}, {"method", method}, {"params", std::move(params)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(to_, text.data() + at, text.size() - at);
    if (n <= 0) return nullptr;
    at += static_cast<size_t>(n);
  }
  for (;;) {
    const json answer = receive();
    if (answer.is_null()) return nullptr;
    if (answer.value("id", 0) != last_id_) {
      take(answer);
      continue;
    }
    return answer.contains("result") ? answer["result"] : json{{"errorText", answer.value("error", json()).dump()}};
  }
}

bool Browser::wait_for(const std::string& event) {
  while (std::find(events_.begin(), events_.end(), event) == events_.end()) {
    const json message = receive();
    if (message.is_null()) return false;
    take(message);
  }
  return true;
}

json Browser::receive() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(kAnswerSeconds);
  for (;;) {
    if (const size_t stop = buffer_.find('\0'); stop != std::string::npos) {
      json message = json::parse(buffer_.substr(0, stop), nullptr, false);
      buffer_.erase(0, stop + 1);
      return message.is_object() ? message : json::object();
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{from_, POLLIN, 0};
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) <= 0) return nullptr;
    char part[65536];
    const ssize_t n = read(from_, part, sizeof part);
    if (n <= 0) return nullptr;
    buffer_.append(part, static_cast<size_t>(n));
  }
}

void Browser::take(const json& message) {
  const std::string method = message.value("method", "");
  const json params = message.value("params", json::object());
  events_.push_back(method);
  if (method == "Runtime.exceptionThrown") problems_.push_back(params.dump());
  if (method == "Runtime.consoleAPICalled" && params.value("type", "") != "log") problems_.push_back(params.dump());
  if (method == "Log.entryAdded") problems_.push_back(params.dump());
  if (method == "Network.requestWillBeSent") {
    const std::string url = params["request"].value("url", "");
    if (url != page_ && !url.starts_with("data:")) requests_.push_back(url);
  }
}

}  // namespace fettle::testing_support
