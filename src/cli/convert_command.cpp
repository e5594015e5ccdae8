#include <fmt/format.h>

#include <memory>

#include "base/output_file.h"
#include "cli/command.h"
#include "frontend/saved/saved.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  std::string out;
  Limits limits;
  bool json = false;
};

Result<Report> convert(const Options& options) {
  FETTLE_TRY(const Graph graph, import_model(options.model.path, {{}, options.limits, options.model.function}));
  note_function(options.model, graph, progress);
  FETTLE_TRY(OutputFile file, OutputFile::create(options.out));
  int64_t written_bytes = 0;
  FETTLE_TRY_VOID(save_graph(graph, [&](std::string_view bytes) -> Result<> {
    written_bytes += static_cast<int64_t>(bytes.size());
    return file.write(bytes);
  }));
  FETTLE_TRY_VOID(file.commit());
  Report report;
  report.json = {{"file", options.model.path},
                 {"output", options.out},
                 {"nodes", graph.nodes().size()},
                 {"bytes", written_bytes},
                 {"operators", histogram(graph)}};
  add_function_json(report.json, graph.function());
  report.text = fmt::format("{}: {} nodes, {} bytes\n", options.out, graph.nodes().size(), written_bytes);
  return report;
}

}  // namespace

Command add_convert_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "convert", "Write a model of any kind as a graph that every command reads",
                             "fettle convert model.onnx -o model.fettle", &options->json);
  add_model(made, &options->model, false);
  made->add_option("-o,--output", options->out, "the graph")->required()->type_name("GRAPH.fettle");
  add_limits(made, &options->limits);
  return {made, [options] { return convert(*options); }, &options->json};
}

}  // namespace fettle::cli
