#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "base/large_digest.h"
#include "frontend/saved/format.h"
#include "frontend/saved/saved.h"
#include "graph/control.h"
#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/strings.h"

namespace fettle {
namespace {

using namespace saved;

// Of a dim: how many others it is made of, each as often as it is asked for. Walks over dims take so long.
constexpr uint64_t kMostParts = 10'000;
// Bytes that the shortest of a kind takes, so that no count in the file asks for more memory than the file has.
constexpr uint64_t kBlockBytes = 17, kNumberBytes = 8;

/// Bytes, one after the other. After the first that are not there all numbers are 0, and all texts empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool has_failed() const { return has_failed_; }
  bool is_at_end() const { return rest_.empty(); }
  std::string_view raw(uint64_t size) {
    if (size > rest_.size()) {
      has_failed_ = true;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = raw(1);
      if (byte.empty()) return 0;
      const auto bits = static_cast<uint8_t>(byte[0]);
      value |= static_cast<uint64_t>(bits & 0x7f) << shift;
      if (!(bits & 0x80)) return value;
    }
    has_failed_ = true;
    return 0;
  }
  int64_t integer() {
    const uint64_t value = number();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  template <typename T>
  T as_is() {
    T value{};
    if (const std::string_view bytes = raw(sizeof value); !bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  /// Of things that take at least so many bytes each.
  size_t count(uint64_t bytes_each = 1) {
    const uint64_t value = number();
    if (value <= rest_.size() / bytes_each) return static_cast<size_t>(value);
    has_failed_ = true;
    return 0;
  }

 private:
  std::string_view rest_;
  bool has_failed_ = false;
};

/// Bodies are what passes take for granted of those that front ends make (graph/control.h).
Result<> check_bodies(const Node& node) {
  const auto wrong = [&](std::string_view what) {
    return fail(ErrorCode::E606, fmt::format("{}: {}", node.op->name, what), node.name);
  };
  const size_t n_bodies = node.bodies.size();
  if (!is_branch(node) && !is_loop(node) && !is_scan(node)) {
    if (n_bodies != 0 && !node.op->lower && !node.op->lower_by_data) return wrong("it takes no graphs");
    return {};
  }
  if (n_bodies != (is_branch(node) ? 2 : 1)) return wrong("it lacks a graph, or has too many");
  const int64_t n_inputs = std::ssize(node.inputs), n_outputs = std::ssize(node.outputs);
  for (int64_t i = is_loop(node) ? 2 : 0; i < n_inputs; ++i)
    if (!node.inputs[static_cast<size_t>(i)]) return wrong("it lacks an input");
  for (const auto& body : node.bodies) {
    if (std::ssize(body->inputs()) != n_inputs - (is_branch(node) ? 1 : 0) ||
        std::ssize(body->outputs()) != n_outputs + (is_loop(node) ? 1 : 0))
      return wrong("a graph of it takes or gives another number of values");
  }
  if (is_branch(node)) return {};
  const int64_t carried = node.attrs.get_int("carried", -1);
  const int64_t scanned = is_scan(node) ? node.attrs.get_int("num_scan_inputs", -1) : 2;
  if (carried < 0 || scanned < 0 || carried > n_outputs || scanned > n_inputs || carried > n_inputs - scanned)
    return wrong("it carries more values than it has");
  return {};
}

class GraphReader {
 public:
  GraphReader(std::string_view structure, std::shared_ptr<const std::byte> bytes, uint64_t first_block,
              uint64_t file_bytes, const Limits& limits)
      : in_(structure), bytes_(std::move(bytes)), at_(first_block), file_bytes_(file_bytes), limits_(limits) {}

  Result<Graph> read() {
    in_.raw(in_.number());  // the writer's version
    FETTLE_TRY_VOID(read_texts());
    FETTLE_TRY_VOID(read_blocks());
    FETTLE_TRY_VOID(read_dims());
    FETTLE_TRY(Graph made, graph(0));
    if (!unknown_.empty()) return fail(ErrorCode::E603, fmt::format("{}", fmt::join(unknown_, ", ")), "operators");
    if (in_.has_failed() || !in_.is_at_end()) return damaged();
    FETTLE_TRY_VOID(validate(made, false));
    return made;
  }

 private:
  static tl::unexpected<Diagnostic> damaged(std::string message = "its structure is damaged") {
    return fail(ErrorCode::E602, std::move(message));
  }

  Result<> read_texts() {
    const size_t count = in_.count();
    for (size_t i = 0; i < count; ++i) {
      const uint64_t size = in_.number();
      FETTLE_TRY_VOID(check_limit(limits_, &Limits::string_bytes, saturated(size)));
      texts_.emplace_back(in_.raw(size));
    }
    return state();
  }

  Result<> read_blocks() {
    const size_t count = in_.count(kBlockBytes);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t size = in_.number();
      const Digest digest{in_.as_is<uint64_t>(), in_.as_is<uint64_t>()};
      if (in_.has_failed() || size > file_bytes_ - at_) return damaged("a constant lies beyond the file's end");
      blocks_.push_back({at_, static_cast<int64_t>(size)});
      FETTLE_TRY_VOID(check_limit(limits_, &Limits::constant_bytes, saturated(at_ + size)));
      if (digest_large({bytes_.get() + at_, size}) != digest) return damaged("the content of a constant is damaged");
      at_ = aligned(at_ + size);
    }
    if (at_ != file_bytes_) return damaged();
    return state();
  }

  Result<> read_dims() {
    const size_t count = in_.count(2);
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::nodes, static_cast<int64_t>(count), "dims"));
    for (size_t i = 0; i < count; ++i) {
      uint64_t parts = 1;
      FETTLE_TRY(Dim made, dim_entry(parts));
      if (parts > kMostParts) return fail(ErrorCode::E608, "a dim is made of too many others");
      dims_.push_back({std::move(made), parts});
    }
    return state();
  }

  static int64_t saturated(uint64_t number) { return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX)); }
  Result<> state() const {
    if (in_.has_failed()) return damaged();
    return {};
  }

  // A number that cannot be what it should be makes what is read damaged; something is returned all the same.
  Dim other_dim(uint64_t& parts) {
    const uint64_t place = in_.number();
    if (place >= dims_.size()) {
      has_bad_place_ = true;
      return 0;
    }
    parts += dims_[place].parts;
    return dims_[place].dim;
  }

  Result<Dim> dim_entry(uint64_t& parts) {
    const uint64_t kind = in_.number();
    if (kind == static_cast<uint64_t>(DimKind::kSymbol)) {
      const std::string name = text();
      const int64_t min = in_.integer(), max = in_.integer(), divisor = in_.integer(), typical = in_.integer();
      const bool is_sound = !name.empty() && min <= max && min >= -kMaxDim && max <= kMaxDim && divisor >= 1 &&
                            divisor <= kMaxDim && typical >= min && typical <= max;
      if (!is_sound || !sizes_.emplace(name).second) return damaged("a size is not well-formed");
      return Dim::symbol(name, min, max, divisor, typical);
    }
    if (kind == static_cast<uint64_t>(DimKind::kSum)) {
      std::vector<Dim> terms{in_.integer()};
      const size_t n_terms = in_.count(2);
      for (size_t i = 0; i < n_terms && parts <= kMostParts; ++i) {
        Dim product = in_.integer();
        const size_t n_factors = in_.count();
        for (size_t k = 0; k < n_factors && parts <= kMostParts; ++k) product = product * other_dim(parts);
        terms.push_back(std::move(product));
      }
      if (has_bad_place_) return damaged();
      return sum(terms);
    }
    const Dim a = other_dim(parts), b = other_dim(parts);
    if (has_bad_place_ || kind > static_cast<uint64_t>(DimKind::kProduct)) return damaged();
    switch (static_cast<DimKind>(kind)) {
      case DimKind::kMax:
        return max(a, b);
      case DimKind::kMin:
        return min(a, b);
      case DimKind::kFloorDiv:
        if (b == Dim(0)) return damaged("a dim is divided by 0");
        return floordiv(a, b);
      default:
        return a * b;
    }
  }

  std::string text() {
    const uint64_t place = in_.number();
    if (place < texts_.size()) return texts_[place];
    has_bad_place_ = true;
    return {};
  }
  std::vector<Dim> dims() {
    std::vector<Dim> list(in_.count());
    uint64_t parts = 0;
    for (Dim& dim : list) dim = other_dim(parts);
    return list;
  }
  Result<DType> dtype() {
    const auto made = parse_dtype(text());
    if (!made || made->lanes != 1 || *made == kHandle) return damaged("an element type is not known");
    return *made;
  }
  Result<TensorType> type() {
    TensorType made;
    FETTLE_TRY(made.dtype, dtype());
    made.shape = dims();
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, std::ssize(made.shape)));
    for (const Dim& dim : made.shape)
      if (dim.is_number() && dim.value() < 0) return damaged("an extent is negative");
    return made;
  }

  Result<ConstantTensor> tensor() {
    ConstantTensor made;
    FETTLE_TRY(made.dtype, dtype());
    made.shape.resize(in_.count());
    for (int64_t& extent : made.shape) extent = in_.integer();
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, std::ssize(made.shape)));
    FETTLE_TRY(made.size_bytes, checked_bytes(made.dtype, made.shape));
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::elements, made.n_elems()));
    if (made.dtype.is_string()) {
      std::vector<std::string> strings;
      for (int64_t i = 0; i < made.n_elems() && !in_.has_failed(); ++i) strings.push_back(text());
      if (in_.has_failed()) return damaged();
      return string_tensor(strings, made.shape);
    }
    if (made.size_bytes == 0) {
      FETTLE_TRY(TensorBuilder nothing, make_tensor(made.dtype, made.shape));
      return std::move(nothing).finish();
    }
    const uint64_t place = in_.number();
    if (place >= blocks_.size() || blocks_[place].size_bytes != made.size_bytes)
      return damaged("a constant's content is not as long as its type says");
    made.bytes = {bytes_, bytes_.get() + blocks_[place].offset};
    return made;
  }

  Result<AttrValue> attribute() {
    const auto list = [&]<typename T>(T, uint64_t bytes_each, const auto& next) {
      std::vector<T> made(in_.count(bytes_each));
      for (T& one : made) one = next();
      return made;
    };
    const auto within = [&](auto made) -> Result<AttrValue> {
      FETTLE_TRY_VOID(check_limit(limits_, &Limits::attribute_elements, std::ssize(made)));
      return AttrValue(std::move(made));
    };
    const uint64_t kind = in_.number();
    if (kind > static_cast<uint64_t>(AttrKind::kDims)) return damaged("an attribute is of no known kind");
    switch (static_cast<AttrKind>(kind)) {
      case AttrKind::kInt:
        return in_.integer();
      case AttrKind::kFloat:
        return in_.as_is<double>();
      case AttrKind::kText:
        return text();
      case AttrKind::kInts:
        return within(list(int64_t{}, 1, [&] { return in_.integer(); }));
      case AttrKind::kFloats:
        return within(list(double{}, kNumberBytes, [&] { return in_.as_is<double>(); }));
      case AttrKind::kTexts:
        return within(list(std::string{}, 1, [&] { return text(); }));
      case AttrKind::kTensor: {
        FETTLE_TRY(ConstantTensor made, tensor());
        return AttrValue(std::move(made));
      }
      case AttrKind::kDims:
        return within(dims());
    }
    return damaged();
  }

  struct Facts {
    std::string name;
    std::optional<TensorType> type = {}, declared = {};
  };
  Result<Facts> facts() {
    Facts made{.name = text()};
    const uint64_t known = in_.number();
    if (known > (kHasType | kHasDeclared)) return damaged();
    if (known & kHasType) {
      FETTLE_TRY(made.type, type());
    }
    if (known & kHasDeclared) {
      FETTLE_TRY(made.declared, type());
    }
    return made;
  }
  Result<> check_name(const Value* value, const std::string& name) const {
    if (has_bad_place_ || value->name != name) return damaged("two values are called the same, or one has no name");
    return {};
  }

  Result<> node(Graph& graph, std::vector<Value*>& values, int64_t depth) {
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::nodes, ++n_nodes_));
    const std::string op_name = text(), name = text();
    const OpDef* op = find_op(op_name);
    Attrs attrs;
    const size_t n_attrs = in_.count(2);
    for (size_t i = 0; i < n_attrs; ++i) {
      std::string key = text();
      FETTLE_TRY(AttrValue value, attribute());
      if (attrs.has(key)) return damaged("an attribute is there twice");
      attrs.set(std::move(key), std::move(value));
    }
    std::vector<Value*> inputs(in_.count());
    for (Value*& input : inputs) {
      const uint64_t place = in_.number();
      if (place > values.size()) return damaged("a node takes a value that is not made before it");
      input = place == 0 ? nullptr : values[place - 1];
    }
    // Of an operator that is not known something stands in the graph, so that all of them can be told.
    if (!op && std::ranges::find(unknown_, op_name) == unknown_.end()) unknown_.push_back(op_name);
    const size_t n_outputs = in_.count(2);
    if (n_outputs == 0 && op && op->n_outputs >= 0) return damaged("a node makes nothing");
    std::vector<std::string> names;
    std::vector<std::optional<TensorType>> declared;
    for (size_t i = 0; i < n_outputs; ++i) {
      FETTLE_TRY(Facts of_output, facts());
      if (of_output.type) return damaged("a node's output is given a type");
      names.push_back(std::move(of_output.name));
      declared.push_back(std::move(of_output.declared));
    }
    Node* made = graph.add_node(op ? op : find_op("Identity"), name, std::move(inputs), std::move(attrs), names, 0);
    for (size_t i = 0; i < n_outputs; ++i) {
      FETTLE_TRY_VOID(check_name(made->outputs[i], names[i]));
      made->outputs[i]->declared = std::move(declared[i]);
      values.push_back(made->outputs[i]);
    }
    const size_t n_origins = in_.count(2);
    for (size_t i = 0; i < n_origins; ++i) {
      Origin origin{.op = text(), .name = {}};
      origin.name = text();
      made->provenance.merge({std::move(origin)});
    }
    const size_t n_bodies = in_.count(6);
    for (size_t i = 0; i < n_bodies; ++i) {
      FETTLE_TRY(Graph body, this->graph(depth + 1));
      made->bodies.push_back(std::make_shared<Graph>(std::move(body)));
    }
    return op ? check_bodies(*made) : Result<>();
  }

  Result<Graph> graph(int64_t depth) {
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::nesting, depth));
    Graph made(text());
    std::vector<Value*> values;
    const size_t n_inputs = in_.count(2);
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::inputs, static_cast<int64_t>(n_inputs)));
    for (size_t i = 0; i < n_inputs; ++i) {
      FETTLE_TRY(Facts of_input, facts());
      if (depth == 0 && !of_input.type) return damaged("an input has no type");
      Value* input = made.add_input(of_input.name);
      FETTLE_TRY_VOID(check_name(input, of_input.name));
      input->type = std::move(of_input.type);
      input->declared = std::move(of_input.declared);
      values.push_back(input);
    }
    const size_t n_constants = in_.count(3);
    for (size_t i = 0; i < n_constants; ++i) {
      const std::string name = text();
      FETTLE_TRY(ConstantTensor content, tensor());
      values.push_back(made.add_constant(name, std::move(content)));
      FETTLE_TRY_VOID(check_name(values.back(), name));
    }
    const size_t n_nodes = in_.count(7);
    for (size_t i = 0; i < n_nodes; ++i) FETTLE_TRY_VOID(node(made, values, depth));
    const size_t n_outputs = in_.count(2);
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::outputs, static_cast<int64_t>(n_outputs)));
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < n_outputs; ++i) {
      std::string name = text();
      const uint64_t place = in_.number();
      if (place >= values.size() || (depth == 0 && !names.insert(name).second))
        return damaged("an output is no value, or has another one's name");
      made.add_output(std::move(name), values[place]);
    }
    FETTLE_TRY_VOID(read_checks(made));
    FETTLE_TRY_VOID(read_structures(made));
    if (in_.has_failed() || has_bad_place_) return damaged();
    // What is made later must not be called like a size that there is.
    if (depth == 0)
      for (const std::string& size : sizes_) made.unique_size_name(size);
    FETTLE_TRY_VOID(check_sizes(made));
    return made;
  }

  Result<> read_checks(Graph& graph) {
    const size_t count = in_.count(3);
    uint64_t parts = 0;
    for (size_t i = 0; i < count; ++i) {
      SizeCheck check{.value = other_dim(parts)};
      check.is_zero = in_.number() != 0;
      check.message = text();
      graph.add_size_check(std::move(check));
    }
    return {};
  }

  Result<> read_structures(Graph& graph) {
    const size_t count = in_.count(5);
    for (size_t i = 0; i < count; ++i) {
      GraphStructure made{.name = text(), .type = {}};
      made.type = text();
      made.is_output = in_.number() != 0;
      const int64_t most = made.is_output ? std::ssize(graph.outputs()) : std::ssize(graph.inputs());
      const int64_t first = in_.integer(), n_tensors = in_.integer();
      if (first < 0 || n_tensors < 1 || first > most || n_tensors > most - first)
        return damaged("a structure is made of tensors that are not there");
      made.first = static_cast<int>(first);
      made.count = static_cast<int>(n_tensors);
      graph.add_structure(std::move(made));
    }
    return {};
  }

  /// Who speaks of a size comes after the node that defines it, and inputs speak of none of those.
  static Result<> check_sizes(const Graph& graph) {
    std::set<std::string, std::less<>> later;
    for (const Node* node : graph.nodes())
      for (const Dim& size : defined_sizes(*node))
        if (!later.emplace(size.symbol_name()).second)
          return fail(ErrorCode::E605, fmt::format("{} is defined twice", size.to_string()), node->name);
    if (later.empty()) return {};
    const auto early = [](std::string_view size, const std::string& where) {
      return fail(ErrorCode::E605, fmt::format("{} is used before it is defined", size), where);
    };
    for (const Value* input : graph.inputs())
      if (input->type)
        for (const Dim& dim : input->shape())
          if (mentions_any(dim, later)) return early(dim.to_string(), input->name);
    for (const Node* node : graph.nodes()) {
      for (const Dim& size : defined_sizes(*node)) later.erase(std::string(size.symbol_name()));
      std::string wrong;
      for_each_size(*node, [&](std::string_view size) {
        if (later.contains(size)) wrong = size;
      });
      if (!wrong.empty()) return early(wrong, node->name);
    }
    return {};
  }

  struct Block {
    uint64_t offset;
    int64_t size_bytes;
  };
  struct DimEntry {
    Dim dim;
    uint64_t parts;
  };

  Reader in_;
  std::shared_ptr<const std::byte> bytes_;
  uint64_t at_, file_bytes_;
  const Limits& limits_;
  std::vector<std::string> texts_;
  std::vector<Block> blocks_;
  std::vector<DimEntry> dims_;
  std::set<std::string> sizes_;
  std::vector<std::string> unknown_;
  bool has_bad_place_ = false;
  int64_t n_nodes_ = 0;
};

Result<Graph> read_checked(const std::shared_ptr<const std::byte>& bytes, uint64_t size, const Limits& limits) {
  Header header;
  if (size < sizeof header || !is_saved_graph({bytes.get(), sizeof header}))
    return fail(ErrorCode::E602, "it is no saved graph, or is truncated");
  std::memcpy(&header, bytes.get(), sizeof header);
  if (header.version != kVersion)
    return fail(ErrorCode::E602, fmt::format("it is a saved graph of version {}, and this Fettle reads version {}",
                                             header.version, kVersion));
  if (header.file_bytes != size)
    return fail(ErrorCode::E602, fmt::format("it should have {} bytes, and has {}", header.file_bytes, size));
  if (header.zero != 0 || header.reserved != 0 || header.structure_bytes > size - sizeof header)
    return fail(ErrorCode::E602, "its header is damaged");
  const uint64_t first_block = aligned(sizeof header + header.structure_bytes);
  const std::byte* structure = bytes.get() + sizeof header;
  if (first_block > size ||
      digest_large({structure, header.structure_bytes}) != Digest{.high = header.digest_high, .low = header.digest_low})
    return fail(ErrorCode::E602, "its structure is damaged");
  return GraphReader({reinterpret_cast<const char*>(structure), header.structure_bytes}, bytes, first_block, size,
                     limits)
      .read();
}

}  // namespace

bool is_saved_graph(std::span<const std::byte> head) {
  return head.size() >= kMagic.size() && std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<Graph> read_saved_graph(const std::shared_ptr<const std::byte>& bytes, int64_t size_bytes,
                               const std::string& label, const Limits& limits) {
  Result<Graph> made = read_checked(bytes, static_cast<uint64_t>(size_bytes), limits);
  if (!made && made.error().where.empty()) made.error().where = label;
  return made;
}

}  // namespace fettle
