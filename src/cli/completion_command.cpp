#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/command.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string shell;
  bool json = false;
};

// The last word of "db ls".
std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::vector<std::string> options_after(const App& app) {
  std::vector<std::string> words;
  for (const Option& option : app.options())
    if (!option.is_positional())
      for (const std::string& name : option.names()) words.push_back(name);
  words.emplace_back("--help");
  return words;
}

// What may stand there that is no option: subcommands, and what a positional has a list of.
std::vector<std::string> choices_after(const App& app) {
  std::vector<std::string> words;
  for (const auto& sub : app.subcommands()) words.push_back(last_word(sub->name()));
  for (const Option& option : app.options())
    if (option.is_positional()) words.insert(words.end(), option.values().begin(), option.values().end());
  return words;
}

// What stands in single quotes for a shell.
std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

// A case of bash for each subcommand: what may follow, and the values of options that have a list of them.
void add_bash_cases(const App& app, const std::string& path, std::string& words, std::string& values) {
  words += fmt::format("    {}) words={} choices={} ;;\n", quoted(path),
                       quoted(fmt::format("{}", fmt::join(options_after(app), " "))),
                       quoted(fmt::format("{}", fmt::join(choices_after(app), " "))));
  for (const Option& option : app.options()) {
    if (option.is_positional() || !option.takes_value()) continue;
    for (const std::string& name : option.names())
      values += fmt::format("    {}) values={} ;;\n", quoted(path + " " + name),
                            quoted(fmt::format("{}", fmt::join(option.values(), " "))));
  }
  for (const auto& sub : app.subcommands()) add_bash_cases(*sub, sub->name(), words, values);
}

std::string bash_script(const App& program) {
  std::string words, values;
  add_bash_cases(program, "", words, values);
  return fmt::format(
      R"(# Completion of `fettle` for bash: source <(fettle completion bash)
_fettle() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path= i words= choices= values=none
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      -*) break ;;
    esac
    case "{0}" in
      *" ${{path:+$path }}${{COMP_WORDS[i]}},"*) path=${{path:+$path }}${{COMP_WORDS[i]}} ;;
      *) break ;;
    esac
  done
  case $path in
{1}  esac
  case "$path $before" in
{2}  esac
  if [[ $values == none && $word != -* ]]; then words=$choices; fi
  if [[ $values != none ]]; then words=$values; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [[ ${{#COMPREPLY[@]}} == 0 ]]; then
    local IFS=$'\n'  # names of files may have spaces
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -F _fettle fettle
)",
      [&] {
        std::string all = " ";
        const auto add = [&](const App& app, const auto& self) -> void {
          for (const auto& sub : app.subcommands()) {
            all += sub->name() + ", ";
            self(*sub, self);
          }
        };
        add(program, add);
        return all;
      }(),
      words, values);
}

std::string zsh_script(const App& program) {
  return "#compdef fettle\n# Completion of `fettle` for zsh: source <(fettle completion zsh)\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(program);
}

void add_fish_lines(const App& app, const std::string& condition, std::string& lines) {
  for (const auto& sub : app.subcommands()) {
    const std::string word = last_word(sub->name());
    lines += fmt::format("complete -c fettle -f -n '{}' -a {} -d {}\n", condition, word, quoted(sub->description()));
    add_fish_lines(*sub, "__fish_seen_subcommand_from " + word, lines);
  }
  for (const Option& option : app.options()) {
    if (option.is_positional()) {
      if (!option.values().empty())
        lines += fmt::format("complete -c fettle -f -n '{}' -a '{}' -d {}\n", condition,
                             fmt::join(option.values(), " "), quoted(option.help()));
      continue;
    }
    std::string line = fmt::format("complete -c fettle -n '{}'", condition);
    for (const std::string& name : option.names())
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.values().empty()) {
      line += fmt::format(" -x -a '{}'", fmt::join(option.values(), " "));
    } else if (option.takes_value()) {
      line += " -r";
    }
    lines += line + " -d " + quoted(option.help()) + "\n";
  }
}

std::string fish_script(const App& program) {
  std::string lines = "# Completion of `fettle` for fish: fettle completion fish | source\n";
  add_fish_lines(program, "__fish_use_subcommand", lines);
  return lines;
}

Report completion(const App& program, const std::string& shell) {
  Report report;
  report.text = shell == "bash" ? bash_script(program) : shell == "zsh" ? zsh_script(program) : fish_script(program);
  report.json = {{"shell", shell}, {"script", report.text}};
  return report;
}

}  // namespace

Command add_completion_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "completion", "Print what makes a shell complete the command's words",
                             "source <(fettle completion bash)", &options->json);
  made->add_option("shell", options->shell, "bash, zsh or fish")->required()->one_of({"bash", "zsh", "fish"});
  return {made, [options, &app]() -> Result<Report> { return completion(app, options->shell); }, &options->json};
}

}  // namespace fettle::cli
