#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

class Forgetter : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return Mutator::rewrite(e); }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result.as<ForNode>();
    if (!loop || loop->loop_kind == ForKind::kSerial) return result;
    return with(*loop, [](ForNode& f) {
      f.loop_kind = ForKind::kSerial;
      f.thread_axis.clear();
    });
  }
  Buffer rewrite(const Buffer& buffer) override {
    if (buffer->scope != kScopeRegister) return buffer;
    Buffer& plain = plain_[buffer.get()];
    if (!plain) plain = edited(buffer, [](BufferNode& b) { b.scope = kScopeGlobal; });
    return plain;
  }

 private:
  std::unordered_map<const BufferNode*, Buffer> plain_;
};

class LaneSerializer : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result.as<ForNode>();
    if (!loop || loop->loop_kind != ForKind::kVectorized) return result;
    return with(*loop, [](ForNode& f) { f.loop_kind = ForKind::kSerial; });
  }
};

}  // namespace

Func forget_annotations(const Func& func) { return Forgetter().Mutator::rewrite(func); }

Func serialize_lanes(const Func& func) { return LaneSerializer().Mutator::rewrite(func); }

}  // namespace fettle
