#pragma once
// For this room's tests.

#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing.h"
#include "codegen/build.h"
#include "ir/func.h"
#include "ir/interpret.h"
#include "ir/text.h"

namespace fettle::testing {

inline Func parsed(std::string_view text) {
  auto func = parse_func(text);
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

/// The content of each parameter.
using Bytes = std::vector<std::vector<unsigned char>>;

/// What the interpreter makes of the data.
inline Bytes interpreted(const Func& func, Bytes data) {
  std::vector<BufferArg> args;
  for (auto& bytes : data) args.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  const auto done = interpret(func, args);
  FETTLE_CHECK_MSG(done.has_value(), done ? "" : done.error().to_string());
  return data;
}

/// The last output of a kernel for this machine, all of f32, whose inputs and constants are small integers.
inline std::vector<float> run_built(const BuiltKernel& built, int threads) {
  const DeviceDef& device = cpu_device;
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<void*> buffers, prologue_buffers;
  size_t output = 0;
  for (const KernelParam& param : built.info.params) {
    if (param.kind == ParamKind::kOutput) output = buffers.size();
    memory.push_back(*device.allocate(param.layout.physical_bytes()));
    buffers.push_back(memory.back().get());
    std::vector<float> values(static_cast<size_t>(param.layout.logical_elems()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i + 3 * buffers.size()) * 7 % 11) - 5;
    if (param.source >= 0 && param.kind != ParamKind::kOutput) param.layout.to_physical(values.data(), buffers.back());
  }
  const DeviceStream stream = *device.open_stream(threads);
  const auto run = [&](const KernelImage& image, const std::string& entry, const std::vector<void*>& arguments) {
    const auto loaded = load_image(image, entry);
    FETTLE_CHECK_MSG(loaded.has_value(), loaded ? "" : loaded.error().to_string());
    const auto done = device.launch(stream, *loaded, arguments, {});
    FETTLE_CHECK_MSG(done.has_value(), done ? "" : done.error().to_string());
  };
  for (const int p : built.prologue_params) prologue_buffers.push_back(buffers[static_cast<size_t>(p)]);
  if (!built.prologue_entry.empty()) run(built.prologue_image, built.prologue_entry, prologue_buffers);
  run(built.image, built.entry, buffers);
  const Relayout& layout = built.info.params[output].layout;
  std::vector<float> result(static_cast<size_t>(layout.logical_elems()));
  layout.to_logical(buffers[output], result.data());
  return result;
}

}  // namespace fettle::testing
