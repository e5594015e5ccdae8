#pragma once
// The command line: subcommands and their options. CLI11, which parses it, takes long to compile, and stands in
// options.cpp alone. Methods are called as CLI11's.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fettle::cli {

/// One option of an App, which owns it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  /// What stands for a value in the help: FILE.
  Option* type_name(const std::string& name);
  Option* capture_default_str();
  Option* excludes(Option* other);
  Option* needs(Option* other);
  /// Values of a list are separated by it.
  Option* delimiter(char separator);
  /// One value each time that it is given.
  Option* one_at_a_time();
  Option* between(int64_t least, int64_t most);
  Option* between(double least, double most);
  Option* between(int least, int most) { return between(int64_t{least}, int64_t{most}); }
  Option* not_negative();
  Option* one_of(std::vector<std::string> values);
  /// What shells offer. Other values are taken, too.
  Option* such_as(std::vector<std::string> values);

  /// "--time", "-o"; of a positional argument its name.
  std::vector<std::string> names() const;
  std::string help() const;
  bool is_positional() const;
  bool takes_value() const;
  /// Those of one_of or such_as.
  const std::vector<std::string>& values() const { return values_; }

 private:
  Option* after(CLI::Option*) { return this; }
  CLI::Option* option_;
  std::vector<std::string> values_;
};

/// The program, or a subcommand of it.
class App {
 public:
  App(const std::string& description, const std::string& name);
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  App* add_subcommand(const std::string& name, const std::string& description);
  void require_subcommand(int least);
  void set_version_flag(const std::string& name, const std::string& version);
  void footer(const std::string& text);

  /// Of a text, a path, a number or a list of texts.
  template <class T>
  Option* add_option(const std::string& name, T& value, const std::string& help);
  /// `read` takes each value, and says what is wrong with it; nothing: it is right.
  Option* add_option_function(const std::string& name, std::function<std::string(const std::string& value)> read,
                              const std::string& help);
  Option* add_flag(const std::string& name, bool& value, const std::string& help);

  /// Nothing: the arguments were read. Else the status to end with: all was said.
  std::optional<int> parse(int argc, char** argv);
  bool parsed() const;
  /// "tune", "db ls"
  std::string name() const;
  std::string description() const;
  const std::deque<Option>& options() const { return options_; }
  const std::vector<std::unique_ptr<App>>& subcommands() const { return subcommands_; }

 private:
  explicit App(CLI::App* app);
  Option* keep(CLI::Option* option);

  std::unique_ptr<CLI::App> own_;  // of the program
  CLI::App* app_;
  std::deque<Option> options_;
  std::vector<std::unique_ptr<App>> subcommands_;
};

}  // namespace fettle::cli
