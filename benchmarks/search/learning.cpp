#include "search/learning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "base/output_file.h"
#include "cost/learned/boosting.h"
#include "cost/predict/predict.h"
#include "harness/statistics.h"
#include "search/ranking.h"

namespace fettle::bench {
namespace {

using Json = nlohmann::json;

constexpr int kTrees = 256;
constexpr size_t kLeastCandidates = 12;
constexpr uint64_t kParts = 5;
/// What is further off than e to this is as far off as this.
constexpr double kLargest = 1;

// Node i of `tree`, from XGBoost's tree at `node`; a leaf that lies less deep stands for all below it.
void copy_node(const Json& node, int i, CorrectionTree& tree) {
  const bool is_leaf = node.contains("leaf");
  if (i >= CorrectionTree::kSplits) {
    FETTLE_CHECK(is_leaf);
    tree.leaf[i - CorrectionTree::kSplits] = node.at("leaf");
    return;
  }
  if (is_leaf) {
    tree.feature[i] = 0;
    tree.threshold[i] = 0;
    copy_node(node, 2 * i + 1, tree);
    copy_node(node, 2 * i + 2, tree);
    return;
  }
  const std::string feature = node.at("split");  // "f12"
  tree.feature[i] = static_cast<uint8_t>(std::stoi(feature.substr(1)));
  tree.threshold[i] = node.at("split_condition");
  for (const Json& child : node.at("children"))
    copy_node(child, child.at("nodeid") == node.at("yes") ? 2 * i + 1 : 2 * i + 2, tree);
}

std::vector<CorrectionTree> trees_of(const Booster& booster) {
  bst_ulong n = 0;
  const char** texts = nullptr;
  check_xgboost(XGBoosterDumpModelEx(booster.get(), "", 0, "json", &n, &texts));
  std::vector<CorrectionTree> trees(n);
  for (size_t t = 0; t < n; ++t) copy_node(Json::parse(texts[t]), 0, trees[t]);
  return trees;
}

}  // namespace

std::vector<CorrectionTree> train_correction(const std::vector<const MeasuredSearch*>& searches) {
  std::vector<float> values, labels, weights;
  for (const MeasuredSearch* search : searches) {
    const size_t n = search->seconds.size();
    std::vector<double> missed(n);
    for (size_t i = 0; i < n; ++i) missed[i] = std::log(search->seconds[i] / search->predicted_s[i]);
    const double usual = quantile(missed, 0.5), best = *std::ranges::min_element(search->seconds);
    for (size_t i = 0; i < n; ++i) {
      values.insert(values.end(), search->features[i].begin(), search->features[i].end());
      labels.push_back(static_cast<float>(std::clamp(missed[i] - usual, -kLargest, kLargest)));
      weights.push_back(
          static_cast<float>(std::max(0.05, best / search->seconds[i]) / std::sqrt(static_cast<double>(n))));
    }
  }
  if (labels.empty()) return {};
  const Matrix matrix = make_matrix(values, labels.size(), values.size() / labels.size());
  set_info(matrix, "label", labels);
  set_info(matrix, "weight", weights);
  const Booster booster = make_booster(matrix, 1,
                                       {{"objective", "reg:squarederror"},
                                        {"base_score", "0"},
                                        {"max_depth", fmt::format("{}", CorrectionTree::kDepth)},
                                        {"eta", "0.07"},
                                        {"lambda", "10"},
                                        {"min_child_weight", "3"},
                                        {"subsample", "0.7"},
                                        {"colsample_bytree", "0.4"}});
  grow(booster, matrix, kTrees);
  return trees_of(booster);
}

void add_rankings(Report& report, const std::vector<MeasuredSearch>& searches) {
  struct Means {
    double accuracy = 0, recall = 0, regret = 0, untimed = 0;
    int n = 0;
    void add(const Ranking& r) {
      if (std::isnan(r.accuracy)) return;
      accuracy += r.accuracy;
      recall += r.recall;
      regret += r.regret;
      untimed += r.untimed_regret;
      ++n;
    }
  };
  const auto tell = [&](const std::string& way, const std::map<std::string, Means>& machines) {
    for (const auto& [machine, means] : machines) {
      const auto row = [&](const char* what, double sum) {
        report.add(fmt::format("{} ({} searches), {}: {}", machine, means.n, way, what), 100 * sum / means.n, "%");
      };
      if (means.n == 0) continue;
      row("pairs in the right order", means.accuracy);
      row("top-8 recall", means.recall);
      row("lost by timing the best 8", means.regret);
      row("lost by taking the best untimed", means.untimed);
    }
  };
  const auto judge = [&](const std::string& way, const std::function<std::string(const MeasuredSearch&)>& part_of,
                         bool corrects) {
    std::map<std::string, Means> machines;
    std::set<std::string> parts;
    for (const MeasuredSearch& search : searches) parts.insert(part_of(search));
    for (const std::string& part : parts) {
      std::vector<const MeasuredSearch*> seen;
      for (const MeasuredSearch& search : searches)
        if (part_of(search) != part && search.seconds.size() >= kLeastCandidates) seen.push_back(&search);
      if (corrects && seen.empty()) continue;
      const std::vector<CorrectionTree> trees = corrects ? train_correction(seen) : std::vector<CorrectionTree>{};
      for (const MeasuredSearch& search : searches) {
        if (part_of(search) != part || search.seconds.size() < kLeastCandidates) continue;
        std::vector<double> predicted = search.predicted_s;
        for (size_t i = 0; i < predicted.size(); ++i) predicted[i] *= std::exp(sum_of_trees(trees, search.features[i]));
        machines[search.machine].add(rank(predicted, search.seconds));
      }
    }
    tell(way, machines);
  };
  judge("prediction alone", [](const MeasuredSearch&) { return std::string(); }, false);
  judge(
      "corrected, task not seen",
      [](const MeasuredSearch& s) { return fmt::format("{}", hash_bytes(s.task) % kParts); }, true);
  judge("corrected, family not seen", [](const MeasuredSearch& s) { return s.family; }, true);
  judge("corrected, machine not seen", [](const MeasuredSearch& s) { return s.machine; }, true);
}

Result<> write_correction(const std::vector<CorrectionTree>& trees, const std::string& path) {
  return write_file(path, to_text(Correction{hash_of_features(), trees}));
}

}  // namespace fettle::bench
