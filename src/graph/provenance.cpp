#include "graph/provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace fettle {
namespace {

// Lists up to this long are put together at once.
constexpr size_t kShort = 16;

void append_new(std::vector<Origin>& to, const std::vector<Origin>& from) {
  for (const Origin& origin : from)
    if (std::ranges::find(to, origin) == to.end()) to.push_back(origin);
}

struct OriginHash {
  size_t operator()(const Origin* origin) const {
    return std::hash<std::string>()(origin->name) * 31 + std::hash<std::string>()(origin->op);
  }
};
struct SameOrigin {
  bool operator()(const Origin* a, const Origin* b) const { return *a == *b; }
};

}  // namespace

/// A list, or two lists one after the other.
struct Provenance::Part {
  std::vector<Origin> list;
  std::shared_ptr<Part> first, second;  // null once they are put together in `list`

  Part() = default;
  explicit Part(std::vector<Origin> origins) : list(std::move(origins)) {}
  Part(std::shared_ptr<Part> a, std::shared_ptr<Part> b) : first(std::move(a)), second(std::move(b)) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() { drop_parts(); }

  bool is_list() const { return !first; }

  /// Without recursion: lists are as deep as chains of nodes are long.
  void drop_parts() {
    std::vector<std::shared_ptr<Part>> dropped;
    const auto take = [&](Part& part) {
      if (part.first) dropped.push_back(std::exchange(part.first, nullptr));
      if (part.second) dropped.push_back(std::exchange(part.second, nullptr));
    };
    take(*this);
    while (!dropped.empty()) {
      const std::shared_ptr<Part> part = std::move(dropped.back());
      dropped.pop_back();
      if (part.use_count() == 1) take(*part);
    }
  }

  void put_together() {
    std::vector<Origin> whole;
    std::unordered_set<const Part*> visited;
    std::vector<const Part*> left = {this};
    std::vector<const Origin*> origins;
    std::unordered_set<const Origin*, OriginHash, SameOrigin> seen;
    while (!left.empty()) {
      const Part* part = left.back();
      left.pop_back();
      if (!visited.insert(part).second) continue;
      for (const Origin& origin : part->list)
        if (seen.insert(&origin).second) origins.push_back(&origin);
      if (part->second) left.push_back(part->second.get());
      if (part->first) left.push_back(part->first.get());
    }
    whole.reserve(origins.size());
    for (const Origin* origin : origins) whole.push_back(*origin);
    list = std::move(whole);
    drop_parts();
  }
};

Provenance::Provenance(std::initializer_list<Origin> origins) {
  if (origins.size() > 0) part_ = std::make_shared<Part>(std::vector<Origin>(origins));
}

void Provenance::merge(const Provenance& other) {
  if (!other.part_ || other.part_ == part_) return;
  if (!part_) {
    part_ = other.part_;
  } else if (part_->is_list() && other.part_->is_list() && part_->list.size() + other.part_->list.size() <= kShort) {
    std::vector<Origin> both = part_->list;
    append_new(both, other.part_->list);
    if (both.size() > part_->list.size()) part_ = std::make_shared<Part>(std::move(both));
  } else {
    part_ = std::make_shared<Part>(part_, other.part_);
  }
}

const std::vector<Origin>& Provenance::list() const {
  static const std::vector<Origin> none;
  if (!part_) return none;
  if (!part_->is_list()) part_->put_together();
  return part_->list;
}

std::string to_text(const Provenance& provenance, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, provenance.size()); ++i) text += (i ? ", " : "") + provenance[i].to_string();
  if (provenance.size() > most) text += fmt::format(" and {} more", provenance.size() - most);
  return text;
}

}  // namespace fettle
