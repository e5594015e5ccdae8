#pragma once
// Graphs in files, as any front end made them. docs/saved-graphs.md says what is in one.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/limits.h"

namespace fettle {

/// Takes the next bytes of a file.
using ByteSink = std::function<Result<>(std::string_view bytes)>;

/// Writes a graph as its front end made it, in pieces. Equal graphs are equal bytes. Nodes must be sorted.
/// E605 states or classes of sizes, which are told when a model is compiled · errors of `sink`
Result<> save_graph(const Graph& graph, const ByteSink& sink);
/// The same in memory.
Result<std::string> save_graph(const Graph& graph);

/// Whether the bytes begin as a saved graph does.
bool is_saved_graph(std::span<const std::byte> head);

/// The graph in a file's bytes, whose constants share them.
/// E602 damaged, or of a newer Fettle · E603 operators that are not known, all of them · E605, E606 the graph is not
/// well-formed · E608 a limit. label: of errors that have no other place.
Result<Graph> read_saved_graph(const std::shared_ptr<const std::byte>& bytes, int64_t size_bytes,
                               const std::string& label, const Limits& limits = {});

}  // namespace fettle
