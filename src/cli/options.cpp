#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <utility>

#include "cli/command.h"

namespace fettle::cli {
namespace {

constexpr size_t kHelpColumns = 80;

/// What is longer than a line goes on where the option's description begins.
std::string fitting_help(const std::string& help) {
  constexpr size_t kDescriptions = 30;
  std::string made, line;
  for (size_t at = 0; at < help.size(); at += line.size() + 1) {
    line = help.substr(at, std::min(help.find('\n', at), help.size()) - at);
    const bool has_both = line.size() > kDescriptions && line[kDescriptions - 1] == ' ' && line[kDescriptions] != ' ';
    const size_t indent = has_both                                           ? kDescriptions
                          : line.find_first_not_of(' ') == std::string::npos ? 0
                                                                             : line.find_first_not_of(' ') + 2;
    made += wrapped(line, indent, kHelpColumns) + "\n";
  }
  return made;
}

}  // namespace

Option* Option::required() { return after(option_->required()); }
Option* Option::type_name(const std::string& name) { return after(option_->type_name(name)); }
Option* Option::capture_default_str() { return after(option_->capture_default_str()); }
Option* Option::excludes(Option* other) { return after(option_->excludes(other->option_)); }
Option* Option::needs(Option* other) { return after(option_->needs(other->option_)); }
Option* Option::delimiter(char separator) { return after(option_->delimiter(separator)); }
Option* Option::one_at_a_time() { return after(option_->expected(1)->take_all()); }
Option* Option::between(int64_t least, int64_t most) { return after(option_->check(CLI::Range(least, most))); }
Option* Option::between(double least, double most) { return after(option_->check(CLI::Range(least, most))); }
Option* Option::not_negative() { return after(option_->check(CLI::NonNegativeNumber)); }
Option* Option::one_of(std::vector<std::string> values) {
  values_ = values;
  return after(option_->check(CLI::IsMember(std::move(values))));
}
Option* Option::such_as(std::vector<std::string> values) {
  values_ = std::move(values);
  return this;
}
std::vector<std::string> Option::names() const {
  std::vector<std::string> names;
  for (const std::string& name : option_->get_snames()) names.push_back("-" + name);
  for (const std::string& name : option_->get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option_->get_name());
  return names;
}
std::string Option::help() const { return option_->get_description(); }
bool Option::is_positional() const { return option_->get_positional(); }
bool Option::takes_value() const { return option_->get_items_expected_max() > 0; }

App::App(const std::string& description, const std::string& name)
    : own_(std::make_unique<CLI::App>(description, name)), app_(own_.get()) {}
App::App(CLI::App* app) : app_(app) {}
App::~App() = default;

Option* App::keep(CLI::Option* option) { return &options_.emplace_back(option); }

App* App::add_subcommand(const std::string& name, const std::string& description) {
  subcommands_.emplace_back(new App(app_->add_subcommand(name, description)));
  return subcommands_.back().get();
}
void App::require_subcommand(int least) { app_->require_subcommand(least); }
void App::set_version_flag(const std::string& name, const std::string& version) {
  keep(app_->set_version_flag(name, version));
}
void App::footer(const std::string& text) { app_->footer(text); }

template <class T>
Option* App::add_option(const std::string& name, T& value, const std::string& help) {
  return keep(app_->add_option(name, value, help));
}
template Option* App::add_option(const std::string&, std::string&, const std::string&);
template Option* App::add_option(const std::string&, std::filesystem::path&, const std::string&);
template Option* App::add_option(const std::string&, int&, const std::string&);
template Option* App::add_option(const std::string&, int64_t&, const std::string&);
template Option* App::add_option(const std::string&, uint64_t&, const std::string&);
template Option* App::add_option(const std::string&, double&, const std::string&);
template Option* App::add_option(const std::string&, std::vector<std::string>&, const std::string&);
Option* App::add_option_function(const std::string& name, std::function<std::string(const std::string& value)> read,
                                 const std::string& help) {
  return keep(app_->add_option_function<std::vector<std::string>>(
      name,
      [name, read = std::move(read)](const std::vector<std::string>& given) {
        for (const std::string& value : given)
          if (const std::string wrong = read(value); !wrong.empty()) throw CLI::ValidationError(name, wrong);
      },
      help));
}
Option* App::add_flag(const std::string& name, bool& value, const std::string& help) {
  return keep(app_->add_flag(name, value, help));
}

std::optional<int> App::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << fitting_help(app_->help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return app_->exit(error);
  }
  return std::nullopt;
}

bool App::parsed() const { return app_->parsed(); }

std::string App::description() const { return app_->get_description(); }

std::string App::name() const {
  const CLI::App* group = app_->get_parent();
  return group && group->get_parent() ? group->get_name() + " " + app_->get_name() : app_->get_name();
}

}  // namespace fettle::cli
