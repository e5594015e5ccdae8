#include "sizes/open_models.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "base/random.h"
#include "driver/bench.h"
#include "driver/open.h"
#include "harness/paired.h"
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
  const auto side = [](RandomStream& random, int64_t least, int64_t most, int64_t step) {
    return between(random, least / step, most / step) * step;
  };
  const auto image = [side](int64_t height, int64_t least_width, int64_t most_width, int64_t step) {
    return [=](RandomStream& random) {
      const int64_t h = height > 0 ? height : side(random, least_width, most_width, step);
      return InputShapes{{"x", {1, 3, h, side(random, least_width, most_width, step)}}};
    };
  };
  const auto images = [side](RandomStream& random) {
    const int64_t n = between(random, 1, 4), h = side(random, 96, 320, 1);
    return InputShapes{{"input", {n, 3, h, side(random, 96, 320, 1)}}};
  };
  const auto squares = [](RandomStream& random) {
    return InputShapes{{"input", {between(random, 1, 8), 3, 224, 224}}};
  };
  return {{"bert_base", text({"input_ids", "attention_mask", "token_type_ids"}, {})},
          {"vit_b16", squares},
          {"mobilenet_v2", images},
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

struct SizeTable {
  int64_t arena_bytes = 0;
  double us = 0;  // that filling it takes, which is what a call of other sizes than the last one's adds
};

/// Of these sizes.
SizeTable size_table(const Model& model, const InputShapes& shapes) {
  constexpr int kFillings = 32;
  const FettleModelInfo& info = model.info();
  if (info.n_sizes == 0) return {.arena_bytes = info.arena_bytes};
  std::vector<int64_t> table(static_cast<size_t>(info.n_sizes)), extents;
  for (const FettleTensor& input : model.inputs())
    extents.insert(extents.end(), shapes.at(input.name).begin(), shapes.at(input.name).end());
  void* buffers[] = {table.data()};
  info.resize(nullptr, buffers, extents.data());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kFillings; ++i) info.resize(nullptr, buffers, extents.data());
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  return {.arena_bytes = table[0], .us = taken.count() / kFillings};
}

struct SizeTimes {
  PairedResult times;   // open, fixed, then the engines
  double arenas = 1;    // the open one's over that for this size
  double table_us = 0;  // the open one's

  /// Of the open one over another.
  double over(size_t other) const { return 1 / times.speed_over(0, other).median; }
  double ms(size_t contender) const { return times.time_ns(contender).median * 1e-6; }
};

/// A model, and the engines that it is timed beside. They get the file once, too, and keep its sizes open.
struct Contest {
  const TableModel& entry;
  const Model& open;
  const OpenModelOptions& options;
  std::string folder;  // of the engines' inputs
  PeakMeter& peak;
  std::vector<ModelPeer> peers = {};

  Result<> give(const std::vector<NamedTensor>& inputs) {
    if (!options.peers) return {};
    for (ModelPeer& peer : peers) FETTLE_TRY_VOID(give_inputs(peer, inputs, folder));
    for (const char* name : {"onnxruntime", "openvino"}) {
      if (peers.size() == 2) break;
      FETTLE_TRY(ModelPeer peer, start_peer(name, entry.open_file, options.threads, inputs, folder, true));
      peers.push_back(std::move(peer));
    }
    return {};
  }
};

Contender contender_of(std::string name, const TimedWork& work) {
  return {.name = std::move(name), .run = {}, .timed = [work](int runs) -> Result<double> {
            FETTLE_TRY(const std::vector<double> times, work.time(runs));
            return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
          }};
}

Result<SizeTimes> time_size(Contest& contest, const InputShapes& shapes) {
  const TableModel& entry = contest.entry;
  FETTLE_TRY(const Model fixed, open_model(entry.open_file, {.threads = contest.options.threads, .shapes = shapes}));
  TableModel sized = entry;
  for (TableInput& input : sized.inputs) input.shape = shapes.at(input.name);
  FETTLE_TRY(const std::vector<NamedTensor> inputs, table_inputs(sized, contest.open, 1));
  FETTLE_TRY(ModelContext open_context, contest.open.make_context());
  FETTLE_TRY(ModelContext fixed_context, fixed.make_context());
  FETTLE_TRY_VOID(contest.give(inputs));
  std::vector<Contender> contenders = {contender_of("open", timed_model("open", open_context, inputs)),
                                       contender_of("fixed", timed_model("fixed", fixed_context, inputs))};
  for (ModelPeer& peer : contest.peers) contenders.push_back(contender_of(peer.name(), timed_peer(peer)));
  FETTLE_TRY(PairedResult times,
             time_paired(contenders, contest.peak, {.min_rounds = 9, .time_limit_s = contest.options.seconds}));
  const auto fixed_bytes = static_cast<double>(std::max<int64_t>(size_table(fixed, shapes).arena_bytes, 1));
  const SizeTable open = size_table(contest.open, shapes);
  return SizeTimes{std::move(times), static_cast<double>(open.arena_bytes) / fixed_bytes, open.us};
}

struct ModelRatios {
  Ratios fixed, peers, arenas, table_us;

  void add(const ModelRatios& other) {
    fixed.add(other.fixed);
    peers.add(other.peers);
    arenas.add(other.arenas);
    table_us.add(other.table_us);
  }
};

void add_rows(Report& report, const std::string& name, const ModelRatios& of, bool is_all) {
  const auto bound = [&](double most) { return is_all ? std::optional(at_most(most)) : std::nullopt; };
  report.add(name + ": open over fixed sizes, geometric mean", of.fixed.mean(), "x", bound(1.05));
  report.add(name + ": open over fixed sizes, worst", of.fixed.worst, "x", bound(1.2));
  if (of.peers.count > 0)
    report.add(name + ": open over the better engine, geometric mean", of.peers.mean(), "x", bound(0.9));
  report.add(name + ": arena, open over fixed sizes, worst", of.arenas.worst, "x", bound(1.1));
  report.add(name + ": a change of sizes, worst", of.table_us.worst, "us", bound(20));
}

}  // namespace

Result<> bench_open_models(Report& report, const OpenModelOptions& options) {
  FETTLE_TRY(const std::vector<TableModel> table, read_model_table());
  std::string folder = (std::filesystem::temp_directory_path() / "fettle-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) return fail(ErrorCode::E702, "no folder for the inputs of other engines", folder);
  ModelRatios all;
  PeakMeter peak(options.threads);
  for (const OpenModel& model : open_models()) {
    if (model.name.find(options.only) == std::string::npos) continue;
    const auto entry = std::ranges::find(table, model.name, &TableModel::name);
    if (entry == table.end()) return fail(ErrorCode::E701, "the table of models has no " + model.name);
    FETTLE_TRY(const Model open, open_model(entry->open_file, {.threads = options.threads}));
    ModelRatios ratios;
    RandomStream random{1};
    Contest contest{.entry = *entry, .open = open, .options = options, .folder = folder, .peak = peak};
    for (int i = 0; i < options.sizes; ++i) {
      const InputShapes shapes = model.shapes(random);
      if (i < options.from) continue;
      FETTLE_TRY(const SizeTimes timed, time_size(contest, shapes));
      ratios.fixed.add(timed.over(1));
      ratios.arenas.add(timed.arenas);
      ratios.table_us.add(timed.table_us);
      std::string line =
          fmt::format("{:12} {:20} open {:8.2f} ms, fixed {:8.2f} ms, {:.3f}, arena {:.3f}", model.name,
                      shape_to_string(shapes.begin()->second), timed.ms(0), timed.ms(1), timed.over(1), timed.arenas);
      if (!contest.peers.empty()) {
        ratios.peers.add(std::max(timed.over(2), timed.over(3)));
        line += fmt::format(", ONNX Runtime {:8.2f} ms, OpenVINO {:8.2f} ms, {:.3f}", timed.ms(2), timed.ms(3),
                            std::max(timed.over(2), timed.over(3)));
      }
      fmt::print("{}\n", line);
      std::fflush(stdout);
    }
    if (ratios.fixed.count > 0) add_rows(report, model.name, ratios, false);
    all.add(ratios);
  }
  if (all.fixed.count > 0) add_rows(report, "all models", all, true);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return {};
}

}  // namespace fettle::bench
