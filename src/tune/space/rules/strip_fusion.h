#pragma once
// Reductions that hand an image on to each other, strip by strip: a few rows of pixels go through all of them before
// the next ones, so that what lies between stays in the caches.
//
//   for h, w, c: for kh, kw: D[h, w, c] += X[h + kh, w + kw, c] * K[kh, kw, c]       (depthwise)
//   for h, w, c: E[h, w, c] = max(D[h, w, c], 0)
//   for h, w, o: for c: P[h, w, o] += E[h, w, c] * W[c, o]                            (1x1)
//   →
//   for h0 (parallel):
//     register tiles of D for the rows h0*r … h0*r + r - 1, written back as E
//     register tiles of P for the same rows
//
// Each reduction multiplies data with weights, and reads of what the one before it has made its own rows only.

#include "tune/space/rule.h"

namespace fettle {

extern const SketchRule strip_fusion_def;

}  // namespace fettle
