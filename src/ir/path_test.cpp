#include "ir/path.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

Func two_nests() {
  auto func = parse_func(R"(func f(A: f32[4], B: f32[4] output, C: f32[4] output):
  for i in 4:
    block B(vi: spatial[4] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
  for j in 4:
    block C(vj: spatial[4] = j):
      reads A[vj]
      writes C[vj]
      C[vj] = A[vj]
)");
  EXPECT_TRUE(func.has_value()) << func.error().to_string();
  return *func;
}

const ForNode* loop_named(const Func& func, std::string_view name) {
  const ForNode* found = nullptr;
  walk(func->body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>(); loop && loop->var->name == name) found = loop;
    return !found;
  });
  return found;
}

Stmt unrolled(const ForNode& loop) {
  return with(loop, [](ForNode& f) { f.loop_kind = ForKind::kUnrolled; });
}

TEST(Path, WalksUp) {
  const Func func = two_nests();
  const BlockNode* block = find_block(func->body, "C");
  std::vector<StmtKind> kinds;
  EXPECT_TRUE(walk_up(func->body, block, [&](const Stmt& s) { kinds.push_back(s.kind()); }));
  EXPECT_EQ(kinds, (std::vector<StmtKind>{StmtKind::kBlock, StmtKind::kFor, StmtKind::kSeq, StmtKind::kBlock}));
  EXPECT_FALSE(walk_up(loop_named(func, "i")->body, block, [](const Stmt&) {}));
}

TEST(Path, ReplacesInPlaceWhatNobodyElseHolds) {
  Func func = two_nests();
  const FuncNode* node = func.get();
  const StmtNode* root = func->body.get();
  const ForNode* loop = loop_named(func, "j");
  const Stmt fresh = unrolled(*loop);
  func = replace_owned(std::move(func), loop, fresh);
  EXPECT_EQ(func.get(), node);
  EXPECT_EQ(func->body.get(), root);
  EXPECT_EQ(loop_named(func, "j"), fresh.get());
}

TEST(Path, LeavesAloneWhatOthersHold) {
  const std::string before = to_text(two_nests());
  {  // the function
    Func func = two_nests();
    const Func held = func;
    const ForNode* loop = loop_named(func, "j");
    func = replace_owned(std::move(func), loop, unrolled(*loop));
    EXPECT_EQ(to_text(held), before);
    EXPECT_EQ(loop_named(func, "j")->loop_kind, ForKind::kUnrolled);
  }
  {  // a statement inside: it and all below it
    Func func = two_nests();
    const Stmt held = func.root().body;
    const ForNode* loop = loop_named(func, "j");
    const Stmt old(Ref<const ForNode>{loop});
    func = replace_owned(std::move(func), loop, unrolled(*loop));
    EXPECT_EQ(held.as<SeqNode>()->stmts[1], old);
    EXPECT_EQ(loop_named(func, "j")->loop_kind, ForKind::kUnrolled);
  }
}

TEST(Path, RemovesAndFlattens) {
  Func func = two_nests();
  const ForNode* loop = loop_named(func, "j");
  func = replace_owned(std::move(func), loop, nullptr);
  EXPECT_EQ(func.root().body.kind(), StmtKind::kFor);
  const Stmt pair = seq({func.root().body, two_nests().root().body});
  func = two_nests();
  loop = loop_named(func, "i");
  func = replace_owned(std::move(func), loop, pair);
  EXPECT_EQ(func.root().body.as<SeqNode>()->stmts.size(), 4u);
}

}  // namespace
}  // namespace fettle
