#pragma once
// Builds the blocks that stand for an old one, for reformulations that leave several.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/edit.h"

namespace fettle {

/// How a block combines its values: from the operation's neutral element on.
struct Reduces {
  BinaryOp op = BinaryOp::kAdd;  // kAdd; or kMax, of unsigned numbers
};

/// One block after the other, each in a fresh nest of its own; they take the old nest's place.
class PartBlocks {
 public:
  PartBlocks(const Func& func, const BlockNode& block) : func_(func), block_(block) {}

  /// A block over `iters` that stores `value` in a new buffer at `at`, or combines it with what is there. `at` are
  /// iterators; the buffer is named after the old block.
  Buffer add(const std::string& suffix, std::string_view role, const std::vector<IterVar>& iters,
             const std::vector<Expr>& at, const Expr& value, std::optional<Reduces> reduces = {});
  /// A block of this name, with regions as its statements have them. A role is noted with what the block is part of.
  void finish(const std::string& name, const std::vector<IterVar>& iters, std::string_view role, const Stmt& init,
              const Stmt& body, Annotations annotations);

  /// The program with these blocks in the nest's place.
  Func result(const PlainNest& nest) const;
  /// In program order.
  const std::vector<std::string>& names() const { return names_; }

 private:
  const Func& func_;
  const BlockNode& block_;
  std::vector<Buffer> allocated_;
  std::vector<Stmt> nests_;
  std::vector<std::string> names_;
};

}  // namespace fettle
