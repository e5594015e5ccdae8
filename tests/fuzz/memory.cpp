#include "tests/fuzz/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/random.h"
#include "ir/interpret_value.h"
#include "ir/text.h"
#include "tests/fuzz/program.h"

namespace fettle::fuzz {
namespace {

constexpr int64_t kPage = 4096;
constexpr unsigned char kMargin = 0xc5;

int64_t value_of(const Expr& e, const Env& env) {
  int64_t value = 0;
  const IntProblem problem = evaluate_int(e, env, value);
  FETTLE_CHECK_MSG(problem == IntProblem::kNone, "an extent or index that is not known: " + to_text(e));
  return value;
}

}  // namespace

Place::Place(const BufferNode& buffer, const Env& env)
    : buffer_(&buffer), env_(env), element_bytes_(buffer.dtype.element_bytes()) {
  for (const Expr& e : buffer.shape) shape_.push_back(value_of(e, env_));
  for (const Expr& e : buffer.layout ? buffer.layout->logical_shape : buffer.shape)
    logical_.push_back(value_of(e, env_));
  if (buffer.strides.empty()) {
    strides_.assign(shape_.size(), 1);
    for (size_t d = shape_.size(); d-- > 0;) {
      strides_[d] = elements_;
      elements_ *= shape_[d];
    }
  } else {
    for (size_t d = 0; d < shape_.size(); ++d) {
      strides_.push_back(value_of(buffer.strides[d], env_));
      elements_ += (shape_[d] - 1) * strides_[d];
    }
  }
}

int64_t Place::offset(const std::vector<int64_t>& logical) const {
  int64_t at = 0;
  if (!buffer_->layout) {
    for (size_t d = 0; d < logical.size(); ++d) at += logical[d] * strides_[d];
    return at * element_bytes_;
  }
  Env env = env_;
  const IndexMap& map = buffer_->layout->to_physical;
  for (size_t d = 0; d < map.inputs.size(); ++d) env.push(map.inputs[d].get(), logical[d]);
  for (size_t d = 0; d < map.outputs.size(); ++d) at += value_of(map.outputs[d], env) * strides_[d];
  return at * element_bytes_;
}

Guarded::Guarded(int64_t size_bytes, bool at_end) : size_(size_bytes), at_end_(at_end) {
  const int64_t pages = (size_bytes + kPage - 1) / kPage + 1;  // at least one page's rest is margin
  mapped_bytes_ = static_cast<size_t>((pages + 1) * kPage);
  void* mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FETTLE_CHECK(mapped != MAP_FAILED);
  mapped_ = static_cast<char*>(mapped);
  // The accessible part is [page 0 or 1 …).
  char* const fence = at_end ? mapped_ + pages * kPage : mapped_;
  mprotect(fence, kPage, PROT_NONE);
  data_ = at_end ? fence - size_bytes : mapped_ + kPage;
  if (at_end)
    std::memset(data_ - 64, kMargin, 64);
  else
    std::memset(data_ + size_bytes, kMargin, 64);
}

Guarded::Guarded(Guarded&& other) noexcept
    : mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      data_(other.data_),
      size_(other.size_),
      at_end_(other.at_end_) {}

Guarded::~Guarded() {
  if (mapped_) munmap(mapped_, mapped_bytes_);
}

bool Guarded::margin_is_whole() const {
  const char* margin = at_end_ ? data_ - 64 : data_ + size_;
  return std::all_of(margin, margin + 64, [](char c) { return static_cast<unsigned char>(c) == kMargin; });
}

Values random_values(const Param& param, const Place& place, uint64_t seed, int64_t rows_hint, bool nans) {
  const DType type = param.buffer->dtype;
  Values out{type, {}};
  RandomStream r{seed, 0x64617461};
  const auto storage = interp::storage_of(type);
  const bool is_index = type == kI64 && param.buffer->name[0] == 'I';
  place.each([&](int64_t) {
    const int64_t value = is_index ? static_cast<int64_t>(r.below(static_cast<uint64_t>(rows_hint))) - 2
                                   : static_cast<int64_t>(r.below(kLargest - kSmallest + 1)) +
                                         (type.code == TypeCode::kUInt ? 0 : kSmallest);
    const size_t at = out.bytes.size();
    out.bytes.resize(at + static_cast<size_t>(place.element_bytes()));
    const bool nan = nans && type.is_float() && r.below(12) == 0;
    const double number = nan ? std::nan("") : static_cast<double>(value);
    interp::write(storage, out.bytes.data() + at, type.is_float() ? interp::of_float(number) : interp::of_int(value));
  });
  return out;
}

void put(const Values& values, const Place& place, char* memory) {
  const char* from = values.bytes.data();
  const auto n = static_cast<size_t>(place.element_bytes());
  place.each([&](int64_t offset) {
    std::memcpy(memory + offset, from, n);
    from += n;
  });
}

Values taken(DType type, const Place& place, const char* memory) {
  Values out{type, {}};
  const auto n = static_cast<size_t>(place.element_bytes());
  place.each([&](int64_t offset) { out.bytes.insert(out.bytes.end(), memory + offset, memory + offset + n); });
  return out;
}

bool same(const Values& a, const Values& b, std::string* where) {
  if (a.bytes == b.bytes) return true;
  if (a.bytes.size() != b.bytes.size()) {
    if (where) *where = "the number of elements differs";
    return false;
  }
  const auto n = static_cast<size_t>(a.type.element_bytes());
  const auto storage = interp::storage_of(a.type);
  for (size_t at = 0; at < a.bytes.size(); at += n) {
    if (std::memcmp(&a.bytes[at], &b.bytes[at], n) == 0) continue;
    const auto x = interp::read(storage, &a.bytes[at]), y = interp::read(storage, &b.bytes[at]);
    if (a.type.is_float() && (x.f == y.f || (std::isnan(x.f) && std::isnan(y.f)))) continue;
    if (where) {
      *where = a.type.is_float() ? fmt::format("element {} is {}, not {}", at / n, y.f, x.f)
                                 : fmt::format("element {} is {}, not {}", at / n, y.i, x.i);
    }
    return false;
  }
  return true;
}

}  // namespace fettle::fuzz
