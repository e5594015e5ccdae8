#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/passes/passes.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kLoad = "llvm.x86.tileloadd64", kStreamedLoad = "llvm.x86.tileloaddt164",
                           kStore = "llvm.x86.tilestored64", kZero = "llvm.x86.tilezero", kProduct = "llvm.x86.tdp";

bool is_tile_call(const CallNode* called) {
  return called && (called->name == kLoad || called->name == kStore || called->name == kZero ||
                    called->name.starts_with(kProduct));
}

// A tile as a call names it.
struct TilePlace {
  Buffer buffer;
  Expr base, stride;  // elements
  bool in_memory() const { return buffer->scope != kScopeTile; }
  bool operator==(const TilePlace& other) const {
    return buffer == other.buffer && structural_equal(base, other.base) && structural_equal(stride, other.stride);
  }
};

// A call of a tile instruction with what it names, in its order; of a product the sums, the left and the right factor.
struct TileStep {
  Stmt stmt;
  const CallNode* called = nullptr;  // null: a prefetch, which is kept where it stands
  std::vector<TilePlace> places;
  int64_t streamed = 0;  // of a product: bit 0: the left factor is read once, bit 1: the right one

  explicit TileStep(const Stmt& s) : stmt(s), called(effect_of(s)) {
    if (!is_tile_call(called)) {
      called = nullptr;
      return;
    }
    for (size_t i = 0; i + 1 < called->args.size(); i += 2) {
      const auto* address = called->args[i].as<AddressNode>();
      places.push_back({address->buffer, address->indices[0], called->args[i + 1]});
    }
    if (called->args.size() % 2) streamed = *as_int(called->args.back());
  }
  bool reads(size_t place) const {
    return called->name == kStore ? place == 0 : called->name.starts_with(kProduct) || place == 1;
  }
  bool reads(const TilePlace& place) const {
    for (size_t i = 0; called && i < places.size(); ++i)
      if (reads(i) && places[i] == place) return true;
    return false;
  }
};

// Gives tiles registers: those of scope "tile" keep theirs, the others share what is left.
class TilePlacer : public StmtMutator {
 public:
  using Mutator::rewrite;
  std::string problem;
  bool found = false;

  Expr rewrite(const Expr& e) override {
    const auto* source = e ? e.as<LoadNode>() : nullptr;
    if (source && source->buffer->scope == kScopeTile) refuse_access(*source->buffer);
    return Mutator::rewrite(e);
  }

  Stmt rewrite(const Stmt& s) override {
    if (!s || !problem.empty()) return s;
    if (const auto* alloc = s.as<AllocateNode>(); alloc && alloc->buffer->scope == kScopeTile) return keep(*alloc);
    if (const auto* target = s.as<StoreNode>(); target && target->buffer->scope == kScopeTile)
      refuse_access(*target->buffer);
    if (is_tile_call(effect_of(s))) return run({TileStep(s)});
    if (!s.as<SeqNode>()) return Mutator::rewrite(s);
    std::vector<Stmt> flat, made;
    flatten(s, flat);
    std::vector<TileStep> steps;
    const auto end_run = [&] {
      if (!steps.empty()) made.push_back(run(std::exchange(steps, {})));
    };
    for (const Stmt& child : flat) {
      const CallNode* effect = effect_of(child);
      if (is_tile_call(effect) || (!steps.empty() && effect && effect->name == "prefetch")) {
        steps.emplace_back(child);
      } else {
        end_run();
        made.push_back(rewrite(child));
      }
    }
    end_run();
    return seq(std::move(made));
  }

 private:
  static void flatten(const Stmt& s, std::vector<Stmt>& flat) {
    if (const auto* many = s.as<SeqNode>())
      for (const Stmt& child : many->stmts) flatten(child, flat);
    else if (s)
      flat.push_back(s);
  }

  void refuse(std::string why) {
    if (problem.empty()) problem = std::move(why);
  }
  void refuse_access(const BufferNode& buffer) {
    refuse(
        fmt::format("buffer {} lies in tile registers (scope \"{}\"), where only whole tiles of tensor intrinsics "
                    "reach it: tensorize each block that reads or writes it",
                    buffer.name, kScopeTile));
  }

  Stmt keep(const AllocateNode& alloc) {
    const int64_t* elements = as_int(alloc.buffer->shape[0]);
    const int64_t bytes = elements ? *elements * alloc.buffer->dtype.element_bytes() : 0;
    const int first = next_;
    if (!elements || bytes % kTileBytes != 0 || first + bytes / kTileBytes > kTileRegisters) {
      refuse(fmt::format("buffer {} of scope \"{}\" takes {} bytes, and there are {} registers of {}, {} of them taken",
                         alloc.buffer->name, kScopeTile, bytes, kTileRegisters, kTileBytes, first));
      return nullptr;
    }
    first_[alloc.buffer.get()] = first;
    next_ += static_cast<int>(bytes / kTileBytes);
    const Stmt body = rewrite(alloc.body);
    next_ = first;
    return body;
  }

  // The register of a tile of scope "tile"; tiles lie row by row.
  int kept_register(const TilePlace& place) {
    const int64_t columns = kTileRowBytes / place.buffer->dtype.element_bytes();
    const int64_t *base = as_int(place.base), *width = as_int(place.stride);
    if (base && width && *width % columns == 0) {
      const int64_t row = *base / *width, column = *base % *width;
      if (row % kTileRows == 0 && column % columns == 0)
        return first_.at(place.buffer.get()) +
               static_cast<int>(row / kTileRows * (*width / columns) + column / columns);
    }
    refuse(
        fmt::format("a tile of buffer {} begins at {} in rows of {}: registers are addressed by constants, in tiles "
                    "of {} x {}; unroll the loops around it",
                    place.buffer->name, to_text(place.base), to_text(place.stride), kTileRows, columns));
    return 0;
  }

  // Straight-line code. Each operand in memory is loaded where it is first needed, and stays until the register is
  // needed for another; that goes which is needed last again (Belady, "A study of replacement algorithms for a
  // virtual-storage computer", 1966).
  Stmt run(std::vector<TileStep> steps) {
    found = true;
    steps_ = std::move(steps);
    made_.clear();
    held_ = {};
    for (at_ = 0; at_ < steps_.size() && problem.empty(); ++at_) step(steps_[at_]);
    return seq(std::move(made_));
  }

  void step(const TileStep& s) {
    if (!s.called) return made_.push_back(s.stmt);
    pinned_.clear();
    const std::vector<TilePlace>& places = s.places;
    if (s.called->name == kStore) {
      const int from = read(places[0], false);
      store(from, places[1]);
    } else if (s.called->name.starts_with(kProduct)) {
      const int sums = read(places[0], false), left = read(places[1], (s.streamed & 1) != 0),
                right = read(places[2], (s.streamed & 2) != 0);
      emit(s.called->name, {Expr(sums), Expr(left), Expr(right)});
      write_back(places[0], sums);
    } else {
      const int to = places[0].in_memory() ? take() : kept_register(places[0]);
      if (s.called->name == kZero)
        emit(kZero, {Expr(to)});
      else if (places[1].in_memory())
        load(to, places[1], false);
      else
        refuse("a tile is moved from register to register");
      write_back(places[0], to);
    }
  }

  // The register that a tile is in from now on.
  int read(const TilePlace& place, bool streamed) {
    if (!place.in_memory()) return kept_register(place);
    for (int r = next_; r < kTileRegisters; ++r)
      if (held_[static_cast<size_t>(r)] == place) {
        pinned_.insert(r);
        return r;
      }
    const int r = take();
    load(r, place, streamed);
    held_[static_cast<size_t>(r)] = place;
    return r;
  }
  void write_back(const TilePlace& place, int from) {
    if (!place.in_memory()) return;
    store(from, place);
    held_[static_cast<size_t>(from)] = place;
  }
  void store(int from, const TilePlace& to) {
    if (!to.in_memory()) return refuse("a tile is moved from register to register");
    move(kStore, from, to);
    for (auto& held : held_)
      if (held && held->buffer == to.buffer) held.reset();
  }
  void load(int to, const TilePlace& from, bool streamed) { move(streamed ? kStreamedLoad : kLoad, to, from); }
  void move(std::string_view name, int tile, const TilePlace& place) {
    emit(name, {Expr(tile), address_of(place.buffer, {place.base}),
                simplify(place.stride * Expr(place.buffer->dtype.element_bytes()))});
  }
  void emit(std::string_view name, std::vector<Expr> args) {
    made_.push_back(evaluate(call(std::string(name), std::move(args), kI32)));
  }

  // A register for something else.
  int take() {
    int best = -1;
    size_t best_use = 0;
    for (int r = next_; r < kTileRegisters; ++r) {
      if (pinned_.contains(r)) continue;
      const auto& held = held_[static_cast<size_t>(r)];
      const size_t use = held ? next_use(*held) : SIZE_MAX;
      if (best < 0 || use > best_use) {
        best = r;
        best_use = use;
      }
    }
    if (best < 0) {
      refuse(fmt::format("sums take {} tile registers of {}, which leaves too few for factors", next_, kTileRegisters));
      return 0;
    }
    held_[static_cast<size_t>(best)].reset();
    pinned_.insert(best);
    return best;
  }
  size_t next_use(const TilePlace& place) const {
    for (size_t s = at_; s < steps_.size(); ++s)
      if (steps_[s].reads(place)) return s;
    return SIZE_MAX - 1;
  }

  std::unordered_map<const BufferNode*, int> first_;  // register
  int next_ = 0;                                      // the first that no buffer has
  std::vector<TileStep> steps_;
  size_t at_ = 0;  // the step that is placed
  std::vector<Stmt> made_;
  std::array<std::optional<TilePlace>, kTileRegisters> held_;
  std::set<int> pinned_;  // by the step at hand
};

// Whether a statement uses tiles, but for parallel loops in it.
bool uses_tiles(const Stmt& s, const std::set<std::string>& users) {
  bool uses = false;
  walk(s, [&](const Stmt& at) {
    const auto* loop = at.as<ForNode>();
    if (loop && loop->loop_kind == ForKind::kParallel) return false;
    const auto* called = at.as<CallFuncNode>();
    uses |= (called && users.contains(called->name)) || is_tile_call(effect_of(at));
    return !uses;
  });
  return uses;
}

}  // namespace

Result<IrModule> place_tiles(const IrModule& module, const Target& target) {
  if (!target.find_scope(kScopeTile)) return module;
  IrModule placed = module;
  std::set<std::string> users;
  for (auto& [name, func] : placed.funcs) {
    if (!func) continue;
    TilePlacer placer;
    const Stmt body = placer.rewrite(func->body);
    if (!placer.problem.empty()) return fail(ErrorCode::E301, placer.problem, func->name);
    if (!placer.found) continue;
    users.insert(name);
    func = with_body(func, body);
  }
  if (users.empty()) return module;
  const auto entry = placed.funcs.find(placed.entry);
  if (entry == placed.funcs.end()) return placed;
  Func& func = entry->second;
  users.erase(placed.entry);
  const Stmt body = rewrite_each<ForNode>(func->body, [&](const ForNode& loop) {
    if (loop.loop_kind != ForKind::kParallel || !uses_tiles(loop.body, users)) return Stmt();
    return with(loop, [](ForNode& f) { f.annotations.set(kHoldsTilesKey, int64_t{1}); });
  });
  const bool holds = uses_tiles(body, users);
  func = with(func, [&](FuncNode& f) {
    f.body = body;
    if (holds) f.annotations.set(kHoldsTilesKey, int64_t{1});
  });
  return placed;
}

}  // namespace fettle
