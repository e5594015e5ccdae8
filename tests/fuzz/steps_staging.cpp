// Steps that make copies of what a block reads or writes.
#include <fmt/format.h>

#include "ir/visit.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {

int64_t any_read(Attempt& a, const BlockRef& block) {
  const BlockNode* n = a.node(block);
  return n ? a.between(0, std::max(0, static_cast<int>(n->reads.size()) - (a.chance(95) ? 1 : 0))) : 0;
}

bool cache_read(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return !b.reads.empty(); });
  if (!block) return false;
  std::vector<StepRef> others;
  if (a.chance(20))
    if (const auto other = a.any_block()) others.push_back(*other);
  return a
      .step("cache_read",
            {{"block", *block}, {"read_index", any_read(a, *block)}, {"scope", a.scope()}, {"consumer_blocks", others}})
      .has_value();
}
bool cache_write(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("cache_write", {{"block", *block}, {"scope", a.scope()}});
}
bool cache_inplace(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return static_cast<bool>(b.init); });
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop && a.step("cache_inplace", {{"block", *block}, {"loop", *loop}, {"scope", a.scope()}});
}
bool cache_index(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("cache_index", {{"block", *block}, {"scope", a.scope()}});
}
bool reindex(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const bool read = a.chance(60);
  return a
      .step("reindex", {{"block", *block},
                        {"buffer_index", read ? any_read(a, *block) : int64_t{0}},
                        {"buffer_index_type", read ? "read" : "write"}})
      .has_value();
}

/// A permutation of the iterators that the region's accesses use.
static std::optional<std::string> map_of_used(Attempt& a, const BlockNode& block, const std::vector<Region>& regions,
                                              int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(regions.size())) return std::nullopt;
  const BufferNode* buffer = regions[static_cast<size_t>(index)].buffer.get();
  std::vector<std::string> inputs, outputs;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    inputs.push_back(fmt::format("x{}", i));
    bool used = false;
    const auto look = [&](const BufferNode* of, const std::vector<Expr>& at) {
      if (of != buffer) return;
      for (const Expr& e : at) used |= uses_var(e, block.iters[i].var.get());
    };
    walk(
        block.body,
        [&](const Stmt& x) {
          if (const auto* st = x.as<StoreNode>()) look(st->buffer.get(), st->indices);
          return true;
        },
        [&](const Expr& e) {
          if (const auto* l = e.as<LoadNode>()) look(l->buffer.get(), l->indices);
          return true;
        });
    if (used || a.chance(3)) outputs.push_back(inputs.back());
  }
  if (inputs.empty() || outputs.empty()) return std::nullopt;
  a.shuffle(outputs);
  if (outputs.size() >= 2 && a.chance(20)) {  // two in one
    for (size_t i = 0; i < block.iters.size(); ++i) {
      const int64_t* e = as_int(block.iters[i].extent);
      if (!e || inputs[i] != outputs[1]) continue;
      outputs[0] = fmt::format("{} * {} + {}", outputs[0], *e, outputs[1]);
      outputs.erase(outputs.begin() + 1);
      break;
    }
  }
  return fmt::format("({}) -> ({})", fmt::join(inputs, ", "), fmt::join(outputs, ", "));
}
bool reindex_cache_read(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return !b.reads.empty(); });
  if (!block) return false;
  const int64_t index = any_read(a, *block);
  const BlockNode* n = a.node(*block);
  const auto map = n ? map_of_used(a, *n, n->reads, index) : std::nullopt;
  return map && a.step("reindex_cache_read",
                       {{"block", *block}, {"read_index", index}, {"scope", a.scope()}, {"index_map", *map}});
}
bool reindex_cache_write(Attempt& a) {
  const auto block = a.any_block();
  const BlockNode* n = block ? a.node(*block) : nullptr;
  const auto map = n ? map_of_used(a, *n, n->writes, 0) : std::nullopt;
  return map && a.step("reindex_cache_write",
                       {{"block", *block}, {"write_index", int64_t{0}}, {"scope", a.scope()}, {"index_map", *map}});
}
bool read_at(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return !b.reads.empty(); });
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop &&
         a.step("read_at",
                {{"loop", *loop}, {"block", *block}, {"read_index", any_read(a, *block)}, {"scope", a.scope()}});
}
bool write_at(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop && a.step("write_at", {{"loop", *loop}, {"block", *block}, {"scope", a.scope()}});
}

}  // namespace fettle::fuzz::actions
