#pragma once
// Statements of the loop language.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/buffer.h"

namespace fettle {

enum class StmtKind : uint8_t {
  kFor,
  kSeq,
  kIf,
  kLet,
  kStore,
  kEvaluate,
  kBlock,
  kAllocate,
  kWhile,
  kCallFunc,
  kAsync,
};

struct StmtNode : RefCounted {
  StmtKind kind;

 protected:
  explicit StmtNode(StmtKind k) : kind(k) {}
};

class Stmt : public Ref<const StmtNode> {
 public:
  using Ref<const StmtNode>::Ref;
  Stmt() = default;
  Stmt(Ref<const StmtNode> ref) : Ref(std::move(ref)) {}
  template <class T>
    requires std::is_base_of_v<StmtNode, T>
  Stmt(const Ref<T>& ref) : Ref(ref) {}

  StmtKind kind() const { return get()->kind; }
  template <class T>
  const T* as() const {
    return get() && get()->kind == T::kKind ? static_cast<const T*>(get()) : nullptr;
  }
};

struct ForNode;
struct BlockNode;

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::Stmt);
FETTLE_VECTORS_FROM_POOL(const fettle::StmtNode*);
FETTLE_VECTORS_FROM_POOL(const fettle::ForNode*);
FETTLE_VECTORS_FROM_POOL(const fettle::BlockNode*);

namespace fettle {

/// Annotations of loops, blocks and functions, sorted by key; keys are documented where they are read.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
struct Annotations {
  std::vector<std::pair<std::string, Attribute>> entries;

  const Attribute* find(std::string_view key) const;
  void set(std::string key, Attribute value);
  bool erase(std::string_view key);
  /// The integer under `key`, or `otherwise`.
  int64_t get_int(std::string_view key, int64_t otherwise) const;
  friend bool operator==(const Annotations&, const Annotations&) = default;
};

enum class ForKind : uint8_t { kSerial, kParallel, kVectorized, kUnrolled, kThreadBinding };

/// How the last, partial tile of a split loop is handled. `split` leaves one nest; `lower` acts on it.
enum class Tail : uint8_t {
  kExact,      // the factors divide the extent, provably
  kGuard,      // a predicate around the body
  kPartition,  // main loop and remainder, each with constant extents
  kBalance,    // two constant extents that differ by one: 197 = 2*14 + 13*13; of an open one the last two are alike
  kShift,      // the last tile overlaps the one before; nothing may accumulate in place
  kMask,       // the predicate becomes a vector mask
  kPad,        // private buffers are as large as whole tiles; the surplus is computed and never stored
};

/// for var in [min, min + extent): body
struct ForNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kFor;
  Var var;
  Expr min, extent;
  ForKind loop_kind = ForKind::kSerial;
  /// Of the split that made this loop, on its outermost loop (the inner ones carry kExact).
  Tail tail = Tail::kExact;
  /// kThreadBinding: "blockIdx.x", "threadIdx.y", "vthread.x", …
  std::string thread_axis;
  Annotations annotations;
  Stmt body;
  ForNode(Var v, Expr m, Expr e, Stmt b)
      : StmtNode(kKind), var(std::move(v)), min(std::move(m)), extent(std::move(e)), body(std::move(b)) {}
};

struct SeqNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kSeq;
  std::vector<Stmt> stmts;  // two or more, none of them a Seq
  explicit SeqNode(std::vector<Stmt> s) : StmtNode(kKind), stmts(std::move(s)) {}
};

struct IfNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kIf;
  Expr condition;
  Stmt then_body, else_body;  // else_body may be null
  IfNode(Expr c, Stmt t, Stmt e)
      : StmtNode(kKind), condition(std::move(c)), then_body(std::move(t)), else_body(std::move(e)) {}
};

struct LetNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kLet;
  Var var;
  Expr value;
  Stmt body;
  LetNode(Var v, Expr e, Stmt b) : StmtNode(kKind), var(std::move(v)), value(std::move(e)), body(std::move(b)) {}
};

/// buffer[indices] = value; mask as in LoadNode: lanes that are off touch no memory.
struct StoreNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kStore;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
  Expr mask;  // null: none
  StoreNode(Buffer b, std::vector<Expr> i, Expr v, Expr m)
      : StmtNode(kKind), buffer(std::move(b)), indices(std::move(i)), value(std::move(v)), mask(std::move(m)) {}
};

/// An expression for its effect: barriers and machine intrinsics ("barrier", "prefetch", …).
struct EvaluateNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kEvaluate;
  Expr value;
  explicit EvaluateNode(Expr v) : StmtNode(kKind), value(std::move(v)) {}
};

enum class IterKind : uint8_t { kSpatial, kReduce, kScan, kOpaque };

/// var in [0, extent), bound to `binding`, an expression in the surrounding loops' variables.
struct IterVar {
  Var var;
  Expr extent;
  IterKind kind = IterKind::kSpatial;
  Expr binding;
};

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::IterVar);

namespace fettle {

/// The unit of scheduling. The body and the regions speak of the iterators alone (and of integer parameters), so
/// that edits of the loops around rewrite only the bindings. An instance runs where `predicate` (over the
/// surrounding loops) holds. `init` runs at the first instance of the reduction, for each spatial point.
/// A nested block's bindings may use the outer block's iterators and the loops between them.
struct BlockNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kBlock;
  std::string name;  // unique in its Func
  std::vector<IterVar> iters;
  Expr predicate;  // null: always
  std::vector<Region> reads, writes;
  std::vector<Buffer> allocations;  // live inside this block
  Annotations annotations;
  Stmt init;  // may be null
  Stmt body;
  BlockNode() : StmtNode(kKind) {}
};

/// Lowered code: `buffer` lives in `body`.
struct AllocateNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kAllocate;
  Buffer buffer;
  Stmt body;
  AllocateNode(Buffer b, Stmt s) : StmtNode(kKind), buffer(std::move(b)), body(std::move(s)) {}
};

struct WhileNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kWhile;
  Expr condition;
  Stmt body;
  WhileNode(Expr c, Stmt b) : StmtNode(kKind), condition(std::move(c)), body(std::move(b)) {}
};

/// call name(arguments): another Func of the same module. First its buffers, as AddressNodes; then its integers.
/// The callee sees each buffer with its own shape and strides, starting at the address.
struct CallFuncNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kCallFunc;
  std::string name;
  std::vector<Expr> args;
  CallFuncNode(std::string n, std::vector<Expr> a) : StmtNode(kKind), name(std::move(n)), args(std::move(a)) {}
};

enum class AsyncKind : uint8_t {
  kIssue,  // body runs asynchronously in `queue`; it yields one token when done
  kWait,   // before body, wait until at most `pending` tokens of `queue` are outstanding
};

struct AsyncNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kAsync;
  AsyncKind async_kind;
  std::string queue;
  Expr pending;  // kWait only
  Stmt body;
  AsyncNode(AsyncKind k, std::string q, Expr p, Stmt b)
      : StmtNode(kKind), async_kind(k), queue(std::move(q)), pending(std::move(p)), body(std::move(b)) {}
};

// --- construction ---------------------------------------------------------------------------------------------

Stmt make_for(Var var, Expr min, Expr extent, Stmt body, ForKind kind = ForKind::kSerial);
/// Flattens nested sequences and drops nulls; one statement is returned as it is, none as null.
Stmt seq(std::vector<Stmt> stmts);
Stmt if_then(Expr condition, Stmt then_body, Stmt else_body = nullptr);
Stmt store(Buffer buffer, std::vector<Expr> indices, Expr value, Expr mask = nullptr);
Stmt evaluate(Expr value);
Stmt allocate(Buffer buffer, Stmt body);
Stmt let(Var var, Expr value, Stmt body);
Stmt call_func(std::string name, std::vector<Expr> args);

/// A copy of a node with fields changed by `edit`: `with(for_node, [&](ForNode& f) { f.body = b; })`.
template <class T, class Edit>
Stmt with(const T& node, Edit edit) {
  auto copy = make_ref<T>(node);
  edit(*copy);
  return Stmt(copy);
}

}  // namespace fettle
