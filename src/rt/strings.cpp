#include "rt/strings.h"

#include <string.h>

#include "rt/memory.h"

using fettle::rt::Block;

struct FettleStrings::Slot {
  uint32_t epoch, hash, entry;
};

struct FettleStrings::Chunk {
  Chunk* next;
  int64_t bytes;  // of the chunk, this struct included
};

namespace {

constexpr int64_t kFirstChunk = 16 << 10, kFirstSlots = 256, kMostEntries = INT32_MAX;

uint64_t mixed(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_of(const char* data, int64_t bytes, uint64_t seed) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;
  uint64_t hash = mixed(seed ^ static_cast<uint64_t>(bytes), kOdd);
  int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word;
    memcpy(&word, data + i, 8);
    hash = mixed(hash ^ word, kOdd);
  }
  uint64_t rest = 0;
  memcpy(&rest, data + i, static_cast<size_t>(bytes - i));
  return mixed(hash ^ rest, kOdd ^ seed);
}

}  // namespace

// Who gives texts cannot know where a table lies, so cannot make many of them collide.
uint64_t FettleStrings::seed() const {
  if (base_ != nullptr) return base_->seed();
  return reinterpret_cast<uintptr_t>(this) | 1;
}

void FettleStrings::clear(const FettleStrings* base) {
  base_ = base;
  n_ = 0;
  current_ = chunks_;
  used_ = sizeof(Chunk);
  if (++epoch_ != 0) return;
  if (slots_.data != nullptr) memset(slots_.data, 0, static_cast<size_t>(slots_.bytes));
  epoch_ = 1;
}

int64_t FettleStrings::find(const char* data, int64_t bytes, uint64_t hash) const {
  if (n_ == 0) return -1;
  const auto* slots = static_cast<const Slot*>(slots_.data);
  const auto* entries = static_cast<const FettleString*>(entries_.data);
  const auto mask = static_cast<uint64_t>(n_slots_ - 1);
  for (uint64_t i = hash & mask; slots[i].epoch == epoch_; i = (i + 1) & mask) {
    if (slots[i].hash != static_cast<uint32_t>(hash >> 32)) continue;
    const FettleString& entry = entries[slots[i].entry];
    if (entry.bytes == bytes && memcmp(entry.data, data, static_cast<size_t>(bytes)) == 0)
      return first() + slots[i].entry;
  }
  return -1;
}

/// For one more string. At most half of the slots are taken.
bool FettleStrings::make_room() {
  if (n_ >= kMostEntries) return false;
  const auto entry_bytes = static_cast<int64_t>(sizeof(FettleString));
  const int64_t entries_bytes = n_ < kFirstSlots ? kFirstSlots * entry_bytes : (n_ + 1) * entry_bytes;
  if (!entries_.grow(entries_bytes, true)) return false;
  if (n_slots_ > 2 * n_) return true;
  Block larger;
  const int64_t count = n_slots_ == 0 ? kFirstSlots : 2 * n_slots_;
  if (!larger.reserve(count * static_cast<int64_t>(sizeof(Slot)))) return false;  // zeroed: free
  auto *to = static_cast<Slot*>(larger.data), *from = static_cast<Slot*>(slots_.data);
  if (epoch_ == 0) epoch_ = 1;
  const auto* entries = static_cast<const FettleString*>(entries_.data);
  for (int64_t i = 0; i < n_slots_; ++i) {
    if (from[i].epoch != epoch_) continue;
    const FettleString& entry = entries[from[i].entry];
    const auto mask = static_cast<uint64_t>(count - 1);
    uint64_t place = hash_of(entry.data, entry.bytes, seed()) & mask;
    while (to[place].epoch == epoch_) place = (place + 1) & mask;
    to[place] = from[i];
  }
  slots_.release();
  slots_ = larger;
  n_slots_ = count;
  return true;
}

/// Bytes that do not move. Chunks are kept, and filled in the same order after the table is cleared.
char* FettleStrings::take(int64_t bytes) {
  const auto header = static_cast<int64_t>(sizeof(Chunk));
  if (bytes > INT64_MAX / 4) return nullptr;
  while (current_ != nullptr && used_ + bytes > current_->bytes && current_->next != nullptr) {
    current_ = current_->next;
    used_ = header;
  }
  if (current_ == nullptr || used_ + bytes > current_->bytes) {
    int64_t wanted = last_ == nullptr ? kFirstChunk : 2 * last_->bytes;
    if (wanted < bytes + header) wanted = bytes + header;
    auto* made = static_cast<Chunk*>(fettle_pages_alloc(wanted, 0));
    if (made == nullptr) return nullptr;
    *made = {nullptr, wanted};
    (last_ == nullptr ? chunks_ : last_->next) = made;
    last_ = current_ = made;
    used_ = header;
  }
  char* at = reinterpret_cast<char*>(current_) + used_;
  used_ += bytes;
  return at;
}

int64_t FettleStrings::number_of(const char* data, int64_t bytes) {
  if (bytes == 0) return 0;
  const uint64_t hash = hash_of(data, bytes, seed());
  for (const FettleStrings* table = base_; table != nullptr; table = table->base_)
    if (const int64_t found = table->find(data, bytes, hash); found >= 0) return found;
  if (const int64_t found = find(data, bytes, hash); found >= 0) return found;
  if (!make_room()) return kNoMemory;
  char* copy = take(bytes + 1);
  if (copy == nullptr) return kNoMemory;
  memcpy(copy, data, static_cast<size_t>(bytes));
  copy[bytes] = 0;
  static_cast<FettleString*>(entries_.data)[n_] = {copy, bytes};
  auto* slots = static_cast<Slot*>(slots_.data);
  const auto mask = static_cast<uint64_t>(n_slots_ - 1);
  uint64_t place = hash & mask;
  while (slots[place].epoch == epoch_) place = (place + 1) & mask;
  slots[place] = {epoch_, static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(n_)};
  return first() + n_++;
}

FettleString FettleStrings::at(int64_t number) const {
  if (number == 0) return {"", 0};
  if (number >= first() && number < count()) return static_cast<const FettleString*>(entries_.data)[number - first()];
  return base_ == nullptr || number >= first() ? FettleString{nullptr, -1} : base_->at(number);
}

int64_t FettleStrings::bytes() const {
  int64_t bytes = entries_.bytes + slots_.bytes;
  for (const Chunk* chunk = chunks_; chunk != nullptr; chunk = chunk->next) bytes += chunk->bytes;
  return bytes;
}

void FettleStrings::release() {
  entries_.release();
  slots_.release();
  while (chunks_ != nullptr) {
    Chunk* next = chunks_->next;
    fettle_pages_free(chunks_, chunks_->bytes, 0);
    chunks_ = next;
  }
  *this = {};
}
