#include "ir/rewrite.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace fettle {
namespace {

Stmt body_of(const char* text) { return parse_func(text).value()->body; }

constexpr const char* kText = R"(lowered func f(A: f32[64], B: f32[64] output):
  for i in 8:
    for j in 8:
      B[i * 8 + j] = A[i * 8 + j] + B[i * 8 + j]
)";

TEST(Rewrite, FindsNodesOfAKind) {
  const Stmt body = body_of(kText);
  std::string loops;
  each_node<ForNode>(body, [&](const ForNode& loop) { loops += loop.var->name; });
  EXPECT_EQ(loops, "ij");
  const auto is_b = [](const LoadNode& source) { return source.buffer->name == "B"; };
  const auto is_c = [](const LoadNode& source) { return source.buffer->name == "C"; };
  EXPECT_TRUE(contains<LoadNode>(body, is_b));
  EXPECT_FALSE(contains<LoadNode>(body, is_c));
}

TEST(Rewrite, TellsAccessesAndTheLoopsAroundThem) {
  class Finder : public AccessVisitor {
   public:
    std::string found;

   private:
    void access(const Buffer& buffer, const std::vector<Expr>&, AccessKind kind) override {
      found += buffer->name + (kind == AccessKind::kWrite ? "!" : "?");
      for (const ForNode* loop : loops_) found += loop->var->name;
      found += " ";
    }
  } finder;
  const Stmt body = body_of(kText);
  finder.visit(body);
  EXPECT_EQ(finder.found, "B!ij A?ij B?ij ");
  const Func func = parse_func(kText).value();
  EXPECT_TRUE(accesses(func->body, func->params[1].buffer.get(), {AccessKind::kWrite}));
  EXPECT_FALSE(accesses(func->body, func->params[0].buffer.get(), {AccessKind::kWrite}));
  EXPECT_TRUE(accesses(func->body, func->params[0].buffer.get()));
}

TEST(Rewrite, MovesAccesses) {
  class Shifter : public AccessMutator {
    std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
      if (buffer->name != "B") return std::nullopt;
      return Moved{buffer, {rewrite(indices[0]) + 1}};
    }
  };
  const Stmt moved = Shifter().rewrite(body_of("lowered func f(A: f32[8], B: f32[8] output):\n  B[3] = A[2] + B[3]\n"));
  EXPECT_EQ(to_text(moved), "B[4] = A[2] + B[4]\n");
}

TEST(Rewrite, InnerStatementsComeFirst) {
  const Stmt outer = rewrite_each<ForNode>(body_of(kText), [](const ForNode& loop) {
    return loop.var->name == "i" ? with_body(loop, parts_of(loop.body).front()) : loop.body;
  });
  ASSERT_TRUE(outer.as<ForNode>());
  EXPECT_TRUE(outer.as<ForNode>()->body.as<StoreNode>());
}

}  // namespace
}  // namespace fettle
