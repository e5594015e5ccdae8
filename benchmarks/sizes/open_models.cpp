#include "sizes/open_models.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/random.h"
#include "driver/bench.h"
#include "driver/open.h"
#include "models/table.h"

namespace fettle::bench {
namespace {

/// A model of the table, and how its inputs' shapes follow from what is drawn.
struct OpenModel {
  std::string name;
  std::function<InputShapes(RandomStream& random)> shapes;
};

int64_t between(RandomStream& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least + 1)));
}

std::vector<OpenModel> open_models() {
  const auto text = [](std::vector<std::string> names, std::vector<int64_t> rest) {
    return [names, rest](RandomStream& random) {
      std::vector<int64_t> shape{between(random, 1, 4), between(random, 8, 256)};
      shape.insert(shape.end(), rest.begin(), rest.end());
      InputShapes shapes;
      for (const std::string& name : names) shapes[name] = shape;
      return shapes;
    };
  };
  const auto image = [](int64_t height, int64_t least_width, int64_t most_width, int64_t step) {
    return [=](RandomStream& random) {
      const auto side = [&](int64_t least, int64_t most) { return between(random, least / step, most / step) * step; };
      const int64_t h = height > 0 ? height : side(least_width, most_width);
      return InputShapes{{"x", {1, 3, h, side(least_width, most_width)}}};
    };
  };
  return {{"bert_base", text({"input_ids", "attention_mask", "token_type_ids"}, {})},
          {"gpt2_block", text({"hidden_states"}, {768})},
          {"ppocrv4_rec", image(48, 64, 640, 1)},
          {"ppocr_cls", image(48, 64, 320, 1)},
          {"ppocrv4_det", image(0, 160, 640, 32)},
          {"magika", [](RandomStream& random) { return InputShapes{{"bytes", {between(random, 1, 8), 2048}}}; }}};
}

struct Ratios {
  double logs = 0, worst = 0;
  int count = 0;

  void add(double ratio) {
    logs += std::log(ratio);
    worst = std::max(worst, ratio);
    ++count;
  }
  void add(const Ratios& other) {
    logs += other.logs;
    worst = std::max(worst, other.worst);
    count += other.count;
  }
  double mean() const { return std::exp(logs / count); }
};

/// Times of one size, in ms: open, fixed, then the engines.
Result<std::vector<Latency>> time_size(const TableModel& entry, const Model& open, const InputShapes& shapes,
                                       const OpenModelOptions& options, const std::string& folder) {
  FETTLE_TRY(const Model fixed, open_model(entry.file, {.threads = options.threads, .shapes = shapes}));
  TableModel sized = entry;
  for (TableInput& input : sized.inputs) input.shape = shapes.at(input.name);
  FETTLE_TRY(const std::vector<NamedTensor> inputs, table_inputs(sized, open, 1));
  FETTLE_TRY(ModelContext open_context, open.make_context());
  FETTLE_TRY(ModelContext fixed_context, fixed.make_context());
  std::vector<TimedWork> works = {timed_model("open", open_context, inputs),
                                  timed_model("fixed", fixed_context, inputs)};
  std::vector<ModelPeer> peers;
  if (options.peers)
    for (const char* name : {"onnxruntime", "openvino"}) {
      FETTLE_TRY(ModelPeer peer, start_peer(name, entry.file, options.threads, inputs, folder));
      peers.push_back(std::move(peer));
    }
  for (ModelPeer& peer : peers) works.push_back(timed_peer(peer));
  return time_interleaved(works, {.seconds = options.seconds});
}

void add_rows(Report& report, const std::string& name, const Ratios& fixed, const Ratios& peers, bool is_all) {
  const auto bound = [&](double most) { return is_all ? std::optional(at_most(most)) : std::nullopt; };
  report.add(name + ": open over fixed sizes, geometric mean", fixed.mean(), "x", bound(1.05));
  report.add(name + ": open over fixed sizes, worst", fixed.worst, "x", bound(1.2));
  if (peers.count > 0)
    report.add(name + ": open over the better engine, geometric mean", peers.mean(), "x", bound(0.9));
}

}  // namespace

Result<> bench_open_models(Report& report, const OpenModelOptions& options) {
  FETTLE_TRY(const std::vector<TableModel> table, read_model_table());
  std::string folder = (std::filesystem::temp_directory_path() / "fettle-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) return fail(ErrorCode::E702, "no folder for the inputs of other engines", folder);
  Ratios all_fixed, all_peers;
  for (const OpenModel& model : open_models()) {
    if (model.name.find(options.only) == std::string::npos) continue;
    const auto entry = std::ranges::find(table, model.name, &TableModel::name);
    if (entry == table.end()) return fail(ErrorCode::E701, "the table of models has no " + model.name);
    FETTLE_TRY(const Model open, open_model(entry->file, {.threads = options.threads}));
    Ratios fixed, peers;
    RandomStream random{1};
    for (int i = 0; i < options.sizes; ++i) {
      const InputShapes shapes = model.shapes(random);
      FETTLE_TRY(const std::vector<Latency> times, time_size(*entry, open, shapes, options, folder));
      fixed.add(times[0].median_ms / times[1].median_ms);
      std::string line = fmt::format("{:12} {:20} open {:8.2f} ms, fixed {:8.2f} ms", model.name,
                                     shape_to_string(shapes.begin()->second), times[0].median_ms, times[1].median_ms);
      if (times.size() > 2) {
        peers.add(times[0].median_ms / std::min(times[2].median_ms, times[3].median_ms));
        line += fmt::format(", ONNX Runtime {:8.2f} ms, OpenVINO {:8.2f} ms", times[2].median_ms, times[3].median_ms);
      }
      fmt::print("{}\n", line);
      std::fflush(stdout);
    }
    add_rows(report, model.name, fixed, peers, false);
    all_fixed.add(fixed);
    all_peers.add(peers);
  }
  if (all_fixed.count > 0) add_rows(report, "all models", all_fixed, all_peers, true);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return {};
}

}  // namespace fettle::bench
