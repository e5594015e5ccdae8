#pragma once
// A straight-line piece of lowered code → counts of instructions and streams of accesses. Loops that will be unrolled
// and loops that will become lanes may stand around its stores as they are.

#include <functional>
#include <vector>

#include "cost/loop_tree/access_form.h"
#include "cost/loop_tree/loop_tree.h"
#include "ir/stmt.h"

namespace fettle {

/// Where a buffer of the piece lies: an entry of LoopTree::buffers, and elements from its start.
struct BufferPlace {
  int buffer = 0;
  int64_t base = 0;
  std::vector<int64_t> base_steps = {};  // one a loop around the call; those inside of it do not move it
};

struct BodyContext {
  int vector_bytes = 64;
  /// What stands around what is read, at that time.
  LoopContext around;
  /// Variables that have one value in a copy of the piece.
  const IntEnv* constants = nullptr;
  std::function<const BufferPlace&(const BufferNode*)> place;
};

/// Whether a piece reads what the iteration before wrote (Work::carried_through_memory).
bool is_carried_through_memory(const std::vector<Stream>& streams);

/// Reads stores and evaluations in a row.
class BodyReader {
 public:
  explicit BodyReader(const BodyContext& context) : context_(context) {}
  void read(const Stmt& s);
  /// Fills `work` and `streams`.
  void finish(CostNode& node);

 private:
  struct Access {  // as it is written once
    int lanes;
    int64_t lane_step;  // elements
    int element_bytes;
    bool irregular, broadcast;
  };
  struct Place {
    int64_t low_bytes;
    int access;
  };
  struct Group {
    int buffer;
    bool is_write;
    std::vector<int64_t> steps;
    std::vector<Place> places;
  };
  struct RegisterUse {
    const BufferNode* buffer;
    int64_t at;
    int how;  // 1 read, 2 written
  };

  bool uses_lane(const Expr& e) const;
  int lanes_of(const Expr& e) const;
  double pieces(int lanes, int element_bytes) const;
  void count(DType dtype, int lanes, double instructions, double flops_a_lane);
  void read_value(const Expr& e);
  void read_widened(const Expr& e, int lanes);
  bool read_tile_call(const CallNode& call);
  bool seen_before(const Expr& e);
  void access(const Buffer& buffer, const Expr& index, int lanes, bool is_write);
  void add_register_uses(const BufferNode* buffer, const Expr& index, int lanes, int element, bool is_write);
  template <class Fn>
  void for_each_copy(const AccessForm& form, const Expr& index, bool each, const Fn& fn);
  Group& group_of(int buffer, bool is_write, const int64_t* steps);
  void enter_copies();
  bool native_lane_step(const Expr& index, int64_t* stride) const;

  const BodyContext& context_;
  Work work_;
  double copies_ = 1;         // of what is being read
  std::vector<char> counts_;  // one an unrolled loop: whether its copies differ
  std::vector<Access> accesses_;
  std::vector<Group> groups_;
  std::vector<RegisterUse> registers_;
  std::vector<uint64_t> seen_calls_;
  std::vector<int> asked_near_, asked_far_;
  bool broadcast_ = false;
};

}  // namespace fettle
