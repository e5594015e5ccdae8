#include "measure/local_kernel.h"

#include <fmt/format.h>

#include <cstring>

#include "measure/fill.h"
#include "measure/loaded_kernel.h"
#include "rt/memory.h"

namespace fettle {
namespace {

constexpr int64_t kPage = 4096, kHugePage = 2 << 20;

// Starts are staggered, so that equal indices of two buffers do not share a cache set.
int64_t stagger(size_t index) { return static_cast<int64_t>(index) * 5 * 64 % kPage; }

int64_t rounded_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

// All buffers in one block of pages, kept apart by a guard of one page.
int64_t place_buffers(std::span<const int64_t> sizes, std::vector<int64_t>& offsets) {
  int64_t end = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t start = rounded_up(end, kPage) + stagger(i);
    offsets.push_back(start);
    end = start + sizes[i] + kPage;
  }
  return end;
}

}  // namespace

SharedMemory::~SharedMemory() {
  for (const Block& block : blocks_) fettle_pages_free(block.memory, block.bytes, huge_pages_ ? 1 : 0);
}

Result<void*> SharedMemory::block(size_t index, int64_t bytes) {
  const int64_t needed = stagger(index) + bytes;
  for (const Block& block : blocks_)
    if (block.index == index && block.bytes >= needed) return static_cast<char*>(block.memory) + stagger(index);
  // Whole huge pages, with room for layouts that pad a little.
  const int64_t size = rounded_up(needed + needed / 8, kHugePage);
  void* memory = fettle_pages_alloc(size, huge_pages_ ? 1 : 0);
  if (!memory) return fail(ErrorCode::E710, fmt::format("no memory for a buffer of {} MiB", size >> 20));
  blocks_.push_back({index, memory, size});
  return static_cast<char*>(memory) + stagger(index);
}

struct LocalKernel::State {
  ~State() {
    if (memory) fettle_pages_free(memory, memory_bytes, huge);
  }

  std::vector<Param> params;  // of the scheduled program
  const DeviceDef* device = nullptr;
  LoadedKernel loaded;
  DeviceStream stream, host_stream;  // the second is of prologues
  std::vector<void*> buffers, prologue_buffers;
  // Where the device has memory of its own: for each buffer its place there. `buffers` are what the host gives it.
  std::vector<std::shared_ptr<std::byte>> on_device;
  std::vector<void*> device_buffers;
  std::vector<int64_t> ints;
  std::shared_ptr<SharedMemory> shared;
  void* memory = nullptr;  // where nothing is shared
  int64_t memory_bytes = 0;
  int32_t huge = 0;
};

LocalKernel::LocalKernel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LocalKernel::LocalKernel(LocalKernel&&) noexcept = default;
LocalKernel& LocalKernel::operator=(LocalKernel&&) noexcept = default;
LocalKernel::~LocalKernel() = default;

Result<LocalKernel> LocalKernel::build(const Func& scheduled, const Target& target, const LocalKernelOptions& options) {
  auto state = std::make_unique<State>();
  state->params = scheduled->params;
  BuildOptions building{.plain = options.plain};
  if (options.ints.size() > scheduled->int_params.size())
    return fail(ErrorCode::E709, "there are fewer integer parameters than values for them");
  for (size_t i = 0; i < scheduled->int_params.size(); ++i) {
    const IntParam& param = scheduled->int_params[i];
    const int64_t value = i < options.ints.size() ? options.ints[i] : typical_of(param);
    if (value < param.min || value > param.max || value % param.multiple_of != 0 || value == INT64_MAX)
      return fail(ErrorCode::E709, fmt::format("{} cannot be the value of {}", value, param.var->name));
    building.ints.push(param.var.get(), value);
    state->ints.push_back(value);
  }
  FETTLE_TRY(state->device, device_of(target));
  const auto cache = options.cache ? options.cache : std::make_shared<ObjectCache>();
  FETTLE_TRY(BuiltKernel from_build, build_kernel(scheduled, target, *cache, building));
  FETTLE_TRY(state->loaded, LoadedKernel::load(std::move(from_build)));
  FETTLE_TRY(state->stream, state->device->open_stream(options.threads));
  state->host_stream = state->stream;
  if (!state->device->shares_host_memory()) {
    FETTLE_TRY(state->host_stream, cpu_device.open_stream(1));
  }
  const BuiltKernel& built = state->loaded.built;

  std::vector<int64_t> sizes, offsets;
  for (const KernelParam& param : built.info.params) sizes.push_back(param.layout.physical_bytes());
  state->shared = options.memory;
  if (!state->shared) {
    state->memory_bytes = place_buffers(sizes, offsets);
    // No rest on small pages: those of the last buffer would differ from the others in what addresses cost.
    if (options.huge_pages) state->memory_bytes = rounded_up(state->memory_bytes, kHugePage);
    state->huge = options.huge_pages ? 1 : 0;
    state->memory = fettle_pages_alloc(state->memory_bytes, state->huge);
    if (!state->memory)
      return fail(ErrorCode::E710, fmt::format("no memory for {} MiB of buffers", state->memory_bytes >> 20));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (state->shared) {
      FETTLE_TRY(void* const block, state->shared->block(i, sizes[i]));
      state->buffers.push_back(block);
    } else {
      state->buffers.push_back(static_cast<char*>(state->memory) + offsets[i]);
    }
  }
  for (const int p : built.prologue_params) state->prologue_buffers.push_back(state->buffers[static_cast<size_t>(p)]);

  LocalKernel kernel(std::move(state));
  State& s = *kernel.state_;
  std::vector<std::byte> values;
  for (size_t i = 0; i < s.buffers.size(); ++i) {
    const KernelParam& param = s.loaded.built.info.params[i];
    if (param.source >= 0 && param.kind != ParamKind::kOutput) {
      values.resize(static_cast<size_t>(param.layout.logical_bytes()));
      fill_random(values.data(), param.layout.logical_elems(), param.dtype, options.seed, i);
      param.layout.to_physical(values.data(), s.buffers[i]);
    } else {
      std::memset(s.buffers[i], 0, static_cast<size_t>(param.layout.physical_bytes()));  // touches every page
    }
  }
  if (!s.device->shares_host_memory()) {
    for (const KernelParam& param : s.loaded.built.info.params) {
      FETTLE_TRY(std::shared_ptr<std::byte> block, s.device->allocate(param.layout.physical_bytes()));
      s.device_buffers.push_back(block.get());
      s.on_device.push_back(std::move(block));
    }
  }
  FETTLE_TRY_VOID(kernel.run_prologue());
  return kernel;
}

int32_t LocalKernel::call() {
  if (!state_->device->shares_host_memory()) return run() ? FETTLE_OK : FETTLE_DEVICE_FAILED;
  return state_->loaded.kernel.function(state_->stream.get(), state_->buffers.data(), state_->ints.data());
}

Result<> LocalKernel::run() { return run_buffers(state_->buffers); }

// What kernels read goes to the device before, and what they write comes back.
Result<> LocalKernel::run_buffers(std::span<void* const> buffers) {
  State& s = *state_;
  if (s.device->shares_host_memory()) return s.device->launch(s.stream, s.loaded.kernel, buffers, s.ints);
  const std::vector<KernelParam>& params = s.loaded.built.info.params;
  for (size_t i = 0; i < buffers.size(); ++i)
    FETTLE_TRY_VOID(s.device->copy_to(s.device_buffers[i], buffers[i], params[i].layout.physical_bytes()));
  FETTLE_TRY_VOID(s.device->launch(s.stream, s.loaded.kernel, s.device_buffers, s.ints));
  for (size_t i = 0; i < buffers.size(); ++i)
    if (params[i].kind == ParamKind::kOutput)
      FETTLE_TRY_VOID(s.device->copy_from(buffers[i], s.device_buffers[i], params[i].layout.physical_bytes()));
  return {};
}

Result<> LocalKernel::run_on(std::span<void* const> buffers) {
  FETTLE_CHECK(buffers.size() == state_->params.size());
  std::vector<void*> given = state_->buffers;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i]) given[i] = buffers[i];
  return run_buffers(given);
}

bool LocalKernel::in_callers_order(int index) const {
  return layout(index).is_identity() && layout(index).physical_bytes() == layout(index).logical_bytes();
}

Result<> LocalKernel::run_prologue() {
  if (!state_->loaded.prologue.function) return {};
  return cpu_device.launch(state_->host_stream, state_->loaded.prologue, state_->prologue_buffers, state_->ints);
}

int LocalKernel::n_params() const { return static_cast<int>(state_->params.size()); }

const Param& LocalKernel::param(int index) const {
  FETTLE_CHECK(index >= 0 && index < n_params());
  return state_->params[static_cast<size_t>(index)];
}

const Relayout& LocalKernel::layout(int index) const {
  return state_->loaded.built.info.params.at(static_cast<size_t>(index)).layout;
}

std::span<const int64_t> LocalKernel::logical_shape(int index) const { return layout(index).logical_shape(); }

int64_t LocalKernel::logical_elems(int index) const { return layout(index).logical_elems(); }

void* LocalKernel::physical(int index) { return state_->buffers.at(static_cast<size_t>(index)); }

int64_t LocalKernel::physical_bytes(int index) const { return layout(index).physical_bytes(); }

void LocalKernel::set_logical_bytes(int index, std::span<const std::byte> data) {
  FETTLE_CHECK(data.size() == static_cast<size_t>(layout(index).logical_bytes()));
  layout(index).to_physical(data.data(), physical(index));
}

std::vector<std::byte> LocalKernel::logical_bytes(int index) const {
  std::vector<std::byte> data(static_cast<size_t>(layout(index).logical_bytes()));
  layout(index).to_logical(state_->buffers[static_cast<size_t>(index)], data.data());
  return data;
}

int LocalKernel::threads() const { return fettle_team_size(state_->stream->team); }

int64_t LocalKernel::code_bytes() const {
  return state_->loaded.kernel.code_bytes + state_->loaded.prologue.code_bytes;
}

}  // namespace fettle
