#pragma once
// Calls of functions that the host program has, by their names.

#include "rt/host.h"

extern "C" {
/// (name, inputs…) → outputs…: what FettleOptions::host_calls does. name: u8, the function's name and its config, a
/// zero behind each. Numbers: how many inputs there are; 1 where a token, a u8, is behind the inputs and the outputs.
int32_t fettle_host_call(FettleContext* context, void** buffers, const int64_t* ints);
}
