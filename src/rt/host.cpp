#include "rt/host.h"

#include <string.h>

#include "rt/host_call.h"
#include "rt/host_strings.h"
#include "rt/strings.h"

namespace fettle::rt {

const HostFunction kHostFunctions[] = {
    {"fettle_host_string_concat", fettle_host_string_concat},
    {"fettle_host_string_count_parts", fettle_host_string_count_parts},
    {"fettle_host_string_split", fettle_host_string_split},
    {"fettle_host_string_normalize", fettle_host_string_normalize},
    {"fettle_host_string_cast", fettle_host_string_cast},
    {"fettle_host_string_unique", fettle_host_string_unique},
    {"fettle_host_regex_match", fettle_host_regex_match},
    {"fettle_host_find", fettle_host_find},
    {"fettle_host_call", fettle_host_call},
};
const int32_t kHostFunctionCount = sizeof kHostFunctions / sizeof *kHostFunctions;

const HostFunction* find_host_function(const char* name) {
  for (const HostFunction& function : kHostFunctions)
    if (strcmp(function.name, name) == 0) return &function;
  return nullptr;
}

int32_t host_failed(FettleContext* context, const char* reason) {
  context->reason = reason;
  return FETTLE_KERNEL_FAILED;
}

int32_t host_failed(FettleContext* context, const Text& reason) {
  const int64_t number = context->strings->number_of(reason.chars, reason.length);
  return host_failed(context, number < 0 ? "memory ran out" : context->strings->at(number).data);
}

int32_t host_out_of_memory(FettleContext* context) {
  context->reason = "memory ran out";
  return FETTLE_OUT_OF_MEMORY;
}

}  // namespace fettle::rt
