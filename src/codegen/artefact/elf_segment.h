#pragma once
// Adds data to a shared library that is linked already, so that much of it never passes through the linker.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"
#include "codegen/artefact/elf_writer.h"

namespace fettle {

/// A pointer in the library, and the data that it shall point to.
struct SegmentPointer {
  uint64_t at = 0;      // bytes behind the symbol; a pointer into the library, which the linker has relocated
  uint64_t target = 0;  // bytes into the segment
};

/// Appends `data` to the x86-64 library at `path`: a segment of its own, mapped read-only behind all others, and a
/// section. Its program header is that of the library's note, which is given up. `symbol`: a dynamic symbol.
/// Errors: E303 the library has no note, no such symbol, or a pointer is none · E702 it cannot be written.
Result<> append_segment(const std::filesystem::path& path, const ElfSection& data, std::string_view symbol,
                        std::span<const SegmentPointer> pointers);

/// A section by which the linker makes room for one program header more.
ElfSection spare_note();

}  // namespace fettle
