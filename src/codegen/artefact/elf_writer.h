#pragma once
// Writes ELF64 files for x86-64: a list of sections, laid out in order. No program headers: for a linker to read.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// A section's contents are `bytes`, then each of `blobs` at its own alignment; blobs are not copied until written.
struct ElfSection {
  std::string name;
  uint32_t type = 0;   // SHT_…
  uint64_t flags = 0;  // SHF_…
  uint64_t alignment = 1;
  uint32_t link = 0;
  uint32_t info = 0;
  uint64_t entry_bytes = 0;
  std::string bytes;

  struct Blob {
    uint64_t offset;  // in the section
    std::span<const std::byte> bytes;
  };
  std::vector<Blob> blobs;

  uint64_t size() const;
  /// Appends a blob at the next multiple of `blob_alignment` and returns its offset.
  uint64_t add_blob(std::span<const std::byte> blob, uint64_t blob_alignment);
};

/// Writes a file of type ET_REL or ET_DYN to a file descriptor open for writing. The null section and the table of
/// section names are added: sections[i] gets number i + 1. Errors: E702.
Result<> write_elf(int fd, uint16_t type, std::vector<ElfSection> sections);

/// Puts together a relocatable object: sections, symbols and 64-bit absolute relocations.
class ObjectBuilder {
 public:
  /// Returns the section's number, to be used below.
  int add_section(ElfSection section);
  ElfSection& section(int number) { return sections_[static_cast<size_t>(number)]; }

  /// Defines a global symbol for data at `offset` of a section.
  void define(std::string_view name, int section, uint64_t offset, uint64_t bytes);

  /// The eight bytes at `offset` of `section` become the address of `addend` bytes into section `target`.
  void point(int section, uint64_t offset, int target, uint64_t addend);
  /// The same for a symbol that another object defines.
  void point_to_symbol(int section, uint64_t offset, std::string_view name, uint64_t addend = 0);

  /// Errors: E702.
  Result<> write(int fd);

 private:
  struct Symbol {
    std::string name;
    int section = -1;  // -1: undefined
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  struct Relocation {
    int section;
    uint64_t offset;
    bool to_section;
    int target;  // section or symbol
    uint64_t addend;
  };
  std::vector<ElfSection> sections_;
  std::vector<Symbol> symbols_;
  std::vector<Relocation> relocations_;
};

/// Writes a shared library that defines `functions` and nothing else, for linking against.
/// soname: what depends on it will name as needed. Errors: E702.
Result<> write_stub_library(int fd, std::string_view soname, std::span<const std::string_view> functions);

/// Whether these bytes are a relocatable object for x86-64 whose sections all lie within them.
bool is_relocatable_object(std::string_view bytes);

}  // namespace fettle
