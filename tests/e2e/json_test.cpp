// Every command's --json against docs/json.md: no field that the page does not list, of the type that it says, and none
// missing.

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

struct Field {
  std::string type;
  bool optional = false;
};
using Fields = std::map<std::string, Field>;

/// The page's blocks, by what stands behind "json-fields", else by the heading above.
std::map<std::string, Fields> read_page() {
  std::map<std::string, Fields> pages;
  std::ifstream in(std::string(FETTLE_SOURCE_DIR) + "/docs/json.md");
  std::string heading;
  Fields* block = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) heading = line.substr(3);
    if (line.starts_with("```json-fields")) {
      const std::string name = line.size() > 15 ? line.substr(15) : heading;
      block = &pages[name];
    } else if (line.starts_with("```")) {
      block = nullptr;
    } else if (block) {
      std::istringstream words(line);
      std::string path, type;
      words >> path >> type;
      (*block)[path] = {type.ends_with('?') ? type.substr(0, type.size() - 1) : type, type.ends_with('?')};
    }
  }
  return pages;
}

std::string type_of(const json& value) {
  return value.is_string() ? "text" : value.is_number() ? "number" : value.is_boolean() ? "bool" : value.type_name();
}

class Json : public Misuse {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    write_model("model.onnx");
    write_array("x.npy", {2, 3});
  }

  void expect_documented(const std::string& block, std::vector<std::string> args, int status = 0) {
    SCOPED_TRACE(block);
    args.emplace_back("--json");
    const Outcome outcome = fettle(args);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    const json object = json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(object.is_object()) << outcome.out;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
    EXPECT_EQ(object.at("command"),
              args.front() == "db" || args.front() == "cache" ? args[0] + " " + args[1] : args.front());
    expect_fields(block, object);
  }

  void expect_fields(const std::string& block, const json& object) {
    static const std::map<std::string, Fields> page = read_page();
    ASSERT_TRUE(page.contains(block));
    ASSERT_TRUE(object.is_object());
    std::set<std::string> seen;
    compare(object, "", page.at(block), seen);
    for (const auto& [path, field] : page.at(block))
      EXPECT_TRUE(field.optional || seen.contains(path)) << path << " is missing";
  }

 private:
  void compare(const json& value, const std::string& path, const Fields& fields, std::set<std::string>& seen) {
    if (value.is_object()) {
      for (const auto& [key, inner] : value.items())
        compare(inner, path.empty() ? key : path + "." + key, fields, seen);
      return;
    }
    if (value.is_array()) {
      for (const json& inner : value) compare(inner, path + "[]", fields, seen);
      return;
    }
    auto field = fields.find(path);
    if (field == fields.end()) {  // with a name that varies
      const size_t first = path.find('.'), second = path.find('.', first + 1);
      if (second != std::string::npos) field = fields.find(path.substr(0, first) + ".*" + path.substr(second));
    }
    ASSERT_TRUE(field != fields.end()) << path << " is not in docs/json.md";
    seen.insert(field->first);
    if (value.is_null() && field->second.optional) return;
    EXPECT_EQ(type_of(value), field->second.type) << path;
  }
};

TEST_F(Json, OfCommandsOnAModel) {
  expect_documented("compile", {"compile", path("model.onnx"), "-o", path("model.so"), "--threads", "1"});
  expect_documented("run", {"run", path("model.so"), "--input", "x=" + path("x.npy"), "--output-dir", path("results")});
  expect_documented("run --verify", {"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--verify"});
  expect_documented("check", {"check", path("model.onnx")});
  expect_documented("quantize",
                    {"quantize", path("model.onnx"), "-o", path("int8.onnx"), "--calibrate", path("x.npy"), "--table"});
  expect_documented("convert", {"convert", path("model.onnx"), "-o", path("model.fettle")});
  expect_documented("check", {"check", path("model.fettle")});
  expect_documented("bench", {"bench", path("model.so"), "--time", "0.02", "--profile"});
  expect_documented("bench --streams", {"bench", path("model.so"), "--time", "0.02", "--streams", "2"});
  expect_documented("trace", {"trace", path("model.so"), "-o", path("trace.json")});
  expect_documented("explain --why", {"explain", path("model.onnx"), "--why", "y"});
  expect_documented("inspect", {"inspect", path("model.onnx")});
  expect_documented("inspect --tasks", {"inspect", path("model.onnx"), "--tasks"});
  expect_documented("inspect --candidates", {"inspect", path("model.onnx"), "--candidates"});
  expect_documented("inspect --graph", {"inspect", path("model.onnx"), "--graph"});
  expect_documented("inspect --after", {"inspect", path("model.onnx"), "--after", "simplify"});
  expect_documented("inspect --task", {"inspect", path("model.onnx"), "--task", "0", "--after", "flatten_blocks"});
  for (const char* view : {"--trace", "--ir", "--asm"})
    expect_documented("inspect --task", {"inspect", path("model.onnx"), "--task", "0", view});
  expect_documented("inspect library", {"inspect", path("model.so")});
  expect_documented(
      "compile", {"compile", path("model.onnx"), "-o", path("several.so"), "--target", "x86-64-v3,x86-64-v4,native"});
  expect_documented("inspect library", {"inspect", path("several.so")});
  expect_documented("run",
                    {"run", path("several.so"), "--input", "x=" + path("x.npy"), "--output-dir", path("several")});
}

TEST_F(Json, OfCommandsOnRecords) {
  expect_documented("tune",
                    {"tune", path("model.onnx"), "--db", path("records.db"), "--trials", "4", "--threads", "1"});
  expect_documented("top", {"top", "--db", path("records.db"), "--once"});
  expect_documented("db ls", {"db", "ls", path("records.db")});
  expect_documented("db show", {"db", "show", path("records.db")});
  expect_documented("db export", {"db", "export", path("records.db"), path("records.jsonl")});
  expect_documented("db check", {"db", "check", path("records.db")});
  expect_documented("db import", {"db", "import", path("other.db"), path("records.jsonl")});
  expect_documented("report", {"report", path("records.db"), "-o", path("report.html")});
}

TEST_F(Json, OfTheCache) {
  ::setenv("FETTLE_CACHE", path("cache").c_str(), 1);
  expect_documented(
      "run", {"run", path("model.onnx"), "--input", "x=" + path("x.npy"), "--output-dir", path("results"), "--cache"});
  expect_documented("cache path", {"cache", "path"});
  expect_documented("cache ls", {"cache", "ls"});
  expect_documented("cache clear", {"cache", "clear"});
  const Outcome left = fettle({"cache", "ls", "--json"});
  EXPECT_TRUE(json::parse(left.out).at("models").empty()) << left.out;
  ::unsetenv("FETTLE_CACHE");
}

TEST_F(Json, OfATrackerAndADevice) {
  const auto ended = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  };
  expect_fields("tracker", ended(fettle({"tracker", "--listen", "127.0.0.1:0", "--json"}, [&](const std::string& err) {
                  const size_t at = err.find("tracker at ");
                  if (at == std::string::npos || !err.ends_with('\n')) return false;
                  const std::string address = err.substr(at + 11, err.find('\n', at) - at - 11);
                  const json device =
                      ended(fettle({"device", "--tracker", address, "--key", "k", "--no-micro-kernels", "--json"},
                                   [&](const std::string& said) {
                                     if (said.find("offered as") == std::string::npos) return false;
                                     expect_documented("tracker --query", {"tracker", "--query", address});
                                     return true;
                                   }));
                  expect_fields("device", device);
                  return true;
                })));
}

TEST_F(Json, OfTheRest) {
  expect_documented("explain", {"explain", "E201"});
  expect_documented("completion", {"completion", "fish"});
  std::ofstream(path("none.trace")) << "";
  expect_documented("puzzle", {"puzzle", "2", "--trace", path("none.trace")}, 1);
  expect_documented("doctor", {"doctor"});
}

TEST_F(Json, OfErrors) {
  expect_documented("error", {"compile", path("nothing.onnx"), "-o", path("model.so")}, 1);
  expect_documented("error", {"db", "ls", path("nothing.db")}, 1);
  expect_documented("error", {"tracker", "--query", "127.0.0.1:1"}, 1);
  expect_documented("error", {"inspect", path("model.onnx"), "--task", "99"}, 2);
}

}  // namespace
}  // namespace fettle::testing_support
