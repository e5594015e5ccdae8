#include "codegen/relayout.h"

#include <cstring>

#include "base/check.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr int64_t kMaxElems = int64_t{1} << 40;

Result<std::vector<int64_t>> extents(const std::vector<Expr>& shape, const IntEnv& ints, const std::string& name) {
  std::vector<int64_t> result;
  int64_t count = 1;
  for (const Expr& extent : shape) {
    FETTLE_TRY(const int64_t value, evaluate_int(extent, ints));
    if (value < 0) return fail(ErrorCode::E709, "an extent of " + name + " is negative");
    if (value > kMaxElems || (count > 0 && value > kMaxElems / count))
      return fail(ErrorCode::E709, name + " has more than 2^40 elements");
    count *= value;
    result.push_back(value);
  }
  return result;
}

int64_t product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// The one input that `e` depends on: -1 none, -2 several.
int only_input(const Expr& e, const std::vector<Var>& inputs) {
  int found = -1;
  for (const Var& var : collect_vars(e))
    for (size_t d = 0; d < inputs.size(); ++d)
      if (inputs[d] == var) {
        if (found >= 0 && found != static_cast<int>(d)) return -2;
        found = static_cast<int>(d);
      }
  return found;
}

// Calls visit(indices) for each point of `shape`, row-major. Stops at the first error.
template <class Visit>
Result<> for_each_point(const std::vector<int64_t>& shape, Visit visit) {
  if (product(shape) == 0) return {};
  std::vector<int64_t> at(shape.size(), 0);
  for (;;) {
    FETTLE_TRY_VOID(visit(at));
    size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return {};
  }
}

}  // namespace

Result<Relayout> Relayout::make(const BufferNode& buffer, const IntEnv& ints) {
  Relayout r;
  r.element_bytes_ = buffer.dtype.element_bytes();
  FETTLE_TRY(r.physical_shape_, extents(buffer.shape, ints, buffer.name));
  if (buffer.layout) {
    FETTLE_TRY(r.logical_shape_, extents(buffer.layout->logical_shape, ints, buffer.name));
  } else {
    r.logical_shape_ = r.physical_shape_;
  }
  r.logical_elems_ = product(r.logical_shape_);

  const size_t rank = r.physical_shape_.size();
  std::vector<int64_t> strides(rank, 1);
  if (buffer.strides.empty()) {
    for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * r.physical_shape_[d];
  } else {
    for (size_t d = 0; d < rank; ++d) {
      FETTLE_TRY(strides[d], evaluate_int(buffer.strides[d], ints));
      if (strides[d] < 0) return fail(ErrorCode::E709, "a stride of " + buffer.name + " is negative");
    }
  }
  const bool empty = product(r.physical_shape_) == 0;
  r.physical_elems_ = empty ? 0 : 1;
  for (size_t d = 0; d < rank && !empty; ++d) r.physical_elems_ += (r.physical_shape_[d] - 1) * strides[d];
  if (r.physical_elems_ > kMaxElems) return fail(ErrorCode::E709, buffer.name + " spans more than 2^40 elements");

  const size_t logical_rank = r.logical_shape_.size();
  for (const int64_t extent : r.logical_shape_) r.axes_.push_back({extent, 0, {}});
  if (!buffer.layout) {
    for (size_t d = 0; d < rank; ++d) r.axes_[d].step = r.axes_[d].extent > 1 ? strides[d] : 0;
    r.identity_ = buffer.strides.empty();
    return r;
  }

  const IndexMap& map = buffer.layout->to_physical;
  if (map.inputs.size() != logical_rank || map.outputs.size() != rank)
    return fail(ErrorCode::E102, "the layout of " + buffer.name + " does not fit its shape");
  const auto inside = [&](int64_t index, size_t d) { return index >= 0 && index < r.physical_shape_[d]; };
  const auto outside = [&]() {
    return fail(ErrorCode::E709, "the layout of " + buffer.name + " maps an element outside of its physical shape");
  };

  bool separable = true;
  for (const Expr& output : map.outputs) separable &= only_input(output, map.inputs) != -2;
  IntEnv values = ints;
  if (separable) {
    for (size_t o = 0; o < rank; ++o) {
      const int input = only_input(map.outputs[o], map.inputs);
      if (input == -1) {
        FETTLE_TRY(const int64_t index, evaluate_int(map.outputs[o], values));
        if (r.logical_elems_ > 0 && !inside(index, o)) return outside();
        r.first_ += index * strides[o];
        continue;
      }
      std::vector<int64_t>& table = r.axes_[static_cast<size_t>(input)].table;
      table.resize(static_cast<size_t>(r.logical_shape_[static_cast<size_t>(input)]));
      for (size_t i = 0; i < table.size(); ++i) {
        values.set(map.inputs[static_cast<size_t>(input)].get(), static_cast<int64_t>(i));
        FETTLE_TRY(const int64_t index, evaluate_int(map.outputs[o], values));
        if (!inside(index, o)) return outside();
        table[i] += index * strides[o];
      }
    }
    for (Axis& axis : r.axes_) r.first_ += axis.without_table();
    return r;
  }

  r.offsets_.reserve(static_cast<size_t>(r.logical_elems_));
  FETTLE_TRY_VOID(for_each_point(r.logical_shape_, [&](const std::vector<int64_t>& at) -> Result<> {
    for (size_t d = 0; d < logical_rank; ++d) values.set(map.inputs[d].get(), at[d]);
    int64_t offset = 0;
    for (size_t o = 0; o < rank; ++o) {
      FETTLE_TRY(const int64_t index, evaluate_int(map.outputs[o], values));
      if (!inside(index, o)) return outside();
      offset += index * strides[o];
    }
    r.offsets_.push_back(offset);
    return {};
  }));
  return r;
}

int64_t Relayout::Axis::without_table() {
  if (table.empty()) return 0;
  const int64_t first = table[0], apart = table.size() > 1 ? table[1] - first : 0;
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != first + static_cast<int64_t>(i) * apart) return 0;
  step = apart;
  table.clear();
  return first;
}

Digest Relayout::digest() const {
  std::vector<int64_t> numbers = {element_bytes_, physical_elems_, first_, static_cast<int64_t>(axes_.size())};
  for (const Axis& axis : axes_) {
    numbers.insert(numbers.end(), {axis.extent, axis.step, static_cast<int64_t>(axis.table.size())});
    numbers.insert(numbers.end(), axis.table.begin(), axis.table.end());
  }
  numbers.insert(numbers.end(), offsets_.begin(), offsets_.end());
  return digest_bytes({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)});
}

template <class T>
void Relayout::copy(const void* source, void* destination, bool gather) const {
  const T* from = static_cast<const T*>(source);
  T* to = static_cast<T*>(destination);
  if (logical_elems_ == 0) return;
  if (!offsets_.empty()) {
    for (size_t i = 0; i < offsets_.size(); ++i)
      gather ? void(to[i] = from[offsets_[i]]) : void(to[offsets_[i]] = from[i]);
    return;
  }
  const Axis single{1, 0, {}};
  const Axis& inner = axes_.empty() ? single : axes_.back();
  std::vector<int64_t> at(axes_.empty() ? 0 : axes_.size() - 1, 0);
  for (int64_t row = 0;; row += inner.extent) {
    int64_t base = first_;
    for (size_t d = 0; d < at.size(); ++d) base += axes_[d].at(at[d]);
    if (gather)
      for (int64_t i = 0; i < inner.extent; ++i) to[row + i] = from[base + inner.at(i)];
    else
      for (int64_t i = 0; i < inner.extent; ++i) to[base + inner.at(i)] = from[row + i];
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == axes_[d - 1].extent) at[--d] = 0;
    if (d == 0) return;
  }
}

void Relayout::copy(const void* from, void* to, bool gather) const {
  switch (element_bytes_) {
    case 1:
      return copy<uint8_t>(from, to, gather);
    case 2:
      return copy<uint16_t>(from, to, gather);
    case 4:
      return copy<uint32_t>(from, to, gather);
    case 8:
      return copy<uint64_t>(from, to, gather);
    default:
      FETTLE_UNREACHABLE();
  }
}

void Relayout::to_physical(const void* logical, void* physical) const {
  if (identity_) {
    std::memcpy(physical, logical, static_cast<size_t>(logical_bytes()));
    return;
  }
  std::memset(physical, 0, static_cast<size_t>(physical_bytes()));
  copy(logical, physical, false);
}

void Relayout::to_logical(const void* physical, void* logical) const {
  if (identity_) {
    std::memcpy(logical, physical, static_cast<size_t>(logical_bytes()));
    return;
  }
  copy(physical, logical, true);
}

}  // namespace fettle
