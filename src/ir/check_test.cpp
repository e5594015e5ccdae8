#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

// The message of check_well_formed on a function whose body is `body`; empty if it is well-formed.
std::string verdict(const Stmt& body, std::vector<Buffer> params) {
  auto func = make_ref<FuncNode>();
  func->name = "f";
  for (Buffer& b : params) func->params.push_back({std::move(b)});
  func->body = body;
  const Result<> status = check_well_formed(Func(func));
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::E102);
  return status.error().message;
}

std::string verdict(std::string_view text) {
  const Result<Func> f = parse_func(text);
  if (f) return "";
  EXPECT_EQ(f.error().code, ErrorCode::E102) << f.error().to_string();
  return f.error().message;
}

TEST(WellFormed, Variables) {
  const Buffer b = make_buffer("B", {8});
  const Var i = make_var("i");
  const Stmt set = store(b, {i}, float_imm(1));
  EXPECT_EQ(verdict(make_for(i, 0, 8, set), {b}), "");
  EXPECT_EQ(verdict(set, {b}), "variable 'i' is not bound here");
  EXPECT_EQ(verdict(make_for(i, 0, 4, make_for(i, 0, 2, set)), {b}), "loop variable 'i' is bound twice");
  EXPECT_EQ(verdict(seq({make_for(i, 0, 4, set), make_for(i, 0, 2, set)}), {b}), "loop variable 'i' is bound twice");
  EXPECT_EQ(verdict(seq({make_for(i, 0, 4, set), set}), {b}), "variable 'i' is not bound here");
  const Var x = make_var("x", kF32);
  EXPECT_EQ(verdict(let(x, float_imm(2), store(b, {0}, x)), {b}), "");
  EXPECT_EQ(verdict(let(x, int_imm(2), store(b, {0}, x)), {b}), "a value is of type i64, not f32");
}

TEST(WellFormed, BuffersAndTypes) {
  const Buffer b = make_buffer("B", {8}), c = make_buffer("C", {2, 4}, kI32);
  EXPECT_EQ(verdict(store(b, {0}, float_imm(1)), {}), "buffer 'B' is not declared here");
  EXPECT_EQ(verdict(store(b, {0}, float_imm(1)), {b, b}), "buffer 'B' is declared twice");
  EXPECT_EQ(verdict(store(b, {0}, float_imm(1, kF64)), {b}), "a stored value is of type f64, not f32");
  EXPECT_EQ(verdict(store(c, {0, 0, 0}, int_imm(1, kI32)), {c}), "'C' has 2 dimensions and is accessed with 3 indices");
  EXPECT_EQ(verdict(store(c, {5}, int_imm(1, kI32)), {c}), "");  // flat, in lowered code
  EXPECT_EQ(verdict(store(b, {0}, broadcast(float_imm(1), 4)), {b}), "a stored value is of type f32x4, not f32");
  EXPECT_EQ(verdict(store(b, {ramp(0, 1, 4)}, broadcast(float_imm(1), 4), broadcast(bool_imm(true), 8)), {b}),
            "the mask does not fit the access");
  const Expr wrong(make_ref<const BinaryNode>(BinaryOp::kAdd, float_imm(1), int_imm(1), kF32));
  EXPECT_EQ(verdict(store(b, {0}, wrong), {b}), "the operands of + differ in type: f32 and i64");
  const Expr whole(make_ref<const BinaryNode>(BinaryOp::kOrderedMax, int_imm(1, kI32), int_imm(2, kI32), kI32));
  EXPECT_EQ(verdict(store(c, {0, 0}, whole), {c}), "ordered_max does not apply to i32");
  const Buffer d = make_buffer("D", {1}, kI32);
  const Expr max_of_ints = ordered_max(load(d, {0}), load(c, {0, 0}));
  EXPECT_EQ(max_of_ints.as<BinaryNode>()->op, BinaryOp::kMax);
  const Expr shuffled(make_ref<const ShuffleNode>(std::vector<Expr>{float_imm(1)}, std::vector<int>{1}));
  EXPECT_EQ(verdict(store(b, {0}, shuffled), {b}), "a lane of a shuffle does not exist");
  auto loop = make_ref<ForNode>(make_var("i"), 0, 8, store(b, {0}, float_imm(1)));
  loop->thread_axis = "threadIdx.x";
  EXPECT_EQ(verdict(Stmt(loop), {b}), "a loop has a thread axis exactly if it is bound to threads");
}

TEST(WellFormed, Blocks) {
  EXPECT_EQ(verdict("func f(A: f32[4], B: f32[4]):\n  for i in 4:\n    block b(v: spatial[4] = i):\n      reads A[v]\n"
                    "      writes B[v]\n      B[v] = A[v]\n"),
            "");
  // The body sees iterators only.
  EXPECT_EQ(verdict("func f(A: f32[4], B: f32[4]):\n  for i in 4:\n    block b(v: spatial[4] = i):\n      reads A[v]\n"
                    "      writes B[v]\n      B[i] = A[v]\n"),
            "variable 'i' is not bound here");
  EXPECT_EQ(verdict("func f(A: f32[4], B: f32[4]):\n  for i in 4:\n    block b(v: spatial[4] = i):\n"
                    "      writes B[v]\n      B[v] = A[v]\n"),
            "block 'b' reads 'A', which its regions do not name");
  EXPECT_EQ(verdict("func f(A: f32[4], B: f32[4]):\n  for i in 4:\n    block b(v: spatial[4] = i):\n      reads A[v]\n"
                    "      B[v] = A[v]\n"),
            "block 'b' writes 'B', which its regions do not name");
  EXPECT_EQ(verdict("func f(A: f32[4], B: f32[4]):\n  for i in 4:\n    block b(v: spatial[4] = i):\n      reads A[v]\n"
                    "      writes B[v]\n      B[v] = 1.0\n"),
            "block 'b' does not read 'A', which its regions name");
  EXPECT_EQ(verdict("func f(B: f32[4, 4]):\n  block b():\n    writes B[0 +: 4]\n    B[0, 0] = 1.0\n"),
            "a region of 'B' in block 'b' has the wrong rank");
  EXPECT_EQ(verdict("func f(B: f32[4]):\n  block b():\n    writes B[0]\n    B[0] = 1.0\n  block b():\n    writes B[1]\n"
                    "    B[1] = 1.0\n"),
            "two blocks are named 'b'");
  // What a nested block accesses belongs to the outer one too, but for what that allocates.
  EXPECT_EQ(verdict(R"(
      func f(A: f32[4], B: f32[4]):
        block outer():
          alloc T: f32[4]
          reads A[0 +: 4]
          writes B[0 +: 4]
          for i in 4:
            block t(v: spatial[4] = i):
              reads A[v]
              writes T[v]
              T[v] = A[v]
          for i in 4:
            block b(v: spatial[4] = i):
              reads T[v]
              writes B[v]
              B[v] = T[v]
  )"),
            "");
  EXPECT_EQ(verdict("func f(B: f32[4, 4]):\n  block b():\n    writes B[0, 0]\n    B[0] = 1.0\n"),
            "'B' has 2 dimensions and is accessed with 1 indices");
}

TEST(WellFormed, PointsAtThePlace) {
  const Buffer b = make_buffer("B", {8});
  const Stmt wrong = store(b, {0}, float_imm(1, kF64));
  auto func = make_ref<FuncNode>();
  func->name = "f";
  func->params.push_back({b});
  func->body = seq({store(b, {1}, float_imm(1)), wrong});
  const Result<> status = check_well_formed(Func(func));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().place, wrong.get());
  EXPECT_EQ(status.error().where, "f");
}

}  // namespace
}  // namespace fettle
