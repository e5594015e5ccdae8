// Every model of benchmarks/models.json, compiled untuned, against ONNX Runtime: each output within 1e-4 of its scale.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "driver/bench.h"
#include "driver/open.h"
#include "models/table.h"
#include "runtime/npy.h"

namespace fettle::bench {
static void PrintTo(const TableModel& model, std::ostream* out) { *out << model.name; }
}  // namespace fettle::bench

namespace fettle {
namespace {

namespace fs = std::filesystem;
using bench::TableModel;

std::vector<TableModel> table() {
  const auto models = bench::read_model_table();
  return models ? *models : std::vector<TableModel>{};
}

class Models : public testing::TestWithParam<TableModel> {
 protected:
  void SetUp() override {
    std::string base = (fs::temp_directory_path() / "fettle-e2e-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(base.data()));
    folder_ = base;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_P(Models, AgreesWithOnnxRuntime) {
  const TableModel& entry = GetParam();
  if (!fs::exists(entry.small_file)) GTEST_SKIP() << "the model is not here; `make models` fetches or makes it";
  auto model = open_model(entry.small_file, {.threads = 2, .shapes = entry.shapes(), .database = {}, .warn = {}});
  ASSERT_TRUE(model.has_value()) << model.error().to_string();
  const auto inputs = bench::table_inputs(entry, *model, 1);
  ASSERT_TRUE(inputs.has_value()) << inputs.error().to_string();
  const auto outputs = model->run(*inputs);
  ASSERT_TRUE(outputs.has_value()) << outputs.error().to_string();

  auto peer = start_peer("onnxruntime", entry.small_file, 1, *inputs, folder_);
  if (!peer) GTEST_SKIP() << peer.error().to_string();
  const auto expected = peer->outputs(folder_);
  ASSERT_TRUE(expected.has_value()) << expected.error().to_string();
  ASSERT_EQ(expected->size(), outputs->size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    const auto tensor = read_npy((*expected)[i].file);
    ASSERT_TRUE(tensor.has_value()) << tensor.error().to_string();
    EXPECT_LE(difference_of_scale((*outputs)[i].tensor, *tensor), 1e-4) << (*outputs)[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Models, testing::ValuesIn(table()), [](const auto& test) { return test.param.name; });

TEST(ModelTable, NamesNineModels) { EXPECT_EQ(table().size(), 9u); }

}  // namespace
}  // namespace fettle
