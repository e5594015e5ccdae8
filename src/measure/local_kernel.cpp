#include "measure/local_kernel.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

#include "measure/fill.h"
#include "measure/loaded_kernel.h"
#include "measure/relayout.h"
#include "rt/context.h"

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
  explicit State(int threads) : context(threads) {}
  ~State() {
    if (memory) fettle_pages_free(memory, memory_bytes, huge);
  }

  LoadedKernel loaded;
  rt::OwnedContext context;
  size_t n_scheduled_params = 0;
  std::vector<Relayout> layouts;  // one a kernel parameter
  std::vector<void*> buffers, prologue_buffers;
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
  auto state = std::make_unique<State>(options.threads);
  LocalBuilder builder(options.cache ? options.cache : std::make_shared<ObjectCache>(), {.plain = options.plain});
  FETTLE_TRY(BuiltKernel from_builder, builder.build(scheduled, target));
  FETTLE_TRY(state->loaded, LoadedKernel::load(std::move(from_builder)));
  const BuiltKernel& built = state->loaded.built;
  state->n_scheduled_params = scheduled->params.size();

  IntEnv ints;
  if (options.ints.size() > built.int_params.size())
    return fail(ErrorCode::E709, "there are fewer integer parameters than values for them");
  for (size_t i = 0; i < built.int_params.size(); ++i) {
    const IntParam& param = built.int_params[i];
    const int64_t value = i < options.ints.size() ? options.ints[i] : param.max;
    if (value < param.min || value > param.max || value % param.multiple_of != 0 || value == INT64_MAX)
      return fail(ErrorCode::E709, fmt::format("{} cannot be the value of {}", value, param.var->name));
    ints.push(param.var.get(), value);
    state->ints.push_back(value);
  }

  std::vector<int64_t> sizes, offsets;
  for (const Param& param : built.kernel_params) {
    FETTLE_TRY(Relayout layout, Relayout::make(*param.buffer, ints));
    sizes.push_back(layout.physical_bytes());
    state->layouts.push_back(std::move(layout));
  }
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
  std::unordered_map<const BufferNode*, void*> address;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (state->shared) {
      FETTLE_TRY(void* const block, state->shared->block(i, sizes[i]));
      state->buffers.push_back(block);
    } else {
      state->buffers.push_back(static_cast<char*>(state->memory) + offsets[i]);
    }
    address[built.kernel_params[i].buffer.get()] = state->buffers.back();
  }
  for (const Param& param : built.prologue_params) {
    const auto found = address.find(param.buffer.get());
    if (found == address.end()) return fail(ErrorCode::E302, param.buffer->name + " of the prologue is unknown");
    state->prologue_buffers.push_back(found->second);
  }

  LocalKernel kernel(std::move(state));
  State& s = *kernel.state_;
  std::vector<std::byte> values;
  for (size_t i = 0; i < s.buffers.size(); ++i) {
    const Param& param = s.loaded.built.kernel_params[i];
    if (i < s.n_scheduled_params && param.kind != ParamKind::kOutput) {
      values.resize(static_cast<size_t>(s.layouts[i].logical_bytes()));
      fill_random(values.data(), s.layouts[i].logical_elems(), param.buffer->dtype, options.seed, i);
      s.layouts[i].to_physical(values.data(), s.buffers[i]);
    } else {
      std::memset(s.buffers[i], 0, static_cast<size_t>(s.layouts[i].physical_bytes()));  // touches every page
    }
  }
  FETTLE_TRY_VOID(kernel.run_prologue());
  return kernel;
}

int32_t LocalKernel::call() {
  return state_->loaded.kernel(state_->context.get(), state_->buffers.data(), state_->ints.data());
}

Result<> LocalKernel::run() {
  if (const int32_t status = call(); status != FETTLE_OK)
    return fail(ErrorCode::E710, fmt::format("the kernel returned {}", status));
  return {};
}

Result<> LocalKernel::run_on(std::span<void* const> buffers) {
  FETTLE_CHECK(buffers.size() == state_->n_scheduled_params);
  std::vector<void*> given = state_->buffers;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i]) given[i] = buffers[i];
  if (const int32_t status = state_->loaded.kernel(state_->context.get(), given.data(), state_->ints.data());
      status != FETTLE_OK)
    return fail(ErrorCode::E710, fmt::format("the kernel returned {}", status));
  return {};
}

bool LocalKernel::in_callers_order(int index) const {
  const Relayout& layout = state_->layouts.at(static_cast<size_t>(index));
  return layout.is_identity() && layout.physical_bytes() == layout.logical_bytes();
}

Result<> LocalKernel::run_prologue() {
  if (!state_->loaded.prologue) return {};
  const int32_t status =
      state_->loaded.prologue(state_->context.get(), state_->prologue_buffers.data(), state_->ints.data());
  if (status != FETTLE_OK) return fail(ErrorCode::E710, fmt::format("the prologue returned {}", status));
  return {};
}

int LocalKernel::n_params() const { return static_cast<int>(state_->n_scheduled_params); }

const Param& LocalKernel::param(int index) const {
  FETTLE_CHECK(index >= 0 && index < n_params());
  return state_->loaded.built.kernel_params[static_cast<size_t>(index)];
}

std::span<const int64_t> LocalKernel::logical_shape(int index) const {
  return state_->layouts.at(static_cast<size_t>(index)).logical_shape();
}

int64_t LocalKernel::logical_elems(int index) const {
  return state_->layouts.at(static_cast<size_t>(index)).logical_elems();
}

void* LocalKernel::physical(int index) { return state_->buffers.at(static_cast<size_t>(index)); }

int64_t LocalKernel::physical_bytes(int index) const {
  return state_->layouts.at(static_cast<size_t>(index)).physical_bytes();
}

void LocalKernel::set_logical_bytes(int index, std::span<const std::byte> data) {
  const Relayout& layout = state_->layouts.at(static_cast<size_t>(index));
  FETTLE_CHECK(data.size() == static_cast<size_t>(layout.logical_bytes()));
  layout.to_physical(data.data(), physical(index));
}

std::vector<std::byte> LocalKernel::logical_bytes(int index) const {
  const Relayout& layout = state_->layouts.at(static_cast<size_t>(index));
  std::vector<std::byte> data(static_cast<size_t>(layout.logical_bytes()));
  layout.to_logical(state_->buffers[static_cast<size_t>(index)], data.data());
  return data;
}

int LocalKernel::threads() const { return state_->context.threads(); }

int64_t LocalKernel::code_bytes() const {
  int64_t bytes = 0;
  for (const JitModule& module : state_->loaded.modules) bytes += module.size_bytes();
  return bytes;
}

}  // namespace fettle
