// `fettle report`: the page, looked at in headless Chromium.

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "codegen/build.h"
#include "database/sqlite_database.h"
#include "ir/text.h"
#include "onnx-ml.pb.h"
#include "support/browser.h"
#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

/// A product of matrices with n columns.
Func product(int n) {
  auto func =
      parse_func(fmt::format("func matmul_{0}(A: f32[64, 256], B: f32[256, {0}] constant, C: f32[64, {0}] output):\n"
                             "  for i in 64:\n"
                             "    for j in {0}:\n"
                             "      for k in 256:\n"
                             "        block C(vi: spatial[64] = i, vj: spatial[{0}] = j, vk: reduce[256] = k):\n"
                             "          reads A[vi, vk], B[vk, vj]\n"
                             "          writes C[vi, vj]\n"
                             "          init:\n"
                             "            C[vi, vj] = 0.0\n"
                             "          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]\n",
                             n));
  EXPECT_TRUE(func) << func.error().to_string();
  return *func;
}

constexpr const char* kHostile =
    "</script><script>alert(1)</script> \"quoted\" 'x' &amp; \u2028 \u00e9\u4e2d\U0001f9f5 <!--";
constexpr const char* kTrace = "b0 = get_block(name=\"C\")\nl1, l2, l3 = get_loops(block=b0)\nparallel(loop=l1)\n";

class Page : public Misuse {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    std::string why;
    browser_ = Browser::start(path("profile"), &why);
    ASSERT_TRUE(browser_) << why;
    browser_->set_window(1300, 1000, false);
  }
  void TearDown() override {
    browser_.reset();
    Misuse::TearDown();
  }

  /// Records of a run over n tasks, each tried some times; some candidates fail. A larger `slower` makes all slower.
  void make_records(const std::string& file, int n, double slower = 1, const std::string& model = kHostile) {
    auto opened = open_sqlite_database(path(file));
    ASSERT_TRUE(opened) << opened.error().to_string();
    const Target target = detect_host();
    TuningRun run;
    run.id = draw_run_id();
    run.model = model;
    run.target_features = target.feature_key();
    run.fingerprint = target.fingerprint();
    run.threads = target.threads;
    run.versions = program_versions();
    run.machine = describe(target);
    run.created_ns = 1'700'000'000'000'000'000;
    run.seconds = 60;
    std::vector<Record> records;
    for (int i = 0; i < n; ++i) {
      const Func func = product(16 + i);
      const std::string name = i % 7 == 0 ? kHostile : fmt::format("/layers.{}/attn/q_proj", i);
      run.tasks.push_back(
          {make_workload(func), func->name, 1.0 + i % 3, {{name + ": MatMul", "MatMul " + name + "\nAdd bias"}}});
      for (int t = 0; t < 6; ++t) {
        Record r;
        r.task = run.task_key(run.tasks.back());
        r.trace = t == 0 ? "b0 = get_block(name=\"C\")\n" : fmt::format("{}# {}\n", kTrace, t);
        r.run = run.id;
        r.generation = t == 0 ? 0 : 1;
        r.elapsed_s = (t == 0 ? 0 : 10) + 50.0 * (t * n + i) / (6.0 * n);
        r.machine = run.machine;
        r.created_ns = run.created_ns + static_cast<int64_t>(r.elapsed_s * 1e9);
        if (t == 4 && i % 5 == 0) {
          r.error = i % 2 ? ErrorCode::E403 : ErrorCode::E402;
          r.signal = i % 2 ? 11 : 0;
          r.message = kHostile;
        } else {
          r.median_s = r.min_s = slower * 1e-6 * (4.0 + i % 40) * (1 + i / (1.0 + i * i)) / (1 + 0.25 * t);
          r.repeats = 20;
        }
        records.push_back(std::move(r));
      }
    }
    ASSERT_TRUE((*opened)->add_all(records));
    ASSERT_TRUE((*opened)->keep_run(run));
  }

  /// Makes and opens a report.
  json report(std::vector<std::string> args, const std::string& page = "report.html") {
    args.insert(args.begin(), "report");
    args.insert(args.end(), {"-o", path(page), "--json"});
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(browser_->open(path(page)));
    expect_quiet();
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }
  void expect_quiet() {
    EXPECT_EQ(browser_->problems(), std::vector<std::string>{});
    EXPECT_EQ(browser_->requests(), std::vector<std::string>{});
    EXPECT_EQ(browser_->evaluate("document.documentElement.dataset.ready"), "yes");
  }
  /// For people who want to look: FETTLE_SCREENSHOTS names a folder.
  void keep_picture(const std::string& name, bool whole = false) {
    const char* folder = std::getenv("FETTLE_SCREENSHOTS");
    if (!folder) return;
    EXPECT_TRUE(browser_->screenshot(std::string(folder) + "/" + name + ".png", whole));
  }
  int count(const std::string& selector) {
    const json n = browser_->evaluate("document.querySelectorAll(" + json(selector).dump() + ").length");
    return n.is_number() ? n.get<int>() : -1;
  }

  std::unique_ptr<Browser> browser_;
};

TEST_F(Page, HasChartsAndTablesAndOpensAlone) {
  make_records("r.db", 30);
  const json made = report({path("r.db")});
  EXPECT_EQ(made.at("tasks").size(), 30);
  EXPECT_EQ(made.at("trials"), 180);
  EXPECT_EQ(made.at("failed"), 6);
  for (const char* id : {"latency", "share", "tasks", "limits", "failures"})
    EXPECT_EQ(count("#" + std::string(id)), 1) << id;
  EXPECT_EQ(count("#latency svg path"), 1);
  EXPECT_EQ(count("#share svg rect"), 8);
  EXPECT_EQ(count("#limits svg circle"), 30);
  EXPECT_EQ(count("#tasks tbody tr"), 30);
  EXPECT_EQ(count("#failures tbody tr"), 2);
  EXPECT_EQ(count("#compared"), 0);
  // Every chart has a name, and no text is drawn outside of its chart.
  EXPECT_EQ(count("svg:not([aria-label])"), 0);
  EXPECT_EQ(browser_->evaluate(
                "[...document.querySelectorAll('svg')].filter(svg => {const b = svg.getBBox(), v = svg.viewBox.baseVal;"
                "return b.x < v.x - 1 || b.x + b.width > v.width + 1 || b.y < v.y - 1 || b.y + b.height > v.height + "
                "1}).length"),
            0);
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('svg *')].some(e => [...e.attributes].some(a => "
                               "/NaN|Infinity/.test(a.value)))"),
            false);
  // The sections' sums: shares make a whole, and the curve ends where the estimate is.
  EXPECT_NEAR(browser_->evaluate("JSON.parse(document.getElementById('data').textContent).run.points.at(-1)[1] * 1e6")
                  .get<double>(),
              made.at("estimated_ms").get<double>() * 1e3, 1e-6);
  keep_picture("light", true);
}

TEST_F(Page, ShowsNamesAsTheyAre) {
  make_records("r.db", 8);
  const json made = report({path("r.db")});
  EXPECT_EQ(made.at("model"), kHostile);
  EXPECT_EQ(browser_->evaluate("document.querySelector('h1').textContent"), kHostile);
  EXPECT_EQ(count("script"), 2);
  browser_->evaluate("document.querySelector('#tasks td.name button').click()");
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('.chips li')].length > 0"), true);
  browser_->evaluate("document.querySelector('#failures td.name button').click()");
  EXPECT_EQ(browser_->evaluate("document.querySelector('#failures pre').textContent"), kHostile);
  expect_quiet();
}

TEST_F(Page, IsUsedByKeyboard) {
  make_records("r.db", 20);
  report({path("r.db")});
  const auto first = [&] {
    return browser_->evaluate("document.querySelector('#tasks tbody tr td.name button').textContent");
  };
  const auto sort_of = [&] {
    return browser_->evaluate("document.querySelector('#tasks thead th').getAttribute('aria-sort')");
  };
  // Tab leads to the first heading of the table; Enter and Space press it.
  for (int i = 0; i < 40; ++i) {
    browser_->press("Tab");
    if (browser_->evaluate("document.activeElement === document.querySelector('#tasks thead button')") == true) break;
  }
  ASSERT_EQ(browser_->evaluate("document.activeElement === document.querySelector('#tasks thead button')"), true);
  browser_->press("Enter");
  EXPECT_EQ(sort_of(), "ascending");
  EXPECT_EQ(first(), "matmul_16");
  browser_->press(" ");
  EXPECT_EQ(sort_of(), "descending");
  EXPECT_EQ(first(), "matmul_35");
  // A name opens its details, and closes them.
  browser_->evaluate("document.querySelector('#tasks tbody button').focus()");
  browser_->press("Enter");
  EXPECT_EQ(count("#tasks tr.detail"), 1);
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#tasks tr.detail pre')].map(p => "
                               "p.textContent.includes('matmul_35') || p.textContent.includes('parallel'))"),
            json::array({true, true, true}));
  browser_->evaluate("document.querySelector('#tasks tr.detail').scrollIntoView()");
  browser_->set_window(1300, 1000, true);
  keep_picture("dark");
  browser_->press("Enter");
  EXPECT_EQ(count("#tasks tr.detail"), 0);
  // The filter.
  browser_->evaluate(
      "{const box = document.querySelector('input[type=search]'); box.value = 'layers.3/'; box.dispatchEvent(new "
      "Event('input'))}");
  EXPECT_EQ(count("#tasks tbody tr"), 1);
  expect_quiet();
}

TEST_F(Page, ComparesTwoRuns) {
  make_records("new.db", 20, 1, "m");
  make_records("old.db", 25, 1.5, "m");
  const json made = report({"--compare", path("old.db"), path("new.db")});
  const json& compared = made.at("compared");
  EXPECT_GT(compared.at("before_ms"), compared.at("after_ms"));
  ASSERT_EQ(compared.at("tasks").size(), 20);
  double shares = 0, saved_us = 0;
  for (const json& task : compared.at("tasks")) {
    shares += task.at("share_of_gain").get<double>();
    saved_us += task.at("saved_us").get<double>();
    EXPECT_NEAR(task.at("before_us").get<double>(), 1.5 * task.at("after_us").get<double>(), 1e-6);
    EXPECT_NEAR(task.at("of_limit_after").get<double>(), 1.5 * task.at("of_limit_before").get<double>(), 1e-9);
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_NEAR(saved_us, made.at("estimated_ms").get<double>() * 1e3 / 2, 1e-6);
  EXPECT_EQ(count("#latency svg path"), 2);
  EXPECT_EQ(count("#compared tbody tr"), 20);
  EXPECT_NE(
      browser_->evaluate("document.querySelector('#compared p').textContent").get<std::string>().find("5 in old alone"),
      std::string::npos);
  EXPECT_EQ(browser_->evaluate("document.querySelector('#compared tbody td:nth-child(4)').textContent"), "1.50 ×");
  EXPECT_EQ(count("#limits svg rect.before"), 20) << "the roofline has both";
  keep_picture("compared", true);
  browser_->set_window(390, 800, true);
  EXPECT_EQ(browser_->evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
  keep_picture("compared-narrow-dark", true);
  // For the terminal no page is needed.
  const Outcome table = fettle({"report", path("new.db"), "--compare", path("old.db")});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_NE(table.out.find("1.50x"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("5 tasks are in the first alone, 0 in the second"), std::string::npos) << table.out;
}

TEST_F(Page, ComparesTwoCompiledModels) {
  write_model("model.onnx");
  for (const char* name : {"a.so", "b.so"})
    ASSERT_EQ(fettle({"compile", path("model.onnx"), "-o", path(name), "--threads", "1"}).status, 0);
  const json made = report({path("b.so"), "--compare", path("a.so")});
  const json& compared = made.at("compared");
  EXPECT_GT(compared.at("before_ms"), 0);
  EXPECT_GT(compared.at("after_ms"), 0);
  ASSERT_GE(compared.at("tasks").size(), 1);
  EXPECT_EQ(compared.at("only_before"), 0);
  EXPECT_EQ(compared.at("only_after"), 0);
  EXPECT_EQ(count("#compared tbody tr"), static_cast<int>(compared.at("tasks").size()));
  EXPECT_EQ(count("#latency"), 0) << "nothing was searched";
  EXPECT_EQ(count("#failures"), 0);
  EXPECT_NE(browser_->evaluate("document.querySelector('#head').textContent").get<std::string>().find("latency of b"),
            std::string::npos);
  browser_->evaluate("document.querySelector('#tasks td.name button').click()");
  EXPECT_EQ(count("#tasks .chips li") > 0, true);
  expect_quiet();
  keep_picture("compiled", true);
}

TEST_F(Page, HoldsTwoThousandTasksOnANarrowWindow) {
  make_records("r.db", 2000, 1, "large");
  browser_->set_window(390, 800, false);
  const json made = report({path("r.db")});
  EXPECT_EQ(made.at("tasks").size(), 2000);
  EXPECT_EQ(count("#tasks tbody tr"), 2000);
  browser_->evaluate("document.querySelectorAll('#tasks thead button')[4].click()");
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#tasks thead th')[4].getAttribute('aria-sort')"),
            "descending");
  // The page does not scroll sideways; wide tables do so for themselves.
  EXPECT_EQ(browser_->evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
  EXPECT_GT(browser_->evaluate("document.querySelector('#latency svg').clientWidth"), 500)
      << "its letters stay readable";
  EXPECT_EQ(browser_->evaluate("document.querySelector('#share svg').getBoundingClientRect().right <= innerWidth"),
            true)
      << "all shares are seen at once";
  expect_quiet();
  keep_picture("narrow");
}

TEST_F(Page, OfARealTuning) {
  write_model("model.onnx");
  const Outcome tuned = fettle(
      {"tune", path("model.onnx"), "--trials", "6", "--db", path("r.db"), "--report", path("tuned.html"), "--json"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_EQ(json::parse(tuned.out).at("report"), path("tuned.html"));
  ASSERT_TRUE(browser_->open(path("tuned.html")));
  expect_quiet();
  const json data = browser_->evaluate("JSON.parse(document.getElementById('data').textContent)");
  EXPECT_EQ(data.at("run").at("model"), "model");
  const json& task = data.at("run").at("tasks").at(0);
  EXPECT_EQ(task.at("calls").at(0).at("nodes").at(0).at(0), "MatMul");
  EXPECT_GT(task.at("best_s"), 0);
  EXPECT_GT(task.at("limit_s"), 0);
  EXPECT_GT(task.at("in_model_s"), 0);
  EXPECT_NE(task.at("program").get<std::string>().find("func"), std::string::npos);
  // The same from the records, with and without the model.
  EXPECT_EQ(report({path("r.db")}).at("run"), json::parse(tuned.out).at("run"));
  EXPECT_EQ(report({path("r.db"), path("model.onnx")}).at("tasks").size(), 1);
}

TEST_F(Page, DrawsTheModelsCalls) {
  // Six blocks that are alike, each of a product and a softmax, behind the small model.
  constexpr int kBlocks = 6;
  write_model("model.onnx", [](onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    onnx::TensorProto& weights = *graph.add_initializer();
    weights.set_name("square");
    weights.set_data_type(onnx::TensorProto::FLOAT);
    for (int i = 0; i < 2; ++i) weights.add_dims(4);
    for (int i = 0; i < 16; ++i) weights.add_float_data(static_cast<float>(i) * 0.125f);
    std::string last = "y";
    for (int i = 0; i < 2 * kBlocks; ++i) {
      onnx::NodeProto& node = *graph.add_node();
      node.set_op_type(i % 2 == 0 ? "MatMul" : "Softmax");
      node.set_name(fmt::format("block{}/{}", i / 2, node.op_type()));
      node.add_input(last);
      if (i % 2 == 0) node.add_input("square");
      last = fmt::format("v{}", i);
      node.add_output(last);
    }
    graph.mutable_output(0)->set_name(last);
  });
  ASSERT_EQ(fettle({"tune", path("model.onnx"), "--trials", "6", "--db", path("r.db")}).status, 0);
  report({path("r.db")});
  EXPECT_EQ(count("#graph"), 0) << "nothing is known of the model itself";
  report({path("r.db"), path("model.onnx")});
  const json calls = browser_->evaluate("JSON.parse(document.getElementById('data').textContent).run.calls");
  ASSERT_EQ(calls.size(), 1u + 2 * kBlocks);
  for (size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(calls[i].at("from"), i == 0 ? json::array() : json::array({i - 1})) << calls[i];
  // What comes again and again is there once.
  EXPECT_EQ(count("#graph .box"), 3);
  EXPECT_EQ(count("#graph .again"), 1);
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#graph text')].some(t => t.textContent === '× 6')"),
            true);
  const std::string apart =
      "[...document.querySelectorAll('#graph .box > rect')].map(r => r.getBBox()).every((a, i, all) => all.every((b, "
      "k) => "
      "i === k || a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y))";
  EXPECT_EQ(browser_->evaluate(apart), true) << "boxes lie apart";
  const std::string inside =
      "[...document.querySelectorAll('#graph .box')].every(b => {const r = b.querySelector('rect').getBBox(); return "
      "[...b.querySelectorAll('text')].every(t => {const x = t.getBBox(); return x.x >= r.x && x.x + x.width <= r.x + "
      "r.width && x.y >= r.y && x.y + x.height <= r.y + r.height})})";
  EXPECT_EQ(browser_->evaluate(inside), true) << "text lies in its box";
  // By keyboard: a box leads to its task.
  browser_->evaluate("document.querySelector('#graph a.box').focus()");
  browser_->press("Enter");
  EXPECT_EQ(count("#tasks tr.detail"), 1);
  expect_quiet();
  // WCAG 2's contrast of each text and its box.
  const std::string contrast =
      "(() => {const lightness = color => {const n = color.match(/[\\d.]+/g).slice(0, 3).map(x => "
      "color.startsWith('rgb') ? x / 255 : +x).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); "
      "return 0.2126 * n[0] + 0.7152 * n[1] + 0.0722 * n[2]}; const fill = e => lightness(getComputedStyle(e).fill); "
      "return Math.min(...[...document.querySelectorAll('#graph .box')].flatMap(b => "
      "[...b.querySelectorAll('text')].map("
      "t => {const [low, high] = [fill(t), fill(b.querySelector('rect'))].sort((a, b) => a - b); return (high + 0.05) "
      "/ "
      "(low + 0.05)})))})()";
  for (const bool dark : {false, true})
    for (const int width : {1280, 390}) {
      browser_->set_window(width, 900, dark);
      EXPECT_EQ(browser_->evaluate("document.documentElement.scrollWidth <= innerWidth"), true) << width;
      EXPECT_GE(browser_->evaluate(contrast).get<double>(), 4.5) << "text is read on every colour";
      browser_->evaluate("document.querySelector('#graph').scrollIntoView()");
      keep_picture(fmt::format("graph-{}-{}", dark ? "dark" : "light", width));
    }
}

TEST_F(Page, RefusesWhatItCannotShow) {
  browser_.reset();  // its profile is in the folder that is to stay as it is
  write_model("model.onnx");
  expect_refused({"report", path("none.db"), "-o", path("out.html")}, "E501");
  make_records("r.db", 2);
  EXPECT_EQ(fettle({"report", path("r.db"), "-o", path("out.html"), "--run", "2"}).status, 2);
  expect_refused({"report", path("r.db"), "-o", path("no/such/folder/out.html")}, "E702");
  EXPECT_EQ(fettle({"report", path("r.db")}).status, 2) << "neither a page nor a comparison";
  EXPECT_EQ(fettle({"report", path("r.db"), "--compare", path("none.so")}).status, 1);
}

}  // namespace
}  // namespace fettle::testing_support
