// Random nests whose bounds depend on outer loops and whose blocks read what earlier iterations wrote.
#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"
#include "ir/text.h"
#include "tests/fuzz/program.h"

namespace fettle::fuzz {
namespace {

// Iterators run to kMost; indices are one, or two added, with an offset, of buffers that are as large.
constexpr int kMost = 8, kSide = kMost + 3;

class AffineMaker {
 public:
  explicit AffineMaker(uint64_t seed) : r_{seed, 0x61666669} {}

  Program make() {
    buffers_ = between(1, 2);
    std::string text = "func affine(";
    for (int b = 0; b < buffers_; ++b) text += fmt::format("X{}: f32[{}, {}], ", b, kSide, kSide);
    const bool internal = chance(50);  // what the nests update is copied to the outputs at the end
    for (int b = 0; b < buffers_; ++b)
      text += fmt::format("{}{}{}: f32[{}, {}] output", b ? ", " : "", internal ? "Y" : "T", b, kSide, kSide);
    text += "):\n";
    for (int b = 0; b < buffers_ && internal; ++b) text += fmt::format("  alloc T{0}: f32[{1}, {1}]\n", b, kSide);
    copies(text, "T", "X");
    const int nests = between(1, 3);
    for (int n = 0; n < nests; ++n) nest(text, 0);
    if (internal) copies(text, "Y", "T");
    auto func = parse_func(text);
    FETTLE_CHECK_MSG(func.has_value(), text + (func ? "" : func.error().to_string()));
    return {*func, {}};
  }

 private:
  int between(int low, int high) { return low + static_cast<int>(r_.below(static_cast<uint64_t>(high - low + 1))); }
  bool chance(int percent) { return static_cast<int>(r_.below(100)) < percent; }

  void copies(std::string& text, std::string_view to, std::string_view from) const {
    for (int b = 0; b < buffers_; ++b)
      text += fmt::format(
          "  for a{2}{0} in {1}:\n    for b{2}{0} in {1}:\n"
          "      block copy{2}{0}(vi: spatial[{1}] = a{2}{0}, vj: spatial[{1}] = b{2}{0}):\n"
          "        reads {3}{0}[vi, vj]\n        writes {2}{0}[vi, vj]\n        {2}{0}[vi, vj] = {3}{0}[vi, vj]\n",
          b, kSide, to, from);
  }

  // A loop, and in it blocks and further loops.
  void nest(std::string& text, int depth) {
    const std::string name = fmt::format("l{}", names_++), indent(2 * static_cast<size_t>(depth) + 2, ' ');
    const std::string outer = loops_.empty() ? "" : loops_[r_.below(loops_.size())];
    const int extent = between(1, kMost);
    std::string range = std::to_string(extent);
    if (!outer.empty() && chance(25)) range = outer;
    if (!outer.empty() && chance(20)) range = fmt::format("{} + 1", outer);
    if (!outer.empty() && chance(25)) range = fmt::format("{0} +: {1} - {0}", outer, kMost);
    if (!outer.empty() && chance(10)) range = fmt::format("{0} // 2 +: min({0} + 1, 3)", outer);
    text += fmt::format("{}for {} in {}:\n", indent, name, range);
    loops_.push_back(name);
    const int items = between(1, 2);
    for (int i = 0; i < items; ++i) {
      if (loops_.size() < 3 && (loops_.size() < 2 || chance(60)) && blocks_ < 4)
        nest(text, depth + 1);
      else
        block(text, depth + 1);
    }
    loops_.pop_back();
  }

  std::string index(const std::vector<std::string>& iters) {
    std::string text = iters[r_.below(iters.size())];
    return fmt::format("{} + {}", text, between(0, 2));
  }

  void block(std::string& text, int depth) {
    const std::string indent(2 * static_cast<size_t>(depth) + 2, ' ');
    std::vector<std::string> iters, headers;
    for (const std::string& loop : loops_) {
      iters.push_back("v" + loop);
      headers.push_back(fmt::format("v{0}: scan[{1}] = {0}", loop, kMost + 1));
    }
    const auto element = [&] {
      return fmt::format("T{}[{}, {}]", between(0, buffers_ - 1), index(iters), index(iters));
    };
    const std::string to = element();
    std::vector<std::string> from{element(), element()};
    const bool sums = chance(35);
    std::string predicate;
    if (chance(15)) predicate = fmt::format(" where {} + {} < {}", loops_.front(), loops_.back(), between(4, 12));
    if (sums) from[0] = to;
    text += fmt::format("{}block S{}({}){}:\n", indent, blocks_++, fmt::join(headers, ", "), predicate);
    text += fmt::format("{}  reads {}\n{}  writes {}\n", indent,
                        from[0] == from[1] ? from[0] : from[0] + ", " + from[1], indent, to);
    // Values stay small, and which of two writes came last shows.
    text += fmt::format("{}  {} = max(min({} - {} * 2.0 + {}.0, 50.0), -50.0)\n", indent, to, from[0], from[1],
                        between(0, 3));
  }

  RandomStream r_;
  int buffers_ = 1, names_ = 0, blocks_ = 0;
  std::vector<std::string> loops_;
};

}  // namespace

Program random_affine_program(uint64_t seed) { return AffineMaker(seed).make(); }

}  // namespace fettle::fuzz
