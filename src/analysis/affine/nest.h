#pragma once
// A nest of loops as sets and relations: which instances of blocks run, when, and what each touches.

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/affine/isl_context.h"
#include "analysis/affine/isl_text.h"
#include "base/function_ref.h"
#include "ir/func.h"

namespace fettle {

/// A block under the nest's top. Its instances are points S<k>[l…] over the values of its loops.
struct NestStatement {
  const BlockNode* block = nullptr;
  std::vector<const ForNode*> loops;  // from the nest's top down to the block
  std::string name;                   // of its space: "S0"
  bool exact = true;                  // its instances are exactly those of the domain; else it has more
  std::vector<std::string> when;      // positions in sequences and "l0", "l1", …, outermost first

  /// "S0[l0, l1]"
  std::string instance(std::string_view prefix = "l") const;
};

/// Which updates of one element may change places.
enum class Reassociation {
  kNone,
  kReductions,  // those of a reduction: instances of one block that differ in its reduce iterators alone
  kExact,       // these, and minima and maxima of integers without an init, whatever blocks take them
};

/// What is known of a nest's parameters.
enum class Known {
  kRanges,   // of loops around it, and of integer parameters
  kNothing,  // instances are those of all values, so what holds of them holds; isl has far less to do
};

/// What stands below one statement of a program. Variables of loops around it and integer parameters are isl's
/// parameters: nothing is said of instances in different iterations of those loops.
class AffineNest {
 public:
  /// E209 where a loop's bounds, a predicate or a binding reads memory, or where something else than loops,
  /// conditions and blocks stands in it. What is no affine bound or index is left out: the sets are then larger.
  /// `place`: where `top` stands in the program, if it is no node of it: part of that sequence, say.
  static Result<AffineNest> of(const Func& func, const Stmt& top, const StmtNode* place = nullptr,
                               Known known = Known::kRanges);
  /// The same of one block below `top` alone, as if the others were not there.
  static Result<AffineNest> of_block(const Func& func, const Stmt& top, const BlockNode& block);

  const std::vector<NestStatement>& statements() const { return statements_; }
  const IslText& names() const { return text_; }
  /// "[p0, p1] -> "
  const std::string& parameters() const { return parameters_; }
  const std::vector<Var>& parameter_vars() const { return parameter_vars_; }
  /// What is known of the parameters.
  const isl::set& context() const { return context_; }
  const isl::union_set& domain() const { return domain_; }
  /// S<k>[…] → when: positions in sequences and values of loops, outermost first.
  const isl::union_map& schedule() const { return schedule_; }
  /// Places of instances → elements that these write, and that they touch at all. `place`: S<k>[…] → where, of some.
  isl::union_map written(const isl::union_map& place) const;
  isl::union_map touched(const isl::union_map& place) const;
  /// Pairs of instances that touch one element, one of them to write it, the earlier first.
  isl::union_map dependences(Reassociation reassociation) const;
  /// Those of them between which no other instance surely writes the element. All others follow from these in turn, so
  /// what keeps these keeps all. They are fewer and simpler: mostly of constant distances.
  isl::union_map direct_dependences(Reassociation reassociation) const;

  /// S<k>[l…] → what `values` says of a statement, in isl's notation.
  Result<isl::union_map> map_of(FunctionRef<std::string(const NestStatement&)> values) const;
  /// Whether `order`, S<k>[…] → when, keeps the dependences. E227 names two blocks where it does not.
  Result<> keeps_order(const isl::union_map& order, Reassociation reassociation) const;

 private:
  friend class NestReader;
  AffineNest() = default;
  // Of pairs that update one element, those that may not change places.
  isl::union_map kept_in_order(isl::union_map updates, Reassociation reassociation) const;
  isl::union_map find_dependences(Reassociation reassociation) const;
  isl::union_map find_direct_dependences(Reassociation reassociation) const;

  std::vector<NestStatement> statements_;
  IslText text_;
  std::string parameters_;
  std::vector<Var> parameter_vars_;
  isl::set context_;
  isl::union_set domain_;
  isl::union_map schedule_;
  isl::union_map reads_, writes_;                  // but for the updates
  isl::union_map certain_writes_;                  // what is known to be written by each instance
  isl::union_map updates_;                         // elements that a reduction reads and writes
  isl::union_map interchangeable_;                 // pairs of a reduction's instances that may change places
  std::map<std::string, BinaryOp> exact_updates_;  // of statements whose updates may change places with any such ones
  using Found = std::map<Reassociation, isl::union_map>;
  std::shared_ptr<Found> dependences_ = std::make_shared<Found>(), direct_ = std::make_shared<Found>();
};

/// While one lives, AffineNest::of reads what stands below a statement once on this thread: for those who try several
/// orders of one program.
class SharedNests {
 public:
  SharedNests();
  ~SharedNests();
  SharedNests(const SharedNests&) = delete;
  SharedNests& operator=(const SharedNests&) = delete;

 private:
  friend class AffineNest;
  struct Shared {
    Func func;  // holds the addresses of the key
    Stmt top;
    Result<AffineNest> nest;
  };
  using Key = std::tuple<const FuncNode*, const StmtNode*, const StmtNode*, Known>;
  std::map<Key, Shared> nests_;
  SharedNests* around_;
};

/// Whether `order` keeps each of the pairs of instances, the earlier first, in that order.
bool precedes(const isl::union_map& pairs, const isl::union_map& order);

}  // namespace fettle
