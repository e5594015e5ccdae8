// TfIdfVectorizer: how often the sequences of a vocabulary occur.

#include <fmt/format.h>

#include "graph/passes/lowering.h"
#include "graph/strings.h"

namespace fettle {
namespace {

using namespace ops;
using passes::composite;
using passes::Lowering;

/// The sequences of one length: element j of all, and the place in the result of each.
struct Grams {
  int64_t length = 0;
  std::vector<std::vector<int64_t>> elements;  // [length][sequences]
  std::vector<int64_t> places;
};

/// What sequences are made of: integers, or strings' numbers, as the input is.
Result<std::vector<int64_t>> read_pool(const Node& node) {
  const bool has_strings = node.attrs.has("pool_strings"), is_string = dtype_of(node, 0).is_string();
  if (has_strings == node.attrs.has("pool_int64s"))
    return bad_attribute(node, "it has one of pool_int64s and pool_strings");
  if (has_strings != is_string || !(is_string || dtype_of(node, 0).is_int()))
    return bad_types(node, fmt::format("its input is of {}, unlike its pool", dtype_of(node, 0).to_string()));
  if (!has_strings) return node.attrs.get_ints("pool_int64s");
  const auto* strings = std::get_if<std::vector<std::string>>(node.attrs.find("pool_strings"));
  if (!strings) return bad_attribute(node, "pool_strings are no strings");
  std::vector<int64_t> pool;
  for (const std::string& text : *strings) pool.push_back(string_number(text));
  return pool;
}

Result<std::vector<Grams>> read_grams(const Node& node) {
  FETTLE_TRY(const std::vector<int64_t> pool, read_pool(node));
  const auto counts = node.attrs.get_ints("ngram_counts");
  const auto places = node.attrs.get_ints("ngram_indexes");
  const int64_t least = node.attrs.get_int("min_gram_length", 1), most = node.attrs.get_int("max_gram_length", 1);
  std::vector<Grams> all;
  size_t next = 0;  // of all sequences
  for (size_t k = 0; k < counts.size(); ++k) {
    const int64_t begin = counts[k], end = k + 1 < counts.size() ? counts[k + 1] : std::ssize(pool);
    const auto length = static_cast<int64_t>(k) + 1;
    if (begin < 0 || end < begin || end > std::ssize(pool) || (end - begin) % length != 0)
      return bad_attribute(node, "ngram_counts do not fit the pool");
    const auto n = static_cast<size_t>((end - begin) / length);
    if (next + n > places.size()) return bad_attribute(node, "ngram_indexes are fewer than the sequences");
    if (n > 0 && length >= least && length <= most) {
      Grams grams{length, std::vector<std::vector<int64_t>>(static_cast<size_t>(length)), {}};
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < static_cast<size_t>(length); ++j)
          grams.elements[j].push_back(pool[static_cast<size_t>(begin) + i * static_cast<size_t>(length) + j]);
        grams.places.push_back(places[next + i]);
      }
      all.push_back(std::move(grams));
    }
    next += n;
  }
  return all;
}

// Of x [batch, length]: for each sequence, in how many places it is, its elements `distance` from each other.
Value* occurrences(Lowering& g, Value* x, const Grams& grams, int64_t distance) {
  const Dim n_places = x->shape()[1] - (grams.length - 1) * distance;
  if (n_places.max() < 1) return nullptr;
  Value* found = nullptr;
  for (int64_t j = 0; j < grams.length; ++j) {
    Attrs part;
    part.set("starts", std::vector<int64_t>{j * distance});
    part.set("ends", dims_attr({max(n_places, 0) + j * distance}));
    part.set("axes", std::vector<int64_t>{1});
    Value* elements = g.unsqueeze(g("Slice", {x}, std::move(part)), {2});
    ConstantTensor wanted = int_list(grams.elements[static_cast<size_t>(j)]);
    wanted.dtype = x->dtype();                                                // integers, or strings' numbers
    Value* is_equal = g("Equal", {elements, g.constant(std::move(wanted))});  // [batch, place, gram]
    found = found ? g("And", {found, is_equal}) : is_equal;
  }
  return g.reduce("ReduceSum", g.cast(found, kF32), {1}, false);
}

Result<std::vector<Value*>> tf_idf(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1, 2));
  FETTLE_TRY(const std::vector<Grams> all, read_grams(node));
  const std::string mode = node.attrs.get_string("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return bad_attribute(node, "mode is " + mode);
  const auto places = node.attrs.get_ints("ngram_indexes");
  constexpr int64_t kMostPlaces = 1 << 24;
  int64_t width = 0;
  for (const int64_t place : places) {
    if (place < 0 || place >= kMostPlaces) return bad_attribute(node, fmt::format("an index of {}", place));
    width = std::max(width, place + 1);
  }
  const bool is_row = rank_of(node, 0) == 1;
  Value* x = dtype_of(node, 0).is_string() ? node.inputs[0] : g.cast(node.inputs[0], kI64);
  if (is_row) x = g.unsqueeze(x, {0});
  const int64_t most_skipped = node.attrs.get_int("max_skip_count", 0);
  if (most_skipped < 0 || most_skipped > kMaxDim) return bad_attribute(node, "max_skip_count is out of range");

  std::vector<Value*> counts;
  std::vector<int64_t> column(static_cast<size_t>(width), -1);  // of what is counted, for each place
  int64_t n_columns = 0;
  for (const Grams& grams : all) {
    Value* sum = nullptr;
    for (int64_t distance = 1; distance <= (grams.length == 1 ? 1 : most_skipped + 1); ++distance) {
      Value* own = occurrences(g, x, grams, distance);
      if (!own || !g.status()) break;
      sum = sum ? g("Add", {sum, own}) : own;
    }
    if (!sum) continue;
    counts.push_back(sum);
    for (const int64_t place : grams.places) {
      if (column[static_cast<size_t>(place)] >= 0) return bad_attribute(node, "two sequences have one index");
      column[static_cast<size_t>(place)] = n_columns++;
    }
  }
  // Nothing is counted in the last column.
  counts.push_back(g("Expand", {g.number(0, kF32)}, {{{"shape", dims_attr({x->shape()[0], 1})}}}));
  for (int64_t& c : column) c = c < 0 ? n_columns : c;
  Value* y = g("Concat", counts, {{{"axis", int64_t{1}}}});
  y = g("Gather", {y, g.ints(column)}, {{{"axis", int64_t{1}}}});
  Value* weights = g.number(1, kF32);
  if (const AttrValue* given = node.attrs.find("weights")) {
    const auto* list = std::get_if<std::vector<double>>(given);
    if (!list || std::ssize(*list) < width) return bad_attribute(node, "weights are fewer than the sequences");
    weights = g.constant(to_tensor(std::span(*list).first(static_cast<size_t>(width)), kF32, {width}).value());
  }
  if (mode == "IDF") y = g("Where", {g("Greater", {y, g.number(0, kF32)}), weights, g.number(0, kF32)});
  if (mode == "TFIDF") y = g("Mul", {y, weights});
  return std::vector{is_row ? g("Squeeze", {y}, {{{"axes", std::vector<int64_t>{0}}}}) : y};
}

constexpr OpDef ngrams_defs[] = {composite<tf_idf>("TfIdfVectorizer", 1)};

}  // namespace

extern constinit const OpFamily ngrams_ops{"ngrams", ngrams_defs};

}  // namespace fettle
