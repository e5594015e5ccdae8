#pragma once
// Buffers: what is stored where, in which layout.

#include <string>
#include <vector>

#include "ir/expr.h"

namespace fettle {

/// A map of index tuples: inputs → outputs, e.g. (n, c, h, w) → (n, c/16, h, w, c%16).
struct IndexMap {
  std::vector<Var> inputs;
  std::vector<Expr> outputs;

  /// The outputs with the inputs replaced by `indices` (not simplified).
  std::vector<Expr> apply(const std::vector<Expr>& indices) const;
};

/// How a buffer's physical shape comes from a logical one. Where the physical shape is larger, the lanes that no
/// logical element maps to are pad lanes: always zero, which every producer keeps.
struct Layout : RefCounted {
  std::vector<Expr> logical_shape;
  IndexMap to_physical;
};

/// Memory scopes are declared by targets; these two every target has. A `register` buffer must be addressed by
/// constants once its loops are unrolled; it becomes SSA values.
inline constexpr const char* kScopeGlobal = "global";
inline constexpr const char* kScopeRegister = "register";

/// A buffer is its node: compared by identity. Elements are stored row-major over `shape` (the physical shape),
/// unless `strides` (elements, one a dimension) says otherwise.
struct BufferNode : RefCounted {
  std::string name;
  DType dtype;
  std::vector<Expr> shape;
  std::vector<Expr> strides;  // empty: dense row-major
  std::string scope = kScopeGlobal;
  Ref<const Layout> layout;  // null: logical and physical indices are the same
  int alignment_bytes = 64;

  int rank() const { return static_cast<int>(shape.size()); }
};

Buffer make_buffer(std::string name, std::vector<Expr> shape, DType dtype = kF32, std::string scope = kScopeGlobal);
/// A copy of `buffer` (a new identity) with one field changed by `edit`.
template <class Edit>
Buffer edited(const Buffer& buffer, Edit edit) {
  auto copy = make_ref<BufferNode>(*buffer);
  edit(*copy);
  return copy;
}

/// Flat element offset of an access, from strides or the dense row-major order (not simplified).
Expr flat_index(const BufferNode& buffer, const std::vector<Expr>& indices);
/// Elements that a dense buffer holds: the product of its shape (not simplified).
Expr element_count(const BufferNode& buffer);

/// [min, min + extent) in one dimension.
struct Range {
  Expr min, extent;
};

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::Range);

namespace fettle {

/// A rectangular part of a buffer.
struct Region {
  Buffer buffer;
  std::vector<Range> ranges;
};

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::Region);
