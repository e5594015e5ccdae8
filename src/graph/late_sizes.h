#pragma once
// Sizes that no input's shape tells: they come to be known when a node has run, which is said to define them.

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace fettle {

/// The attribute of a node that defines sizes: dims, of which those that are sizes are meant.
///   DefineSizes  one for each element of its input, which holds it
///   If           one for each dim of all outputs, in order; -1 where both bodies tell it
///   Loop         one for each dim of the values that it carries, likewise, and one for the number of iterations
inline constexpr const char* kDefinesKey = "defines";
/// Of a Loop: the dims of the values that it carries as an iteration finds them.
inline constexpr const char* kCarriedSizesKey = "carried_sizes";
/// Of an If, for each body, and of a Loop: a size of 0 or 1 that is 1 where the body runs.
inline constexpr const char* kRunsKey = "runs";

inline constexpr const char* kDefineSizes = "DefineSizes";

bool is_size_definition(const Node& node);  // DefineSizes
/// The attribute's dims; none where there is no such attribute.
std::vector<Dim> dims_of_attr(const Node& node, std::string_view key);
/// The sizes that the node defines.
std::vector<Dim> defined_sizes(const Node& node);

/// Calls `visit` with each size that the node's attributes and outputs speak of, and its bodies; some more than once.
void for_each_size(const Node& node, const std::function<void(std::string_view size)>& visit);

/// The sizes that exist only while body i of the node runs.
std::set<std::string, std::less<>> sizes_of_body(const Node& node, size_t i);
bool mentions_any(const Dim& dim, const std::set<std::string, std::less<>>& sizes);

/// A node that defines sizes, whatever is known of its input: the dims that are sizes, one for each element.
Node* add_size_definition(Graph& graph, Value* value, std::vector<Dim> dims);
/// A value's elements, integers of 32 or 64 bits, become sizes: at most 64, of rank 0 or 1. The node that defines them
/// is added, if there is none yet. Each lies in [min, max]. False where the value cannot be sizes.
bool define_sizes(Graph& graph, Value* value, int64_t min, int64_t max, int64_t typical = 0);

}  // namespace fettle
