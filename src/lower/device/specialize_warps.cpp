// Pipelines of bulk copies: warps that copy, and warps that compute.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/bulk_copy.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// PTX ISA, "setmaxnreg": of a multiprocessor, and of one thread.
constexpr int64_t kRegisters = 65536, kMostRegisters = 240, kProducerRegisters = 24;

Stmt effect(const char* name, std::vector<Expr> args = {}) { return evaluate(call(name, std::move(args), kI32)); }

bool is_product(const ForNode& loop) {
  const auto* name = std::get_if<std::string>(loop.annotations.find(kTensorizeKey));
  const TensorIntrinsicDef* intrinsic = name ? find_tensor_intrinsic(*name) : nullptr;
  return intrinsic && intrinsic->threads == kWarpGroupThreads && intrinsic->in_fragments == 4;
}
bool has_product(const Stmt& s) { return contains<ForNode>(s, is_product); }
// Loops around tiles, and nothing else.
bool only_products(const Stmt& s) {
  if (const auto* all = s.as<SeqNode>()) return std::ranges::all_of(all->stmts, only_products);
  const auto* loop = s.as<ForNode>();
  return loop && (is_product(*loop) || only_products(loop->body));
}

struct Ring {
  const ForNode* loop = nullptr;
  Expr turn;              // counted from the kernel's beginning
  Expr last;              // the last turn of this pass through the loop
  int64_t places = 0;     // turns that are in shared memory at once
  int64_t listeners = 1;  // blocks whose copies fill this block's places
  int64_t bytes = 0;      // that fill one
  std::vector<BulkCopy> copies;
  std::vector<Buffer> filled;  // by them, with a version for each place
  std::vector<Buffer> own;     // of a turn, beside these
  std::vector<Stmt> uses;      // accesses going to the version of the turn
  Buffer barriers;             // full[places], empty[places]

  Expr place() const { return floormod(turn, Expr(places)); }
  Expr parity() const { return floormod(floordiv(turn, Expr(places)), Expr(2)); }
  Expr full() const { return address_of(barriers, {place()}); }
  Expr empty() const { return address_of(barriers, {place() + places}); }
  Expr empty_at(const Expr& other) const { return address_of(barriers, {floormod(other, Expr(places)) + places}); }
};

// Accesses go to the version of one turn.
class VersionPicker : public AccessMutator {
 public:
  explicit VersionPicker(const Ring& ring, const std::vector<Buffer>& before) : ring_(ring), before_(before) {}

 private:
  std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
    const auto found = std::ranges::find(before_, buffer);
    if (found == before_.end()) return std::nullopt;
    Moved to{ring_.filled[static_cast<size_t>(found - before_.begin())], {ring_.place()}};
    for (const Expr& index : indices) to.indices.push_back(rewrite(index));
    return to;
  }

  const Ring& ring_;
  const std::vector<Buffer>& before_;
};

class Specializer {
 public:
  Specializer(const ThreadShape& shape, const std::vector<Param>& params, const Var& block, int64_t cluster,
              const Target& target)
      : shape_(shape), params_(params), block_(block), cluster_(cluster), target_(target) {}

  Result<SpecializedWarps> run(const Stmt& body) {
    FETTLE_TRY_VOID(find_rings(body));
    if (rings_.empty()) {
      if (has_bulk_copies(target_) &&
          contains<ForNode>(body, [](const ForNode& loop) { return loop.annotations.find(kBulkCopyKey); }))
        return fail(ErrorCode::E301, fmt::format("a copy annotated \"{}\" stands in no pipelined loop annotated \"{}\"",
                                                 kBulkCopyKey, kSpecializeWarpsKey));
      return SpecializedWarps{body, {}, 0};
    }
    if (shape_.extents[0] != kWarpGroupThreads || shape_.extents[2] != 1)
      return fail(ErrorCode::E301,
                  fmt::format("a loop annotated \"{}\" needs {} threads along threadIdx.x and one along threadIdx.z, "
                              "and there are {} and {}",
                              kSpecializeWarpsKey, kWarpGroupThreads, shape_.extents[0], shape_.extents[2]));
    std::vector<Stmt> all;
    std::vector<Buffer> shared;
    for (const Ring& ring : rings_) {
      shared.insert(shared.end(), ring.filled.begin(), ring.filled.end());
      all.push_back(effect(kRingInitCall, {address_of(ring.barriers, {Expr(0)}), Expr(ring.places),
                                           Expr(shape_.extents[1] * ring.listeners)}));
    }
    for (const Ring& ring : rings_) shared.push_back(ring.barriers);
    // One thread issues copies.
    Stmt producer = if_then(eq(shape_.vars[0], 0), rename_bound(produce(body))), consumer = consume(body);
    if (shape_.extents[1] > 1) {
      const int64_t groups = kRegisters / kWarpGroupThreads;
      const int64_t most = std::min<int64_t>(kMostRegisters, (groups - kProducerRegisters) / shape_.extents[1] / 8 * 8);
      producer = seq({effect(kRegistersDownCall, {Expr(kProducerRegisters)}), producer});
      consumer = seq({effect(kRegistersUpCall, {Expr(most)}), consumer});
    }
    all.push_back(if_then(call(kIsProducerCall, {}, kBool), producer, consumer));
    return SpecializedWarps{allocate_all(shared, seq(std::move(all))), std::move(maps_), kWarpGroupThreads};
  }

 private:
  Result<> find_rings(const Stmt& s) {
    if (!s) return {};
    if (const auto* all = s.as<SeqNode>()) {
      for (const Stmt& child : all->stmts) FETTLE_TRY_VOID(find_rings(child));
      return {};
    }
    if (const auto* alloc = s.as<AllocateNode>()) return find_rings(alloc->body);
    if (const auto* name = s.as<LetNode>()) return find_rings(name->body);
    if (const auto* choice = s.as<IfNode>()) {
      FETTLE_TRY_VOID(find_rings(choice->then_body));
      return find_rings(choice->else_body);
    }
    const auto* loop = s.as<ForNode>();
    if (!loop) return {};
    if (is_ring(*loop, target_)) return add_ring(*loop);
    around_.push_back(loop);
    Result<> inside = find_rings(loop->body);
    around_.pop_back();
    return inside;
  }

  tl::unexpected<Diagnostic> refuse(const ForNode& loop, std::string_view why) const {
    return fail(ErrorCode::E301,
                fmt::format("loop {} is annotated \"{}\", and {}", loop.var->name, kSpecializeWarpsKey, why));
  }

  Result<> add_ring(const ForNode& loop) {
    Ring ring;
    ring.loop = &loop;
    ring.turn = Expr(0);
    for (const ForNode* outer : around_) {
      if (!is_zero(ring.turn) && !as_int(outer->extent))
        return refuse(loop, fmt::format("turns cannot be counted: loop {} around it has {} iterations",
                                        outer->var->name, to_text(outer->extent)));
      ring.turn = ring.turn * outer->extent + (Expr(outer->var) - outer->min);
    }
    if (!as_int(loop.extent) || *as_int(loop.extent) < 1)
      return refuse(loop, fmt::format("it has {} iterations, which is no constant", to_text(loop.extent)));
    const Expr first = ring.turn * loop.extent;
    ring.turn = first + (Expr(loop.var) - loop.min);
    ring.last = first + loop.extent - 1;

    std::vector<Buffer> buffers, before;
    Stmt body = loop.body;
    for (const auto* alloc = body.as<AllocateNode>(); alloc; alloc = body.as<AllocateNode>()) {
      buffers.push_back(alloc->buffer);
      const Stmt inside = alloc->body;
      body = inside;
    }
    std::vector<Stmt> uses;
    int64_t depth = 0;
    std::vector<std::pair<int64_t, Stmt>> parts;
    for (const Stmt& part : parts_of(body)) {
      const auto* marked = part.as<ForNode>();
      if (!marked || !marked->annotations.find(kStageKey)) return refuse(loop, "it is no pipeline any more");
      parts.emplace_back(marked->annotations.get_int(kStageKey, 0), marked->body);
      depth = std::max(depth, parts.back().first);
    }
    ring.places = depth + 1;
    std::vector<const ForNode*> nests;
    for (const auto& [stage, part] : parts) {
      if (stage > 0 && stage < depth) return refuse(loop, "it has more stages than copies and what uses them");
      if (stage == depth) {
        uses.push_back(part);
        continue;
      }
      const auto* nest = part.as<ForNode>();
      if (!nest || !nest->annotations.find(kBulkCopyKey))
        return refuse(loop,
                      fmt::format("its first stage does something else than copies annotated \"{}\"", kBulkCopyKey));
      nests.push_back(nest);
    }
    if (nests.empty() || uses.empty()) return refuse(loop, "it has no copies ahead of what uses them");
    for (const ForNode* nest : nests) {
      FETTLE_TRY(BulkCopy copy, bulk_copy_of(*nest, params_, block_, cluster_));
      if (copy.stores) return refuse(loop, "one of its copies goes to memory");
      if (std::ranges::find(before, copy.near) != before.end() ||
          std::ranges::find(buffers, copy.near) == buffers.end())
        return refuse(loop, fmt::format("buffer {} does not belong to one iteration and one copy", copy.near->name));
      before.push_back(copy.near);
      ring.filled.push_back(
          edited(copy.near, [&](BufferNode& b) { b.shape.insert(b.shape.begin(), Expr(ring.places)); }));
      ring.bytes += copy.bytes();
      ring.listeners = std::max(ring.listeners, copy.blocks);
      ring.copies.push_back(std::move(copy));
    }
    for (const Buffer& buffer : buffers)
      if (std::ranges::find(before, buffer) == before.end()) ring.own.push_back(buffer);
    for (const Stmt& use : uses) {
      for (const Buffer& buffer : before)
        if (accesses(use, buffer.get(), {AccessKind::kWrite}))
          return refuse(loop, fmt::format("what uses buffer {} also writes it", buffer->name));
      each_access(use, [&](const Buffer& buffer, const auto&, AccessKind) {
        reads_otherwise_ |= std::ranges::find(before, buffer) != before.end() && !has_product(use);
      });
      ring.uses.push_back(VersionPicker(ring, before).rewrite(use));
    }
    if (reads_otherwise_)
      return refuse(loop,
                    "its threads read what bulk copies filled otherwise than by products of a warp group (wgmma)");
    ring.barriers = make_buffer(rings_.empty() ? "ring" : fmt::format("ring{}", rings_.size()), {Expr(2 * ring.places)},
                                kI64, "shared");
    rings_.push_back(std::move(ring));
    return {};
  }

  const Ring& ring_of(const ForNode& loop) const {
    return *std::ranges::find(rings_, &loop, [](const Ring& ring) { return ring.loop; });
  }

  // What fills the rings; null where nothing does.
  Stmt produce(const Stmt& s) {
    if (!s) return s;
    if (const auto* all = s.as<SeqNode>()) {
      std::vector<Stmt> stmts;
      for (const Stmt& child : all->stmts)
        if (Stmt one = produce(child)) stmts.push_back(std::move(one));
      return stmts.empty() ? Stmt() : seq(std::move(stmts));
    }
    if (const auto* alloc = s.as<AllocateNode>()) return produce(alloc->body);
    if (const auto* name = s.as<LetNode>()) {
      const Stmt body = produce(name->body);
      return body ? let(name->var, name->value, body) : Stmt();
    }
    if (const auto* choice = s.as<IfNode>()) {
      const Stmt then_body = produce(choice->then_body), else_body = produce(choice->else_body);
      return then_body || else_body ? if_then(choice->condition, then_body, else_body) : Stmt();
    }
    const auto* loop = s.as<ForNode>();
    if (!loop) return nullptr;
    if (is_ring(*loop, target_)) return fill(ring_of(*loop));
    const Stmt body = produce(loop->body);
    return body ? plain(*loop, body) : Stmt();
  }

  static Stmt plain(const ForNode& loop, Stmt body) {
    return with(loop, [&](ForNode& f) {
      f.annotations = {};
      f.body = std::move(body);
    });
  }

  Stmt fill(const Ring& ring) {
    std::vector<Stmt> turn = {effect(kRingWaitCall, {ring.empty(), Expr(1) - ring.parity()}),
                              effect(kRingExpectCall, {ring.full(), Expr(ring.bytes)})};
    for (size_t c = 0; c < ring.copies.size(); ++c) {
      const BulkCopy& copy = ring.copies[c];
      const Buffer& to = ring.filled[c];
      std::vector<Expr> at(to->shape.size(), Expr(0));
      at[0] = ring.place();
      std::vector<Expr> args = {address_of(to, at), ring.full(),     Expr(static_cast<int64_t>(maps_.size())),
                                Expr(copy.blocks),  Expr(copy.rows), Expr(copy.columns)};
      args.insert(args.end(), copy.coordinates.begin(), copy.coordinates.end());
      turn.push_back(effect(kBulkLoadCall, std::move(args)));
      maps_.push_back(copy.map);
    }
    return plain(*ring.loop, seq(std::move(turn)));
  }

  // Everything else.
  Stmt consume(const Stmt& body) {
    return rewrite_each<ForNode>(body, [&](const ForNode& loop) -> Stmt {
      const auto ring = std::ranges::find_if(rings_, [&](const Ring& r) { return r.loop->var == loop.var; });
      return ring == rings_.end() ? Stmt() : use(*ring);
    });
  }

  Stmt use(const Ring& ring) const {
    const Expr told = Expr(ring.listeners);
    std::vector<Stmt> turn = {effect(kRingWaitCall, {ring.full(), ring.parity()})};
    const bool overlaps = std::ranges::all_of(ring.uses, only_products);
    if (!overlaps) {
      for (const Stmt& use : ring.uses)
        for (const Stmt& part : parts_of(use)) {
          if (!has_product(part)) {
            turn.push_back(part);
            continue;
          }
          turn.insert(turn.end(), {effect(kWgmmaFenceCall), part, effect(kWgmmaCommitCall)});
          turn.push_back(effect(kWgmmaWaitCall, {Expr(0)}));
        }
      turn.push_back(effect(kRingReleaseCall, {ring.empty(), told}));
      return plain(*ring.loop, allocate_all(ring.own, seq(std::move(turn))));
    }
    turn.push_back(effect(kWgmmaFenceCall));
    turn.insert(turn.end(), ring.uses.begin(), ring.uses.end());
    turn.push_back(effect(kWgmmaCommitCall));
    turn.push_back(effect(kWgmmaWaitCall, {Expr(1)}));
    turn.push_back(if_then(lt(ring.loop->min, Expr(ring.loop->var)),
                           effect(kRingReleaseCall, {ring.empty_at(ring.turn + (ring.places - 1)), told})));
    return seq({plain(*ring.loop, allocate_all(ring.own, seq(std::move(turn)))), effect(kWgmmaWaitCall, {Expr(0)}),
                effect(kRingReleaseCall, {ring.empty_at(ring.last), told})});
  }

  const ThreadShape& shape_;
  const std::vector<Param>& params_;
  const Var& block_;
  const int64_t cluster_;
  const Target& target_;
  std::vector<const ForNode*> around_;
  std::vector<Ring> rings_;
  std::vector<TensorMap> maps_;
  bool reads_otherwise_ = false;
};

}  // namespace

bool is_ring(const ForNode& loop, const Target& target) {
  return loop.annotations.find(kPipelineKey) && loop.annotations.find(kSpecializeWarpsKey) && has_bulk_copies(target);
}

Result<SpecializedWarps> specialize_warps(const Stmt& body, const ThreadShape& shape, const std::vector<Param>& params,
                                          const Var& block, int64_t cluster, const Target& target) {
  return Specializer(shape, params, block, cluster, target).run(body);
}

}  // namespace fettle
