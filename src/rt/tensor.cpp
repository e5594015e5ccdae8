#include "rt/tensor.h"

namespace fettle::rt {

int64_t dense_bytes(int32_t dtype, const int64_t* shape, int32_t rank) {
  const ElementType* type = find_element_type(dtype);
  int64_t bytes = type == nullptr ? 0 : type->bytes;
  for (int32_t d = 0; d < rank; ++d)
    if (shape[d] == 0) return 0;
  for (int32_t d = 0; d < rank; ++d)
    if (shape[d] < 0 || __builtin_mul_overflow(bytes, shape[d], &bytes) || bytes > (int64_t{1} << 62)) return -1;
  return bytes;
}

bool is_dense(const int64_t* shape, const int64_t* strides, int32_t rank) {
  if (strides == nullptr) return true;
  for (int32_t d = 0; d < rank; ++d)
    if (shape[d] == 0) return true;
  int64_t step = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

void dense_strides(const int64_t* shape, int32_t rank, int64_t* strides) {
  int64_t step = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    strides[d] = step;
    step *= shape[d];
  }
}

namespace {

/// One copy: its outer axes one by one, and runs of elements beneath them.
struct Copy {
  const int64_t *shape, *to_strides, *from_strides;
  int32_t rank;       // of what is walked; beneath, elements lie one after the other in both places
  int64_t run_bytes;  // that lie together
  int64_t elem_bytes;

  void walk(int32_t d, char* to, const char* from) const {
    if (d == rank) {
      memcpy(to, from, static_cast<size_t>(run_bytes));
      return;
    }
    for (int64_t i = 0; i < shape[d]; ++i)
      walk(d + 1, to + i * to_strides[d] * elem_bytes, from + i * from_strides[d] * elem_bytes);
  }
};

}  // namespace

void copy_elements(void* to, const int64_t* to_strides, const void* from, const int64_t* from_strides,
                   const int64_t* shape, int32_t rank, int32_t dtype) {
  const int64_t bytes = dense_bytes(dtype, shape, rank);
  if (bytes <= 0) return;
  Copy copy{shape, to_strides, from_strides, rank, find_element_type(dtype)->bytes, find_element_type(dtype)->bytes};
  // Innermost axes that are dense in both places are one run.
  int64_t dense = 1;
  const auto follows = [&](const int64_t* strides) {
    return strides == nullptr || shape[copy.rank - 1] == 1 || strides[copy.rank - 1] == dense;
  };
  while (copy.rank > 0 && follows(to_strides) && follows(from_strides)) {
    dense *= shape[--copy.rank];
    copy.run_bytes = dense * copy.elem_bytes;
  }
  if (copy.rank == 0) {
    memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  int64_t row_major[kMaxRank];
  dense_strides(shape, rank, row_major);
  if (to_strides == nullptr) copy.to_strides = row_major;
  if (from_strides == nullptr) copy.from_strides = row_major;
  copy.walk(0, static_cast<char*>(to), static_cast<const char*>(from));
}

Text& operator<<(Text& text, const FettleTensor& tensor) {
  const ElementType* type = find_element_type(tensor.dtype);
  text << (type == nullptr ? "?" : type->name);
  if (tensor.rank < 0 || tensor.rank > kMaxRank || (tensor.rank > 0 && tensor.shape == nullptr))
    return text << " of rank " << tensor.rank;
  text << "[";
  for (int32_t d = 0; d < tensor.rank; ++d) {
    if (d > 0) text << ", ";
    const char* name = tensor.shape[d] < 0 && tensor.axis_names != nullptr ? tensor.axis_names[d] : nullptr;
    if (name != nullptr)
      text << name;
    else if (tensor.shape[d] < 0)
      text << "?";
    else
      text << tensor.shape[d];
  }
  return text << "]";
}

}  // namespace fettle::rt
