#pragma once
// Which functions of a lowered module need the run-time system's context, and for what.

#include <set>
#include <string>

#include "ir/func.h"

namespace fettle {

/// Elements, or bytes, of a buffer of constant size; -1: it is not constant, or of more than 2^40 elements.
int64_t constant_count(const BufferNode& buffer);
int64_t constant_bytes(const BufferNode& buffer);
/// Buffers up to 16 KiB live on the stack, larger ones in scratch blocks.
bool on_stack(const BufferNode& buffer);
/// The Funcs with parallel loops, unless these are run serially, with scratch blocks or calls of kernels, and those
/// that call such.
std::set<std::string> context_users(const IrModule& module, bool parallel = true);

}  // namespace fettle
