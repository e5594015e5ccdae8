#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "lower/passes/passes.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

// A tile of columns and lanes in a function of three buffers; rows of A and B lie `stride` apart.
struct Tile {
  int columns = 16, lanes = 16;
  std::string value = "A[i * 512 + j * 50 + c]";
  std::string outer_guard = "", inner_guard = "";
  std::string dtype = "f32";
};

Func function_of(const Tile& t) {
  std::string text = fmt::format("lowered func f(A: {0}[4096], B: {0}[4096], C: {0}[4096] output):\n", t.dtype);
  std::string indent = "  ";
  const auto add = [&](const std::string& line) {
    text += indent + line + "\n";
    indent += "  ";
  };
  add("for i in 3:");
  add(fmt::format("for c in {} unrolled:", t.columns));
  if (!t.outer_guard.empty()) add("if " + t.outer_guard + ":");
  add(fmt::format("for j in {} vectorized:", t.lanes));
  if (!t.inner_guard.empty()) add("if " + t.inner_guard + ":");
  add(fmt::format("C[i * 1024 + c * {} + j] = {}", 2 * t.lanes, t.value));
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << text << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

Func transposed(const Func& func) {
  return with(func, [&](FuncNode& f) { f.body = transpose_tiles(func->body); });
}

// What it leaves in C, byte by byte; floats are small integers, others whatever their bytes say.
std::vector<uint8_t> result_of(const Func& func) {
  const DType dtype = func->params[0].buffer->dtype;
  const auto bytes = static_cast<size_t>(4096 * dtype.element_bytes());
  std::vector<std::vector<uint8_t>> args(3, std::vector<uint8_t>(bytes, 7));
  RandomStream stream{5, 0};
  for (int input = 0; input < 2; ++input)
    for (size_t i = 0; i < bytes; i += dtype == kF32 ? 4 : 1) {
      const auto number = static_cast<float>(stream.below(1000));
      uint8_t* at = &args[static_cast<size_t>(input)][i];
      if (dtype == kF32)
        std::memcpy(at, &number, sizeof number);
      else
        *at = static_cast<uint8_t>(stream.below(100));
    }
  std::vector<BufferArg> views;
  for (auto& arg : args) views.push_back({arg.data(), static_cast<int64_t>(bytes)});
  const auto done = interpret(func, views);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string() + to_text(func));
  return args[2];
}

TEST(TransposeTiles, RowsAreReadAsTheyLie) {
  const std::string text = to_text(transposed(function_of({.columns = 4, .lanes = 4})));
  EXPECT_NE(text.find("A_tile[row * 4 + column] = A[i * 512 + row * 50 + column]"), std::string::npos) << text;
  EXPECT_NE(text.find("shuffle([A_tile[ramp(0, 1, 4)], A_tile[ramp(4, 1, 4)]], [0, 4, 1, 5])"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("j * 50"), std::string::npos) << text;
}

TEST(TransposeTiles, KeepsTheMeaning) {
  const std::string plain = Tile{}.value;
  for (const int lanes : {4, 8, 16})
    for (int columns = 3; columns <= lanes; ++columns)
      for (const Tile& tile : std::vector<Tile>{
               {.value = plain},
               {.dtype = "i32"},
               {.dtype = "i64"},
               {.dtype = "f64"},
               {.dtype = "f16"},
               {.dtype = "u8"},
               {.value = "max(A[i * 512 + j * 50 + c], B[j + c * 16]) + A[i * 512 + j * 50 + c]"},
               {.value = "A[i * 512 + j * 50 + c] - B[c + (15 - j) * 7 + i]"},
               {.value = "select(i * 3 + j < 6, A[i * 512 + j * 50 + c], 0.0)"},
               {.value = "select(j < 3 && c + i < 4, A[i * 512 + j * 50 + c], 0.0)"},
               {.outer_guard = "c + i * 3 < 7"},
               {.inner_guard = "j * 2 + i < 6"},
               {.outer_guard = "c < 3", .inner_guard = "j < 3 && i < 2"},
           }) {
        Tile sized = tile;
        sized.columns = columns;
        sized.lanes = lanes;
        if ((tile.dtype == "f16" && lanes < 8) || (tile.dtype == "u8" && lanes < 16)) continue;
        const Func before = function_of(sized), after = transposed(before);
        EXPECT_NE(to_text(after).find("shuffle"), std::string::npos) << to_text(before);
        ASSERT_EQ(result_of(before), result_of(after)) << to_text(after);
        // As it comes to the code generator.
        const Func vectors = with(after, [&](FuncNode& f) { f.body = unroll_loops(vectorize_loops(after->body)); });
        ASSERT_EQ(result_of(before), result_of(vectors)) << to_text(vectors);
      }
}

// What lies outside of a guard may lie outside of the buffer.
TEST(TransposeTiles, NothingIsReadThatWasNot) {
  for (const Tile& tile : std::vector<Tile>{{.value = "A[j * 255 + c + 256]", .outer_guard = "c < 15"},
                                            {.value = "A[j * 255 + c * 1 + 271]", .inner_guard = "j < 15"},
                                            {.value = "select(j < 15, A[j * 255 + c + 271], 0.0)"},
                                            {.columns = 5, .value = "A[j * 255 + c + 266]"}}) {
    const Func before = function_of(tile), after = transposed(before);
    EXPECT_NE(to_text(after).find("shuffle"), std::string::npos) << to_text(before);
    EXPECT_EQ(result_of(before), result_of(after));  // the interpreter checks every access
  }
}

TEST(TransposeTiles, LeavesWhatIsNoSuchTile) {
  for (const Tile& tile : std::vector<Tile>{
           {.value = "A[i * 512 + c * 50 + j]"},                     // lanes lie side by side
           {.value = "A[i * 512 + j * 50 + c * 2]"},                 // nothing does
           {.value = "A[c]"},                                        // one element for all lanes
           {.value = "C[j * 50 + c]"},                               // what is written meanwhile
           {.columns = 2},                                           // few
           {.columns = 12, .lanes = 8},                              // no square
           {.columns = 6, .lanes = 6},                               // no vector
           {.columns = 8, .lanes = 8, .dtype = "u8"},                // half a register
           {.inner_guard = "c + j < 9"},                             // a triangle
           {.value = "select(c <= j, A[j * 50 + c], 0.0)"},          // so
           {.value = "select(j < 9, A[j * 50 + c], B[c * 16 + j])"}  // something else instead
       }) {
    const Func before = function_of(tile);
    EXPECT_EQ(to_text(transposed(before)), to_text(before));
  }
}

}  // namespace
}  // namespace fettle
