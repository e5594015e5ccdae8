#include "rt/host_strings.h"

#include <string.h>

#include "rt/strings.h"
#include "rt/utf8.h"

namespace fettle::rt {
namespace {

/// Strides of a tensor that is read where `y` is, 0 along what broadcasts.
void broadcast_strides(const HostTensor& x, const HostTensor& y, int64_t* strides) {
  int64_t step = 1;
  for (int32_t d = y.rank - 1, k = x.rank - 1; d >= 0; --d, --k) {
    strides[d] = k >= 0 && x.shape[k] != 1 ? step : 0;
    if (k >= 0) step *= x.shape[k];
  }
}

/// Strings of a call: those that are read, by their numbers, and new ones.
struct Strings {
  FettleContext* context;

  FettleString at(int64_t number) const { return context->strings->at(number); }
  /// False where memory ran out.
  bool put(int64_t& place, const char* data, int64_t bytes) const {
    place = context->strings->number_of(data, bytes);
    return place >= 0;
  }
};

/// The parts of a text, one after the other, as Python's str.split has them.
class Parts {
 public:
  Parts(FettleString text, FettleString delimiter, int64_t most_splits)
      : at_(text.data), end_(text.data + text.bytes), delimiter_(delimiter), splits_left_(most_splits) {
    if (delimiter.bytes == 0) skip_space();
    is_done_ = delimiter.bytes == 0 && at_ == end_;
  }

  bool next(const char** part, int64_t* bytes) {
    if (is_done_) return false;
    *part = at_;
    const char* found = splits_left_ == 0 ? end_ : find();
    *bytes = found - at_;
    if (found == end_) {
      is_done_ = true;
      return true;
    }
    if (splits_left_ > 0) --splits_left_;
    at_ = found + delimiter_.bytes;
    if (delimiter_.bytes == 0) {
      skip_space();
      is_done_ = at_ == end_;
    }
    return true;
  }

 private:
  const char* find() const {
    const char* at = at_;
    if (delimiter_.bytes > 0) {
      const auto length = static_cast<size_t>(delimiter_.bytes);
      for (; end_ - at >= delimiter_.bytes; ++at)
        if (*at == *delimiter_.data && memcmp(at, delimiter_.data, length) == 0) return at;
      return end_;
    }
    while (at != end_) {
      const Utf8 character = decode_utf8(at, end_ - at);
      if (is_space(character.code)) return at;
      at += character.bytes;
    }
    return end_;
  }
  void skip_space() {
    while (at_ != end_) {
      const Utf8 character = decode_utf8(at_, end_ - at_);
      if (!is_space(character.code)) return;
      at_ += character.bytes;
    }
  }

  const char *at_, *end_;
  FettleString delimiter_;
  int64_t splits_left_;
  bool is_done_;
};

/// The number of a string in another case; negative where memory ran out.
int64_t in_case(const Strings& strings, int64_t number, CaseChange change, HostMemory& buffer) {
  if (change == kAsIs) return number;
  const FettleString text = strings.at(number);
  if (!buffer.grow(2 * text.bytes + 4)) return -1;
  char* to = buffer.as<char>();
  for (int64_t i = 0; i < text.bytes;) {
    const Utf8 character = decode_utf8(text.data + i, text.bytes - i);
    if (character.code < 0)
      *to++ = text.data[i];
    else
      to += encode_utf8(change == kToLower ? to_lower(character.code) : to_upper(character.code), to);
    i += character.bytes;
  }
  return strings.context->strings->number_of(buffer.as<char>(), to - buffer.as<char>());
}

/// Of strings, by their numbers.
class Marks {
 public:
  explicit Marks(FettleContext* context) : memory_(context) {}

  bool set(int64_t number) {
    if (!memory_.grow(number + 1)) return false;
    for (; count_ <= number; ++count_) memory_.as<char>()[count_] = 0;
    memory_.as<char>()[number] = 1;
    return true;
  }
  bool has(int64_t number) const { return number < count_ && memory_.as<char>()[number] != 0; }

 private:
  HostMemory memory_;
  int64_t count_ = 0;
};

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" {

int32_t fettle_host_string_concat(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor a = given.tensor(0), b = given.tensor(1), y = given.tensor(2);
  constexpr int32_t kMostAxes = 64;
  if (y.rank > kMostAxes) return host_failed(context, "there are too many axes");
  int64_t of_a[kMostAxes], of_b[kMostAxes], index[kMostAxes] = {};
  broadcast_strides(a, y, of_a);
  broadcast_strides(b, y, of_b);
  const Strings strings{context};
  HostMemory buffer(context);
  int64_t at_a = 0, at_b = 0;
  for (int64_t i = 0; i < y.count; ++i) {
    const FettleString first = strings.at(a.as<int64_t>()[at_a]), second = strings.at(b.as<int64_t>()[at_b]);
    if (!buffer.grow(first.bytes + second.bytes + 1)) return host_out_of_memory(context);
    memcpy(buffer.as<char>(), first.data, static_cast<size_t>(first.bytes));
    memcpy(buffer.as<char>() + first.bytes, second.data, static_cast<size_t>(second.bytes));
    if (!strings.put(y.as<int64_t>()[i], buffer.as<char>(), first.bytes + second.bytes))
      return host_out_of_memory(context);
    for (int32_t d = y.rank - 1; d >= 0; --d) {
      at_a += of_a[d];
      at_b += of_b[d];
      if (++index[d] < y.shape[d]) break;
      at_a -= of_a[d] * y.shape[d];
      at_b -= of_b[d] * y.shape[d];
      index[d] = 0;
    }
  }
  return FETTLE_OK;
}

int32_t fettle_host_string_count_parts(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor x = given.tensor(0), counts = given.tensor(2), most = given.tensor(3);
  const Strings strings{context};
  const FettleString delimiter = strings.at(*given.tensor(1).as<int64_t>());
  *most.as<int64_t>() = 0;
  for (int64_t i = 0; i < x.count; ++i) {
    Parts parts(strings.at(x.as<int64_t>()[i]), delimiter, given.number(0));
    int64_t count = 0, bytes = 0;
    for (const char* part = nullptr; parts.next(&part, &bytes);) ++count;
    counts.as<int64_t>()[i] = count;
    if (count > *most.as<int64_t>()) *most.as<int64_t>() = count;
  }
  return FETTLE_OK;
}

int32_t fettle_host_string_split(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor x = given.tensor(0), y = given.tensor(2);
  const Strings strings{context};
  const FettleString delimiter = strings.at(*given.tensor(1).as<int64_t>());
  const int64_t most = y.shape[y.rank - 1];
  for (int64_t i = 0; i < x.count; ++i) {
    Parts parts(strings.at(x.as<int64_t>()[i]), delimiter, given.number(0));
    auto* row = y.as<int64_t>() + i * most;
    int64_t count = 0, bytes = 0;
    for (const char* part = nullptr; count < most && parts.next(&part, &bytes);)
      if (!strings.put(row[count++], part, bytes)) return host_out_of_memory(context);
    while (count < most) row[count++] = 0;
  }
  return FETTLE_OK;
}

int32_t fettle_host_string_normalize(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor x = given.tensor(0), stop_words = given.tensor(1), y = given.tensor(2), count = given.tensor(3);
  const auto change = static_cast<CaseChange>(given.number(0));
  const CaseChange compared = given.number(1) != 0 ? kAsIs : kToLower;
  const Strings strings{context};
  HostMemory buffer(context);
  Marks stops(context);
  for (int64_t i = 0; i < stop_words.count; ++i) {
    const int64_t number = in_case(strings, stop_words.as<int64_t>()[i], compared, buffer);
    if (number < 0 || !stops.set(number)) return host_out_of_memory(context);
  }
  auto* to = y.as<int64_t>();
  for (int64_t i = 0; i < x.count; ++i) {
    const int64_t number = x.as<int64_t>()[i];
    if (stop_words.count > 0) {
      const int64_t key = in_case(strings, number, compared, buffer);
      if (key < 0) return host_out_of_memory(context);
      if (stops.has(key)) continue;
    }
    const int64_t changed = in_case(strings, number, change, buffer);
    if (changed < 0) return host_out_of_memory(context);
    *to++ = changed;
  }
  if (to == y.as<int64_t>()) *to++ = 0;
  *count.as<int64_t>() = to - y.as<int64_t>();
  while (to < y.as<int64_t>() + y.count) *to++ = 0;
  return FETTLE_OK;
}
}
