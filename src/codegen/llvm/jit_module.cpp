#include "codegen/llvm/jit_module.h"

#include <dlfcn.h>
#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <sys/mman.h>

#include <unordered_map>

#include "rt/abi.h"
#include "rt/host.h"
#include "rt/tiles.h"

namespace fettle {

using namespace llvm;

namespace {

constexpr size_t kPage = 4096;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

/// One mapping for all sections, so that they reach each other: code, then constants, then variables, each from a new
/// page.
class Arena : public RuntimeDyld::MemoryManager {
 public:
  ~Arena() override {
    if (base_) munmap(base_, size_);
  }

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, Align code_align, uintptr_t read_only, Align read_only_align,
                              uintptr_t writable, Align writable_align) override {
    // Called once an object; there is one object an arena.
    const size_t sizes[3] = {round_up(code + code_align.value(), kPage),
                             round_up(read_only + read_only_align.value(), kPage),
                             round_up(writable + writable_align.value(), kPage)};
    size_ = sizes[0] + sizes[1] + sizes[2];
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      size_ = 0;
      return;
    }
    base_ = static_cast<uint8_t*>(mapped);
    next_[0] = base_;
    next_[1] = end_[0] = base_ + sizes[0];
    next_[2] = end_[1] = next_[1] + sizes[1];
    end_[2] = base_ + size_;
  }
  uint8_t* allocateCodeSection(uintptr_t size, unsigned align, unsigned, StringRef) override {
    return take(0, size, align);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned align, unsigned, StringRef, bool read_only) override {
    return take(read_only ? 1 : 2, size, align);
  }
  bool finalizeMemory(std::string* error) override {
    if (!base_) return false;
    if (mprotect(base_, static_cast<size_t>(end_[0] - base_), PROT_READ | PROT_EXEC) != 0 ||
        mprotect(end_[0], static_cast<size_t>(end_[1] - end_[0]), PROT_READ) != 0) {
      if (error) *error = "the system refuses executable memory";
      return true;
    }
    return false;
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}

  size_t size() const { return size_; }

 private:
  uint8_t* take(int part, uintptr_t size, unsigned align) {
    if (!base_) return nullptr;
    auto* at = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(next_[part]), align ? align : 1));
    if (at + size > end_[part]) return nullptr;
    next_[part] = at + size;
    return at;
  }

  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  uint8_t* next_[3] = {};
  uint8_t* end_[3] = {};
};

using SymbolTable = std::unordered_map<std::string, uint64_t>;

/// Names → addresses: what the caller gave, the run-time system, what was loaded before, libc.
class Resolver : public LegacyJITSymbolResolver {
 public:
  explicit Resolver(const SymbolTable& known) : known_(known) {}

  JITSymbol findSymbol(const std::string& name) override {
    // What sets the tile unit up may not run before the system permits it.
    if (name == "fettle_tiles_begin" && !rt::permit_tiles()) return nullptr;
    if (const auto found = known_.find(name); found != known_.end()) return {found->second, JITSymbolFlags::Exported};
    if (void* address = dlsym(RTLD_DEFAULT, name.c_str()))
      return {reinterpret_cast<uint64_t>(address), JITSymbolFlags::Exported};
    return nullptr;
  }
  JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }

 private:
  const SymbolTable& known_;
};

}  // namespace

struct JitModule::State {
  std::vector<std::unique_ptr<Arena>> arenas;
  SymbolTable symbols;
  int64_t size_bytes = 0;
};

JitModule::JitModule(std::unique_ptr<State> state) : state_(std::move(state)) {}
JitModule::JitModule(JitModule&&) noexcept = default;
JitModule& JitModule::operator=(JitModule&&) noexcept = default;
JitModule::~JitModule() = default;

Result<JitModule> JitModule::load(std::span<const std::vector<uint8_t>> objects, std::span<const Symbol> symbols) {
  auto state = std::make_unique<State>();
  SymbolTable known;
  for (const FettleSymbol* symbol = fettle_rt_symbols(); symbol->name; ++symbol)
    known[symbol->name] = reinterpret_cast<uint64_t>(symbol->address);
  for (int32_t i = 0; i < rt::kHostFunctionCount; ++i)
    known[rt::kHostFunctions[i].name] = reinterpret_cast<uint64_t>(rt::kHostFunctions[i].run);
  for (const Symbol& symbol : symbols) known[symbol.name] = reinterpret_cast<uint64_t>(symbol.address);

  // Every object is loaded, and its symbols known, before references are resolved.
  struct Pending {
    std::unique_ptr<object::ObjectFile> file;
    std::unique_ptr<RuntimeDyld> linker;
  };
  Resolver resolver(known);
  std::vector<Pending> pending;
  for (const auto& bytes : objects) {
    const StringRef content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(content, "object"));
    if (!file) return fail(ErrorCode::E303, toString(file.takeError()));
    state->arenas.push_back(std::make_unique<Arena>());
    Pending one{std::move(*file), std::make_unique<RuntimeDyld>(*state->arenas.back(), resolver)};
    one.linker->setProcessAllSections(false);
    one.linker->loadObject(*one.file);
    if (one.linker->hasError()) return fail(ErrorCode::E303, one.linker->getErrorString().str());
    for (const auto& [name, symbol] : one.linker->getSymbolTable()) {
      if (!symbol.getFlags().isExported()) continue;
      known[name.str()] = symbol.getAddress();
      state->symbols[name.str()] = symbol.getAddress();
    }
    pending.push_back(std::move(one));
  }
  for (size_t i = 0; i < pending.size(); ++i) {
    pending[i].linker->resolveRelocations();
    std::string error;
    if (pending[i].linker->hasError()) return fail(ErrorCode::E303, pending[i].linker->getErrorString().str());
    if (state->arenas[i]->finalizeMemory(&error)) return fail(ErrorCode::E303, error);
    state->size_bytes += static_cast<int64_t>(state->arenas[i]->size());
  }
  return JitModule(std::move(state));
}

void* JitModule::lookup(std::string_view name) const {
  const auto found = state_->symbols.find(std::string(name));
  return found == state_->symbols.end() ? nullptr : reinterpret_cast<void*>(found->second);
}

int64_t JitModule::size_bytes() const { return state_->size_bytes; }

}  // namespace fettle
