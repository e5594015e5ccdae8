#pragma once
// Types of sums of products.

#include "graph/op_util.h"

namespace fettle::ops {

struct ProductTypes {
  DType operands;  // in which products are made and summed
  DType result;
};
/// Of two operands of one type, with the attribute `dtype`, the result's: what holds more than the operands' type is
/// what is summed in. E605 · E606
Result<ProductTypes> product_types(const Node& node);

}  // namespace fettle::ops
