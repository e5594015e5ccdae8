#include "rt/model.h"

#include <string.h>

#include <new>

#include "rt/cpu.h"
#include "rt/memory.h"
#include "rt/sys.h"
#include "rt/team.h"

namespace fettle::rt {
namespace {

constexpr int32_t kMaxText = 512;

/// A sentence put together from pieces, cut where it grows too long.
struct Text {
  char chars[kMaxText];
  int32_t length = 0;

  Text& operator<<(const char* piece) {
    while (*piece != 0 && length < kMaxText - 1) chars[length++] = *piece++;
    chars[length] = 0;
    return *this;
  }
  Text& operator<<(int64_t value) {
    char digits[24];
    int at = 23;
    digits[at] = 0;
    uint64_t rest = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    do digits[--at] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0) digits[--at] = '-';
    return *this << (digits + at);
  }
};

/// Lines as a list: "Conv c1\nRelu r1" → "Conv c1, Relu r1".
struct Lines {
  const char* text;
};
Text& operator<<(Text& text, Lines lines) {
  char piece[3] = {};
  for (const char* at = lines.text; *at != 0; ++at) {
    piece[0] = *at == '\n' ? ',' : *at;
    piece[1] = *at == '\n' ? ' ' : '\0';
    text << piece;
  }
  return text;
}

// Why the last creation failed. Writers take the lock; a reader that races with a failing creation may see a mixed
// sentence, never an unended one: the last byte stays zero.
char create_error[kMaxText];
std::atomic<uint32_t> create_error_lock{0};

void report_create_error(const Text& text) {
  while (create_error_lock.exchange(1, std::memory_order_acquire) != 0) cpu_relax();
  memcpy(create_error, text.chars, kMaxText - 1);
  create_error_lock.store(0, std::memory_order_release);
}

const char* status_text(int32_t status) {
  switch (status) {
    case FETTLE_INVALID_ARGUMENT:
      return "an argument is invalid";
    case FETTLE_OUT_OF_MEMORY:
      return "memory ran out";
    case FETTLE_UNSUPPORTED_CPU:
      return "the processor is not supported";
    case FETTLE_BUSY:
      return "the model is in use";
    default:
      return "compiled code failed";
  }
}

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

struct FettleModel {
  const FettleModelInfo* info = nullptr;
  FettleContext context{};
  void* arena = nullptr;
  int32_t huge_pages = 0;
  int64_t block_bytes = 0;
  std::atomic<uint32_t> busy{0};
  Text error{};
  void** buffers = nullptr;  // inputs, outputs, arena, constants
};

namespace fettle::rt {
namespace {

int32_t n_buffers(const FettleModelInfo& info) { return info.n_inputs + info.n_outputs + 1 + info.n_constants; }

FettleTeam* make_team(const FettleModelInfo& info, const FettleOptions& options) {
  if (options.host_team != nullptr) return fettle_team_wrap(options.host_team);
  FettleTeamOptions team{};
  team.threads = options.threads;
  if (team.threads == 0) {
    const int32_t usable = fettle_usable_cpus();
    team.threads = info.default_threads > 0 && info.default_threads < usable ? info.default_threads : usable;
  }
  team.pin = options.pin;
  team.spin_us = options.spin_us;
  return fettle_team_create(&team);
}

/// "output 1 ('scores')"
Text& operator<<(Text& text, const FettleTensor& tensor) { return text << "('" << tensor.name << "')"; }

int32_t refuse(FettleModel* model, const char* what, int32_t index, const FettleTensor& tensor) {
  model->error = {};
  model->error << what << " " << int64_t{index} << " " << tensor << " is a null pointer";
  return FETTLE_INVALID_ARGUMENT;
}

int32_t run(FettleModel* model, const void* const* inputs, void* const* outputs) {
  const FettleModelInfo& info = *model->info;
  void** at = model->buffers;
  for (int32_t i = 0; i < info.n_inputs; ++i) {
    if (inputs == nullptr || inputs[i] == nullptr) return refuse(model, "input", i, info.inputs[i]);
    *at++ = const_cast<void*>(inputs[i]);
  }
  for (int32_t i = 0; i < info.n_outputs; ++i) {
    if (outputs == nullptr || outputs[i] == nullptr) return refuse(model, "output", i, info.outputs[i]);
    *at++ = outputs[i];
  }
  model->context.failed_kernel = 0;
  const int32_t status = info.entry(&model->context, model->buffers, nullptr);
  if (status != FETTLE_OK) {
    model->error = {};
    model->error << "running '" << info.name << "' failed: " << status_text(status);
    if (const int32_t kernel = model->context.failed_kernel - 1; kernel >= 0 && kernel < info.n_kernels) {
      model->error << " in kernel " << int64_t{kernel} << " '" << info.kernel_names[kernel] << "'";
      if (info.kernel_origins[kernel][0] != 0) model->error << ", from " << Lines{info.kernel_origins[kernel]};
    }
  }
  return status;
}

}  // namespace
}  // namespace fettle::rt

extern "C" {

FettleModel* fettle_rt_model_create(const FettleModelInfo* info, const FettleOptions* options) {
  const FettleOptions defaults{};
  if (options == nullptr) options = &defaults;
  Text text;
  text << "cannot make an instance of '" << info->name << "': ";
  char missing[32];
  if (fettle_cpu_check(info->target_features, missing, sizeof missing) != 0) {
    report_create_error(text << "it was compiled for a processor with " << missing
                             << ", which this one lacks; compile it again on this machine");
    return nullptr;
  }
  if (options->threads < 0 || (options->host_team != nullptr &&
                               (options->host_team->size == nullptr || options->host_team->parallel_for == nullptr))) {
    report_create_error(options->threads < 0 ? text << "the number of threads is negative"
                                             : text << "a callback of the host's team is a null pointer");
    return nullptr;
  }
  const auto header = static_cast<int64_t>(sizeof(FettleModel));
  const int64_t bytes = header + int64_t{n_buffers(*info)} * static_cast<int64_t>(sizeof(void*));
  void* place = fettle_pages_alloc(bytes, 0);
  if (place == nullptr) {
    report_create_error(text << "memory ran out");
    return nullptr;
  }
  auto* model = new (place) FettleModel;
  model->info = info;
  model->block_bytes = bytes;
  model->huge_pages = options->huge_pages;
  model->buffers = reinterpret_cast<void**>(static_cast<char*>(place) + header);
  model->arena = fettle_pages_alloc(info->arena_bytes, options->huge_pages);
  model->context.scratch = fettle_scratch_create();
  model->context.team = make_team(*info, *options);
  if (model->arena == nullptr || model->context.scratch == nullptr || model->context.team == nullptr) {
    fettle_rt_model_destroy(model);
    report_create_error(text << "memory ran out; its arena takes " << info->arena_bytes << " bytes");
    return nullptr;
  }
  void** at = model->buffers + info->n_inputs + info->n_outputs;
  *at++ = model->arena;
  for (int32_t i = 0; i < info->n_constants; ++i) *at++ = info->constants[i].data;
  return model;
}

int32_t fettle_rt_model_run(FettleModel* model, const void* const* inputs, void* const* outputs) {
  if (model == nullptr) return FETTLE_INVALID_ARGUMENT;
  if (model->busy.exchange(1, std::memory_order_acquire) != 0) return FETTLE_BUSY;
  const int32_t status = run(model, inputs, outputs);
  model->busy.store(0, std::memory_order_release);
  return status;
}

void fettle_rt_model_profile(FettleModel* model, FettleKernelHook hook, void* user) {
  model->context.on_kernel = hook;
  model->context.on_kernel_user = user;
}

void fettle_rt_model_destroy(FettleModel* model) {
  if (model == nullptr) return;
  fettle_team_destroy(model->context.team);
  fettle_scratch_destroy(model->context.scratch);
  fettle_pages_free(model->arena, model->info->arena_bytes, model->huge_pages);
  fettle_pages_free(model, model->block_bytes, 0);
}

const char* fettle_rt_model_error(const FettleModel* model) {
  return model == nullptr ? create_error : model->error.chars;
}

int32_t fettle_call_kernel(FettleContext* context, int32_t index, FettleKernel kernel, void** buffers,
                           const int64_t* ints) {
  const FettleKernelHook hook = context->on_kernel;
  const int64_t begin = hook == nullptr ? 0 : now_ns();
  const int32_t status = kernel(context, buffers, ints);
  if (hook != nullptr) hook(context->on_kernel_user, index, begin, now_ns());
  if (status != FETTLE_OK) context->failed_kernel = index + 1;
  return status;
}

const FettleSymbol* fettle_rt_symbols(void) {
  static const FettleSymbol symbols[] = {
      {"fettle_parallel_for", reinterpret_cast<void*>(&fettle_parallel_for)},
      {"fettle_team_size", reinterpret_cast<void*>(&fettle_team_size)},
      {"fettle_call_kernel", reinterpret_cast<void*>(&fettle_call_kernel)},
      {"fettle_scratch_acquire", reinterpret_cast<void*>(&fettle_scratch_acquire)},
      {"fettle_scratch_release", reinterpret_cast<void*>(&fettle_scratch_release)},
      {nullptr, nullptr},
  };
  return symbols;
}
}
