#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "codegen/device_def.h"
#include "driver/open.h"
#include "frontend/frontend.h"
#include "graph/passes/optional_passes.h"
#include "runtime/npy.h"
#include "runtime/origins.h"

namespace fettle::cli {
namespace {

bool parse_dims(const std::string& text, std::vector<int64_t>* dims) {
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, end, dim);
    if (error != std::errc() || dim < 0) return false;
    dims->push_back(dim);
    if (next == end) return true;
    if (*next != ',') return false;
    at = next + 1;
  }
}

}  // namespace

size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

namespace {

/// Where the word, which does not fit, is cut: behind the last comma that fits; at its end where there is none.
size_t cut_of(const std::string& word, size_t columns) {
  if (characters(word) <= columns) return word.size();
  const size_t comma = word.rfind(',', columns > 0 ? columns - 1 : 0);
  return comma == std::string::npos ? word.size() : comma + 1;
}

}  // namespace

std::string wrapped(const std::string& text, size_t indent, size_t columns) {
  std::string made;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t blanks = std::min(text.find_first_not_of(' ', at), text.size()) - at;
    const size_t end = std::min(text.find(' ', at + blanks), text.size());
    std::string word = text.substr(at + blanks, end - at - blanks);
    if (column > indent && column + blanks + characters(word) > columns) {
      made += "\n" + std::string(indent, ' ');
      column = indent;
    } else {
      made += std::string(blanks, ' ');
      column += blanks;
    }
    for (size_t cut = 0; (cut = cut_of(word, columns - std::min(column, columns))) < word.size();) {
      made += word.substr(0, cut) + "\n" + std::string(indent, ' ');
      word.erase(0, cut);
      column = indent;
    }
    made += word;
    column += characters(word);
    at = end;
  }
  return made;
}

std::string wrapped_lines(const std::string& text, size_t indent, size_t columns) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    made += wrapped(text.substr(at, end - at), indent, columns) + "\n";
    at = end + 1;
  }
  return made;
}

std::string fitting(const std::string& line, size_t columns) {
  if (characters(line) <= columns) return line;
  size_t end = 0;
  for (size_t left = columns - 3; end < line.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(line[end]) & 0xc0) != 0x80;  // a character
    if (begins && left-- == 0) break;
  }
  return line.substr(0, end) + "...";
}

std::string fitting_lines(const std::string& text, size_t columns) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    made += fitting(text.substr(at, end - at), columns) + "\n";
    at = end + 1;
  }
  return made;
}

App* add_subcommand(App& app, const std::string& name, const std::string& what, const std::string& example,
                    bool* json) {
  App* made = app.add_subcommand(name, what);
  made->footer("Example:\n  " + example);
  made->add_flag("--json", *json, "one JSON object on standard output; progress goes to standard error");
  return made;
}

std::string model_kinds() {
  std::string text;
  const auto all = frontends();
  for (size_t i = 0; i < all.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < all.size() ? ", " : " or ", all[i]->kind);
  return text;
}

Option* add_model(App* app, ModelFile* model, bool or_library) {
  Option* made =
      app->add_option("model", model->path, "the model: " + model_kinds() + (or_library ? "; or a compiled model" : ""))
          ->required()
          ->type_name(or_library ? "MODEL|OUT.so" : "MODEL");
  add_function(app, &model->function);
  return made;
}

Option* add_function(App* app, std::string* function) {
  return app
      ->add_option("--function", *function,
                   "which function of the file is the model; default: the last of comprehensions, main of StableHLO")
      ->type_name("NAME");
}

void add_function_json(nlohmann::json& json, const GraphFunction& function) {
  if (!function.name.empty()) json["function"] = function.name;
}

void add_shapes(App* app, InputShapes* shapes) {
  app->add_option_function(
         "--shape",
         [shapes](const std::string& text) -> std::string {
           std::string name, value;
           std::vector<int64_t> dims;
           if (!parse_assignment(text, &name, &value) || !parse_dims(value, &dims))
             return "'" + text + "' is not of the form NAME=D0,D1,...";
           (*shapes)[name] = std::move(dims);
           return "";
         },
         "shape of an input that the model leaves open; may be repeated")
      ->type_name("NAME=D0,D1,...")
      ->one_at_a_time();
}

namespace {

// "1..64:8": the ends and what divides it, each of which may be left out but for "..".
bool parse_range(const std::string& text, SizeFacts* facts) {
  const size_t dots = text.find(".."), colon = text.find(':');
  if (dots == std::string::npos || (colon != std::string::npos && colon < dots)) return false;
  const auto number = [](const std::string& digits, std::optional<int64_t>* value) {
    std::vector<int64_t> dims;
    if (digits.empty()) return true;
    if (!parse_dims(digits, &dims) || dims.size() != 1) return false;
    *value = dims[0];
    return true;
  };
  const size_t end = colon == std::string::npos ? text.size() : colon;
  return number(text.substr(0, dots), &facts->min) && number(text.substr(dots + 2, end - dots - 2), &facts->max) &&
         (colon == std::string::npos ||
          (number(text.substr(colon + 1), &facts->divisor) && facts->divisor.value_or(0) > 0));
}

}  // namespace

void add_inputs(App* app, InputFiles* files) {
  app->add_option_function(
         "--input",
         [files](const std::string& text) -> std::string {
           std::string name, file;
           if (!parse_assignment(text, &name, &file)) return "'" + text + "' is not of the form NAME=FILE.npy";
           files->emplace_back(name, file);
           return "";
         },
         "content of an input; may be repeated")
      ->type_name("NAME=F.npy");
}

Result<std::vector<NamedTensor>> read_inputs(const InputFiles& files, InputShapes* shapes) {
  std::vector<NamedTensor> inputs;
  std::set<std::string> names;
  for (const auto& [name, file] : files) {
    FETTLE_TRY(Tensor tensor, read_npy(file));
    if (!names.insert(name).second) return fail(ErrorCode::E704, fmt::format("input '{}' is given twice", name));
    (*shapes)[name] = tensor.shape();
    inputs.push_back({name, std::move(tensor)});
  }
  return inputs;
}

void add_no_pass(App* app, PassNames* without) {
  const PassNames passes = optional_passes();
  app->add_option_function(
         "--no-pass",
         [without](const std::string& name) -> std::string {
           without->insert(name);
           return "";
         },
         "a pass over the graph that is left out, to find where results come to differ; may be repeated")
      ->type_name("NAME")
      ->such_as({passes.begin(), passes.end()});
}

void add_limits(App* app, Limits* limits) {
  app->add_option_function(
         "--limit",
         [limits](const std::string& text) -> std::string {
           std::string name, value;
           if (!parse_assignment(text, &name, &value)) return "'" + text + "' is not of the form NAME=N";
           const LimitDef* def = find_limit(name);
           if (!def) {
             std::string known;
             for (const LimitDef& d : limit_defs()) known += (known.empty() ? "" : ", ") + std::string(d.name);
             return "there is no limit '" + name + "'; the limits are: " + known;
           }
           int64_t number = 0;
           const char* end = value.data() + value.size();
           const auto [next, error] = std::from_chars(value.data(), end, number);
           if (error != std::errc() || next != end || number < 0) return "'" + value + "' is no limit";
           limits->*def->value = number;
           return "";
         },
         "what a model may ask for at most, such as nodes=1000 (docs/limits.md); may be repeated")
      ->type_name("NAME=N")
      ->one_at_a_time();
}

void add_sizes(App* app, OpenSizes* sizes) {
  app->add_option_function(
         "--range",
         [sizes](const std::string& text) -> std::string {
           std::string name, value;
           if (!parse_assignment(text, &name, &value) || !parse_range(value, &(*sizes)[name]))
             return "'" + text + "' is not of the form SIZE=MIN..MAX or SIZE=MIN..MAX:MULTIPLE";
           return "";
         },
         "what a size that the model leaves open can be; may be repeated")
      ->type_name("SIZE=MIN..MAX[:MULTIPLE]")
      ->one_at_a_time();
  app->add_option_function(
         "--tune-at",
         [sizes](const std::string& text) -> std::string {
           std::string name, value;
           std::vector<int64_t> dims;
           if (!parse_assignment(text, &name, &value) || !parse_dims(value, &dims) ||
               std::ranges::any_of(dims, [](int64_t dim) { return dim < 1; }))
             return "'" + text + "' is not of the form SIZE=N,...";
           std::ranges::sort(dims);
           dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
           (*sizes)[name].points = std::move(dims);
           return "";
         },
         "values of an open size that kernels are made, and tuned, for: of several, each for sizes about it; may be "
         "repeated")
      ->type_name("SIZE=N,...")
      ->one_at_a_time();
}

void add_states(App* app, ModelStates* states) {
  app->add_option_function(
         "--state",
         [states](const std::string& text) -> std::string {
           std::string past, present;
           if (!parse_assignment(text, &past, &present)) return "'" + text + "' is not of the form PAST=PRESENT";
           if (!states->emplace(present, past).second) return "'" + present + "' is given twice";
           return "";
         },
         "an input that is what the call before left in an output; may be repeated. Its room is the end of its --range")
      ->type_name("PAST=PRESENT")
      ->one_at_a_time();
}

void add_max_error(App* app, double* max_error) {
  app->add_option("--max-error", *max_error,
                  "no schedule whose algorithm may err by more, in the worst case, in units of the type's epsilon; 100 "
                  "refuses Winograd's; default: no limit")
      ->type_name("EPSILONS")
      ->not_negative();
}

void add_vendor(App* app, KernelSources* sources) {
  app->add_option_function(
         "--vendor",
         [sources](const std::string& name) -> std::string {
           const auto found = kernel_sources_named({name});
           if (!found) return found.error().message;
           if (const auto version = found->front()->version(); !version) return version.error().message;
           if (std::ranges::find(*sources, found->front()) == sources->end()) sources->push_back(found->front());
           return "";
         },
         "a library whose kernels are used where they were measured to be faster than Fettle's: onednn; what is "
         "compiled so needs the library to run; may be repeated")
      ->type_name("NAME")
      ->one_at_a_time();
}

void add_workload_equality(App* app, WorkloadEquality* equality, size_t modes) {
  const auto known = workload_equality_names().first(modes);
  app->add_option_function(
         "--workload-equality",
         [equality](const std::string& name) -> std::string {
           if (const auto found = find_workload_equality(name)) *equality = *found;
           return "";
         },
         "whose records count for a task: those of the same program (the default), or of others that are equal so far")
      ->one_at_a_time()
      ->one_of({known.begin(), known.end()});
}

void add_threads(App* app, int* threads) {
  app->add_option("--threads", *threads, "threads that the model runs on; default: as many as this process may use")
      ->between(1, 1024);
}

Option* add_streams(App* app, int* streams) {
  return app
      ->add_option("--streams", *streams,
                   "for so many calls at once, each on --threads of its own, by default its share of all that this "
                   "process may use; default: one call")
      ->between(1, 256);
}

namespace {

void add_target_option(App* app, std::string* target, bool takes_several, const std::string& help) {
  app->add_option_function(
         "--target",
         [target, takes_several](const std::string& text) -> std::string {
           const OpenOptions options{.target = text};
           if (const auto parsed = targets_of(options); !parsed) return parsed.error().message;
           if (const auto parsed = takes_several ? Result<Target>() : target_of(options); !parsed)
             return parsed.error().message;
           *target = text;
           return "";
         },
         help)
      ->type_name(takes_several ? "TARGET,…" : "TARGET")
      ->one_at_a_time();
}

}  // namespace

void add_target(App* app, std::string* target) {
  add_target_option(app, target, false,
                    "what kernels run on: cuda, \"cuda -arch sm_80\", opencl (docs/gpu.md), a processor such as "
                    "x86-64-v3; default: this machine's CPU");
}

void add_targets(App* app, std::string* targets) {
  add_target_option(
      app, targets, true,
      "what kernels run on: cuda, \"cuda -arch sm_80\", opencl (docs/gpu.md), or processors, of which the "
      "library takes the best where it is opened: x86-64-v3,x86-64-v4,sapphirerapids (docs/deploy.md); "
      "default: this machine's CPU");
}

void add_run_options(App* app, bool* pin, bool* keep_denormals) {
  app->add_flag("--keep-denormals", *keep_denormals,
                "compute with denormal numbers, which are taken for zero otherwise");
  app->add_flag("--pin", *pin, "bind each worker thread to a CPU of its own, of those that this process may use");
}

bool parse_seconds(const std::string& text, double* seconds) {
  double value = 0;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0)) return false;
  const std::string unit(next, text.data() + text.size());
  if (unit.empty() || unit == "s")
    *seconds = value;
  else if (unit == "ms")
    *seconds = value / 1e3;
  else if (unit == "m")
    *seconds = 60 * value;
  else if (unit == "h")
    *seconds = 3600 * value;
  else
    return false;
  return true;
}

bool parse_assignment(const std::string& text, std::string* name, std::string* value) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) return false;
  *name = text.substr(0, equals);
  *value = text.substr(equals + 1);
  return true;
}

static constexpr auto origin_json = [](const auto& origin) -> nlohmann::json {
  return {{"op", origin.op}, {"name", origin.name}};
};
nlohmann::json origins_json(const std::vector<Origin>& origins) { return json_list(origins, origin_json); }
nlohmann::json provenance_json(const Provenance& provenance) {
  return origins_json({provenance.begin(), provenance.end()});
}
nlohmann::json origins_json(std::string_view lines) { return json_list(split_origins(lines), origin_json); }

void progress(const std::string& line) { fmt::print(stderr, "{}\n", line); }

std::string default_database() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data && *data) return std::string(data) + "/fettle/records.db";
  const char* home = std::getenv("HOME");
  if (home && *home) return std::string(home) + "/.local/share/fettle/records.db";
  return {};
}

std::string database_to_read(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code ignored;
  const std::string usual = default_database();
  return !usual.empty() && std::filesystem::exists(usual, ignored) ? usual : std::string();
}

}  // namespace fettle::cli
