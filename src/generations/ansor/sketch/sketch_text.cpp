#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "generations/ansor/sketch/sketch.h"
#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

// "C[vi, vj] = C[vi, vj] + A[vi, vk]" → "C[...] += A[...]"
std::string without_indices(const std::string& text) {
  std::string result;
  int depth = 0;
  for (char c : text) {
    if (c == '[' && depth++ == 0) result += "[...";
    if (c == ']' && --depth == 0)
      result += ']';
    else if (depth == 0)
      result += c;
  }
  const size_t equals = result.find(" = ");
  if (equals == std::string::npos) return result;
  const std::string target = result.substr(0, equals), update = target + " + ";
  if (result.compare(equals + 3, update.size(), update) == 0)
    return target + " += " + result.substr(equals + 3 + update.size());
  return result;
}

class LoopsText {
 public:
  /// `extents`: what to print for each loop, in the order of a walk; empty: the numbers, without loops of one
  /// iteration.
  explicit LoopsText(std::vector<std::string> extents) : extents_(std::move(extents)) {}

  std::string of(const Stmt& s) {
    write(s, 0);
    return std::move(text_);
  }

 private:
  void line(int depth, const std::string& content) {
    text_.append(static_cast<size_t>(depth) * 2, ' ').append(content).append("\n");
  }
  void write(const Stmt& s, int depth) {
    if (const auto* loop = s.as<ForNode>()) {
      const std::string extent = extents_.empty() ? to_text(loop->extent) : extents_[next_++];
      if (extents_.empty() && is_one(loop->extent)) return write(loop->body, depth);
      static constexpr const char* kKinds[] = {"for", "parallel", "vectorize", "unroll", "bind"};
      const auto kind = static_cast<size_t>(loop->loop_kind);
      FETTLE_CHECK(kind < std::size(kKinds));
      line(depth, fmt::format("{} {} in {}:", kKinds[kind], loop->var->name, extent));
      return write(loop->body, depth + 1);
    }
    if (const auto* sequence = s.as<SeqNode>()) {
      for (const Stmt& child : sequence->stmts) write(child, depth);
      return;
    }
    if (const auto* block = s.as<BlockNode>()) {
      if (block->predicate) line(depth++, "if " + without_indices(to_text(block->predicate)) + ":");
      return write(block->body, depth);
    }
    if (const auto* store = s.as<StoreNode>()) {
      const std::string text =
          without_indices(to_text(load(store->buffer, store->indices)) + " = " + to_text(store->value));
      return line(depth, text);
    }
    line(depth, "...");
  }

  std::vector<std::string> extents_;
  size_t next_ = 0;
  std::string text_;
};

// Extents of all loops, in the order of a walk.
std::vector<int64_t> extents_of(const Func& func) {
  std::vector<int64_t> extents;
  walk(func->body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) {
      const int64_t* extent = as_int(loop->extent);
      extents.push_back(extent ? *extent : -1);
    }
    return true;
  });
  return extents;
}

// A run of parts of one sampled tile.
struct Parts {
  std::string address;
  size_t first = 0, last = 0;

  int64_t product(const DecisionMap& decisions) const {
    const Decision::List& sizes = decisions.at(address).list();
    int64_t product = 1;
    for (size_t k = first; k <= last; ++k) product *= sizes[k];
    return product;
  }
  std::string text() const {
    std::string name = address.substr(address.rfind('/') + 1), text;
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    for (size_t k = first; k <= last; ++k) text += fmt::format("{}TILE_{}{}", text.empty() ? "" : " * ", name, k);
    return text;
  }
};

// All runs of parts, short ones first.
std::vector<Parts> all_parts(const DecisionMap& decisions) {
  std::vector<Parts> list;
  size_t longest = 0;
  for (const auto& [address, sizes] : decisions) longest = std::max(longest, sizes.list().size());
  for (size_t length = 1; length <= longest; ++length)
    for (const auto& [address, sizes] : decisions)
      for (size_t first = 0; first + length <= sizes.list().size(); ++first)
        list.push_back({address, first, first + length - 1});
  return list;
}

}  // namespace

std::string loops_text(const Func& func) { return LoopsText({}).of(func.root().body); }

std::string to_text(const Sketch& sketch) {
  // What an extent is made of shows in how it follows the sizes: several points of the sketch tell them apart.
  constexpr size_t kPoints = 12;
  constexpr uint64_t kAttempts = 200;
  std::vector<std::vector<int64_t>> extents;
  std::vector<DecisionMap> decisions;
  Func func;
  for (uint64_t seed = 0; seed < kAttempts && extents.size() < kPoints; ++seed) {
    const auto point = instantiate(sketch, seed);
    if (!point && seed + 1 == kAttempts) return "(" + point.error().to_string() + ")\n";
    if (!point) continue;  // a size of one, where a loop must be more
    func = point->func();
    extents.push_back(extents_of(func));
    decisions.push_back(point->decisions());
    if (extents.back().size() != extents.front().size()) return "(its loops depend on the sizes)\n";
  }
  if (extents.empty()) return "(none of its points is possible)\n";
  const std::vector<Parts> parts = all_parts(decisions.front());
  std::vector<std::string> texts;
  for (size_t loop = 0; loop < extents.front().size(); ++loop) {
    const auto follows = [&](const auto& value_at) {
      for (size_t point = 0; point < extents.size(); ++point)
        if (extents[point][loop] != value_at(point)) return false;
      return true;
    };
    if (follows([&](size_t) { return extents[0][loop]; })) {
      texts.push_back(std::to_string(extents[0][loop]));
      continue;
    }
    const auto found = std::ranges::find_if(
        parts, [&](const Parts& p) { return follows([&](size_t point) { return p.product(decisions[point]); }); });
    texts.push_back(found == parts.end() ? "..." : found->text());
  }
  return LoopsText(std::move(texts)).of(func.root().body);
}

}  // namespace fettle
