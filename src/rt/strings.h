#pragma once
// Strings by number: equal ones have one. What moves strings, or compares them for equality, is a program of integers.

#include <stdint.h>

#include "rt/abi.h"
#include "rt/block.h"

/// A table of strings, which grows and is emptied. Number 0 is "". Numbers of another table, its base, come first.
/// One thread at a time uses it; any number of tables may share a base, which then stays as it is.
/// Memory is taken from the system where more is needed than ever before.
struct FettleStrings {
  /// Of a string that the base does not have. Numbers count on from the base's.
  static constexpr int64_t kNoMemory = -1;

  /// Forgets all strings. `base` may be null.
  void clear(const FettleStrings* base);
  /// The string's number, or kNoMemory. The bytes are copied.
  int64_t number_of(const char* data, int64_t bytes);
  int64_t number_of(FettleString string) { return number_of(string.data, string.bytes); }
  /// The string of this number, zero-terminated, where it stays until the table is cleared. A number that is not there
  /// gives null and -1.
  FettleString at(int64_t number) const;
  /// Numbers lie in [0, count()).
  int64_t count() const { return first() + n_; }
  /// Memory that it has.
  int64_t bytes() const;
  void release();

 private:
  struct Slot;
  struct Chunk;

  int64_t first() const { return base_ == nullptr ? 1 : base_->count(); }
  int64_t find(const char* data, int64_t bytes, uint64_t hash) const;
  uint64_t seed() const;
  bool make_room();
  char* take(int64_t bytes);

  const FettleStrings* base_ = nullptr;
  int64_t n_ = 0;              // of its own
  fettle::rt::Block entries_;  // FettleString
  fettle::rt::Block slots_;    // of a hash table with open addresses
  int64_t n_slots_ = 0;        // a power of two
  uint32_t epoch_ = 0;         // slots of another one are free
  Chunk *chunks_ = nullptr, *last_ = nullptr, *current_ = nullptr;
  int64_t used_ = 0;  // of the current chunk
};
