#pragma once
// Resize: nearest and linear.

#include "graph/op.h"

namespace fettle {
extern const OpFamily resize_ops;
}
