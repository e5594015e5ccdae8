// Saved graphs: what is read is what was written, and nothing else is read.

#include "frontend/saved/saved.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/large_digest.h"
#include "base/testing.h"
#include "frontend/comprehension/import.h"
#include "frontend/frontend.h"
#include "frontend/onnx/import.h"
#include "frontend/saved/format.h"
#include "frontend/stablehlo/import.h"
#include "frontend/stablehlo/read.h"
#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

/// A copy where constants lie as they would in a mapped file.
std::shared_ptr<const std::byte> in_memory(const std::string& bytes) {
  TensorBuilder copy = *make_tensor(kU8, {static_cast<int64_t>(bytes.size())});
  std::memcpy(copy.bytes.get(), bytes.data(), bytes.size());
  return copy.bytes;
}
Result<Graph> read(const std::string& bytes, const Limits& limits = {}) {
  return read_saved_graph(in_memory(bytes), static_cast<int64_t>(bytes.size()), "test", limits);
}

/// Written and read again it is the same: its bytes, its text, and what all passes make of it.
void expect_same_behind_file(Graph graph) {
  const auto bytes = save_graph(graph);
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  auto again = read(*bytes);
  ASSERT_TRUE(again) << again.error().to_string();
  const auto bytes_again = save_graph(*again);
  ASSERT_TRUE(bytes_again);
  EXPECT_TRUE(*bytes == *bytes_again);
  const auto before = optimize(graph), after = optimize(*again);
  ASSERT_TRUE(before) << before.error().to_string();
  ASSERT_TRUE(after) << after.error().to_string();
  EXPECT_EQ(to_text(graph, true), to_text(*again, true));
  ASSERT_EQ(graph.size_checks().size(), again->size_checks().size());
  for (size_t i = 0; i < graph.size_checks().size(); ++i)
    EXPECT_EQ(graph.size_checks()[i].value, again->size_checks()[i].value);
}

Graph stablehlo_graph(const std::string& text) {
  auto module = stablehlo::parse_text(text, "test");
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  auto graph = import_stablehlo(*module);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().to_string());
  return std::move(*graph);
}

constexpr const char* kLoopOfOpenSize = R"(
func.func public @main(%x: tensor<?x4xf32>, %n: tensor<i32>) -> tensor<?x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %w = stablehlo.constant dense<[1.0, 2.0, 0.5, -1.0]> : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<?x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %b = chlo.broadcast_multiply %v, %w : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
      %k = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %k, %b : tensor<i32>, tensor<?x4xf32>
    }
  return %r#1 : tensor<?x4xf32>
})";

TEST(SavedGraph, KeepsEveryFixtureOfStableHlo) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(FETTLE_SOURCE_DIR) /
                                                               "src/frontend/stablehlo/fixtures")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".generic.mlir") || name.starts_with("open")) continue;  // which calls what nobody knows
    SCOPED_TRACE(name);
    auto graph = import_model(entry.path().string());
    ASSERT_TRUE(graph) << graph.error().to_string();
    expect_same_behind_file(std::move(*graph));
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST(SavedGraph, KeepsLoopsAndOpenSizes) { expect_same_behind_file(stablehlo_graph(kLoopOfOpenSize)); }

TEST(SavedGraph, KeepsComprehensions) {
  auto graph = import_comprehension("def mv(float(M,K) A, float(K) x) -> (y) { y(m) +=! A(m, k) * x(k) }");
  ASSERT_TRUE(graph) << graph.error().to_string();
  expect_same_behind_file(std::move(*graph));
}

TEST(SavedGraph, KeepsStringsStructuresAndSmallTypes) {
  Graph graph("all kinds");
  const Dim n = Dim::symbol("N", 1, 1000, 4, 16), m = Dim::symbol("M");
  Value* x = graph.add_input("x", {kF32, {n, max(n, m), floordiv(n + m * m, 3), min(n * 2 - m, 7)}});
  Value* words = graph.add_input("words", {kString, {m}});
  Value* names = graph.add_constant("names", *string_tensor(std::vector<std::string>{"a", "", "ß\n"}, {3}));
  Value* both = graph.add_node(find_op("Concat"), "both", {words, names}, {{"axis", int64_t{0}}})->output();
  Value* half = graph.add_constant("half", *to_tensor(std::vector<double>{1, 0.5}, kF8E5M2, {2}));
  Value* nibble = graph.add_constant("nibble", *to_tensor(std::vector<double>{-3, 7}, kI4, {2}));
  Value* shared = graph.add_constant("same", reshaped(*half->constant, {1, 2}));
  Node* cast = graph.add_node(find_op("Cast"), "cast", {half}, {{"to", onnx_number(kF32)}});
  cast->provenance.merge({Origin{"Cast", "a"}});
  cast->provenance.merge({Origin{"Cast", "b"}});
  cast->outputs[0]->declared = TensorType{kF32, {2}};
  graph.add_output("x", x);
  graph.add_output("both", both);
  graph.add_output("nibble", nibble);
  graph.add_output("same", shared);
  graph.add_output("cast", cast->output());
  graph.add_structure({.name = "s", .type = "seq(tensor(string))", .is_output = true, .first = 1, .count = 2});
  graph.add_size_check({.value = n - m, .is_zero = false, .message = "N is at least M"});
  const auto bytes = save_graph(graph);
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  const auto again = read(*bytes);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->name(), "all kinds");
  EXPECT_EQ(again->inputs()[0]->shape(), x->shape());
  const Dim back = again->inputs()[0]->shape()[0];
  EXPECT_EQ(std::tuple(back.min(), back.max(), back.divisor(), back.typical()), std::tuple(1, 1000, 4, 16));
  ASSERT_EQ(again->structures().size(), 1u);
  EXPECT_EQ(again->structures()[0].type, "seq(tensor(string))");
  EXPECT_EQ(again->size_checks().at(0).message, "N is at least M");
  EXPECT_EQ(to_strings(*again->find_value("names")->constant), (std::vector<std::string>{"a", "", "ß\n"}));
  EXPECT_EQ(to_doubles(*again->find_value("half")->constant), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(to_doubles(*again->find_value("nibble")->constant), (std::vector<double>{-3, 7}));
  EXPECT_EQ(again->find_value("same")->constant->bytes.get(), again->find_value("half")->constant->bytes.get());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(again->find_value("same")->constant->bytes.get()) % saved::kAlignment, 0u);
  const Node* cast_again = again->find_value("cast")->producer;
  EXPECT_EQ(to_text(cast_again->provenance), to_text(cast->provenance));
  EXPECT_EQ(cast_again->outputs[0]->declared, cast->outputs[0]->declared);
  EXPECT_EQ(*save_graph(*again), *bytes);
}

TEST(SavedGraph, DoesNotKeepWhatIsToldWhenCompiling) {
  Graph graph("g");
  Value* x = graph.add_input("x", {kF32, {Dim::symbol("N")}});
  graph.add_output("y", x);
  graph.add_size_classes({x->shape()[0], {8}});
  const auto bytes = save_graph(graph);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, ErrorCode::E605);
}

TEST(SavedGraph, EveryDamageIsSeen) {
  const std::string bytes = *save_graph(stablehlo_graph(kLoopOfOpenSize));
  ASSERT_TRUE(read(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto made = read(bytes.substr(0, size));
    ASSERT_FALSE(made) << size;
    EXPECT_EQ(made.error().code, ErrorCode::E602) << size;
  }
  size_t end = sizeof(saved::Header);
  uint64_t structure_bytes = 0;
  std::memcpy(&structure_bytes, bytes.data() + offsetof(saved::Header, structure_bytes), sizeof structure_bytes);
  end += structure_bytes;
  for (size_t i = 0; i < end; ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x11);
    EXPECT_FALSE(read(damaged)) << i;
  }
}

// Whoever means harm makes the digest fit.
TEST(SavedGraph, DamageBehindARightDigestDoesNoHarm) {
  const std::string bytes = *save_graph(stablehlo_graph(kLoopOfOpenSize));
  saved::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  int read_all_the_same = 0;
  for (size_t i = 0; i < header.structure_bytes; ++i)
    for (const int change : {0x01, 0x7f, 0xff}) {
      std::string damaged = bytes;
      damaged[sizeof header + i] = static_cast<char>(damaged[sizeof header + i] ^ change);
      const Digest digest =
          digest_large(std::as_bytes(std::span(damaged)).subspan(sizeof header, header.structure_bytes));
      header.digest_high = digest.high;
      header.digest_low = digest.low;
      std::memcpy(damaged.data(), &header, sizeof header);
      auto made = read(damaged);
      if (!made) continue;
      ++read_all_the_same;
      (void)optimize(*made);
    }
  EXPECT_GT(read_all_the_same, 0);  // names, for example
}

TEST(SavedGraph, NewerVersionsAndLimitsAreNamed) {
  std::string bytes = *save_graph(stablehlo_graph(kLoopOfOpenSize));
  const auto limited = read(bytes, {.nodes = 2});
  ASSERT_FALSE(limited);
  EXPECT_EQ(limited.error().code, ErrorCode::E608);
  bytes[offsetof(saved::Header, version)] = 77;
  const auto newer = read(bytes);
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, ErrorCode::E602);
  EXPECT_NE(newer.error().message.find("version 77"), std::string::npos);
}

}  // namespace
}  // namespace fettle
