// Equality and the canonical hash of statements and functions, up to the names and identities of what they bind.
#include <bit>
#include <unordered_map>

#include "base/pointer_map.h"
#include "ir/canonical.h"
#include "ir/compare.h"
#include "ir/fields.h"

namespace fettle {
namespace {

class Equality {
 public:
  explicit Equality(bool rename_blocks) : rename_blocks_(rename_blocks) {}

  bool equal(const Func& a, const Func& b) {
    if (a == b) return true;
    if (!a || !b || !(a->annotations == b->annotations)) return false;
    const bool ints = all_equal(a->int_params, b->int_params, [&](const IntParam& x, const IntParam& y) {
      return x.min == y.min && x.max == y.max && x.multiple_of == y.multiple_of && bind(x.var, y.var);
    });
    const bool buffers = ints && all_equal(a->params, b->params, [&](const Param& x, const Param& y) {
                           return x.kind == y.kind && x.free_layout == y.free_layout && bind(x.buffer, y.buffer);
                         });
    return buffers && equal(a->body, b->body);
  }

  bool equal(const Stmt& a, const Stmt& b) {
    if (!a || !b) return a == b;
    if (a == b && !renamed_) return true;
    return a.kind() == b.kind() && equal_nodes(a, b);
  }

 private:
  template <class T, class Same>
  static bool all_equal(const std::vector<T>& a, const std::vector<T>& b, Same same) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
  }

  bool bind(const Var& a, const Var& b) {
    if (a->dtype != b->dtype) return false;
    vars_[a.get()] = b.get();
    renamed_ |= a != b;
    return true;
  }

  bool bind(const Buffer& a, const Buffer& b) {
    if (a != b) {
      if (a->dtype != b->dtype || a->scope != b->scope || a->alignment_bytes != b->alignment_bytes ||
          !equal(a->shape, b->shape) || !equal(a->strides, b->strides) || !a->layout != !b->layout)
        return false;
      if (a->layout && a->layout != b->layout) {
        const IndexMap &x = a->layout->to_physical, &y = b->layout->to_physical;
        if (!equal(a->layout->logical_shape, b->layout->logical_shape) || !equal(x.inputs, y.inputs) ||
            !equal(x.outputs, y.outputs))
          return false;
      }
      renamed_ = true;
    }
    buffers_[a.get()] = b.get();
    return true;
  }

  // --- of fields, by their types; of a few, by what they are

  template <class T>
  bool equal(const T& a, const T& b) {
    if constexpr (!std::is_same_v<decltype(fields_of<T>), const std::tuple<>>)
      return all_fields<T>([&](auto member) { return equal(a.*member, b.*member); });
    else
      return a == b;
  }
  template <class T>
  bool equal(const std::vector<T>& a, const std::vector<T>& b) {
    return all_equal(a, b, [&](const T& x, const T& y) { return equal(x, y); });
  }
  bool equal(const Var& a, const Var& b) { return bind(a, b); }
  bool equal(const Buffer& a, const Buffer& b) {
    const auto found = buffers_.find(a.get());
    return found == buffers_.end() ? a == b : found->second == b.get();
  }
  bool equal(const std::vector<IterVar>& a, const std::vector<IterVar>& b) {
    return all_equal(a, b, [&](const IterVar& x, const IterVar& y) { return equal<IterVar>(x, y); }) &&
           all_equal(a, b, [&](const IterVar& x, const IterVar& y) { return bind(x.var, y.var); });
  }
  bool equal(const Expr& a, const Expr& b) {
    if (!renamed_) return structural_equal(a, b);
    if (!a || !b) return a == b;
    if (a.kind() != b.kind() || a.dtype() != b.dtype()) return false;
    if (a.kind() == ExprKind::kIntImm || a.kind() == ExprKind::kFloatImm) return structural_equal(a, b);
    if (a.kind() != ExprKind::kVar) return equal_nodes(a, b);
    const auto found = vars_.find(a.as<VarNode>());
    return (found == vars_.end() ? a.as<VarNode>() : found->second) == b.as<VarNode>();
  }

  template <class Node, class Field>
  bool equal_field(Field Node::* member, const Node& a, const Node& b) {
    return equal(a.*member, b.*member);
  }
  bool equal_field(std::string BlockNode::* name, const BlockNode& a, const BlockNode& b) {
    return rename_blocks_ || a.*name == b.*name;
  }
  bool equal_field(Buffer AllocateNode::* buffer, const AllocateNode& a, const AllocateNode& b) {
    return bind(a.*buffer, b.*buffer);
  }
  bool equal_field(std::vector<Buffer> BlockNode::* list, const BlockNode& a, const BlockNode& b) {
    return all_equal(a.*list, b.*list, [&](const Buffer& x, const Buffer& y) { return bind(x, y); });
  }

  // Of one kind.
  template <class Tree>
  bool equal_nodes(const Tree& a, const Tree& b) {
    return with_node(a, [&]<class Node>(const Node& x) {
      const auto& y = static_cast<const Node&>(*b);
      return all_fields<Node>([&](auto member) { return equal_field(member, x, y); });
    });
  }

  std::unordered_map<const VarNode*, const VarNode*> vars_;
  std::unordered_map<const BufferNode*, const BufferNode*> buffers_;
  bool renamed_ = false;  // something bound differs in identity: one node on both sides may mean two things
  bool rename_blocks_;
};

// Writes a program as bytes in which everything bound is a number, counted in the order of binding.
class Canonical {
 public:
  std::string write(const Func& func) && {
    number(func->int_params.size());
    for (const IntParam& param : func->int_params) {
      bind(param.var);
      put(param.min);
      put(param.max);
      put(param.multiple_of);
    }
    number(func->params.size());
    for (const Param& param : func->params) {
      put(param.kind);
      put(param.free_layout);
      bind(param.buffer);
    }
    put(func->annotations);
    put(func->body);
    flush();
    return std::move(bytes_);
  }

 private:
  void byte(uint8_t value) {
    if (filled_ == sizeof(buffer_)) flush();
    buffer_[filled_++] = static_cast<char>(value);
  }
  void flush() {
    bytes_.append(buffer_, filled_);
    filled_ = 0;
  }
  // Variable length, seven bits a byte: most numbers are small.
  void number(uint64_t value) {
    for (; value >= 128; value >>= 7) byte(static_cast<uint8_t>(value | 128));
    byte(static_cast<uint8_t>(value));
  }
  void bind(const Var& var) {
    put(var->dtype);
    ids_.try_emplace(var.get(), ids_.size());
  }
  void bind(const Buffer& buffer) {
    put(buffer->dtype);
    put(buffer->scope);
    put(buffer->alignment_bytes);
    put(buffer->shape);
    put(buffer->strides);
    byte(buffer->layout ? 1 : 0);
    if (buffer->layout) {
      put(buffer->layout->logical_shape);
      put(buffer->layout->to_physical.inputs);
      put(buffer->layout->to_physical.outputs);
    }
    ids_.try_emplace(buffer.get(), ids_.size());
  }
  // What is free goes by its name.
  void use(const void* node, const std::string& name) {
    const auto found = ids_.find(node);
    number(found == ids_.end() ? 0 : found->second + 1);
    if (found == ids_.end()) put(name);
  }

  // --- fields, by their types; a few, by what they are

  template <class T>
  void put(const T& field) {
    if constexpr (std::is_enum_v<T>)
      byte(static_cast<uint8_t>(field));
    else if constexpr (std::is_integral_v<T>)
      number(static_cast<uint64_t>(field));
    else
      each_field<T>([&](auto member) { put(field.*member); });
  }
  template <class T>
  void put(const std::vector<T>& list) {
    number(list.size());
    for (const T& item : list) put(item);
  }
  void put(double value) { number(std::bit_cast<uint64_t>(value)); }
  void put(const std::string& text) {
    number(text.size());
    for (const char c : text) byte(static_cast<uint8_t>(c));
  }
  void put(DType t) {
    put(t.code);
    byte(t.bits);
    number(t.lanes);
  }
  void put(const Annotations& annotations) {
    number(annotations.entries.size());
    for (const auto& [key, value] : annotations.entries) {
      put(key);
      byte(static_cast<uint8_t>(value.index()));
      std::visit([&](const auto& x) { put(x); }, value);
    }
  }
  void put(const Var& var) { bind(var); }
  void put(const Buffer& buffer) { use(buffer.get(), buffer->name); }
  void put(const std::vector<IterVar>& iters) {
    number(iters.size());
    for (const IterVar& iter : iters) put(iter);
    for (const IterVar& iter : iters) bind(iter.var);
  }
  void put(const Expr& e) {
    if (!e) return byte(255);
    put(e.kind());
    if (const auto* var = e.as<VarNode>()) return use(var, var->name);
    const ExprKind kind = e.kind();  // the types of the others follow
    if (kind == ExprKind::kIntImm || kind == ExprKind::kFloatImm || kind == ExprKind::kCast || kind == ExprKind::kCall)
      put(e.dtype());
    if (kind == ExprKind::kRamp || kind == ExprKind::kBroadcast) number(e.dtype().lanes);
    put_node(e);
  }
  void put(const Stmt& s) {
    if (!s) return byte(255);
    put(s.kind());
    put_node(s);
  }

  template <class Node, class Field>
  void put_field(Field Node::* member, const Node& node) {
    put(node.*member);
  }
  void put_field(std::string BlockNode::*, const BlockNode&) {}
  void put_field(Buffer AllocateNode::* buffer, const AllocateNode& node) { bind(node.*buffer); }
  void put_field(std::vector<Buffer> BlockNode::* list, const BlockNode& node) {
    number((node.*list).size());
    for (const Buffer& buffer : node.*list) bind(buffer);
  }
  template <class Tree>
  void put_node(const Tree& tree) {
    with_node(tree,
              [&]<class Node>(const Node& node) { each_field<Node>([&](auto member) { put_field(member, node); }); });
  }

  std::string bytes_;
  char buffer_[2048];  // what comes next
  size_t filled_ = 0;
  PointerMap<const void*, uint64_t> ids_;
};

}  // namespace

bool structural_equal(const Stmt& a, const Stmt& b) { return Equality(false).equal(a, b); }
bool structural_equal(const Func& a, const Func& b) { return Equality(true).equal(a, b); }

std::string canonical_bytes(const Func& func) { return Canonical().write(func); }
Digest canonical_hash(const Func& func) { return digest_bytes(canonical_bytes(func)); }

}  // namespace fettle
