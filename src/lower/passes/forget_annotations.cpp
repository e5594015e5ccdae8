#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

class Forgetter : public Mutator {
 public:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result.as<ForNode>();
    return loop && loop->loop_kind != ForKind::kSerial ? serialized(*loop) : result;
  }
  Buffer rewrite(const Buffer& buffer) override {
    if (!is_in_registers(*buffer)) return buffer;
    Buffer& plain = plain_[buffer.get()];
    if (!plain) plain = edited(buffer, [](BufferNode& b) { b.scope = kScopeGlobal; });
    return plain;
  }

 private:
  std::unordered_map<const BufferNode*, Buffer> plain_;
};

}  // namespace

Func forget_annotations(const Func& func) { return Forgetter().Mutator::rewrite(func); }

Stmt serialize_loops(const Stmt& body) {
  return rewrite_each<ForNode>(body, [](const ForNode& loop) {
    const bool stays = loop.loop_kind == ForKind::kSerial || loop.loop_kind == ForKind::kThreadBinding;
    return stays ? Stmt() : serialized(loop);
  });
}

Stmt serialize_lanes(const Stmt& body) {
  return rewrite_each<ForNode>(
      body, [](const ForNode& loop) { return loop.loop_kind == ForKind::kVectorized ? serialized(loop) : Stmt(); });
}

}  // namespace fettle
