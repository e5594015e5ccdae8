// The command, subcommand by subcommand, on a small model.

#include <nlohmann/json.hpp>

#include "database/sqlite_database.h"
#include "onnx-ml.pb.h"
#include "runtime/npy.h"
#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

class Command : public Misuse {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    write_model("model.onnx");
    write_array("x.npy", {2, 3});
  }
  /// The one object on standard output.
  json run(std::vector<std::string> args) const {
    args.emplace_back("--json");
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    json made = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(made.is_object()) << outcome.out;
    return made;
  }
};

TEST_F(Command, CompilesAndRuns) {
  const json compiled = run({"compile", path("model.onnx"), "-o", path("model.so"), "--threads", "1"});
  EXPECT_EQ(compiled.at("file"), path("model.so"));
  EXPECT_GE(compiled.at("kernels"), 1);
  EXPECT_NE(read("model.h").find("fettle_model_run"), std::string::npos);

  for (const char* model : {"model.onnx", "model.so"}) {
    const json ran = run({"run", path(model), "--input", "x=" + path("x.npy"), "--output-dir", path("results")});
    EXPECT_EQ(ran.at("outputs").at(0).at("name"), "y");
    const auto y = read_npy(path("results/y.npy"));
    ASSERT_TRUE(y.has_value()) << y.error().to_string();
    EXPECT_EQ(y->shape(), (std::vector<int64_t>{2, 4}));
    // w counts up from -1 in quarters, so columns of ones @ w are -3 + 3 + j * 0.75
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 4; ++j)
        EXPECT_FLOAT_EQ(y->elems<float>()[i * 4 + j], std::max(0.f, 0.75f * static_cast<float>(j))) << i << ", " << j;
    std::filesystem::remove_all(path("results"));
  }
}

TEST_F(Command, VerifiesARun) {
  const json verdict = run({"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--verify"});
  EXPECT_GE(verdict.at("compared"), 1);
  EXPECT_EQ(verdict.at("differs"), false);
  EXPECT_EQ(verdict.at("left_out").size(), 0u);
  const json little =
      run({"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--verify", "--max-operations", "10"});
  EXPECT_EQ(little.at("left_out").size(), 2u) << little;
}

TEST_F(Command, TakesOneFunctionOfAFile) {
  write("f.tc",
        "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }\n"
        "def more(float(N) x) -> (z) { z(i) = x(i) + 1 }\n");
  const std::vector<std::string> compile = {"compile", path("f.tc"), "-o", path("f.so")};
  EXPECT_EQ(run(compile).at("function"), "more");
  EXPECT_NE(fettle(compile).err.find("has the functions twice, more: more is taken"), std::string::npos);
  const std::vector<std::vector<std::string>> with_a_file = {
      compile,
      {"check", path("f.tc")},
      {"inspect", path("f.tc")},
      {"convert", path("f.tc"), "-o", path("f.fettle")},
      {"tune", path("f.tc"), "--shape", "x=8", "--trials", "1", "--db", path("f.db"), "--threads", "1"}};
  for (std::vector<std::string> args : with_a_file) {
    args.insert(args.end(), {"--function", "twice"});
    EXPECT_EQ(run(args).at("function"), "twice") << args[0];
    const Outcome said = fettle(args);
    EXPECT_EQ(said.err.find("is taken"), std::string::npos) << said.err;
  }
  write_array("x1.npy", {3});
  for (const auto& [name, output] : {std::pair("twice", "y"), {"more", "z"}}) {
    const json ran = run(
        {"run", path("f.tc"), "--function", name, "--input", "x=" + path("x1.npy"), "--output-dir", path("results")});
    EXPECT_EQ(ran.at("outputs").at(0).at("name"), output);
  }
  EXPECT_EQ(run({"trace", path("f.tc"), "--function", "twice", "--shape", "x=8", "-o", path("t.json")}).at("model"),
            "f.twice");
  EXPECT_NE(fettle({"check", path("f.tc")}).out.find("function   more, of twice, more"), std::string::npos);
}

TEST_F(Command, QuantizesIntoAnotherFile) {
  const std::vector<std::string> on_itself = {"quantize",         path("model.onnx"), "-o",
                                              path("model.onnx"), "--calibrate",      path("x.npy")};
  const std::string before = read("model.onnx");
  const Outcome refused = fettle(on_itself);
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("E709"), std::string::npos) << refused.err;
  EXPECT_EQ(read("model.onnx"), before);

  std::vector<std::string> options = {"quantize",    path("model.onnx"), "-o",           path("bytes.onnx"),
                                      "--calibrate", path("x.npy"),      "--percentile", "90"};
  EXPECT_EQ(run(options).at("products"), 1);
  options.insert(options.end(), {"--method", "minmax"});
  EXPECT_NE(fettle(options).err.find("--percentile"), std::string::npos);
}

TEST_F(Command, ChecksAModel) {
  const json checked = run({"check", path("model.onnx")});
  EXPECT_EQ(checked.at("valid"), true);
  EXPECT_EQ(checked.at("compiles"), true);
  EXPECT_EQ(checked.at("operators"), json::parse(R"([{"name": "MatMul", "count": 1}, {"name": "Relu", "count": 1}])"));
  EXPECT_EQ(checked.at("parameters"), 12);
  EXPECT_EQ(checked.at("operations").at("count"), "56");  // 2 * 4 sums of 3 products, and 8 maxima
  EXPECT_EQ(checked.at("reasons").size(), 0u);
}

// All of them: of operators that are not there, of attributes, of types.
TEST_F(Command, ChecksForEveryReason) {
  write_model("bad.onnx", [](onnx::ModelProto& model) {
    auto* graph = model.mutable_graph();
    const auto add = [&](const std::string& op, std::vector<std::string> inputs, const std::string& output) {
      auto* node = graph->add_node();
      node->set_op_type(op);
      node->set_name("the_" + output);
      for (const std::string& input : inputs) node->add_input(input);
      node->add_output(output);
      return node;
    };
    add("NoSuchOperator", {"x"}, "a");
    add("Relu", {"a"}, "b");  // is not judged
    add("OtherOperator", {"y"}, "c")->set_domain("org.example");
    add("NoSuchOperator", {"y"}, "d");
    auto* axis = add("Softmax", {"x"}, "e")->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
    axis->set_i(7);
    add("MatMul", {"x", "x"}, "f");  // 2x3 by 2x3
    add("Add", {"e", "f"}, "g");
    for (const char* name : {"b", "c", "g"}) graph->add_output()->set_name(name);
  });
  const Outcome outcome = fettle({"check", path("bad.onnx"), "--json"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const json checked = json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(checked.is_object()) << outcome.out;
  EXPECT_EQ(checked.at("valid"), false);
  EXPECT_EQ(checked.at("compiles"), false);
  std::vector<std::string> reasons;
  for (const json& reason : checked.at("reasons"))
    reasons.push_back(reason.at("code").get<std::string>() + " " + reason.at("where").get<std::string>() + " " +
                      reason.at("message").get<std::string>());
  ASSERT_EQ(reasons.size(), 4u) << checked.at("reasons");
  EXPECT_EQ(reasons[0], "E603  NoSuchOperator (the_a, the_d)");
  EXPECT_EQ(reasons[1], "E603  org.example.OtherOperator (the_c)");
  EXPECT_TRUE(reasons[2].starts_with("E606 the_e ")) << reasons[2];
  EXPECT_TRUE(reasons[3].starts_with("E605 the_f ")) << reasons[3];
}

TEST_F(Command, PrintsStrings) {
  write_model("model.onnx", [](onnx::ModelProto& model) {
    onnx::NodeProto& cast = *model.mutable_graph()->add_node();
    cast.set_op_type("Cast");
    cast.add_input("y");
    cast.add_output("text");
    onnx::AttributeProto& to = *cast.add_attribute();
    to.set_name("to");
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(onnx::TensorProto::STRING);
    onnx::ValueInfoProto& output = *model.mutable_graph()->add_output();
    output.set_name("text");
    output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
  });
  const json ran = run({"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")});
  EXPECT_EQ(ran.at("outputs").at(1).at("strings"), json({"0", "0.75", "1.5", "2.25", "0", "0.75", "1.5", "2.25"}));
  EXPECT_FALSE(std::filesystem::exists(path("results/text.npy")));
}

TEST_F(Command, TimesModels) {
  for (const bool library : {false, true}) {
    if (library) run({"compile", path("model.onnx"), "-o", path("model.so")});
    const json timed =
        run({"bench", path(library ? "model.so" : "model.onnx"), "--time", "0.05", "--profile", "--pin"});
    EXPECT_GT(timed.at("latency_ms").at("min"), 0);
    EXPECT_GE(timed.at("latency_ms").at("median"), timed.at("latency_ms").at("min"));
    EXPECT_GE(timed.at("profile").size(), 1u);
  }
}

TEST_F(Command, TakesOneOfSeveralTargets) {
  const json compiled =
      run({"compile", path("model.onnx"), "-o", path("model.so"), "--target", "x86-64-v3,x86-64-v4,sapphirerapids"});
  EXPECT_EQ(compiled.at("targets"), json({"sapphirerapids", "x86-64-v4", "x86-64-v3"}));
  const auto taken = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"inspect", path("model.so")};
    args.insert(args.end(), more.begin(), more.end());
    std::string name;
    const json described = run(args);
    for (const json& target : described.at("targets"))
      if (target.at("taken").get<bool>()) name += target.at("name").get<std::string>();
    return name;
  };
  EXPECT_EQ(taken({"--target", "x86-64-v3"}), "x86-64-v3");
  ::setenv("FETTLE_TARGET", "x86-64-v3", 1);
  EXPECT_EQ(taken({}), "x86-64-v3");
  const json ran = run({"run", path("model.so"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")});
  EXPECT_EQ(ran.at("target"), "x86-64-v3");
  ::setenv("FETTLE_TARGET", "x86-64-v2", 1);
  const Outcome refused = fettle({"bench", path("model.so"), "--time", "0.02"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("E707"), std::string::npos);
  EXPECT_NE(refused.err.find("it has sapphirerapids, x86-64-v4, x86-64-v3"), std::string::npos) << refused.err;
  ::unsetenv("FETTLE_TARGET");
  for (const char* wrong : {"x86-64-v3,cuda", "x86-64-v3,", "x86-64-v3,x86-64-v0"})
    EXPECT_EQ(fettle({"compile", path("model.onnx"), "-o", path("model.so"), "--target", wrong}).status, 2) << wrong;
  EXPECT_EQ(fettle({"bench", path("model.onnx"), "--target", "x86-64-v3,x86-64-v4"}).status, 2);
}

TEST_F(Command, InspectsEveryView) {
  EXPECT_NE(fettle({"inspect", path("model.onnx"), "--graph"}).out.find("MatMul"), std::string::npos);
  const json tasks = run({"inspect", path("model.onnx"), "--tasks"});
  ASSERT_GE(tasks.at("tasks").size(), 1u);
  const std::string hash = tasks.at("tasks").at(0).at("task");
  EXPECT_NE(fettle({"inspect", path("model.onnx"), "--task", "0"}).out.find("func MatMul"), std::string::npos);
  EXPECT_EQ(run({"inspect", path("model.onnx"), "--task", hash.substr(0, 8), "--trace"}).at("task"), hash);
  EXPECT_NE(fettle({"inspect", path("model.onnx"), "--task", "0", "--ir"}).out.find("lowered func"), std::string::npos);
  EXPECT_NE(fettle({"inspect", path("model.onnx"), "--task", "0", "--c"}).out.find("int32_t kernel(FettleContext *"),
            std::string::npos);
  EXPECT_NE(fettle({"inspect", path("model.onnx"), "--task", "0", "--asm"}).out.find("kernel:"), std::string::npos);
  run({"compile", path("model.onnx"), "-o", path("model.so")});
  const json library = run({"inspect", path("model.so")});
  EXPECT_EQ(library.at("inputs").at(0).at("type"), "f32[2, 3]");
  EXPECT_EQ(fettle({"inspect", path("model.so"), "--graph"}).status, 2);
}

TEST_F(Command, InspectsWhatAPassLeaves) {
  const auto after = [&](const std::string& stage, bool task) {
    std::vector<std::string> args{"inspect", path("model.onnx"), "--after", stage};
    if (task) args.insert(args.end(), {"--task", "0"});
    return fettle(args);
  };
  const std::string graph = fettle({"inspect", path("model.onnx"), "--graph"}).out;
  EXPECT_NE(after("fuse_loops", false).out.find("# after fuse_loops, 27 of 27\n" + graph), std::string::npos);
  EXPECT_NE(after("drop_dead", false).out.find("# after drop_dead, 3 of 27\n"), std::string::npos);
  const std::string code = fettle({"inspect", path("model.onnx"), "--task", "0", "--ir"}).out;
  const std::string last = after("relax_lane_masks", true).out;
  EXPECT_EQ(last.substr(last.find("entry lowered func")), code.substr(code.find("entry lowered func")));
  EXPECT_NE(after("flatten_blocks", true).out.find("# after flatten_blocks, 6 of "), std::string::npos);
  // Of the schedule.
  const std::string workload = fettle({"inspect", path("model.onnx"), "--task", "0"}).out;
  const std::string start = after("0", true).out;
  EXPECT_EQ(start.substr(start.find("func ")), workload.substr(workload.find("func ")));
  EXPECT_NE(after("1", true).out.find("# after "), std::string::npos);
  EXPECT_NE(after("get_block", true).out.find("# after get_block, "), std::string::npos);
  // What there is not.
  for (const bool task : {false, true})
    for (const char* stage : {"no_such_pass", "10000"}) {
      const auto refused = after(stage, task);
      EXPECT_EQ(refused.status, 2) << stage;
      EXPECT_NE(refused.err.find(task ? "outline_micro_kernels" : "fold_constants"), std::string::npos) << refused.err;
    }
}

TEST_F(Command, OpenDimensionsComeFromShapesOrInputs) {
  write_model("open.onnx", [](onnx::ModelProto& model) {
    for (auto* value : {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)})
      value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("N");
  });
  const json ran = run({"run", path("open.onnx"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")});
  EXPECT_EQ(ran.at("outputs").at(0).at("type"), "f32[2, 4]");
  run({"compile", path("open.onnx"), "-o", path("open.so"), "--shape", "x=7,3"});
  EXPECT_EQ(run({"inspect", path("open.so")}).at("inputs").at(0).at("type"), "f32[7, 3]");
}

TEST_F(Command, RecordsAreListedExportedAndImported) {
  ASSERT_TRUE(open_sqlite_database(path("records.db")).has_value());
  EXPECT_EQ(run({"db", "ls", path("records.db")}).at("tasks").size(), 0u);
  EXPECT_EQ(run({"db", "export", path("records.db"), path("records.jsonl")}).at("records"), 0);
  EXPECT_EQ(run({"db", "import", path("records.db"), path("records.jsonl")}).at("records"), 0);
}

}  // namespace
}  // namespace fettle::testing_support
