#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/output_file.h"
#include "cli/command.h"
#include "driver/bench.h"
#include "driver/open.h"
#include "runtime/origins.h"
#include "runtime/timeline.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  std::string database, out;
  InputFiles inputs;
  InputShapes shapes;
  PassNames without;
  Limits limits;
  int threads = 0, runs = 3;
  uint64_t seed = 0;
  bool pin = false, keep_denormals = false, json = false;
};

constexpr size_t kShownKernels = 10;

double share(int64_t part_ns, int64_t whole_ns) {
  return static_cast<double>(part_ns) / static_cast<double>(std::max<int64_t>(whole_ns, 1));
}

struct KernelSum {
  int32_t kernel = 0;
  int64_t calls = 0, total_ns = 0;
};

/// The largest first, without those that never ran.
std::vector<KernelSum> sums_of(const Timeline& timeline, const FettleModelInfo& info) {
  std::vector<KernelSum> sums(static_cast<size_t>(info.n_kernels));
  for (const Timeline::Kernel& kernel : timeline.kernels) {
    KernelSum& sum = sums[static_cast<size_t>(kernel.kernel)];
    sum.kernel = kernel.kernel;
    ++sum.calls;
    sum.total_ns += kernel.duration_ns();
  }
  std::erase_if(sums, [](const KernelSum& sum) { return sum.calls == 0; });
  std::ranges::stable_sort(sums, std::greater{}, &KernelSum::total_ns);
  return sums;
}

Report summarize(const Options& options, const Timeline& timeline, const FettleModelInfo& info) {
  int64_t calls_ns = 0, kernels_ns = 0;
  for (const Timeline::Span& call : timeline.calls) calls_ns += call.duration_ns();
  for (const Timeline::Kernel& kernel : timeline.kernels) kernels_ns += kernel.duration_ns();
  const auto ms = static_cast<double>(calls_ns) / 1e6 / static_cast<double>(timeline.calls.size());
  Report report;
  report.json = {{"model", info.name},
                 {"file", options.out},
                 {"runs", timeline.calls.size()},
                 {"mean_ms", ms},
                 {"in_kernels", share(kernels_ns, calls_ns)},
                 {"parts_left_out", timeline.parts_left_out},
                 {"threads", nlohmann::json::array()}};
  report.text =
      fmt::format("{} runs, {:.3f} ms each: {:.1f}% in kernels, {:.1f}% between them\n", timeline.calls.size(), ms,
                  100 * share(kernels_ns, calls_ns), 100 * (1 - share(kernels_ns, calls_ns)));
  const auto threads = slices_of_threads(timeline);
  for (size_t t = 0; t < threads.size(); ++t) {
    int64_t busy_ns = 0, waits_ns = 0;
    for (const ThreadSlice& slice : threads[t])
      (slice.kind == ThreadSlice::Kind::kWait ? waits_ns : busy_ns) += slice.duration_ns();
    report.json["threads"].push_back({{"busy", share(busy_ns, calls_ns)}, {"waits", share(waits_ns, calls_ns)}});
    report.text += fmt::format("thread {:<3} {:>5.1f}% busy, {:>5.1f}% waiting for others\n", t,
                               100 * share(busy_ns, calls_ns), 100 * share(waits_ns, calls_ns));
  }
  report.text += fmt::format("\n{:>6} {:>10} {:>6}  {}\n", "share", "us", "calls", "kernel, nodes");
  const std::vector<KernelSum> sums = sums_of(timeline, info);
  report.json["kernels"] = json_list(sums, [&](const KernelSum& sum) -> nlohmann::json {
    return {{"kernel", info.kernel_names[sum.kernel]},
            {"nodes", origins_json(std::string_view(info.kernel_origins[sum.kernel]))},
            {"calls", sum.calls},
            {"total_ns", sum.total_ns}};
  });
  for (size_t i = 0; i < std::min(sums.size(), kShownKernels); ++i) {
    const KernelSum& sum = sums[i];
    const std::string origins = origins_to_string(info.kernel_origins[sum.kernel], 2);
    report.text += fitting(fmt::format("{:>5.1f}% {:>10.1f} {:>6}  {}{}", 100 * share(sum.total_ns, calls_ns),
                                       static_cast<double>(sum.total_ns) / 1e3, sum.calls,
                                       info.kernel_names[sum.kernel], origins.empty() ? "" : " (" + origins + ")")) +
                   "\n";
  }
  if (sums.size() > kShownKernels) report.text += fmt::format("and {} more kernels\n", sums.size() - kShownKernels);
  if (timeline.parts_left_out > 0)
    report.text += fmt::format("{} parts of kernels are left out: take fewer --runs\n", timeline.parts_left_out);
  report.text += fmt::format("\n{}\nOpen it at https://ui.perfetto.dev or in chrome://tracing.\n", options.out);
  return report;
}

Result<Report> trace(const Options& options) {
  InputShapes shapes = options.shapes;
  FETTLE_TRY(std::vector<NamedTensor> given, read_inputs(options.inputs, &shapes));
  FETTLE_TRY(OutputFile file, OutputFile::create(options.out));
  FETTLE_TRY(const Model model, open_model(options.model, {.threads = options.threads,
                                                           .shapes = shapes,
                                                           .database = database_to_read(options.database),
                                                           .warn = progress,
                                                           .keep_denormals = options.keep_denormals,
                                                           .without = options.without,
                                                           .limits = options.limits}));
  FETTLE_TRY(std::vector<NamedTensor> inputs, random_inputs(model, options.seed, shapes));
  for (NamedTensor& input : inputs)
    for (NamedTensor& one : given)
      if (one.name == input.name) input.tensor = std::move(one.tensor);
  FETTLE_TRY(const Timeline timeline,
             record_timeline(model, inputs, {.runs = options.runs, .threads = options.threads, .pin = options.pin}));
  FETTLE_TRY_VOID(file.write(to_trace_events(timeline, model.info())));
  FETTLE_TRY_VOID(file.commit());
  return summarize(options, timeline, model.info());
}

}  // namespace

Command add_trace_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "trace", "Write when each thread ran which part of a model, for Perfetto",
                             "fettle trace model.onnx -o trace.json", &options->json);
  add_model(made, &options->model, true);
  made->add_option("-o,--output", options->out, "the timeline")->required()->type_name("TRACE.json");
  add_inputs(made, &options->inputs);
  made->add_option("--runs", options->runs, "that are recorded, after one that is not")
      ->capture_default_str()
      ->between(1, 10000);
  made->add_option("--seed", options->seed, "of the random inputs")->capture_default_str();
  made->add_option("--db", options->database, "records of tuning, of a model that is not compiled yet")
      ->type_name("FILE");
  add_shapes(made, &options->shapes);
  add_no_pass(made, &options->without);
  add_limits(made, &options->limits);
  add_threads(made, &options->threads);
  add_run_options(made, &options->pin, &options->keep_denormals);
  return {made, [options] { return trace(*options); }, &options->json};
}

}  // namespace fettle::cli
