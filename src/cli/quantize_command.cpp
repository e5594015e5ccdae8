#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "frontend/onnx/model_writer.h"
#include "quantize/quantize.h"
#include "quantize/sample_files.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string model, out, method, activations = "u8";
  std::vector<std::string> samples, exclude;
  double percentile = 0;  // not given
  int threads = 0;
  PassNames without;
  Limits limits;
  bool per_tensor = false, table = false, json = false;
};

/// JSON has no infinity: null, where nothing differs.
nlohmann::json decibels_json(double decibels) {
  return std::isfinite(decibels) ? nlohmann::json(decibels) : nlohmann::json();
}

std::string decibels_text(double decibels) {
  return std::isfinite(decibels) ? fmt::format("{:.1f} dB", decibels) : "exact";
}

nlohmann::json value_json(const quantize::QuantizedValue& value) {
  nlohmann::json made = {{"name", value.name},
                         {"op", value.node.op},
                         {"node", value.node.name},
                         {"min", value.range.least},
                         {"max", value.range.most},
                         {"scale", value.affine.scale},
                         {"zero_point", value.affine.zero_point}};
  if (value.signal_to_noise_db) made["signal_to_noise_db"] = decibels_json(*value.signal_to_noise_db);
  return made;
}

std::string table_of(const quantize::QuantizedModel& made) {
  constexpr size_t kName = 22, kOperator = 13;
  std::string text = fmt::format("{:<{}} {:<{}} {:>9} {:>8} {:>9} {:>4} {:>8}\n", "value", kName, "made by", kOperator,
                                 "min", "max", "scale", "zero", "error");
  for (const quantize::QuantizedValue& value : made.values)
    text += fmt::format("{:<{}} {:<{}} {:>9.3g} {:>8.3g} {:>9.3g} {:>4} {:>8}\n", fitting(value.name, kName), kName,
                        fitting(value.node.op.empty() ? "(input)" : value.node.op, kOperator), kOperator,
                        value.range.least, value.range.most, value.affine.scale, value.affine.zero_point,
                        value.signal_to_noise_db ? decibels_text(*value.signal_to_noise_db) : "");
  for (const quantize::OutputError& output : made.outputs)
    text += std::isfinite(output.signal_to_noise_db)
                ? fmt::format("output \"{}\": {:.1f} dB of signal over noise\n", output.name, output.signal_to_noise_db)
                : fmt::format("output \"{}\": as of floats\n", output.name);
  return text;
}

int64_t bytes_of(const std::string& path) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : static_cast<int64_t>(size);
}

/// Either is enough to ask for percentiles.
Result<quantize::RangeMethod> method_of(const Options& options) {
  if (options.method == "minmax" && options.percentile > 0)
    return fail(ErrorCode::E709, "ranges of --method minmax hold all values", "--percentile");
  return options.method == "percentile" || options.percentile > 0 ? quantize::RangeMethod::kPercentile
                                                                  : quantize::RangeMethod::kMinMax;
}

Result<Report> quantize_command(const Options& options) {
  FETTLE_TRY(const quantize::RangeMethod method, method_of(options));
  if (std::error_code ignored; std::filesystem::equivalent(options.model, options.out, ignored))
    return fail(ErrorCode::E709, "the model of floats would be overwritten; name another file", "--output");
  FETTLE_TRY(const OnnxModel model, read_onnx(options.model));
  FETTLE_TRY(const quantize::Samples samples, quantize::open_samples(options.samples, model));
  FETTLE_TRY(const quantize::QuantizedModel made,
             quantize::quantize_model(
                 model, samples,
                 {.method = method,
                  .percentile = options.percentile > 0 ? options.percentile : quantize::Options().percentile,
                  .activations = options.activations == "s8" ? quantize::ByteType::kS8 : quantize::ByteType::kU8,
                  .per_channel = !options.per_tensor,
                  .exclude = options.exclude,
                  .measures_errors = options.table,
                  .open = {.threads = options.threads, .without = options.without, .limits = options.limits},
                  .progress = progress}));
  FETTLE_TRY_VOID(write_onnx(made.model, options.out));

  Report report;
  report.json = {{"file", options.out},
                 {"bytes", bytes_of(options.out)},
                 {"samples", samples.count},
                 {"products", made.n_products},
                 {"weights", made.n_weights},
                 {"values", json_list(made.values, value_json)},
                 {"left", json_list(made.left,
                                    [](const quantize::LeftNode& node) -> nlohmann::json {
                                      return {{"op", node.op}, {"name", node.name}, {"reason", node.reason}};
                                    })},
                 {"outputs", json_list(made.outputs, [](const quantize::OutputError& output) -> nlohmann::json {
                    return {{"name", output.name}, {"signal_to_noise_db", decibels_json(output.signal_to_noise_db)}};
                  })}};
  if (needs_data_file(made.model)) report.json["data_file"] = options.out + ".data";
  report.text = fmt::format(
      "{}: {} products of bytes, {} weights and {} other values in bytes; {:.3g} MB from {:.3g} MB\n", options.out,
      made.n_products, made.n_weights, made.values.size(), static_cast<double>(bytes_of(options.out)) * 1e-6,
      static_cast<double>(bytes_of(options.model)) * 1e-6);
  if (needs_data_file(made.model)) report.text += fmt::format("its weights lie in {}.data\n", options.out);
  for (const quantize::LeftNode& node : made.left)
    report.text += fmt::format("{} \"{}\" stays float: {}\n", node.op, node.name, node.reason);
  report.text = wrapped_lines(report.text, 2);
  if (options.table) report.text += table_of(made);
  return report;
}

}  // namespace

Command add_quantize_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "quantize", "Make a model of bytes from one of floats, and samples of its inputs",
                             "fettle quantize model.onnx -o int8.onnx --calibrate samples --table", &options->json);
  made->add_option("model", options->model, "the ONNX file")->required()->type_name("MODEL.onnx");
  made->add_option("-o,--output", options->out, "the ONNX file that is written")->required()->type_name("OUT.onnx");
  made->add_option(
          "--calibrate", options->samples,
          "samples: .npy or .pb files of a model with one input, folders of INPUT.npy or input_N.pb files, or a "
          "folder of any of these")
      ->required()
      ->type_name("PATH");
  made->add_option("--method", options->method, "how ranges are taken from the samples; default: minmax")
      ->one_of({"minmax", "percentile"});
  made->add_option("--percentile", options->percentile,
                   fmt::format("what share of the values a range of --method percentile holds; default: {}",
                               quantize::Options().percentile))
      ->between(50.0, 100.0);
  made->add_flag("--per-tensor", options->per_tensor, "one scale for each weight, not one for each of its channels");
  made->add_option("--activations", options->activations, "the type of what is no weight; weights are s8")
      ->capture_default_str()
      ->one_of({"u8", "s8"});
  made->add_option("--exclude", options->exclude, "nodes, or operators, that stay float; may be repeated")
      ->type_name("NODE")
      ->one_at_a_time();
  made->add_flag("--table", options->table,
                 "measure the errors: each value against the model of floats, on the samples");
  add_no_pass(made, &options->without);
  add_limits(made, &options->limits);
  add_threads(made, &options->threads);
  return {made, [options] { return quantize_command(*options); }, &options->json};
}

}  // namespace fettle::cli
