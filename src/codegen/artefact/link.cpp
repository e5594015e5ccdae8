#include "codegen/artefact/link.h"

#include <fmt/format.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "codegen/artefact/elf_writer.h"
#include "codegen/artefact/libc_stub.h"
#include "codegen/llvm/machine.h"

LLD_HAS_DRIVER(elf)

namespace fettle {
namespace {

namespace fs = std::filesystem;

/// A file without a name, in memory; the linker reads it by the path that the kernel gives.
class MemoryFile {
 public:
  static Result<MemoryFile> create() {
    MemoryFile file;
    file.fd_ = ::memfd_create("fettle-link", MFD_CLOEXEC);
    if (file.fd_ < 0) return fail(ErrorCode::E303, fmt::format("no memory file: {}", std::strerror(errno)));
    return file;
  }
  MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  MemoryFile() = default;
  int fd_ = -1;
};

Result<> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(ErrorCode::E303, fmt::format("writing to memory: {}", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

std::string version_script(const LinkRequest& request) {
  std::string text = "{ global:";
  for (const auto& [name, symbol] : request.exports) text += fmt::format(" {};", name);
  return text + " local: *; };\n";
}

/// The linker's words without its name, its file names of no meaning to anyone, and all but the first few lines.
std::string tidy(std::string_view messages) {
  std::string text;
  int lines = 0;
  while (!messages.empty() && lines < 8) {
    const size_t end = std::min(messages.find('\n'), messages.size());
    std::string_view line = messages.substr(0, end);
    messages.remove_prefix(std::min(end + 1, messages.size()));
    for (const std::string_view prefix : {"ld.lld: ", "error: "})
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    if (line.empty() || line.starts_with(">>> referenced by /proc/self")) continue;
    text += text.empty() ? "" : "; ";
    text += line;
    ++lines;
  }
  return text;
}

/// lld keeps global state: one call at a time, and none after one that it could not clean up.
Result<> run_lld(const std::vector<std::string>& arguments, const fs::path& out) {
  const std::lock_guard lock(llvm_backend::options_mutex());
  static bool usable = true;
  if (!usable) return fail(ErrorCode::E303, "the linker failed before in a way that it cannot recover from");
  std::vector<const char*> raw;
  for (const std::string& argument : arguments) raw.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  llvm::CrashRecoveryContext::Enable();  // lld ends what it calls fatal by a jump out of here, not by exit
  const lld::Result result = lld::lldMain(raw, stream, stream, {{lld::Gnu, &lld::elf::link}});
  llvm::CrashRecoveryContext::Disable();
  usable = result.canRunAgain;
  if (result.retCode != 0) {
    const bool output = messages.find("output file") != std::string::npos ||
                        messages.find("failed to write output") != std::string::npos;
    return output ? fail(ErrorCode::E702, tidy(messages), out.string()) : fail(ErrorCode::E303, tidy(messages));
  }
  return {};
}

}  // namespace

Result<> link_shared_library(const LinkRequest& request, const OutputFile& out) {
  for (size_t i = 0; i < request.objects.size(); ++i) {  // lld would call this fatal, and not be usable after
    if (!is_relocatable_object(request.objects[i]))
      return fail(ErrorCode::E303, fmt::format("input {} is no relocatable x86-64 object, or cut short", i));
  }
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "-o",
                                        out.temporary().string(),
                                        fmt::format("-soname={}", out.path().filename().string()),
                                        "-Bsymbolic",
                                        "--no-undefined",
                                        "--gc-sections",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "--threads=1",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "now",
                                        "-z",
                                        "noexecstack"};
  for (const auto& [name, symbol] : request.exports)
    if (name != symbol) arguments.push_back(fmt::format("--defsym={}={}", name, symbol));
  std::vector<MemoryFile> files;
  auto add = [&](const std::string& before, const std::function<Result<>(int)>& write) -> Result<> {
    FETTLE_TRY(MemoryFile file, MemoryFile::create());
    FETTLE_TRY_VOID(write(file.fd()));
    arguments.push_back(before + file.path());
    files.push_back(std::move(file));
    return {};
  };
  FETTLE_TRY_VOID(add("--version-script=", [&](int to) { return write_all(to, version_script(request)); }));
  for (const std::string_view object : request.objects)
    FETTLE_TRY_VOID(add("", [&](int to) { return write_all(to, object); }));
  for (const auto& writer : request.writers) FETTLE_TRY_VOID(add("", writer));
  arguments.push_back("--no-as-needed");
  FETTLE_TRY_VOID(add("", [](int to) { return write_stub_library(to, "libc.so.6", libc_functions()); }));

  return run_lld(arguments, out.path());
}

}  // namespace fettle
