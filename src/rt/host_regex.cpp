#include <string.h>

#include "rt/host_strings.h"
#include "rt/regex.h"
#include "rt/strings.h"
#include "rt/utf8.h"

namespace fettle::rt {
namespace {

/// Matches whole texts.
class Matcher {
 public:
  Matcher(FettleContext* context, const int64_t* program)
      : count_(program[0]), code_(program + 1), ranges_(program + 1 + kRegexWidth * count_), memory_(context) {}

  bool reserve() {
    const int64_t lists = 4;
    if (!memory_.grow(lists * count_ * static_cast<int64_t>(sizeof(int64_t)))) return false;
    auto* at = memory_.as<int64_t>();
    seen_ = at;
    now_ = at + count_;
    next_ = at + 2 * count_;
    pending_ = at + 3 * count_;
    memset(seen_, 0, static_cast<size_t>(count_) * sizeof(int64_t));
    return true;
  }

  bool matches(FettleString text) {
    int64_t n_now = 0, n_next = 0;
    int32_t before = kNothing;
    for (int64_t at = 0;;) {
      const bool is_end = at >= text.bytes;
      const Utf8 here = is_end ? Utf8{kNothing, 0} : decode_utf8(text.data + at, text.bytes - at);
      if (at == 0) {
        ++round_;
        add(0, before, here.code, now_, n_now);
      } else {
        // What a character led to is followed here, where what comes next is known.
        n_now = 0;
        ++round_;
        for (int64_t i = 0; i < n_next; ++i) add(next_[i], before, here.code, now_, n_now);
      }
      if (is_end) return has_match(n_now);
      n_next = 0;
      for (int64_t i = 0; i < n_now; ++i)
        if (kind(now_[i]) == kRegexClass && is_in_class(now_[i], here.code)) next_[n_next++] = now_[i] + 1;
      if (n_next == 0) return false;
      before = here.code;
      at += here.bytes;
    }
  }

 private:
  static constexpr int32_t kNothing = -2;  // in place of a character

  int64_t kind(int64_t i) const { return code_[kRegexWidth * i]; }
  int64_t a(int64_t i) const { return code_[kRegexWidth * i + 1]; }
  int64_t b(int64_t i) const { return code_[kRegexWidth * i + 2]; }

  bool has_match(int64_t count) const {
    for (int64_t i = 0; i < count; ++i)
      if (kind(now_[i]) == kRegexMatch) return true;
    return false;
  }

  bool is_in_class(int64_t i, int32_t code) const {
    const int64_t* range = ranges_ + 2 * a(i);
    int64_t low = 0, high = b(i);
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (range[2 * middle + 1] < code)
        low = middle + 1;
      else
        high = middle;
    }
    return low < b(i) && range[2 * low] <= code;
  }

  static bool is_word(int32_t code) {
    return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') || code == '_';
  }
  static bool holds(int64_t place, int32_t before, int32_t here) {
    switch (place) {
      case kTextBegin:
        return before == kNothing;
      case kTextEnd:
        return here == kNothing;
      case kLineBegin:
        return before == kNothing || before == '\n';
      case kLineEnd:
        return here == kNothing || here == '\n';
      default:
        return (is_word(before) != is_word(here)) == (place == kWordBoundary);
    }
  }

  /// Adds what instruction i leads to without a character.
  void add(int64_t first, int32_t before, int32_t here, int64_t* list, int64_t& count) {
    int64_t n_pending = 0;
    const auto visit = [&](int64_t i) {
      if (seen_[i] == round_) return;
      seen_[i] = round_;
      pending_[n_pending++] = i;
    };
    visit(first);
    while (n_pending > 0) {
      const int64_t i = pending_[--n_pending];
      switch (kind(i)) {
        case kRegexJump:
          visit(a(i));
          break;
        case kRegexSplit:
          visit(b(i));
          visit(a(i));
          break;
        case kRegexAssert:
          if (holds(a(i), before, here)) visit(i + 1);
          break;
        default:
          list[count++] = i;
      }
    }
  }

  int64_t count_;
  const int64_t *code_, *ranges_;
  HostMemory memory_;
  int64_t *seen_ = nullptr, *now_ = nullptr, *next_ = nullptr, *pending_ = nullptr;
  int64_t round_ = 0;
};

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" int32_t fettle_host_regex_match(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const HostTensor x = given.tensor(0), y = given.tensor(2);
  Matcher matcher(context, given.tensor(1).as<int64_t>());
  if (!matcher.reserve()) return host_out_of_memory(context);
  for (int64_t i = 0; i < x.count; ++i) y.as<uint8_t>()[i] = matcher.matches(context->strings->at(x.as<int64_t>()[i]));
  return FETTLE_OK;
}
