#include "measure/worker/buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ir/text.h"
#include "measure/fill.h"

namespace fettle {
namespace {

constexpr int64_t kMaxHeldBytes = int64_t{1} << 30;

// Equal texts lie in memory equally.
std::string layout_text(const BufferNode& buffer) {
  std::string text = buffer.dtype.to_string();
  for (const Expr& extent : buffer.shape) text += " " + to_text(extent);
  for (const Expr& stride : buffer.strides) text += " stride " + to_text(stride);
  if (buffer.layout) {
    for (const Expr& extent : buffer.layout->logical_shape) text += " of " + to_text(extent);
    std::vector<Expr> inputs;
    for (size_t d = 0; d < buffer.layout->to_physical.inputs.size(); ++d)
      inputs.push_back(Expr(make_var(fmt::format("i{}", d))));
    for (const Expr& output : buffer.layout->to_physical.apply(inputs)) text += " at " + to_text(output);
  }
  return text;
}

Digest code_digest(const std::vector<NamedObject>& objects) {
  std::string names;
  for (const NamedObject& object : objects)
    names += digest_bytes({reinterpret_cast<const char*>(object.bytes->data()), object.bytes->size()}).hex();
  return digest_bytes(names);
}

}  // namespace

Result<std::shared_ptr<BufferStore::Slot>> BufferStore::slot(const std::string& key, const BufferNode& buffer,
                                                             size_t index, Sharing sharing) {
  if (const auto found = slots_.find(key); found != slots_.end()) return found->second;
  auto made = std::make_shared<Slot>();
  FETTLE_TRY(made->layout, Relayout::make(buffer, ints_));
  const int64_t stagger = static_cast<int64_t>(index) * 5 * 64 % 4096;
  FETTLE_TRY(made->memory, GuardedBuffer::make(made->layout.physical_bytes(), stagger, sharing));
  slots_[key] = made;
  return made;
}

Result<BufferStore::Arguments> BufferStore::arguments(const BuiltKernel& built, size_t n_params) {
  trim();
  Arguments result;
  std::unordered_map<const BufferNode*, std::shared_ptr<Slot>> slot_of;
  const std::string prologue = built.prologue_entry.empty() ? "" : code_digest(built.prologue_objects).hex();
  for (size_t i = 0; i < built.kernel_params.size(); ++i) {
    const Param& param = built.kernel_params[i];
    const bool given = i < n_params;
    const std::string key = fmt::format("{} {} {}", i, layout_text(*param.buffer), given ? "" : prologue);
    const bool is_new = !slots_.contains(key);
    const bool read_only = given && param.kind != ParamKind::kOutput;
    FETTLE_TRY(std::shared_ptr<Slot> s, slot(key, *param.buffer, i, read_only ? Sharing::kPrivate : Sharing::kShared));
    if (is_new && read_only) {
      std::vector<char> values(static_cast<size_t>(s->layout.logical_bytes()));
      fill_random(values.data(), s->layout.logical_elems(), param.buffer->dtype, seed_, i);
      s->layout.to_physical(values.data(), s->memory->data());
    }
    if (!given) result.packed.push_back(s);
    slot_of[param.buffer.get()] = s;
    result.slots.push_back(std::move(s));
  }
  for (const Param& param : built.prologue_params) {
    const auto found = slot_of.find(param.buffer.get());
    if (found == slot_of.end()) return fail(ErrorCode::E302, param.buffer->name + " of the prologue is unknown");
    result.prologue.push_back(found->second);
  }
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
