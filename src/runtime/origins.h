#pragma once
// Where kernels come from: the nodes of the model file whose work they do.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fettle {

struct KernelOrigin {
  std::string op;    // "Conv"
  std::string name;  // of the node
};

/// FettleModelInfo::kernel_origins as a list: "Conv c1\nRelu r1" → (Conv, c1), (Relu, r1). Any text gives some list.
std::vector<KernelOrigin> split_origins(std::string_view lines);

/// The same for people: "Conv c1, Relu r1 and 3 more", at most `most` of them; "" for none.
std::string origins_to_string(std::string_view lines, size_t most);

}  // namespace fettle
