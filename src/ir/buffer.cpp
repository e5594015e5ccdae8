#include "ir/buffer.h"

#include "base/check.h"
#include "ir/visit.h"

namespace fettle {

std::vector<Expr> IndexMap::apply(const std::vector<Expr>& indices) const {
  FETTLE_CHECK(indices.size() == inputs.size());
  VarMap values;
  for (size_t i = 0; i < inputs.size(); ++i) values[inputs[i].get()] = indices[i];
  std::vector<Expr> result;
  result.reserve(outputs.size());
  for (const Expr& output : outputs) result.push_back(substitute(output, values));
  return result;
}

Buffer make_buffer(std::string name, std::vector<Expr> shape, DType dtype, std::string scope) {
  auto buffer = make_ref<BufferNode>();
  buffer->name = std::move(name);
  buffer->shape = std::move(shape);
  buffer->dtype = dtype;
  buffer->scope = std::move(scope);
  return buffer;
}

Expr flat_index(const BufferNode& buffer, const std::vector<Expr>& indices) {
  FETTLE_CHECK(indices.size() == buffer.shape.size());
  Expr flat = 0;
  for (size_t d = 0; d < indices.size(); ++d)
    flat = buffer.strides.empty() ? flat * buffer.shape[d] + indices[d] : flat + indices[d] * buffer.strides[d];
  return flat;
}

Expr element_count(const BufferNode& buffer) {
  Expr count = 1;
  for (const Expr& extent : buffer.shape) count = count * extent;
  return count;
}

}  // namespace fettle
