#include "codegen/artefact/elf_symbols.h"

#include <elf.h>

#include <cstring>
#include <set>
#include <string>

#include "codegen/artefact/elf_writer.h"

namespace fettle {
namespace {

/// An object that is changed in memory. Structs are copied out and in: nothing says that they are aligned.
class Object {
 public:
  explicit Object(std::vector<uint8_t>& bytes) : bytes_(bytes) {}

  /// Finds the table of symbols and their names. E303.
  Result<> read() {
    if (!is_relocatable_object({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()})) return malformed();
    const auto start = at<Elf64_Ehdr>(0);
    for (uint64_t i = 0; i < start.e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(start.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_SYMTAB) continue;
      if (section.sh_link >= start.e_shnum) return malformed();
      symbols_ = section;
      names_at_ = start.e_shoff + section.sh_link * sizeof(Elf64_Shdr);
      names_ = at<Elf64_Shdr>(names_at_);
      if (names_.sh_size == 0 || bytes_[names_.sh_offset + names_.sh_size - 1] != 0) return malformed();
    }
    return {};
  }

  /// Calls visit(symbol, name) for each global symbol; the symbol is written back where it returns true. E303.
  template <class Visit>
  Result<> each_global(Visit visit) {
    for (uint64_t i = symbols_.sh_info; i * sizeof(Elf64_Sym) < symbols_.sh_size; ++i) {
      const uint64_t place = symbols_.sh_offset + i * sizeof(Elf64_Sym);
      auto symbol = at<Elf64_Sym>(place);
      if (symbol.st_name >= names_.sh_size) return malformed();
      const std::string name(reinterpret_cast<const char*>(bytes_.data() + names_.sh_offset + symbol.st_name));
      if (visit(symbol, name)) std::memcpy(bytes_.data() + place, &symbol, sizeof symbol);
    }
    return {};
  }

  /// The table of names moves to the end, with these behind it.
  void add_names(const std::string& added) {
    const std::vector<uint8_t> before(bytes_.begin() + static_cast<ptrdiff_t>(names_.sh_offset),
                                      bytes_.begin() + static_cast<ptrdiff_t>(names_.sh_offset + names_.sh_size));
    names_.sh_offset = bytes_.size();
    names_.sh_size += added.size();
    bytes_.insert(bytes_.end(), before.begin(), before.end());
    bytes_.insert(bytes_.end(), added.begin(), added.end());
    std::memcpy(bytes_.data() + names_at_, &names_, sizeof names_);
  }
  uint64_t name_bytes() const { return names_.sh_size; }

 private:
  template <class T>
  T at(uint64_t place) const {
    T value;
    std::memcpy(&value, bytes_.data() + place, sizeof value);
    return value;
  }
  static tl::unexpected<Diagnostic> malformed() {
    return fail(ErrorCode::E303, "an object that is to be linked is none for x86-64");
  }

  std::vector<uint8_t>& bytes_;
  Elf64_Shdr symbols_{}, names_{};
  uint64_t names_at_ = 0;  // the header of the section of names
};

}  // namespace

Result<> rename_symbols(std::span<const std::vector<uint8_t>> objects, std::string_view suffix,
                        std::vector<std::vector<uint8_t>>& renamed) {
  const size_t first = renamed.size();
  renamed.insert(renamed.end(), objects.begin(), objects.end());
  std::set<std::string> defined;
  for (size_t i = first; i < renamed.size(); ++i) {
    Object object(renamed[i]);
    FETTLE_TRY_VOID(object.read());
    FETTLE_TRY_VOID(object.each_global([&](const Elf64_Sym& symbol, const std::string& name) {
      if (symbol.st_shndx != SHN_UNDEF) defined.insert(name);
      return false;
    }));
  }
  for (size_t i = first; i < renamed.size(); ++i) {
    Object object(renamed[i]);
    FETTLE_TRY_VOID(object.read());
    std::string added;
    FETTLE_TRY_VOID(object.each_global([&](Elf64_Sym& symbol, const std::string& name) {
      if (!defined.contains(name)) return false;
      symbol.st_name = static_cast<uint32_t>(object.name_bytes() + added.size());
      added += name + std::string(suffix) + '\0';
      return true;
    }));
    object.add_names(added);
  }
  return {};
}

}  // namespace fettle
