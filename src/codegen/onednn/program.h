#pragma once
// A loop program as the matchers read it: its blocks, and how far each iterator moves through what they touch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arith/linear.h"
#include "base/result.h"
#include "ir/func.h"

namespace fettle::onednn {

inline tl::unexpected<Diagnostic> declined(std::string reason) { return fail(ErrorCode::E301, std::move(reason)); }

struct Iterator {
  Var var;
  int64_t extent = 1;
  bool reduces = false;
};

/// A block whose one statement stores to one place an instance.
struct Step {
  const BlockNode* block = nullptr;
  std::vector<Iterator> iterators;
  const StoreNode* store = nullptr;
  Expr initial;  // of a reduction

  bool reduces() const;
};

/// Blocks in order, each over the whole of its domain. E301 where the program is of another kind, or sizes are open.
Result<std::vector<Step>> read_steps(const Func& program);

/// The index among the program's parameters, or -1.
int param_of(const Func& program, const BufferNode* buffer);
/// Numbers; nothing where they are open, or the buffer has a layout.
std::optional<std::vector<int64_t>> shape_of(const BufferNode& buffer);
std::optional<std::vector<int64_t>> strides_of(const BufferNode& buffer);

/// Coefficients of the iterators in an index, and its constant. Nothing where it is of another kind.
struct Index {
  std::vector<int64_t> coefficients;
  int64_t constant = 0;
};
std::optional<Index> index_of(const Expr& index, const std::vector<Iterator>& iterators);

/// The step that writes the buffer, or null.
const Step* writer_of(const std::vector<Step>& steps, const BufferNode* buffer);
/// Whether each index is the iterator of the same number.
bool is_identity(const std::vector<Expr>& indices, const std::vector<Iterator>& iterators);

/// What pads an image: written[v] = select(0 <= v + offset < extent, image[v + offset], value), dimension by dimension
/// in the image's order.
struct Padded {
  const BufferNode* image = nullptr;
  double value = 0;
  std::vector<int> dimension;  // of each of the image's: that of the written buffer
  std::vector<int64_t> low;    // of each of the image's: elements before it
};
std::optional<Padded> read_padding(const Step& step);

}  // namespace fettle::onednn
