#pragma once
// A digest of large memory, at the memory's speed.

#include <cstddef>
#include <span>

#include "base/hash.h"

namespace fettle {

/// Another one than digest_bytes gives; stable likewise.
Digest digest_large(std::span<const std::byte> bytes);

}  // namespace fettle
