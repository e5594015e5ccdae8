#pragma once
// What writer and reader of saved graphs share.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fettle::saved {

/// The file: this header, in the byte order of x86; the structure, right behind it; blocks of constants, each at the
/// next multiple of kAlignment, with zeros between them, and after the last one.
struct Header {
  char magic[16];
  uint32_t version;
  uint32_t zero;
  uint64_t structure_bytes;
  uint64_t digest_high, digest_low;  // digest_large of the structure
  uint64_t file_bytes;
  uint64_t reserved;
};
static_assert(sizeof(Header) == 64);

inline constexpr std::string_view kMagic{"fettle graph\n\0\0\0", 16};
/// Of the structure and of what it means. A change of either is the next one.
inline constexpr uint32_t kVersion = 1;
inline constexpr uint64_t kAlignment = 64;

inline constexpr uint64_t aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// The structure is numbers of seven bits a byte, the lowest first; signed ones are 0, -1, 1, -2, …. It has, each with
// their count before them:
//   the writer's version, with its length
//   texts, each with its length; others name them by their place
//   blocks: bytes, and digest_large of them
//   dims, which name those before them
//   the graph

/// Of a dim.
enum class DimKind : uint8_t { kSymbol, kSum, kFloorDiv, kMax, kMin, kProduct };

/// Of an attribute, in the order of AttrValue.
enum class AttrKind : uint8_t { kInt, kFloat, kText, kInts, kFloats, kTexts, kTensor, kDims };

// What is known of a value: one bit each.
inline constexpr uint64_t kHasType = 1, kHasDeclared = 2;

}  // namespace fettle::saved
