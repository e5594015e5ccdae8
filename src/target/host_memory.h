#pragma once
// Memory of this machine, as tensors want it.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fettle {

/// At least `size_bytes` zero bytes, aligned to 64, freed with the last reference; large blocks in huge pages, which
/// the system hands out several times faster. Null: no memory.
std::shared_ptr<std::byte> zeroed_bytes(int64_t size_bytes);

}  // namespace fettle
