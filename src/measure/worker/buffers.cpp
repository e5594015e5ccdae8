#include "measure/worker/buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "measure/fill.h"

namespace fettle {
namespace {

constexpr int64_t kMaxHeldBytes = int64_t{1} << 30;

// Equal texts hold equal values in equal places.
std::string key_of(size_t index, const KernelParam& param) {
  std::string key = fmt::format("{} {} {}", index, param.dtype.to_string(), param.layout.digest().hex());
  if (param.source >= 0) return key;
  key += " " + param.packing.hex();
  for (const int from : param.packed_from) key += fmt::format(" {}", from);
  return key;
}

}  // namespace

uint64_t BufferStore::next_number_ = 0;

Result<std::shared_ptr<BufferStore::Slot>> BufferStore::slot(const std::string& key, const Relayout& layout,
                                                             size_t index, Sharing sharing) {
  if (const auto found = slots_.find(key); found != slots_.end()) return found->second;
  auto made = std::make_shared<Slot>();
  made->layout = layout;
  made->number = ++next_number_;
  const int64_t stagger = static_cast<int64_t>(index) * 5 * 64 % 4096;
  FETTLE_TRY(made->memory, GuardedBuffer::make(made->layout.physical_bytes(), stagger, sharing));
  slots_[key] = made;
  return made;
}

Result<BufferStore::Arguments> BufferStore::arguments(const BuiltKernel& built, size_t n_params) {
  trim();
  Arguments result;
  const std::vector<KernelParam>& params = built.info.params;
  for (size_t i = 0; i < params.size(); ++i) {
    const KernelParam& param = params[i];
    const bool given = i < n_params;
    const std::string key = key_of(i, param);
    const bool is_new = !slots_.contains(key);
    const bool read_only = given && param.kind != ParamKind::kOutput;
    FETTLE_TRY(std::shared_ptr<Slot> s, slot(key, param.layout, i, read_only ? Sharing::kPrivate : Sharing::kShared));
    if (is_new && read_only) {
      std::vector<char> values(static_cast<size_t>(s->layout.logical_bytes()));
      fill_random(values.data(), s->layout.logical_elems(), param.dtype, seed_, i);
      s->layout.to_physical(values.data(), s->memory->data());
    }
    if (!given) result.packed.push_back(s);
    result.slots.push_back(std::move(s));
  }
  for (const int p : built.prologue_params) result.prologue.push_back(result.slots[static_cast<size_t>(p)]);
  return result;
}

bool BufferStore::Arguments::needs_prologue() const {
  return std::any_of(packed.begin(), packed.end(), [](const auto& slot) { return !slot->filled; });
}

Result<> BufferStore::Arguments::keep_packed() {
  for (const std::shared_ptr<Slot>& slot : packed) {
    if (slot->filled) continue;
    FETTLE_TRY(std::shared_ptr<GuardedBuffer> kept,
               GuardedBuffer::make(slot->memory->bytes(), slot->memory->stagger_bytes(), Sharing::kPrivate));
    std::memcpy(kept->data(), slot->memory->data(), static_cast<size_t>(kept->bytes()));
    slot->memory = std::move(kept);
    slot->filled = true;
  }
  return {};
}

void BufferStore::poison(const Slot& output) {
  std::vector<char> nothing(static_cast<size_t>(output.layout.logical_bytes()), '\xff');
  output.layout.to_physical(nothing.data(), output.memory->data());
}

void BufferStore::trim() {
  int64_t held = 0;
  for (const auto& [key, slot] : slots_) held += slot->memory->held_bytes();
  if (held <= kMaxHeldBytes) return;
  std::erase_if(slots_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace fettle
