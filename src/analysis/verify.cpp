#include "analysis/verify.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "analysis/affine/exact.h"
#include "analysis/block_checks.h"
#include "analysis/footprint.h"
#include "analysis/parallel_check.h"
#include "analysis/plain_access.h"
#include "arith/affine_map.h"
#include "arith/plain_map.h"
#include "base/checks.h"
#include "ir/annotations.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// --- what a block says about itself, remembered -----------------------------------------------------------------

struct RememberedBlock {
  Stmt init, body;  // held, so that their addresses are theirs alone
  std::vector<std::pair<Var, Expr>> iters;
  uint64_t params = 0;
  Result<> verdict;
};

uint64_t hash_params(const Func& func) {
  uint64_t h = 0;
  for (const IntParam& p : func->int_params) {
    h = hash_combine(h, reinterpret_cast<uintptr_t>(p.var.get()));
    h = hash_combine(h, static_cast<uint64_t>(p.min));
    h = hash_combine(h, static_cast<uint64_t>(p.max));
    h = hash_combine(h, static_cast<uint64_t>(p.multiple_of));
  }
  return h;
}

Result<> check_block(const Func& func, uint64_t params, const BlockNode& block) {
  thread_local std::unordered_map<const StmtNode*, RememberedBlock> memory;
  if (const auto at = memory.find(block.body.get()); at != memory.end()) {
    const RememberedBlock& known = at->second;
    bool same = known.init == block.init && known.params == params && known.iters.size() == block.iters.size();
    for (size_t i = 0; same && i < block.iters.size(); ++i)
      same =
          known.iters[i].first == block.iters[i].var && structural_equal(known.iters[i].second, block.iters[i].extent);
    if (same) return known.verdict;
  }
  // What a look shows need not be remembered.
  if (std::ranges::none_of(block.writes, [](const Region& w) { return has_pad_lanes(*w.buffer); }) &&
      accesses_plainly_inside(block))
    return {};
  RememberedBlock fresh{block.init, block.body, {}, params, {}};
  for (const IterVar& iter : block.iters) fresh.iters.emplace_back(iter.var, iter.extent);
  fresh.verdict = check_accesses(func, block);
  if (fresh.verdict) fresh.verdict = check_pad_lanes(func, block);
  if (memory.size() >= 2048) memory.clear();
  Result<> verdict = fresh.verdict;
  memory[block.body.get()] = std::move(fresh);
  return verdict;
}

// --- the program ------------------------------------------------------------------------------------------------

class Verifier {
 public:
  Verifier(const Func& func, const Target& target, const VerifyOptions& options)
      : func_(func), target_(target), options_(options), sites_(block_sites(func)) {}

  Result<> run() {
    if (options_.others) FETTLE_TRY_VOID(check_others());
    if (options_.races) FETTLE_TRY_VOID(check_races());
    return {};
  }

 private:
  Result<> check_others() {
    FETTLE_TRY_VOID(check_loops());
    FETTLE_TRY_VOID(check_threads());
    FETTLE_TRY_VOID(check_scopes());
    const uint64_t params = hash_params(func_);
    for (size_t i = 0; i < sites_.size(); ++i) {
      FETTLE_TRY_VOID(check_block(func_, params, *sites_[i].block));
      FETTLE_TRY_VOID(check_bindings(sites_[i]));
    }
    FETTLE_TRY_VOID(check_storage());
    return check_pads_written();
  }

  template <class Fn>
  void each_loop(Fn fn) const {
    std::vector<const ForNode*> seen;
    for (const BlockSite& site : sites_)
      for (const ForNode* loop : site.loops)
        if (std::find(seen.begin(), seen.end(), loop) == seen.end()) {
          seen.push_back(loop);
          fn(*loop);
        }
  }

  Result<> check_loops() {
    Result<> result;
    each_loop([&](const ForNode& loop) {
      const bool unrolls = loop.loop_kind == ForKind::kVectorized || loop.loop_kind == ForKind::kUnrolled;
      if (result && unrolls && !as_int(loop.extent))
        result = fail(ErrorCode::E221, fmt::format("the extent {} is not constant", to_text(loop.extent)),
                      "loop " + loop.var->name);
    });
    return result;
  }

  // Threads of a launch, and along each axis of it; a launch is what stands under one loop over blocks, or a nest
  // without.
  Result<> check_threads() {
    if (!target_.has_threads()) return {};
    std::map<const ForNode*, std::map<std::string, int64_t>> launches;
    for (size_t i = 0; i < sites_.size(); ++i) {
      const std::vector<const StmtNode*> path = path_of(static_cast<int>(i));
      const ForNode* launch = nullptr;
      for (const StmtNode* n : path) {
        const ForNode* loop = n->kind == StmtKind::kFor ? static_cast<const ForNode*>(n) : nullptr;
        if (loop && (!launch || (is_block_axis(loop->thread_axis) && !is_block_axis(launch->thread_axis))))
          launch = loop;
      }
      for (const StmtNode* n : path) {
        const ForNode* loop = n->kind == StmtKind::kFor ? static_cast<const ForNode*>(n) : nullptr;
        const ThreadAxis* axis = loop ? target_.find_thread_axis(loop->thread_axis) : nullptr;
        if (!axis) continue;
        const int64_t* extent = as_int(loop->extent);
        if (!extent) {
          if (is_block_axis(axis->name)) continue;
          return fail(ErrorCode::E221,
                      fmt::format("the extent {} over {} is not constant", to_text(loop->extent), axis->name),
                      "loop " + loop->var->name);
        }
        if (*extent > axis->max_extent)
          return fail(ErrorCode::E230,
                      fmt::format("{} iterations, and the target has {} of {}", *extent, axis->max_extent, axis->name),
                      "loop " + loop->var->name);
        if (is_block_axis(axis->name)) continue;
        int64_t& most = launches[launch][axis->name];
        most = std::max(most, *extent);
      }
    }
    for (const auto& [launch, axes] : launches) {
      int64_t threads = 1;
      for (const auto& [name, extent] : axes) threads = detail::saturating_mul(threads, extent);
      if (threads > target_.max_threads_per_block)
        return fail(ErrorCode::E230,
                    fmt::format("{} threads in a block, and the target has {}", threads, target_.max_threads_per_block),
                    "loop " + launch->var->name);
    }
    return {};
  }

  template <class Fn>
  void each_allocation(Fn fn) const {
    for (const Buffer& b : func_.root().allocations) fn(b);
    for (const BlockSite& site : sites_)
      for (const Buffer& b : site.block->allocations) fn(b);
  }

  Result<> check_scopes() {
    Result<> result;
    each_allocation([&](const Buffer& b) {
      if (result && !target_.find_scope(b->scope) && b->scope != kScopeGlobal && b->scope != kScopeRegister)
        result = fail(ErrorCode::E219, fmt::format("scope \"{}\" of buffer {}", b->scope, b->name), func_->name);
      if (result && b->scope == kScopeRegister && !b->strides.empty())
        result = fail(ErrorCode::E230, fmt::format("register buffer {} has strides, which registers have not", b->name),
                      func_->name);
    });
    return result;
  }

  // Plain sums of constant loops: whether all bindings stay in their domains, and cover them where they must.
  bool plainly_bound(const BlockSite& site, const std::vector<Expr>& bindings, const std::vector<Expr>& extents,
                     const Expr& condition, bool cover) const {
    PlainLoops loops;
    if (!add_plain_loops(loops, site.loops)) return false;
    const auto map = plain_map(bindings, loops, condition);
    return map && map->stays_in(extents) && (!cover || map->covers(extents));
  }

  Result<> check_bindings(const BlockSite& site) {
    const Expr condition = instance_condition(site);
    const bool cover = only_writer_of_output(site);
    const auto [bindings, extents] = iter_lists(*site.block);
    if (plainly_bound(site, bindings, extents, condition, cover)) return {};
    Analyzer analyzer = analyzer_at(func_, sites_, site);
    {
      const auto scope = analyzer.assume(condition);
      for (const IterVar& iter : site.block->iters) {
        const Interval bounds = analyzer.int_bounds(iter.binding);
        const int64_t* extent = as_int(iter.extent);
        if (bounds.min >= 0 && extent && bounds.max < *extent) continue;
        LinearForm binding = analyzer.linear(iter.binding), room = analyzer.linear(iter.extent);
        room.add(binding, -1);
        room.add_constant(-1);
        if ((bounds.min >= 0 || analyzer.can_prove_nonnegative(binding)) && analyzer.can_prove_nonnegative(room))
          continue;
        if (!checks("verify.bindings")) continue;
        if (site.parent < 0 && check_bindings_inside(func_, site)) break;
        return fail(ErrorCode::E230,
                    fmt::format("iterator {} = {} may be outside [0, {})", iter.var->name, to_text(iter.binding),
                                to_text(iter.extent)),
                    "block " + site.block->name);
      }
    }
    if (!cover) return {};
    const AffineMap map = detect_affine_map(bindings, extents, loop_domains(site), condition, analyzer);
    if (!map.affine || map.covers || !checks("verify.cover")) return {};
    for (size_t k = 0; k < bindings.size(); ++k) {
      const Expr end = map.bindings[k].min + map.bindings[k].extent;
      if (analyzer.can_prove(lt(end, extents[k])) || analyzer.can_prove(lt(0, map.bindings[k].min)))
        return fail(ErrorCode::E230,
                    fmt::format("iterator {} = {} does not reach all of [0, {})", site.block->iters[k].var->name,
                                to_text(bindings[k]), to_text(extents[k])),
                    "block " + site.block->name);
    }
    return {};
  }

  bool only_writer_of_output(const BlockSite& site) const {
    if (site.parent >= 0) return false;
    for (const Region& w : site.block->writes) {
      const Param* param = func_.find_param(w.buffer.get());
      if (!param || param->kind != ParamKind::kOutput) continue;
      bool alone = true;
      for (const BlockSite& other : sites_)
        if (&other != &site)
          for (const Region& v : other.block->writes) alone &= !(v.buffer == w.buffer);
      if (alone) return true;
    }
    return false;
  }

  // Everything on the way from the root to a site: blocks and loops.
  std::vector<const StmtNode*> path_of(int index) const {
    const BlockSite& site = sites_[static_cast<size_t>(index)];
    std::vector<const StmtNode*> path;
    if (site.parent >= 0) {
      path = path_of(site.parent);
      path.push_back(sites_[static_cast<size_t>(site.parent)].block);
    }
    path.insert(path.end(), site.loops.begin(), site.loops.end());
    return path;
  }

  struct Stored {
    Buffer buffer;
    std::vector<const StmtNode*> place;  // the path that all its accesses share: it is alive inside
    size_t level = 0;                    // the loops among them
    int64_t bytes = 0;
  };

  // An access to what is stored, as check_storage needs to know it.
  struct StoredAccess {
    StoredAccess(int at, const BlockSite& block, const Region& region)
        : site(at), buffer(region.buffer.get()), plain(PlainAccess::of(block, region)) {}
    explicit StoredAccess(AccessFootprint footprint)
        : site(footprint.site),
          buffer(footprint.buffer.get()),
          general(std::make_shared<const AccessFootprint>(std::move(footprint))) {}

    int site;
    const BufferNode* buffer;
    std::optional<PlainAccess> plain;
    std::shared_ptr<const AccessFootprint> general;  // where it is not plain

    size_t n_loops(const std::vector<BlockSite>& sites) const {
      return plain ? sites[static_cast<size_t>(site)].loops.size() : general->loops.size();
    }
    const ForNode& loop(const std::vector<BlockSite>& sites, size_t i) const {
      return plain ? *sites[static_cast<size_t>(site)].loops[i] : *general->loops[i];
    }
    int64_t extent(size_t i) const { return plain ? plain->extent(i) : general->extents[i]; }
    bool moves(size_t i) const { return plain ? plain->moves(i) : general->stride_elems[i] != 0; }
    int64_t bytes(size_t level) const {
      return plain ? plain->elems(level) * buffer->dtype.element_bytes() : general->bytes(level);
    }
  };

  std::vector<StoredAccess> accesses_of(const std::vector<Buffer>& buffers) const {
    std::vector<StoredAccess> accesses;
    accesses.reserve(2 * sites_.size());
    // Of blocks with blocks inside only these count.
    if (std::ranges::any_of(sites_, [](const BlockSite& site) { return site.parent >= 0; }))
      return general_accesses_of(buffers);
    for (size_t i = 0; i < sites_.size(); ++i)
      for (const std::vector<Region>* regions : {&sites_[i].block->reads, &sites_[i].block->writes})
        for (const Region& region : *regions) {
          if (std::ranges::find(buffers, region.buffer) == buffers.end()) continue;
          if (!accesses.emplace_back(static_cast<int>(i), sites_[i], region).plain) return general_accesses_of(buffers);
        }
    return accesses;
  }

  std::vector<StoredAccess> general_accesses_of(const std::vector<Buffer>& buffers) const {
    std::vector<StoredAccess> accesses;
    for (AccessFootprint& a : access_footprints_of(func_, sites_, buffers)) accesses.emplace_back(std::move(a));
    return accesses;
  }

  // What a scan makes of what it made before, and the sum of a reduction that clears it itself, live on from step to
  // step: outside of the loops over the steps.
  static void leave_steps(const BlockNode& block, Stored& s) {
    const auto names = [&](const std::vector<Region>& regions) {
      return std::ranges::any_of(regions, [&](const Region& region) { return region.buffer == s.buffer; });
    };
    if (!names(block.writes) || (!block.init && !names(block.reads))) return;
    const auto at = std::ranges::find_if(s.place, [&](const StmtNode* n) {
      return n->kind == StmtKind::kFor && std::ranges::any_of(block.iters, [&](const IterVar& iter) {
               return (iter.kind == IterKind::kScan || (iter.kind == IterKind::kReduce && block.init)) &&
                      uses_var(iter.binding, static_cast<const ForNode*>(n)->var.get());
             });
    });
    s.place.erase(at, s.place.end());
  }

  Result<> check_storage() {
    std::vector<Stored> stored;
    std::vector<Buffer> buffers;
    each_allocation([&](const Buffer& b) {
      const MemoryScope* scope = target_.find_scope(b->scope);
      if (b->scope != kScopeRegister && (!scope || scope->capacity_bytes <= 0)) return;
      stored.push_back({b, {}, 0, 0});
      buffers.push_back(b);
    });
    if (stored.empty()) return {};
    const std::vector<StoredAccess> accesses = accesses_of(buffers);
    for (Stored& s : stored) {
      bool first = true;
      for (const StoredAccess& a : accesses) {
        if (a.buffer != s.buffer.get()) continue;
        const auto path = path_of(a.site);
        if (first) {
          s.place = path;
          first = false;
          continue;
        }
        size_t common = 0;
        while (common < path.size() && common < s.place.size() && path[common] == s.place[common]) ++common;
        s.place.resize(common);
      }
      for (const StoredAccess& a : accesses)
        if (a.buffer == s.buffer.get()) leave_steps(*sites_[static_cast<size_t>(a.site)].block, s);
      for (const StmtNode* n : s.place) s.level += n->kind == StmtKind::kFor;
      SmallVector<const StoredAccess*, 8> all;
      for (const StoredAccess& a : accesses)
        if (a.buffer == s.buffer.get()) all.push_back(&a);
      if (s.buffer->scope == kScopeRegister) {
        for (const StoredAccess* a : all) FETTLE_TRY_VOID(check_register_access(*a, s.level));
        if (!all.empty()) {
          FETTLE_TRY(s.bytes, register_bytes(s.buffer, all, s.level));
        }
      } else {
        for (const StoredAccess* a : all) s.bytes = std::max(s.bytes, bytes_of_one_copy(*a, s.level));
      }
      const MemoryScope* scope = target_.find_scope(s.buffer->scope);
      if (!scope || scope->shared_by != "vthread") continue;
      for (const StmtNode* n : s.place)
        if (n->kind == StmtKind::kFor && is_virtual_thread(static_cast<const ForNode*>(n)->thread_axis))
          if (const int64_t* threads = as_int(static_cast<const ForNode*>(n)->extent)) s.bytes *= *threads;
    }
    for (const Stored& s : stored) {
      int64_t bytes = 0, registers = 0;
      const int64_t vector_bytes = std::max(target_.vector_bits / 8, 1);
      for (const Stored& other : stored) {
        if (other.buffer->scope != s.buffer->scope || other.place.size() > s.place.size() ||
            !std::equal(other.place.begin(), other.place.end(), s.place.begin()))
          continue;
        bytes = detail::saturating_add(bytes, other.bytes);
        registers += other.bytes / vector_bytes + (other.bytes % vector_bytes != 0);
      }
      if (s.buffer->scope == kScopeRegister) {
        if (registers > target_.vector_registers)
          return fail(ErrorCode::E230,
                      fmt::format("register buffers alive with {} take {} vectors, and the target has {}",
                                  s.buffer->name, registers, target_.vector_registers));
        continue;
      }
      const MemoryScope* scope = target_.find_scope(s.buffer->scope);
      if (bytes > scope->capacity_bytes)
        return fail(ErrorCode::E230, fmt::format("buffers alive with {} take {} bytes of scope \"{}\", which has {}",
                                                 s.buffer->name, bytes, s.buffer->scope, scope->capacity_bytes));
    }
    return {};
  }

  // Loops over blocks and threads each have a copy of a buffer that a scope gives to one of them.
  bool has_own_copy(const ForNode& loop, const BufferNode& buffer) const {
    const MemoryScope* scope = target_.find_scope(buffer.scope);
    if (!scope || scope->shared_by.empty()) return false;
    if (is_block_axis(loop.thread_axis)) return true;
    return is_block_thread_axis(loop.thread_axis) &&
           (scope->shared_by == "thread" || (scope->shared_by == "warp" && loop.thread_axis != "threadIdx.x"));
  }

  int64_t bytes_of_one_copy(const StoredAccess& a, size_t level) const {
    int64_t bytes = a.bytes(level);
    for (size_t i = level; i < a.n_loops(sites_); ++i)
      if (a.moves(i) && a.extent(i) > 1 && has_own_copy(a.loop(sites_, i), *a.buffer))
        bytes = bytes / a.extent(i) + (bytes % a.extent(i) != 0);
    return bytes;
  }

  // Whole tiles: a register is addressed by a constant, so what lies beyond the buffer's bounds has its place, too.
  // Where all accesses go to the same window, what none of their iterations names (in strides over it) has none.
  Result<int64_t> register_bytes(const Buffer& buffer, std::span<const StoredAccess* const> accesses,
                                 size_t level) const {
    const int64_t element_bytes = buffer->dtype.element_bytes();
    if (accesses.front()->plain) {
      SmallVector<const PlainAccess*, 8> plain;
      for (const StoredAccess* a : accesses) plain.push_back(&*a->plain);
      if (const auto elements = PlainAccess::window_elems(plain, level))
        return detail::saturating_mul(*elements, element_bytes);
    }
    std::vector<AccessFootprint> footprints;
    if (accesses.front()->plain) footprints = access_footprints_of(func_, sites_, {buffer});
    std::vector<const AccessFootprint*> general;
    for (const AccessFootprint& a : footprints) general.push_back(&a);
    for (const StoredAccess* a : accesses)
      if (!a->plain) general.push_back(a->general.get());
    const std::vector<int64_t> extents = window_extents(general, level);
    int64_t elements = 1, named = 0;
    for (const int64_t extent : extents) {
      if (extent == 0)
        return fail(ErrorCode::E230, fmt::format("the size of register buffer {} is not constant", buffer->name));
      elements = detail::saturating_mul(elements, extent);
    }
    bool same = true;
    for (const AccessFootprint* a : general) {
      named = std::max(named, instances_of(*a, level));
      same = same && (general.size() == 1 || window_extents({a}, level) == extents);
    }
    return detail::saturating_mul(same ? std::min(elements, named) : elements, element_bytes);
  }

  // Elements, counted once for each iteration of the loops from `level` on that move the access.
  static int64_t instances_of(const AccessFootprint& a, size_t level) {
    int64_t instances = 1;
    for (const AccessFootprint::Dimension& d : a.dimensions) instances = detail::saturating_mul(instances, d.extent);
    for (size_t i = level; i < a.loops.size(); ++i)
      if (a.stride_elems[i] != 0) instances = detail::saturating_mul(instances, a.extents[i]);
    return instances;
  }

  Result<> check_register_access(const StoredAccess& a, size_t level) {
    for (size_t i = level; i < a.n_loops(sites_); ++i) {
      const ForNode& loop = a.loop(sites_, i);
      if (!a.moves(i) || a.extent(i) <= 1 || has_own_copy(loop, *a.buffer)) continue;
      const ForKind kind = loop.loop_kind;
      if (kind == ForKind::kUnrolled || kind == ForKind::kVectorized) continue;
      return fail(ErrorCode::E230,
                  fmt::format("register buffer {} is addressed by loop {}, which is neither unrolled nor vectorized",
                              a.buffer->name, loop.var->name),
                  "block " + sites_[static_cast<size_t>(a.site)].block->name);
    }
    return {};
  }

  // Pad lanes: some block writes every physical element, or clears the lanes.
  Result<> check_pads_written() {
    for (const BlockSite& site : sites_) {
      for (const Region& w : site.block->writes) {
        if (!has_pad_lanes(*w.buffer)) continue;
        bool written = false;
        for (const BlockSite& other : sites_) {
          for (const Region& v : other.block->writes) {
            if (!(v.buffer == w.buffer) || written) continue;
            written = other.block->annotations.find(kClearsPadLanesKey) || reaches_all(*other.block, v);
          }
        }
        if (!written)
          return fail(ErrorCode::E230, fmt::format("no block writes the pad lanes of {}", w.buffer->name),
                      "block " + site.block->name);
      }
    }
    return {};
  }

  bool reaches_all(const BlockNode& block, const Region& region) const {
    Analyzer analyzer;
    analyzer.bind_params(func_);
    std::vector<VarDomain> domains;
    std::vector<Expr> firsts;
    for (const IterVar& iter : block.iters) domains.push_back({iter.var, {0, iter.extent}});
    for (const Range& r : region.ranges) {
      if (!is_one(r.extent) && !structural_equal(r.extent, region.buffer->shape[firsts.size()])) return false;
      firsts.push_back(r.min);
    }
    std::vector<Expr> shape = region.buffer->shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (!is_one(region.ranges[d].extent)) shape[d] = 1;
    return detect_affine_map(firsts, shape, domains, nullptr, analyzer).covers;
  }

  Result<> check_races() {
    Result<> result;
    ParallelCheck races(func_, sites_);
    each_loop([&](const ForNode& loop) {
      const bool at_once = loop.loop_kind == ForKind::kParallel || loop.loop_kind == ForKind::kVectorized ||
                           loop.loop_kind == ForKind::kThreadBinding;
      if (result && at_once) result = races.check(loop);
    });
    return result;
  }

  const Func& func_;
  const Target& target_;
  const VerifyOptions& options_;
  std::vector<BlockSite> sites_;
};

}  // namespace

namespace {

// The loop or block that "loop i" or "block C" names, or null.
const StmtNode* named_place(const Func& func, std::string_view where) {
  const bool loop = where.starts_with("loop "), block = where.starts_with("block ");
  if (!loop && !block) return nullptr;
  const std::string_view name = where.substr(where.find(' ') + 1);
  if (block) return find_block(func->body, name);
  return find_node<ForNode>(func->body, [&](const ForNode& l) { return l.var->name == name; });
}

}  // namespace

Result<> verify(const Func& func, const Target& target, const VerifyOptions& options) {
  Result<> result = Verifier(func, target, options).run();
  if (!result && !result.error().program) {
    result.error().program = func;
    result.error().place = named_place(func, result.error().where);
  }
  return result;
}

}  // namespace fettle
