#pragma once
// Memory by the page, and reusable scratch blocks.

#include "rt/abi.h"

extern "C" {

/// Zeroed memory, aligned to a page (4096 bytes), straight from the system; null when there is none or bytes < 0.
/// huge: blocks of 2 MiB or more are aligned to 2 MiB and the system is asked for huge pages.
void* fettle_pages_alloc(int64_t bytes, int32_t huge);
/// Returns what fettle_pages_alloc gave, with the same arguments. Null is fine.
void fettle_pages_free(void* block, int64_t bytes, int32_t huge);

/// A pool of scratch blocks; free of locks. Null when there is no memory.
FettleScratch* fettle_scratch_create(void);
/// Gives all blocks back to the system. None may be in use. Null is fine.
void fettle_scratch_destroy(FettleScratch* scratch);
}
