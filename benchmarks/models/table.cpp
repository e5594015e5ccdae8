#include "models/table.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/random.h"

namespace fettle::bench {
namespace {

using nlohmann::json;

constexpr int64_t kGlyphHeight = 24, kGlyphWidth = 9, kGlyphStep = 14, kLineStep = 48, kMargin = 12, kStroke = 3;

double normal(RandomStream& stream) {  // Box and Muller
  const double u = 1 - stream.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * stream.uniform());
}

/// A bright page with lines of dark marks as large as letters, the same in every channel. image: [n, channels, height,
/// width].
void print_page(Tensor& image, RandomStream& stream) {
  const int64_t height = image.shape()[2], width = image.shape()[3];
  std::vector<float> page(static_cast<size_t>(height * width), 1.0f);
  for (int64_t y = kMargin; y + kGlyphHeight <= height; y += kLineStep)
    for (int64_t x = kMargin; x + kGlyphStep <= width; x += kGlyphStep) {
      if (stream.below(7) == 0) continue;  // a space
      for (int64_t r = 0; r < kGlyphHeight; r += kStroke)
        for (int64_t c = 0; c < kGlyphWidth; c += kStroke) {
          if (stream.below(2) == 0) continue;
          for (int64_t i = 0; i < kStroke; ++i) std::fill_n(page.begin() + (y + r + i) * width + x + c, kStroke, -1.0f);
        }
    }
  const auto pixels = image.elems<float>();
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = page[i % page.size()];
}

template <class T>
void fill(Tensor& tensor, const TableInput& input, RandomStream& stream) {
  if (input.fill == "page") {
    if constexpr (std::is_same_v<T, float>) print_page(tensor, stream);
    return;
  }
  for (T& x : tensor.elems<T>()) {
    if (input.fill == "image") x = static_cast<T>(normal(stream));
    if (input.fill == "ids") x = static_cast<T>(stream.below(static_cast<uint64_t>(input.below)));
    if (input.fill == "ones") x = static_cast<T>(1);
  }
}

}  // namespace

InputShapes TableModel::shapes() const {
  InputShapes shapes;
  for (const TableInput& input : inputs) shapes[input.name] = input.shape;
  return shapes;
}

Result<std::vector<TableModel>> read_model_table(const std::string& list) {
  const std::string root = FETTLE_SOURCE_DIR, path = root + "/benchmarks/models.json";
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::E701, "the table of models cannot be read", path);
  const json table = json::parse(file, nullptr, false);
  if (!table.is_object()) return fail(ErrorCode::E703, "the table of models is not JSON", path);
  std::vector<TableModel> models;
  for (const json& entry : table.at(list)) {
    TableModel model{.name = entry.at("name"),
                     .what = entry.at("what"),
                     .file = {},
                     .open_file = {},
                     .small_file = {},
                     .inputs = {}};
    const auto path_of = [&](const json& name) { return root + "/build/models/" + name.get<std::string>(); };
    model.file = path_of(entry.at("file"));
    model.open_file = entry.contains("open") ? path_of(entry["open"]) : model.file;
    model.small_file = entry.contains("small") ? path_of(entry["small"].at("file")) : model.file;
    for (const json& input : entry.at("inputs"))
      model.inputs.push_back({.name = input.at("name"),
                              .shape = input.at("shape"),
                              .fill = input.at("fill"),
                              .below = input.value("below", int64_t{0})});
    models.push_back(std::move(model));
  }
  return models;
}

Result<std::vector<NamedTensor>> table_inputs(const TableModel& entry, const Model& model, uint64_t seed) {
  std::vector<NamedTensor> inputs;
  for (const FettleTensor& described : model.inputs()) {
    const auto input = std::ranges::find(entry.inputs, described.name, &TableInput::name);
    if (input == entry.inputs.end())
      return fail(ErrorCode::E704, "the table of models has no such input", described.name);
    FETTLE_TRY(Tensor tensor, Tensor::make(static_cast<FettleDtype>(described.dtype), input->shape));
    RandomStream stream{seed, inputs.size()};
    if (described.dtype == FETTLE_F32) fill<float>(tensor, *input, stream);
    if (described.dtype == FETTLE_I64) fill<int64_t>(tensor, *input, stream);
    if (described.dtype == FETTLE_I32) fill<int32_t>(tensor, *input, stream);
    inputs.push_back({described.name, std::move(tensor)});
  }
  return inputs;
}

}  // namespace fettle::bench
