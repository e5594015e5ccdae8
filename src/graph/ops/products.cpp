#include "graph/ops/products.h"

namespace fettle::ops {

Result<ProductTypes> product_types(const Node& node) {
  const auto is_number = [](DType dtype) { return dtype.is_int() || dtype.is_float(); };
  FETTLE_TRY_VOID(check_same_dtype(node));
  const DType given = dtype_of(node, 0);
  if (!is_number(given)) return bad_types(node, "its operands are no numbers");
  if (!node.attrs.has("dtype")) return ProductTypes{given, given};
  const auto stated = element_type(node.attrs.get_int("dtype", 0));
  if (!stated || !is_number(*stated)) return bad_attribute(node, "dtype is no type of numbers");
  const bool widens = stated->bits > given.bits || (stated->is_float() && !given.is_float());
  return ProductTypes{widens ? *stated : given, *stated};
}

}  // namespace fettle::ops
