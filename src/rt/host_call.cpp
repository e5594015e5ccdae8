#include "rt/host_call.h"

#include <string.h>

#include "rt/float_mode.h"
#include "rt/text.h"

namespace fettle::rt {
namespace {

FettleTensor described(const HostTensor& tensor) {
  FettleTensor made{};
  made.struct_bytes = sizeof made;
  made.dtype = tensor.dtype;
  made.rank = tensor.rank;
  made.device = FETTLE_CPU;
  made.data = tensor.data;
  made.shape = tensor.shape;
  return made;
}

int32_t failed(FettleContext* context, const char* name, const char* why) {
  Text text{};
  text << "function '" << name << "' of the host program: " << why;
  return host_failed(context, text);
}

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" int32_t fettle_host_call(FettleContext* context, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const auto* name = given.tensor(0).as<const char>();
  if (context->host_calls == nullptr) return failed(context, name, "there is none (FettleOptions::host_calls)");
  const auto n_inputs = static_cast<int32_t>(given.number(0));
  const auto n_tokens = static_cast<int32_t>(given.number(1));
  const int32_t count = given.count() - 1 - 2 * n_tokens;
  HostMemory memory(context);
  if (!memory.grow((count + 1) * static_cast<int64_t>(sizeof(FettleTensor)))) return host_out_of_memory(context);
  auto* tensors = memory.as<FettleTensor>();
  for (int32_t i = 0; i < count; ++i) tensors[i] = described(given.tensor(1 + i + (i < n_inputs ? 0 : n_tokens)));
  if (n_tokens > 0) *given.tensor(given.count() - 1).as<uint8_t>() = 0;
  char error[256] = {};
  FettleHostCall call{};
  call.struct_bytes = sizeof call;
  call.n_inputs = n_inputs;
  call.n_outputs = count - call.n_inputs;
  call.name = name;
  call.config = name + strlen(name) + 1;
  call.inputs = tensors;
  call.outputs = tensors + call.n_inputs;
  call.error = error;
  call.error_bytes = sizeof error;
  int32_t status;
  {
    const FloatScope scope(kKeepsDenormals);
    status = context->host_calls->call(context->host_calls->user, &call);
  }
  if (status == FETTLE_OK) return FETTLE_OK;
  error[sizeof error - 1] = 0;
  return failed(context, name, error[0] == 0 ? "it failed" : error);
}
