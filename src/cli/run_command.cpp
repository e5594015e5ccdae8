#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "driver/open.h"
#include "rt/utf8.h"
#include "runtime/npy.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string model, database, folder;
  std::vector<std::pair<std::string, std::string>> inputs;
  PassNames without;
  int threads = 0;
  bool pin = false, json = false;
};

/// A file name for a tensor: what a name may not hold becomes '_'.
std::string file_name(const std::string& tensor) {
  std::string name = tensor;
  for (char& c : name)
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 32) c = '_';
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

/// UTF-8, with U+FFFD in place of what is none.
std::string printable(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const rt::Utf8 character = rt::decode_utf8(text.data(), std::ssize(text));
    made += character.code < 0 ? "\xef\xbf\xbd" : text.substr(0, static_cast<size_t>(character.bytes));
    text.remove_prefix(static_cast<size_t>(character.bytes));
  }
  return made;
}

/// Strings are told, one a line, as JSON writes them.
void print_strings(const NamedTensor& output, Report& report) {
  nlohmann::json strings = nlohmann::json::array();
  report.text += fmt::format("{}  {}\n", output.name, output.tensor.type_to_string());
  for (const std::string_view text : output.tensor.strings()) {
    strings.push_back(printable(text));
    report.text += "  " + strings.back().dump() + "\n";
  }
  report.json["outputs"].push_back(
      {{"name", output.name}, {"type", output.tensor.type_to_string()}, {"strings", std::move(strings)}});
}

Result<Report> run_model(const Options& options) {
  std::vector<NamedTensor> inputs;
  InputShapes shapes;
  for (const auto& [name, file] : options.inputs) {
    FETTLE_TRY(Tensor tensor, read_npy(file));
    if (!shapes.emplace(name, tensor.shape()).second)
      return fail(ErrorCode::E704, fmt::format("input '{}' is given twice", name));
    inputs.push_back({name, std::move(tensor)});
  }
  FETTLE_TRY(const Model model, open_model(options.model, {.threads = options.threads,
                                                           .shapes = shapes,
                                                           .database = database_to_read(options.database),
                                                           .warn = progress,
                                                           .pin = options.pin,
                                                           .without = options.without}));
  FETTLE_TRY(const std::vector<NamedTensor> outputs, model.run(inputs));

  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return fail(ErrorCode::E702, error.message(), options.folder);
  Report report;
  report.json["outputs"] = nlohmann::json::array();
  for (const NamedTensor& output : outputs) {
    if (output.tensor.dtype() == FETTLE_STRING) {
      print_strings(output, report);
      continue;
    }
    const std::string path = (std::filesystem::path(options.folder) / (file_name(output.name) + ".npy")).string();
    FETTLE_TRY_VOID(write_npy(path, output.tensor));
    report.json["outputs"].push_back({{"name", output.name}, {"type", output.tensor.type_to_string()}, {"file", path}});
    report.text += fmt::format("{}  {}  {}\n", output.name, output.tensor.type_to_string(), path);
  }
  return report;
}

}  // namespace

Command add_run_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "run", "Run a model once on inputs from .npy files",
                             "fettle run model.so --input x=x.npy --output-dir out", &options->json);
  made->add_option("model", options->model, "an ONNX file, or a compiled model")
      ->required()
      ->type_name("MODEL.onnx|OUT.so");
  made->add_option_function(
          "--input",
          [options](const std::string& text) -> std::string {
            std::string name, file;
            if (!parse_assignment(text, &name, &file)) return "'" + text + "' is not of the form NAME=FILE.npy";
            options->inputs.emplace_back(name, file);
            return "";
          },
          "content of an input; may be repeated")
      ->type_name("NAME=F.npy");
  made->add_option("--output-dir", options->folder, "where OUTPUT.npy files are written")->required()->type_name("DIR");
  made->add_option("--db", options->database, "records of tuning, for an ONNX file")->type_name("FILE");
  add_no_pass(made, &options->without);
  add_threads(made, &options->threads);
  add_pin(made, &options->pin);
  return {made, [options] { return run_model(*options); }, &options->json};
}

}  // namespace fettle::cli
