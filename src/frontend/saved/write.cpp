#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/large_digest.h"
#include "base/version.h"
#include "frontend/saved/format.h"
#include "frontend/saved/saved.h"
#include "graph/op.h"
#include "graph/strings.h"
#include "ir/fields.h"

namespace fettle {
namespace {

using namespace saved;

static_assert(std::endian::native == std::endian::little);

class Bytes {
 public:
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  void integer(int64_t value) { number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  void count(size_t value) { number(value); }
  void raw(const void* data, size_t size) { text_.append(static_cast<const char*>(data), size); }
  template <typename T>
  void as_is(const T& value) {
    raw(&value, sizeof value);
  }
  void text(std::string_view value) {
    count(value.size());
    text_ += value;
  }
  void append(const Bytes& other) { text_ += other.text_; }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

class Writer {
 public:
  void graph(const Graph& graph) {
    std::unordered_map<const Value*, uint64_t> places;
    name(graph.name());
    out_.count(graph.inputs().size());
    for (const Value* input : graph.inputs()) {
      places.emplace(input, places.size());
      value(*input);
    }
    std::vector<const Value*> constants;
    const auto visit = [&](const Value* used) {
      if (used && used->is_constant() && !used->producer && places.emplace(used, places.size()).second)
        constants.push_back(used);
    };
    for (const Node* node : graph.nodes())
      if (!node->erased)
        for (const Value* input : node->inputs) visit(input);
    for (const GraphOutput& output : graph.outputs()) visit(output.value);
    out_.count(constants.size());
    for (const Value* constant : constants) {
      name(constant->name);
      tensor(*constant->constant);
    }
    size_t n_nodes = 0;
    for (const Node* node : graph.nodes()) n_nodes += !node->erased;
    out_.count(n_nodes);
    for (const Node* node : graph.nodes())
      if (!node->erased) this->node(*node, places);
    out_.count(graph.outputs().size());
    for (const GraphOutput& output : graph.outputs()) {
      name(output.name);
      out_.number(places.at(output.value));
    }
    out_.count(graph.size_checks().size());
    for (const SizeCheck& check : graph.size_checks()) {
      dim(check.value);
      out_.number(check.is_zero);
      name(check.message);
    }
    out_.count(graph.structures().size());
    for (const GraphStructure& structure : graph.structures()) {
      name(structure.name);
      name(structure.type);
      out_.number(structure.is_output);
      out_.integer(structure.first);
      out_.integer(structure.count);
    }
  }

  Result<> finish(const ByteSink& sink) {
    Bytes structure;
    structure.text(name_and_version());
    structure.count(texts_.size());
    for (const std::string& text : texts_) structure.text(text);
    structure.count(blocks_.size());
    for (const ConstantTensor* block : blocks_) {
      const Digest digest = digest_large({block->bytes.get(), static_cast<size_t>(block->size_bytes)});
      structure.number(static_cast<uint64_t>(block->size_bytes));
      structure.as_is(digest.high);
      structure.as_is(digest.low);
    }
    structure.count(n_dims_);
    structure.append(dims_);
    structure.append(out_);
    const std::string& text = structure.str();
    const Digest digest = digest_large(std::as_bytes(std::span(text)));
    Header header{
        .version = kVersion, .structure_bytes = text.size(), .digest_high = digest.high, .digest_low = digest.low};
    std::memcpy(header.magic, kMagic.data(), kMagic.size());
    uint64_t at = aligned(sizeof header + text.size());
    for (const ConstantTensor* block : blocks_) at = aligned(at + static_cast<uint64_t>(block->size_bytes));
    header.file_bytes = at;
    FETTLE_TRY_VOID(sink({reinterpret_cast<const char*>(&header), sizeof header}));
    FETTLE_TRY_VOID(put(sink, text));
    for (const ConstantTensor* block : blocks_)
      FETTLE_TRY_VOID(
          put(sink, {reinterpret_cast<const char*>(block->bytes.get()), static_cast<size_t>(block->size_bytes)}));
    return {};
  }

 private:
  // What is put begins at a multiple of kAlignment, and zeros follow it up to the next.
  static Result<> put(const ByteSink& sink, std::string_view bytes) {
    FETTLE_TRY_VOID(sink(bytes));
    return sink(std::string(aligned(bytes.size()) - bytes.size(), '\0'));
  }

  uint64_t place_of(std::string_view text) {
    const auto [at, is_new] = text_places_.try_emplace(std::string(text), texts_.size());
    if (is_new) texts_.push_back(at->first);
    return at->second;
  }
  void name(std::string_view text) { out_.number(place_of(text)); }

  // Of two dims that have one text, one is written.
  uint64_t place_of(const Dim& dim) {
    const std::string text = dim.to_string();
    if (const auto found = dim_places_.find(text); found != dim_places_.end()) return found->second;
    Bytes entry;
    const auto kind = [&](DimKind of) { entry.number(static_cast<uint64_t>(of)); };
    const std::vector<DimTerm> terms = dim.terms();
    if (const std::string_view symbol = dim.symbol_name(); !symbol.empty()) {
      kind(DimKind::kSymbol);
      entry.number(place_of(symbol));
      entry.integer(dim.min());
      entry.integer(dim.max());
      entry.integer(dim.divisor());
      entry.integer(dim.typical());
    } else if (terms.size() == 1 && dim.constant() == 0 && terms[0].coefficient == 1 && terms[0].factors.size() == 1) {
      const DimFactor& factor = terms[0].factors[0];
      const uint64_t a = place_of(factor.a), b = place_of(factor.b);
      switch (factor.kind) {
        case DimFactor::Kind::kFloorDiv:
          kind(DimKind::kFloorDiv);
          break;
        case DimFactor::Kind::kMax:
          kind(DimKind::kMax);
          break;
        case DimFactor::Kind::kMin:
          kind(DimKind::kMin);
          break;
        default:
          kind(DimKind::kProduct);
      }
      entry.number(a);
      entry.number(b);
    } else {
      kind(DimKind::kSum);
      entry.integer(dim.constant());
      entry.count(terms.size());
      for (const DimTerm& term : terms) {
        entry.integer(term.coefficient);
        entry.count(term.factors.size());
        for (const DimFactor& factor : term.factors) entry.number(place_of(factor.whole));
      }
    }
    dims_.append(entry);
    return dim_places_[text] = n_dims_++;
  }
  void dim(const Dim& dim) { out_.number(place_of(dim)); }
  void dims(const std::vector<Dim>& list) {
    out_.count(list.size());
    for (const Dim& one : list) dim(one);
  }
  void type(const TensorType& type) {
    name(type.dtype.to_string());
    dims(type.shape);
  }

  // Memory that several constants share is one block.
  void tensor(const ConstantTensor& tensor) {
    name(tensor.dtype.to_string());
    out_.count(tensor.shape.size());
    for (const int64_t extent : tensor.shape) out_.integer(extent);
    if (tensor.dtype.is_string()) {
      for (const std::string& text : to_strings(tensor)) name(text);
      return;
    }
    if (tensor.size_bytes == 0) return;
    const auto [at, is_new] = block_places_.try_emplace({tensor.bytes.get(), tensor.size_bytes}, blocks_.size());
    if (is_new) blocks_.push_back(&tensor);
    out_.number(at->second);
  }

  // What types, contents and constants the values of nodes have follows from what their operators say of their inputs.
  void value(const Value& value) {
    const bool has_type = value.type && !value.producer;
    name(value.name);
    out_.number((has_type ? kHasType : 0) | (value.declared ? kHasDeclared : 0));
    if (has_type) type(*value.type);
    if (value.declared) type(*value.declared);
  }

  void attribute(const AttrValue& value) {
    out_.count(value.index());
    const auto list = [&](const auto& elements, const auto& put) {
      out_.count(elements.size());
      for (const auto& element : elements) put(element);
    };
    std::visit(Overloaded{
                   [&](int64_t v) { out_.integer(v); },
                   [&](double v) { out_.as_is(v); },
                   [&](const std::string& v) { name(v); },
                   [&](const std::vector<int64_t>& v) { list(v, [&](int64_t x) { out_.integer(x); }); },
                   [&](const std::vector<double>& v) { list(v, [&](double x) { out_.as_is(x); }); },
                   [&](const std::vector<std::string>& v) { list(v, [&](const std::string& x) { name(x); }); },
                   [&](const ConstantTensor& v) { tensor(v); },
                   [&](const std::vector<Dim>& v) { dims(v); },
               },
               value);
  }

  void node(const Node& node, std::unordered_map<const Value*, uint64_t>& places) {
    name(node.op->name);
    name(node.name);
    out_.count(node.attrs.entries.size());
    for (const auto& [key, value] : node.attrs.entries) {
      name(key);
      attribute(value);
    }
    out_.count(node.inputs.size());
    for (const Value* input : node.inputs) out_.number(input ? places.at(input) + 1 : 0);
    out_.count(node.outputs.size());
    for (const Value* output : node.outputs) {
      places.emplace(output, places.size());
      value(*output);
    }
    out_.count(node.provenance.size());
    for (const Origin& origin : node.provenance) {
      name(origin.op);
      name(origin.name);
    }
    out_.count(node.bodies.size());
    for (const auto& body : node.bodies) graph(*body);
  }

  Bytes out_, dims_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint64_t> text_places_, dim_places_;
  uint64_t n_dims_ = 0;
  std::vector<const ConstantTensor*> blocks_;
  std::map<std::pair<const std::byte*, int64_t>, uint64_t> block_places_;
};

}  // namespace

Result<> save_graph(const Graph& graph, const ByteSink& sink) {
  if (!graph.states().empty() || !graph.size_classes().empty())
    return fail(ErrorCode::E605, "states and classes of sizes are of a compilation, not of a model", graph.name());
  Writer writer;
  writer.graph(graph);
  return writer.finish(sink);
}

Result<std::string> save_graph(const Graph& graph) {
  std::string bytes;
  FETTLE_TRY_VOID(save_graph(graph, [&](std::string_view next) -> Result<> {
    bytes += next;
    return {};
  }));
  return bytes;
}

}  // namespace fettle
