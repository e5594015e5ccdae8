#include "codegen/artefact/elf_writer.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/check.h"

namespace fettle {
namespace {

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// The bytes of an ELF structure.
template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A table of names: each ends with a zero, the first is empty.
class Names {
 public:
  uint32_t add(std::string_view name) {
    const auto at = static_cast<uint32_t>(text_.size());
    text_ += name;
    text_ += '\0';
    return at;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_ = std::string(1, '\0');
};

/// Writes in order, remembering the place; gaps are zero.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  void write(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    place_ += bytes;
    while (bytes > 0 && error_ == 0) {
      const ssize_t written = ::write(fd_, at, std::min<size_t>(bytes, size_t{1} << 30));
      if (written < 0) {
        if (errno != EINTR) error_ = errno;
        continue;
      }
      at += written;
      bytes -= static_cast<size_t>(written);
    }
  }
  void write(std::string_view text) { write(text.data(), text.size()); }
  void pad_to(uint64_t place) {
    static constexpr char zeros[4096] = {};
    FETTLE_CHECK(place >= place_);
    while (place_ < place && error_ == 0) write(zeros, std::min<uint64_t>(place - place_, sizeof zeros));
  }
  Result<> finish() const {
    if (error_ != 0) return fail(ErrorCode::E702, std::strerror(error_), "an object for the linker");
    return {};
  }

 private:
  int fd_;
  uint64_t place_ = 0;
  int error_ = 0;
};

Elf64_Sym make_symbol(uint32_t name, unsigned char info, uint16_t section, uint64_t value, uint64_t bytes) {
  Elf64_Sym symbol{};
  symbol.st_name = name;
  symbol.st_info = info;
  symbol.st_shndx = section;
  symbol.st_value = value;
  symbol.st_size = bytes;
  return symbol;
}

}  // namespace

uint64_t ElfSection::size() const {
  if (blobs.empty()) return bytes.size();
  return blobs.back().offset + blobs.back().bytes.size();
}

uint64_t ElfSection::add_blob(std::span<const std::byte> blob, uint64_t blob_alignment) {
  const uint64_t offset = round_up(size(), blob_alignment);
  alignment = std::max(alignment, blob_alignment);
  blobs.push_back({offset, blob});
  return offset;
}

Result<> write_elf(int fd, uint16_t type, std::vector<ElfSection> sections) {
  Names names;
  std::vector<uint32_t> name_at;
  for (const ElfSection& section : sections) name_at.push_back(names.add(section.name));
  name_at.push_back(names.add(".shstrtab"));
  sections.push_back({.name = ".shstrtab", .type = SHT_STRTAB, .bytes = names.take()});

  std::vector<Elf64_Shdr> headers(1);
  uint64_t place = sizeof(Elf64_Ehdr);
  for (size_t i = 0; i < sections.size(); ++i) {
    const ElfSection& section = sections[i];
    Elf64_Shdr header{};
    place = round_up(place, section.alignment);
    header.sh_name = name_at[i];
    header.sh_type = section.type;
    header.sh_flags = section.flags;
    header.sh_offset = place;
    header.sh_size = section.size();
    header.sh_link = section.link;
    header.sh_info = section.info;
    header.sh_addralign = section.alignment;
    header.sh_entsize = section.entry_bytes;
    headers.push_back(header);
    place += section.size();
  }
  place = round_up(place, alignof(Elf64_Shdr));

  Elf64_Ehdr start{};
  std::memcpy(start.e_ident, ELFMAG, SELFMAG);
  start.e_ident[EI_CLASS] = ELFCLASS64;
  start.e_ident[EI_DATA] = ELFDATA2LSB;
  start.e_ident[EI_VERSION] = EV_CURRENT;
  start.e_type = type;
  start.e_machine = EM_X86_64;
  start.e_version = EV_CURRENT;
  start.e_shoff = place;
  start.e_ehsize = sizeof(Elf64_Ehdr);
  start.e_shentsize = sizeof(Elf64_Shdr);
  start.e_shnum = static_cast<uint16_t>(headers.size());
  start.e_shstrndx = static_cast<uint16_t>(headers.size() - 1);

  Output out(fd);
  out.write(bytes_of(start));
  for (size_t i = 0; i < sections.size(); ++i) {
    const uint64_t begin = headers[i + 1].sh_offset;
    out.pad_to(begin);
    out.write(sections[i].bytes);
    for (const ElfSection::Blob& blob : sections[i].blobs) {
      out.pad_to(begin + blob.offset);
      out.write(blob.bytes.data(), blob.bytes.size());
    }
  }
  out.pad_to(place);
  for (const Elf64_Shdr& header : headers) out.write(bytes_of(header));
  return out.finish();
}

int ObjectBuilder::add_section(ElfSection section) {
  sections_.push_back(std::move(section));
  return static_cast<int>(sections_.size()) - 1;
}

void ObjectBuilder::define(std::string_view name, int section, uint64_t offset, uint64_t bytes) {
  symbols_.push_back({std::string(name), section, offset, bytes});
}

void ObjectBuilder::point(int section, uint64_t offset, int target, uint64_t addend) {
  relocations_.push_back({section, offset, true, target, addend});
}

void ObjectBuilder::point_to_symbol(int section, uint64_t offset, std::string_view name, uint64_t addend) {
  auto found = std::ranges::find(symbols_, name, &Symbol::name);
  if (found == symbols_.end()) {
    symbols_.push_back({.name = std::string(name)});
    found = symbols_.end() - 1;
  }
  relocations_.push_back({section, offset, false, static_cast<int>(found - symbols_.begin()), addend});
}

Result<> ObjectBuilder::write(int fd) {
  std::vector<ElfSection> all = sections_;
  const auto n_sections = static_cast<uint32_t>(sections_.size());
  const uint32_t first_global = n_sections + 1;

  Names names;
  std::string table(bytes_of(Elf64_Sym{}));
  for (uint32_t i = 0; i < n_sections; ++i)
    table += bytes_of(make_symbol(0, ELF64_ST_INFO(STB_LOCAL, STT_SECTION), static_cast<uint16_t>(i + 1), 0, 0));
  for (const Symbol& symbol : symbols_) {
    const bool defined = symbol.section >= 0;
    table += bytes_of(make_symbol(names.add(symbol.name), ELF64_ST_INFO(STB_GLOBAL, defined ? STT_OBJECT : STT_NOTYPE),
                                  static_cast<uint16_t>(symbol.section + 1), symbol.offset, symbol.bytes));
  }
  std::map<int, std::string> relocations;  // by section
  for (const Relocation& relocation : relocations_) {
    Elf64_Rela entry{};
    const uint64_t symbol = static_cast<uint64_t>(relocation.target) + (relocation.to_section ? 1 : first_global);
    entry.r_offset = relocation.offset;
    entry.r_info = ELF64_R_INFO(symbol, R_X86_64_64);
    entry.r_addend = static_cast<int64_t>(relocation.addend);
    relocations[relocation.section] += bytes_of(entry);
  }
  const uint32_t symtab = n_sections + static_cast<uint32_t>(relocations.size()) + 1;
  for (auto& [section, entries] : relocations) {
    all.push_back({.name = ".rela" + sections_[static_cast<size_t>(section)].name,
                   .type = SHT_RELA,
                   .flags = SHF_INFO_LINK,
                   .alignment = 8,
                   .link = symtab,
                   .info = static_cast<uint32_t>(section + 1),
                   .entry_bytes = sizeof(Elf64_Rela),
                   .bytes = std::move(entries)});
  }
  all.push_back({.name = ".symtab",
                 .type = SHT_SYMTAB,
                 .alignment = 8,
                 .link = symtab + 1,
                 .info = first_global,
                 .entry_bytes = sizeof(Elf64_Sym),
                 .bytes = std::move(table)});
  all.push_back({.name = ".strtab", .type = SHT_STRTAB, .bytes = names.take()});
  all.push_back({.name = ".note.GNU-stack", .type = SHT_PROGBITS});
  return write_elf(fd, ET_REL, std::move(all));
}

bool is_relocatable_object(std::string_view bytes) {
  Elf64_Ehdr start;
  if (bytes.size() < sizeof start) return false;
  std::memcpy(&start, bytes.data(), sizeof start);
  if (std::memcmp(start.e_ident, ELFMAG, SELFMAG) != 0 || start.e_ident[EI_CLASS] != ELFCLASS64 ||
      start.e_ident[EI_DATA] != ELFDATA2LSB || start.e_type != ET_REL || start.e_machine != EM_X86_64 ||
      start.e_shentsize != sizeof(Elf64_Shdr))
    return false;
  const uint64_t table_bytes = uint64_t{start.e_shnum} * sizeof(Elf64_Shdr);
  if (start.e_shoff > bytes.size() || table_bytes > bytes.size() - start.e_shoff) return false;
  for (uint64_t i = 0; i < start.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + start.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (section.sh_offset > bytes.size() || section.sh_size > bytes.size() - section.sh_offset) return false;
  }
  return true;
}

Result<> write_stub_library(int fd, std::string_view soname, std::span<const std::string_view> functions) {
  Names names;
  std::string symbols(bytes_of(Elf64_Sym{}));
  for (const std::string_view function : functions)
    symbols += bytes_of(make_symbol(names.add(function), ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), SHN_ABS, 1, 0));
  Elf64_Dyn entry{};
  entry.d_tag = DT_SONAME;
  entry.d_un.d_val = names.add(soname);
  std::string dynamic(bytes_of(entry));
  dynamic += bytes_of(Elf64_Dyn{});
  std::vector<ElfSection> sections;
  sections.push_back({.name = ".dynsym",
                      .type = SHT_DYNSYM,
                      .flags = SHF_ALLOC,
                      .alignment = 8,
                      .link = 2,
                      .info = 1,
                      .entry_bytes = sizeof(Elf64_Sym),
                      .bytes = std::move(symbols)});
  sections.push_back({.name = ".dynstr", .type = SHT_STRTAB, .flags = SHF_ALLOC, .bytes = names.take()});
  sections.push_back({.name = ".dynamic",
                      .type = SHT_DYNAMIC,
                      .flags = SHF_ALLOC | SHF_WRITE,
                      .alignment = 8,
                      .link = 2,
                      .entry_bytes = sizeof(Elf64_Dyn),
                      .bytes = std::move(dynamic)});
  return write_elf(fd, ET_DYN, std::move(sections));
}

}  // namespace fettle
