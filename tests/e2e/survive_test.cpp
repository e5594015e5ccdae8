// Tuning by the command, under what may happen to it: signals, a full disk, a database that others use.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "database/sqlite.h"
#include "database/sqlite_database.h"
#include "onnx-ml.pb.h"
#include "robust/figures.h"
#include "robust/kills.h"
#include "robust/processes.h"
#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

class Survive : public Misuse {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    write_model("model.onnx");
  }
  std::vector<std::string> tune(std::vector<std::string> more) const {
    std::vector<std::string> args = {"tune",  path("model.onnx"), "--db", path("records.db"), "--threads", "1",
                                     "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// Records in a database that is whole; -1 where it is not.
  int64_t records() const {
    auto database = open_sqlite_database(path("records.db"), {.read_only = true});
    EXPECT_TRUE(database) << database.error().to_string();
    int64_t count = 0;
    if (!database || !(*database)->for_each([&](const Record&) -> Result<> {
          ++count;
          return {};
        }))
      return -1;
    return count;
  }
};

TEST_F(Survive, EverySignalThatAsksForAnEnd) {
  // A product with more to search than could be done before the signal comes.
  write_model("model.onnx", [](onnx::ModelProto& model) {
    auto& graph = *model.mutable_graph();
    const auto resize = [](onnx::ValueInfoProto* value, int64_t rows, int64_t columns) {
      auto* shape = value->mutable_type()->mutable_tensor_type()->mutable_shape();
      shape->mutable_dim(0)->set_dim_value(rows);
      shape->mutable_dim(1)->set_dim_value(columns);
    };
    resize(graph.mutable_input(0), 6144, 640);
    resize(graph.mutable_output(0), 6144, 400);
    auto* weights = graph.mutable_initializer(0);
    weights->set_dims(0, 640);
    weights->set_dims(1, 400);
    weights->clear_float_data();
    for (int i = 0; i < 640 * 400; ++i) weights->add_float_data(static_cast<float>(i % 7) * 0.25f - 1);
  });
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) {
    std::filesystem::remove(path("records.db"));
    const Outcome stopped = fettle(
        tune({"--time", "100s"}), [&](const std::string& err) { return err.find(" trials") != std::string::npos; },
        signal);
    EXPECT_EQ(stopped.status, 0) << signal << ": " << stopped.err;
    const json report = json::parse(stopped.out, nullptr, false);
    ASSERT_TRUE(report.is_object()) << signal << ": " << stopped.out << stopped.err;
    EXPECT_TRUE(report.at("interrupted"));
    EXPECT_GE(records(), report.at("measured").get<int64_t>());
  }
}

// No file may become larger than a page: what a full disk looks like.
TEST_F(Survive, ADiskThatFillsUp) {
  ASSERT_EQ(fettle(tune({"--trials", "2"})).status, 0);
  const int64_t before = records();
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{4096, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Outcome full = fettle(tune({"--time", "20s", "--seed", "9"}));
  ::setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(full.status, 1) << full.out << full.err;
  EXPECT_NE(full.err.find("fettle: E505: "), std::string::npos) << full.err;
  EXPECT_GE(records(), before) << "what was measured before stays";
  EXPECT_EQ(fettle(tune({"--trials", "3"})).status, 0) << "with space again, it goes on";
}

TEST_F(Survive, AFolderThatCannotBeWritten) {
  if (::geteuid() == 0) {
    // Who may write everywhere meets other walls.
    const Outcome refused = fettle({"tune", path("model.onnx"), "--db", "/proc/records.db", "--trials", "1"});
    EXPECT_EQ(refused.status, 1) << refused.err;
    EXPECT_NE(refused.err.find("E501"), std::string::npos) << refused.err;
    return;
  }
  std::filesystem::create_directory(path("sealed"));
  std::filesystem::permissions(path("sealed"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const Outcome refused = fettle({"tune", path("model.onnx"), "--db", path("sealed/records.db"), "--trials", "1"});
  EXPECT_EQ(refused.status, 1) << refused.err;
  EXPECT_NE(refused.err.find("E501"), std::string::npos) << refused.err;
}

TEST_F(Survive, ADatabaseThatAnotherHolds) {
  ASSERT_EQ(fettle(tune({"--trials", "2"})).status, 0);
  const int64_t before = records();
  auto other = sqlite::Connection::open(path("records.db"), sqlite::Connection::Mode::kReadWrite, 0);
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->execute("BEGIN EXCLUSIVE"));
  const auto begin = std::chrono::steady_clock::now();
  const Outcome refused = fettle(tune({"--trials", "20", "--seed", "3"}));
  EXPECT_EQ(refused.status, 1) << refused.err;
  EXPECT_NE(refused.err.find("E502"), std::string::npos) << refused.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  ASSERT_TRUE(other->execute("ROLLBACK"));
  EXPECT_EQ(records(), before);
}

TEST_F(Survive, TwoTuningsOfOneDatabase) {
  Outcome one, two;
  std::thread beside([&] { one = fettle(tune({"--trials", "12", "--seed", "1"})); });
  two = fettle(tune({"--trials", "12", "--seed", "2"}));
  beside.join();
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(two.status, 0) << two.err;
  const auto measured = [](const Outcome& o) { return json::parse(o.out).at("measured").get<int64_t>(); };
  EXPECT_GE(records(), measured(one) + measured(two));
}

// `make bench-robust` does these at length.

TEST_F(Survive, KilledAtRandomMoments) {
  const bench::KillOutcome killed = bench::kill_at_random(5, 42, path("."));
  EXPECT_EQ(killed.problem, "");
  EXPECT_GE(killed.tuners + killed.workers + killed.children, 5);
  EXPECT_EQ(killed.lost, 0);
  EXPECT_EQ(killed.left_behind, 0);
  EXPECT_EQ(killed.measured_again, 0);
  EXPECT_TRUE(killed.ended);
}

TEST_F(Survive, OneCandidateInFourMisbehaves) {
  const bench::InjectedOutcome outcome = bench::inject(40, path("."));
  EXPECT_EQ(outcome.problem, "");
  EXPECT_EQ(outcome.injected, 10);
  EXPECT_EQ(outcome.miscounted, 0);
  EXPECT_TRUE(outcome.tuning_ended);
  EXPECT_TRUE(outcome.best_is_right);
}

TEST_F(Survive, RecordedTimesReplayed) {
  const bench::ReplayOutcome outcome = bench::replay_recorded(40, path("."));
  EXPECT_GE(outcome.measured, 20);
  EXPECT_EQ(outcome.replayed, outcome.measured);
  EXPECT_EQ(outcome.different, 0);
  EXPECT_EQ(outcome.not_prefix, 0);
}

}  // namespace
}  // namespace fettle::testing_support
