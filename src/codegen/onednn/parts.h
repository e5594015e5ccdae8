#pragma once
// A primitive's work, cut into one part for each thread.

#include <cstdint>
#include <vector>

#include "codegen/onednn/match.h"
#include "rt/onednn.h"

namespace fettle::onednn {

/// The bytes of an OnednnCall for `matched`, whose buffers are numbered as the program's parameters. The weights are
/// packed where they are the program's parameter `packed` (-1: as they are); they then have number `packed_buffer`.
/// Version, library and layouts are still to be filled in.
std::vector<uint8_t> make_call(const Matched& matched, int threads, int packed, int packed_buffer);

inline rt::OnednnCall& call_in(std::vector<uint8_t>& bytes) { return *reinterpret_cast<rt::OnednnCall*>(bytes.data()); }

}  // namespace fettle::onednn
