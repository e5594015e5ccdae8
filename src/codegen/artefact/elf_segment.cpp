#include "codegen/artefact/elf_segment.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

namespace fettle {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t page_up(uint64_t place) { return (place + kPage - 1) / kPage * kPage; }

tl::unexpected<Diagnostic> malformed(std::string_view what) {
  return fail(ErrorCode::E303, fmt::format("the linked library has {}", what));
}

/// A library that is being changed.
class Library {
 public:
  static Result<Library> open(const std::filesystem::path& path) {
    Library library(::open(path.c_str(), O_RDWR | O_CLOEXEC), path);
    if (library.fd_ < 0) return library.failed();
    FETTLE_TRY_VOID(library.read(0, &library.start_, sizeof library.start_));
    FETTLE_TRY(library.segments_, library.table<Elf64_Phdr>(library.start_.e_phoff, library.start_.e_phnum));
    FETTLE_TRY(library.sections_, library.table<Elf64_Shdr>(library.start_.e_shoff, library.start_.e_shnum));
    return library;
  }
  Library(Library&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        path_(std::move(other.path_)),
        start_(other.start_),
        segments_(std::move(other.segments_)),
        sections_(std::move(other.sections_)) {}
  Library& operator=(Library&&) = delete;
  ~Library() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Where the segment begins in the file and in memory; its header, that of the note; its section.
  Result<Elf64_Phdr> add_segment(uint64_t bytes) {
    const auto note = std::ranges::find(segments_, uint32_t{PT_NOTE}, &Elf64_Phdr::p_type);
    if (note == segments_.end()) return malformed("no note");
    uint64_t file_end = start_.e_shoff + sections_.size() * sizeof(Elf64_Shdr), memory_end = 0;
    for (const Elf64_Phdr& segment : segments_)
      if (segment.p_type == PT_LOAD) {
        file_end = std::max(file_end, segment.p_offset + segment.p_filesz);
        memory_end = std::max(memory_end, segment.p_vaddr + segment.p_memsz);
      }
    Elf64_Phdr added{};
    added.p_type = PT_LOAD;
    added.p_flags = PF_R;
    added.p_offset = page_up(file_end);
    added.p_vaddr = added.p_paddr = page_up(memory_end);
    added.p_filesz = added.p_memsz = bytes;
    added.p_align = kPage;
    *note = added;
    // Tools that copy libraries section by section know of it by a section, named like the end of the note's name.
    const auto described = std::ranges::find(sections_, uint32_t{SHT_NOTE}, &Elf64_Shdr::sh_type);
    if (described == sections_.end()) return malformed("no note");
    Elf64_Shdr section{};
    section.sh_name = described->sh_name + static_cast<uint32_t>(std::string_view(".note").size());
    section.sh_type = SHT_PROGBITS;
    section.sh_flags = SHF_ALLOC;
    section.sh_addr = added.p_vaddr;
    section.sh_offset = added.p_offset;
    section.sh_size = bytes;
    section.sh_addralign = kPage;
    sections_.push_back(section);
    start_.e_shnum = static_cast<uint16_t>(sections_.size());
    start_.e_shoff = page_up(added.p_offset + bytes);
    return added;
  }

  Result<> write_headers() {
    FETTLE_TRY_VOID(write(start_.e_shoff, sections_.data(), sections_.size() * sizeof(Elf64_Shdr)));
    FETTLE_TRY_VOID(write(start_.e_phoff, segments_.data(), segments_.size() * sizeof(Elf64_Phdr)));
    return write(0, &start_, sizeof start_);
  }

  Result<uint64_t> address_of(std::string_view symbol) const {
    const auto table = std::ranges::find(sections_, uint32_t{SHT_DYNSYM}, &Elf64_Shdr::sh_type);
    if (table == sections_.end() || table->sh_link >= sections_.size()) return malformed("no symbols");
    FETTLE_TRY(const auto symbols, this->table<Elf64_Sym>(table->sh_offset, table->sh_size / sizeof(Elf64_Sym)));
    const Elf64_Shdr& names = sections_[table->sh_link];
    FETTLE_TRY(const auto text, this->table<char>(names.sh_offset, names.sh_size));
    for (const Elf64_Sym& known : symbols)
      if (known.st_name < text.size() && symbol == std::string_view(text.data() + known.st_name)) return known.st_value;
    return malformed(fmt::format("no symbol {}", symbol));
  }

  /// Each pointer becomes base + its target.
  Result<> relocate(uint64_t first, std::span<const SegmentPointer> pointers, uint64_t base) {
    std::map<uint64_t, uint64_t> targets;
    for (const SegmentPointer& pointer : pointers) targets[first + pointer.at] = base + pointer.target;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_RELA || (section.sh_flags & SHF_ALLOC) == 0) continue;
      FETTLE_TRY(auto entries, table<Elf64_Rela>(section.sh_offset, section.sh_size / sizeof(Elf64_Rela)));
      for (Elf64_Rela& entry : entries) {
        const auto target = targets.find(entry.r_offset);
        if (target == targets.end() || ELF64_R_TYPE(entry.r_info) != R_X86_64_RELATIVE) continue;
        entry.r_addend = static_cast<int64_t>(target->second);
        targets.erase(target);
      }
      FETTLE_TRY_VOID(write(section.sh_offset, entries.data(), entries.size() * sizeof(Elf64_Rela)));
    }
    if (!targets.empty()) return malformed("a pointer that is not relocated");
    return {};
  }

  Result<> write(uint64_t place, const void* data, size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::pwrite(fd_, at, std::min<size_t>(bytes, size_t{1} << 30), static_cast<off_t>(place));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failed();
      at += written;
      place += static_cast<uint64_t>(written);
      bytes -= static_cast<size_t>(written);
    }
    return {};
  }

 private:
  Library(int fd, const std::filesystem::path& path) : fd_(fd), path_(path.string()) {}

  tl::unexpected<Diagnostic> failed() const { return fail(ErrorCode::E702, std::strerror(errno), path_); }

  Result<> read(uint64_t place, void* data, size_t bytes) const {
    const ssize_t got = ::pread(fd_, data, bytes, static_cast<off_t>(place));
    if (got < 0) return failed();
    if (static_cast<size_t>(got) != bytes) return malformed("fewer bytes than it says");
    return {};
  }
  template <class T>
  Result<std::vector<T>> table(uint64_t place, uint64_t count) const {
    std::vector<T> entries(count);
    FETTLE_TRY_VOID(read(place, entries.data(), count * sizeof(T)));
    return entries;
  }

  int fd_;
  std::string path_;
  Elf64_Ehdr start_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

Result<> append_segment(const std::filesystem::path& path, const ElfSection& data, std::string_view symbol,
                        std::span<const SegmentPointer> pointers) {
  FETTLE_TRY(Library library, Library::open(path));
  FETTLE_TRY(const uint64_t first, library.address_of(symbol));
  FETTLE_TRY(const Elf64_Phdr segment, library.add_segment(data.size()));
  FETTLE_TRY_VOID(library.relocate(first, pointers, segment.p_vaddr));
  for (const ElfSection::Blob& blob : data.blobs)
    FETTLE_TRY_VOID(library.write(segment.p_offset + blob.offset, blob.bytes.data(), blob.bytes.size()));
  return library.write_headers();
}

ElfSection spare_note() {
  static constexpr char kName[] = "Fettle";
  Elf64_Nhdr header{};
  header.n_namesz = sizeof kName;
  header.n_type = 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(kName, sizeof kName);
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return {.name = ".note.fettle", .type = SHT_NOTE, .flags = SHF_ALLOC, .alignment = 4, .bytes = std::move(bytes)};
}

}  // namespace fettle
