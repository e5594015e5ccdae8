#include "graph/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "rt/regex.h"
#include "rt/utf8.h"

namespace fettle {
namespace {

constexpr int32_t kLastCode = 0x10ffff;
constexpr int kMostNesting = 500, kMostRepeats = 1000;
constexpr size_t kMostInstructions = 1 << 15, kMostVisits = 1 << 20;

/// A set of characters: ranges, sorted and apart once `settle` has run.
struct CharClass {
  std::vector<std::pair<int32_t, int32_t>> ranges;

  void add(int32_t first, int32_t last) { ranges.emplace_back(first, last); }
  void add(const CharClass& other) { ranges.insert(ranges.end(), other.ranges.begin(), other.ranges.end()); }
  void settle() {
    std::ranges::sort(ranges);
    std::vector<std::pair<int32_t, int32_t>> merged;
    for (const auto& range : ranges)
      if (!merged.empty() && range.first <= merged.back().second + 1)
        merged.back().second = std::max(merged.back().second, range.second);
      else
        merged.push_back(range);
    ranges = std::move(merged);
  }
  CharClass others() {
    settle();
    CharClass made;
    int32_t next = 0;
    for (const auto& [first, last] : ranges) {
      if (next < first) made.add(next, first - 1);
      next = last + 1;
    }
    if (next <= kLastCode) made.add(next, kLastCode);
    return made;
  }
  bool has(int32_t code) const {
    return std::ranges::any_of(ranges, [&](const auto& range) { return code >= range.first && code <= range.second; });
  }
};

int32_t folded(int32_t code) { return rt::to_lower(rt::to_upper(code)); }

/// The characters that differ from others in case only, by what they are folded to.
const std::multimap<int32_t, int32_t>& cased() {
  static const auto made = [] {
    std::multimap<int32_t, int32_t> map;
    for (int32_t code = 0; code <= 0x1ffff; ++code)
      if (folded(code) != code) {
        map.emplace(folded(code), code);
        map.emplace(folded(code), folded(code));
      }
    return map;
  }();
  return made;
}

void add_other_cases(CharClass& set) {
  CharClass more;
  for (auto from = cased().begin(); from != cased().end();) {
    const auto to = cased().upper_bound(from->first);
    const bool any = std::any_of(from, to, [&](const auto& entry) { return set.has(entry.second); });
    for (; from != to; ++from)
      if (any) more.add(from->second, from->second);
  }
  set.add(more);
}

struct Piece;
using Pieces = std::vector<std::shared_ptr<const Piece>>;

struct Piece {
  enum class Kind : uint8_t { kClass, kPlace, kSequence, kChoice, kRepeat } kind = Kind::kSequence;
  CharClass set = {};         // kClass
  rt::RegexPlace place = {};  // kPlace
  Pieces parts = {};          // kSequence, kChoice; kRepeat: one
  int least = 0, most = 0;    // kRepeat; most -1: any number
};
using PieceRef = std::shared_ptr<const Piece>;

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  Result<PieceRef> parse() {
    FETTLE_TRY(PieceRef piece, choice(0));
    if (at_ < text_.size()) return wrong("a ')' that closes nothing");
    return piece;
  }

 private:
  struct Flags {
    bool any_case = false, lines = false, dot_is_all = false;
  };

  tl::unexpected<Diagnostic> wrong(std::string_view what) const {
    return fail(ErrorCode::E606, fmt::format("pattern \"{}\", at character {}: {}", text_, at_, what));
  }
  bool sees(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!sees(what)) return false;
    at_ += what.size();
    return true;
  }
  bool is_done() const { return at_ >= text_.size(); }

  Result<int32_t> character() {
    const rt::Utf8 read = rt::decode_utf8(text_.data() + at_, std::ssize(text_) - static_cast<int64_t>(at_));
    if (read.code < 0) return wrong("it is not UTF-8");
    at_ += static_cast<size_t>(read.bytes);
    return read.code;
  }

  static PieceRef make(Piece piece) { return std::make_shared<const Piece>(std::move(piece)); }
  PieceRef of_character(int32_t code) const {
    CharClass set;
    set.add(code, code);
    if (flags_.any_case) {
      const auto [from, to] = cased().equal_range(folded(code));
      for (auto other = from; other != to; ++other) set.add(other->second, other->second);
    }
    set.settle();
    return make({.kind = Piece::Kind::kClass, .set = std::move(set)});
  }
  static PieceRef of_place(rt::RegexPlace place) { return make({.kind = Piece::Kind::kPlace, .place = place}); }

  Result<PieceRef> choice(int depth) {
    if (depth > kMostNesting) return wrong("groups are nested too deeply");
    const Flags before = flags_;
    Piece made{.kind = Piece::Kind::kChoice};
    do {
      FETTLE_TRY(PieceRef part, sequence(depth));
      made.parts.push_back(std::move(part));
    } while (take("|"));
    flags_ = before;
    return made.parts.size() == 1 ? made.parts[0] : make(std::move(made));
  }

  Result<PieceRef> sequence(int depth) {
    Piece made{.kind = Piece::Kind::kSequence};
    while (!is_done() && !sees("|") && !sees(")")) {
      if (take("\\Q")) {
        while (!is_done() && !take("\\E")) {
          FETTLE_TRY(const int32_t code, character());
          made.parts.push_back(of_character(code));
        }
        continue;
      }
      FETTLE_TRY(PieceRef part, atom(depth));
      if (!part) continue;  // flags
      bool repeated = false;
      for (;;) {
        FETTLE_TRY(const auto repeat, repetition());
        if (!repeat) break;
        if (repeated) return wrong("a repetition of a repetition");
        repeated = true;
        part = make({.kind = Piece::Kind::kRepeat, .parts = {part}, .least = repeat->first, .most = repeat->second});
      }
      made.parts.push_back(std::move(part));
    }
    return make(std::move(made));
  }

  /// How often what stands in front is repeated.
  Result<std::optional<std::pair<int, int>>> repetition() {
    std::optional<std::pair<int, int>> found;
    if (take("*"))
      found = {0, -1};
    else if (take("+"))
      found = {1, -1};
    else if (take("?"))
      found = {0, 1};
    else if (sees("{"))
      found = counts();
    if (!found) return found;
    if (std::max(found->first, found->second) > kMostRepeats) return wrong("more than 1000 repetitions");
    if (found->second >= 0 && found->second < found->first) return wrong("the least repetitions exceed the most");
    take("?");  // how much is taken makes no difference where the whole text is matched
    return found;
  }

  /// "{2}", "{2,}", "{2,5}"; anything else is characters.
  std::optional<std::pair<int, int>> counts() {
    size_t at = at_ + 1;
    const auto number = [&]() -> std::optional<int> {
      if (at >= text_.size() || !is_digit(text_[at])) return std::nullopt;
      int value = 0;
      for (; at < text_.size() && is_digit(text_[at]); ++at)
        value = std::min(value * 10 + (text_[at] - '0'), kMostRepeats + 1);
      return value;
    };
    const auto least = number();
    if (!least) return std::nullopt;
    std::optional<int> most = least;
    if (at < text_.size() && text_[at] == ',') {
      ++at;
      most = at < text_.size() && text_[at] == '}' ? std::optional(-1) : number();
    }
    if (!most || at >= text_.size() || text_[at] != '}') return std::nullopt;
    at_ = at + 1;
    return std::pair(*least, *most);
  }

  /// Null: flags, which have no piece.
  Result<PieceRef> atom(int depth) {
    if (take("(")) return group(depth);
    if (sees("[")) {
      FETTLE_TRY(CharClass set, char_class());
      return make({.kind = Piece::Kind::kClass, .set = std::move(set)});
    }
    if (take(".")) {
      CharClass set;
      set.add(0, kLastCode);
      if (!flags_.dot_is_all) {
        set.ranges = {{0, '\n' - 1}, {'\n' + 1, kLastCode}};
      }
      return make({.kind = Piece::Kind::kClass, .set = std::move(set)});
    }
    if (take("^")) return of_place(flags_.lines ? rt::kLineBegin : rt::kTextBegin);
    if (take("$")) return of_place(flags_.lines ? rt::kLineEnd : rt::kTextEnd);
    if (sees("\\")) return escape();
    for (const std::string_view repeat : {"*", "+", "?"})
      if (sees(repeat)) return wrong("nothing stands in front of a repetition");
    FETTLE_TRY(const int32_t code, character());
    return of_character(code);
  }

  Result<PieceRef> group(int depth) {
    const Flags outside = flags_;
    if (take("?")) {
      if (take("P<") || take("<")) {
        const size_t end = text_.find('>', at_);
        if (end == std::string_view::npos || end == at_) return wrong("a group has no name");
        for (; at_ < end; ++at_)
          if (!is_word(text_[at_])) return wrong("the name of a group is of letters, digits and _");
        ++at_;
      } else {
        FETTLE_TRY(const bool is_group, flags());
        if (!is_group) return PieceRef();
      }
    }
    FETTLE_TRY(PieceRef piece, choice(depth + 1));
    if (!take(")")) return wrong("a '(' is not closed");
    flags_ = outside;
    return piece;
  }

  /// Behind "(?": whether a group follows, to which the flags belong.
  Result<bool> flags() {
    bool value = true;
    for (;;) {
      if (take(")")) return false;
      if (take(":")) return true;
      if (take("-"))
        value = false;
      else if (take("i"))
        flags_.any_case = value;
      else if (take("m"))
        flags_.lines = value;
      else if (take("s"))
        flags_.dot_is_all = value;
      else if (!take("U"))
        return wrong("a group of a kind that is not supported");
    }
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_word(char c) { return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }
  static CharClass ranges(std::initializer_list<std::pair<int32_t, int32_t>> list) { return {list}; }

  /// \d and its like.
  static std::optional<CharClass> letter_class(char letter) {
    CharClass set;
    switch (letter | 0x20) {
      case 'd':
        set = ranges({{'0', '9'}});
        break;
      case 's':
        set = ranges({{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}});
        break;
      case 'w':
        set = ranges({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
        break;
      default:
        return std::nullopt;
    }
    return letter < 'a' ? set.others() : set;
  }

  static std::optional<CharClass> named_class(std::string_view name) {
    if (name == "word") return letter_class('w');
    if (name == "digit") return letter_class('d');
    if (name == "space") return ranges({{'\t', '\r'}, {' ', ' '}});
    if (name == "alpha") return ranges({{'A', 'Z'}, {'a', 'z'}});
    if (name == "alnum") return ranges({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}});
    if (name == "lower") return ranges({{'a', 'z'}});
    if (name == "upper") return ranges({{'A', 'Z'}});
    if (name == "ascii") return ranges({{0, 127}});
    if (name == "blank") return ranges({{'\t', '\t'}, {' ', ' '}});
    if (name == "cntrl") return ranges({{0, 31}, {127, 127}});
    if (name == "graph") return ranges({{'!', '~'}});
    if (name == "print") return ranges({{' ', '~'}});
    if (name == "punct") return ranges({{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}});
    if (name == "xdigit") return ranges({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
    return std::nullopt;
  }

  /// The class or the character that an escape stands for; at_ is at its '\'.
  Result<PieceRef> escape() {
    if (take("\\A")) return of_place(rt::kTextBegin);
    if (take("\\z")) return of_place(rt::kTextEnd);
    if (take("\\b")) return of_place(rt::kWordBoundary);
    if (take("\\B")) return of_place(rt::kNoWordBoundary);
    if (const auto set = class_escape()) return make({.kind = Piece::Kind::kClass, .set = *set});
    FETTLE_TRY(const int32_t code, character_escape());
    return of_character(code);
  }
  std::optional<CharClass> class_escape() {
    if (at_ + 1 >= text_.size() || text_[at_] != '\\') return std::nullopt;
    const auto set = letter_class(text_[at_ + 1]);
    if (set) at_ += 2;
    return set;
  }

  Result<int32_t> character_escape() {
    ++at_;
    if (is_done()) return wrong("a '\\' at the end");
    const char c = text_[at_];
    if (c == 'p' || c == 'P') return wrong("classes of Unicode (\\p) are not supported");
    if (c == 'C') return wrong("single bytes (\\C) are not supported");
    if (c >= '1' && c <= '9' && !(at_ + 1 < text_.size() && c < '8' && is_octal(text_[at_ + 1])))
      return wrong("back references are not supported: they cannot be matched in linear time");
    if (is_octal(c)) {
      int32_t code = 0;
      for (int i = 0; i < 3 && !is_done() && is_octal(text_[at_]); ++i) code = code * 8 + (text_[at_++] - '0');
      return code;
    }
    if (take("x")) return hexadecimal();
    constexpr std::string_view kLetters = "aftnrv";
    constexpr char kCodes[] = {7, 12, 9, 10, 13, 11};
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      ++at_;
      return int32_t{kCodes[known]};
    }
    if (is_word(c)) return wrong(fmt::format("there is no escape \\{}", c));
    return character();
  }
  static bool is_octal(char c) { return c >= '0' && c <= '7'; }

  /// Behind "\x": two digits, or any number of them in braces.
  Result<int32_t> hexadecimal() {
    const auto digit = [&]() -> int {
      if (is_done()) return -1;
      const char c = text_[at_], lower = static_cast<char>(c | 0x20);
      if (is_digit(c)) return c - '0';
      return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    };
    const bool braces = take("{");
    int32_t code = 0;
    int count = 0;
    for (; (braces || count < 2) && digit() >= 0; ++count, ++at_) {
      code = code * 16 + digit();
      if (code > kLastCode) return wrong("there is no such character");
    }
    if (braces ? count == 0 || !take("}") : count < 2) return wrong("a \\x without its digits");
    return code;
  }

  Result<int32_t> class_character() { return sees("\\") ? character_escape() : character(); }

  Result<CharClass> char_class() {
    ++at_;
    const bool negated = take("^");
    CharClass set;
    for (bool first = true; first || !sees("]"); first = false) {
      if (is_done()) return wrong("a '[' is not closed");
      if (sees("[:")) {
        const size_t end = text_.find(":]", at_ + 2);
        if (end == std::string_view::npos) return wrong("a '[:' is not closed");
        std::string_view name = text_.substr(at_ + 2, end - at_ - 2);
        const bool is_not = name.starts_with('^');
        auto named = named_class(is_not ? name.substr(1) : name);
        if (!named) return wrong(fmt::format("there is no class [:{}:]", name));
        set.add(is_not ? named->others() : *named);
        at_ = end + 2;
        continue;
      }
      if (const auto escaped = class_escape()) {
        set.add(*escaped);
        continue;
      }
      FETTLE_TRY(const int32_t from, class_character());
      int32_t to = from;
      if (sees("-") && !sees("-]")) {
        ++at_;
        if (is_done()) return wrong("a '[' is not closed");
        FETTLE_TRY(to, class_character());
      }
      if (to < from) return wrong("a range runs backwards");
      set.add(from, to);
    }
    ++at_;
    if (flags_.any_case) add_other_cases(set);
    set.settle();
    return negated ? set.others() : set;
  }

  std::string_view text_;
  size_t at_ = 0;
  Flags flags_;
};

class Emitter {
 public:
  Result<std::vector<int64_t>> program(const Piece& piece) {
    FETTLE_TRY_VOID(emit(piece));
    put(rt::kRegexMatch);
    std::vector<int64_t> program = {count()};
    program.insert(program.end(), code_.begin(), code_.end());
    program.insert(program.end(), ranges_.begin(), ranges_.end());
    return program;
  }

 private:
  int64_t count() const { return std::ssize(code_) / rt::kRegexWidth; }
  int64_t put(rt::RegexInstruction kind, int64_t a = 0, int64_t b = 0) {
    code_.insert(code_.end(), {int64_t{kind}, a, b});
    return count() - 1;
  }
  int64_t& a(int64_t i) { return code_[static_cast<size_t>(rt::kRegexWidth * i + 1)]; }
  int64_t& b(int64_t i) { return code_[static_cast<size_t>(rt::kRegexWidth * i + 2)]; }

  Result<> emit(const Piece& piece) {
    if (++visits_ > kMostVisits || code_.size() > kMostInstructions * rt::kRegexWidth)
      return fail(ErrorCode::E606, "the pattern is too large: its repetitions make too many states");
    switch (piece.kind) {
      case Piece::Kind::kClass: {
        const auto [found, fresh] = known_.emplace(piece.set.ranges, std::ssize(ranges_) / 2);
        if (fresh)
          for (const auto& [first, last] : piece.set.ranges) ranges_.insert(ranges_.end(), {first, last});
        put(rt::kRegexClass, found->second, std::ssize(piece.set.ranges));
        return {};
      }
      case Piece::Kind::kPlace:
        put(rt::kRegexAssert, piece.place);
        return {};
      case Piece::Kind::kSequence:
        for (const PieceRef& part : piece.parts) FETTLE_TRY_VOID(emit(*part));
        return {};
      case Piece::Kind::kChoice:
        return emit_choice(piece);
      case Piece::Kind::kRepeat:
        return emit_repeat(piece);
    }
    return {};
  }

  Result<> emit_choice(const Piece& piece) {
    std::vector<int64_t> jumps;
    for (size_t i = 0; i < piece.parts.size(); ++i) {
      const bool is_last = i + 1 == piece.parts.size();
      const int64_t split = is_last ? -1 : put(rt::kRegexSplit, count() + 1);
      FETTLE_TRY_VOID(emit(*piece.parts[i]));
      if (is_last) break;
      jumps.push_back(put(rt::kRegexJump));
      b(split) = count();
    }
    for (const int64_t jump : jumps) a(jump) = count();
    return {};
  }

  Result<> emit_repeat(const Piece& piece) {
    const Piece& part = *piece.parts[0];
    for (int i = 0; i < piece.least; ++i) FETTLE_TRY_VOID(emit(part));
    if (piece.most < 0) {
      const int64_t split = put(rt::kRegexSplit, count() + 1);
      FETTLE_TRY_VOID(emit(part));
      put(rt::kRegexJump, split);
      b(split) = count();
      return {};
    }
    std::vector<int64_t> splits;
    for (int i = piece.least; i < piece.most; ++i) {
      splits.push_back(put(rt::kRegexSplit, count() + 1));
      FETTLE_TRY_VOID(emit(part));
    }
    for (const int64_t split : splits) b(split) = count();
    return {};
  }

  size_t visits_ = 0;  // of pieces
  std::vector<int64_t> code_, ranges_;
  std::map<std::vector<std::pair<int32_t, int32_t>>, int64_t> known_;
};

}  // namespace

Result<std::vector<int64_t>> compile_regex(std::string_view pattern) {
  if (pattern.size() > kMostInstructions) return fail(ErrorCode::E606, "the pattern is too large: 32768 bytes may be");
  FETTLE_TRY(const PieceRef piece, Parser(pattern).parse());
  return Emitter().program(*piece);
}

}  // namespace fettle
