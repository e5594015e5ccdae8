#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "driver/cache.h"
#include "driver/open.h"
#include "driver/verify.h"
#include "rt/targets.h"
#include "rt/utf8.h"
#include "runtime/npy.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  std::string target, database, folder;
  InputFiles inputs;
  PassNames without;
  Limits limits;
  int threads = 0;
  double max_operations = ModelVerifyOptions().max_operations;
  bool pin = false, keep_denormals = false, verify = false, cache = false, json = false;
};

/// A file name for a tensor: what a name may not hold becomes '_'.
std::string file_name(const std::string& tensor) {
  std::string name = tensor;
  for (char& c : name)
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 32) c = '_';
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

std::string names_of(const std::vector<Origin>& nodes) {
  constexpr size_t kNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(nodes.size(), kNamed); ++i) text += (i ? ", " : "") + nodes[i].to_string();
  return nodes.size() > kNamed ? text + fmt::format(" and {} more", nodes.size() - kNamed) : text;
}

Result<Report> verify(const Options& options, const std::vector<NamedTensor>& inputs) {
  if (is_library_path(options.model.path))
    return fail(ErrorCode::E709, "a compiled model is not verified; give the model's file");
  FETTLE_TRY(const Verification verdict,
             verify_model(options.model, inputs,
                          {.open = {.threads = options.threads, .target = options.target, .without = options.without},
                           .max_operations = options.max_operations,
                           .progress = progress}));
  Report report;
  report.json = {{"compared", verdict.compared},
                 {"left_out", origins_json(verdict.left_out)},
                 {"differs", !verdict.value.empty()}};
  report.text = fmt::format("{} values compared", verdict.compared);
  if (!verdict.left_out.empty())
    report.text += fmt::format("; {} nodes were not judged, for which --max-operations is too small: {}",
                               verdict.left_out.size(), names_of(verdict.left_out));
  report.text += "\n";
  if (verdict.value.empty()) {
    report.text += "nothing differs\n";
    return report;
  }
  report.status = kCouldNot;
  report.json["value"] = verdict.value;
  report.json["distance"] = verdict.distance;
  report.json["tolerance"] = verdict.tolerance;
  report.json["nodes"] = origins_json(verdict.nodes);
  report.json["passes"] = verdict.passes;
  report.text +=
      fmt::format("\"{}\" is off by {:.3g}, where {:.3g} may be\n", verdict.value, verdict.distance, verdict.tolerance);
  report.text +=
      fmt::format("{}: {}\n", verdict.nodes.size() == 1 ? "the node" : "the nodes, together", names_of(verdict.nodes));
  for (const std::string& pass : verdict.passes)
    report.text += fmt::format("nothing differs with --no-pass {}\n", pass);
  return report;
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
  if (options.folder.empty() && !options.verify)
    return fail(ErrorCode::E709, "--output-dir is missing: where OUTPUT.npy files are written");
  InputShapes shapes;
  FETTLE_TRY(const std::vector<NamedTensor> inputs, read_inputs(options.inputs, &shapes));
  if (options.verify) return verify(options, inputs);
  const auto open = options.cache ? open_cached_model : open_model;
  FETTLE_TRY(const Model model, open(options.model, {.threads = options.threads,
                                                     .target = options.target,
                                                     .shapes = shapes,
                                                     .database = database_to_read(options.database),
                                                     .warn = progress,
                                                     .pin = options.pin,
                                                     .keep_denormals = options.keep_denormals,
                                                     .without = options.without,
                                                     .limits = options.limits}));
  FETTLE_TRY(const std::vector<NamedTensor> outputs, model.run(inputs));

  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return fail(ErrorCode::E702, error.message(), options.folder);
  Report report;
  if (const int32_t targets = fettle_count_targets(&model.info()); targets > 0) {
    const std::string name = model.target_name();
    report.json["target"] = name;
    report.text = fmt::format("of {} targets, {} is taken\n", targets, name);
  }
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
  add_model(made, &options->model, true);
  add_inputs(made, &options->inputs);
  made->add_option("--output-dir", options->folder, "where OUTPUT.npy files are written")->type_name("DIR");
  made->add_flag("--verify", options->verify,
                 "compare with the model's file, node by node; on a difference say which node, and which pass");
  made->add_option("--max-operations", options->max_operations, "of a node that --verify still interprets")
      ->capture_default_str()
      ->not_negative();
  made->add_option("--db", options->database, "records of tuning, of a model that is not compiled yet")
      ->type_name("FILE");
  made->add_flag("--cache", options->cache, "keep the compiled model, and use what was kept: see `fettle cache`");
  add_no_pass(made, &options->without);
  add_limits(made, &options->limits);
  add_threads(made, &options->threads);
  add_target(made, &options->target);
  add_run_options(made, &options->pin, &options->keep_denormals);
  return {made, [options] { return run_model(*options); }, &options->json};
}

}  // namespace fettle::cli
