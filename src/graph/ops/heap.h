#pragma once
// Order in the loop language: a heap of positions, as statements of one block (te::opaque).

#include <functional>
#include <vector>

#include "graph/op_util.h"

namespace fettle::ops {

/// Positions 0, 1, … of items in the slots of a buffer. Every slot's item comes after those of slots 2s+1 and 2s+2 or,
/// where `root_is_first`, before them. Items that are not told apart are in the order of their positions.
/// An item is put in its place in steps as many as the logarithm of the slots.
class Heap {
 public:
  /// Where a slot is in the buffer.
  using Place = std::function<Indices(const Expr& slot)>;
  /// Statements that store to verdict[0] whether item i comes ahead of item j (1 or 0; it is 0 before). Any i and j are
  /// asked for: those outside of the items must read nothing.
  using Ahead = std::function<Stmt(const Buffer& verdict, const Expr& i, const Expr& j)>;

  /// slots: that there are.
  Heap(Buffer buffer, Expr slots, Place place, Ahead ahead, bool root_is_first = false);

  /// What the statements need: for te::opaque.
  std::vector<Buffer> locals() const { return {hole_, going_, verdict_}; }
  Expr item(const Expr& slot) const { return load(buffer_, place_(slot)); }
  Stmt put(const Expr& slot, const Expr& position) const { return store(buffer_, place_(slot), position); }

  /// Slots start, … below `limit` are a heap, but for the item in slot `start`, which becomes `position`.
  Stmt sift(const Expr& position, const Expr& start, const Expr& limit) const;
  /// The first `limit` slots become a heap.
  Stmt arrange(const Expr& limit) const;
  /// A heap of `limit` slots, whose root is last, becomes a list in order.
  Stmt sort(const Expr& limit) const;
  /// Runs `then` where item i comes ahead of item j, which are variables.
  Stmt if_ahead(const Expr& i, const Expr& j, const Stmt& then) const;

 private:
  Stmt ask(const Expr& i, const Expr& j) const;

  Buffer buffer_, hole_, going_, verdict_;
  Expr slots_;
  Place place_;
  Ahead ahead_;
  bool root_is_first_;
};

/// One number in a register, for a block of statements.
Buffer local_number(const std::string& name);
Expr get(const Buffer& number);
Stmt set(const Buffer& number, const Expr& value);
/// `let` with a name of its own: then(variable).
Stmt let_be(const char* name, const Expr& value, const std::function<Stmt(const Expr&)>& then);
/// for name in extent: body(name)
Stmt count_up(const char* name, const Expr& extent, const std::function<Stmt(const Expr&)>& body);
Stmt repeat_while(const Expr& condition, const Stmt& body);
inline Expr inside(const Expr& index, const Expr& extent) { return logical_and(le(Expr(0), index), lt(index, extent)); }

/// Whether a is less than b; NaN is greater than every number.
Expr ordered_less(const Expr& a, const Expr& b);

}  // namespace fettle::ops
