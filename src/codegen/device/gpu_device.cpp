#include "codegen/device/gpu_device.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <mutex>

#include "codegen/device/host_stub.h"
#include "codegen/llvm/llvm_codegen.h"
#include "ir/rewrite.h"
#include "lower/lower.h"
#include "lower/passes/passes.h"
#include "rt/context.h"

namespace fettle {
namespace {

KernelImage image_of(const std::string& entry, std::vector<uint8_t> object) {
  return {{entry, std::make_shared<const std::vector<uint8_t>>(std::move(object))}};
}

/// What depends on constants alone is worked out on the host, by plain loops.
Result<KernelImage> compile_prologue(const Func& prologue, const std::string& entry) {
  const Func serial = with_body(prologue, rewrite_each<ForNode>(prologue->body, [](const ForNode& loop) -> Stmt {
                                  if (loop.thread_axis.empty()) return {};
                                  return with(loop, [](ForNode& f) {
                                    f.loop_kind = ForKind::kSerial;
                                    f.thread_axis.clear();
                                  });
                                }));
  const Target host = host_of_devices();
  FETTLE_TRY(const LoweredKernel lowered, lower(serial, host, {.pipeline = Pipeline::kPlain}));
  FETTLE_TRY(std::vector<uint8_t> object,
             compile_object(lowered.kernel, host, {.contract = false, .entry_name = entry}));
  return image_of(entry, std::move(object));
}

tl::unexpected<Diagnostic> failed(const FettleDriver& driver, const rt::Reason& why) {
  return fail(ErrorCode::E710, why.chars, driver.name);
}

/// Device number 0, opened once in a process (not before a fork: a child cannot use it), and a queue of it that copies.
struct Opened {
  rt::Device device;
  FettleQueue queue{};
  std::mutex mutex;  // of the queue
};

Result<Opened*> open(const FettleDriver& driver) {
  static std::mutex mutex;
  static auto* known = new std::map<const FettleDriver*, Opened*>;  // drivers outlive static destructors
  const std::lock_guard lock(mutex);
  Opened*& one = (*known)[&driver];
  if (!one) {
    auto made = std::make_unique<Opened>();
    rt::Reason why{};
    if (!made->device.open(&driver, 0, why)) return failed(driver, why);
    if (!made->queue.open(&made->device, nullptr)) return failed(driver, made->queue.why);
    one = made.release();
  }
  if (one->queue.enter() != FETTLE_OK) return failed(driver, one->queue.why);
  return one;
}

Result<> copy(const FettleDriver& driver, rt::CopyKind kind, void* to, const void* from, int64_t bytes) {
  FETTLE_TRY(Opened* const opened, open(driver));
  const std::lock_guard lock(opened->mutex);
  if (opened->queue.copy(kind, to, from, bytes) != FETTLE_OK || opened->queue.wait() != FETTLE_OK)
    return failed(driver, opened->queue.why);
  return {};
}

/// A context for launches by hand, with the code that they load.
struct GpuContext {
  explicit GpuContext(const FettleDriver* driver) : owned(1), driver(driver) {}
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;
  ~GpuContext() {
    if (queue.device) queue.close();
    device.close();
  }
  rt::OwnedContext owned;
  const FettleDriver* driver;
  rt::Device device;
  FettleQueue queue{};
};

}  // namespace

Result<CompiledProgram> compile_for_gpu(const Func& scheduled, const Target& target, const ProgramRequest& request,
                                        ObjectCache& cache, EmitGpuCode emit) {
  if (request.plain)
    return fail(ErrorCode::E301, "there is no plain code for devices of kind \"" + target.kind + "\"", scheduled->name);
  const PrologueSplit split = split_prologue(scheduled);
  FETTLE_TRY(const DeviceProgram program, lower_for_device(split.main, target));
  FETTLE_TRY(const GpuCode code, emit(program, target, request.portable, cache));
  FETTLE_TRY(std::vector<uint8_t> object,
             compile_stub(program, device_code(program, code.images, code.dynamic_shared_bytes), request.entry));
  CompiledProgram made{.kernel = image_of(request.entry, std::move(object)), .kernel_params = split.main->params};
  if (!split.prologue) return made;
  made.prologue_params = split.prologue->params;
  FETTLE_TRY(made.prologue, compile_prologue(split.prologue, prologue_entry(request.entry)));
  return made;
}

Result<std::shared_ptr<std::byte>> allocate_on_gpu(const FettleDriver& driver, int64_t bytes) {
  FETTLE_TRY(Opened* const opened, open(driver));
  const int64_t words = (std::max<int64_t>(bytes, 1) + 3) / 4;
  void* at = driver.allocate(opened->device.handle, 4 * words);
  if (!at) return fail(ErrorCode::E710, fmt::format("the device has no memory for {} bytes", bytes), driver.name);
  const std::shared_ptr<std::byte> made(static_cast<std::byte*>(at), [&driver, opened](std::byte* block) {
    rt::Reason ignored;
    driver.enter(opened->device.handle, ignored);
    driver.free(opened->device.handle, block);
  });
  const std::lock_guard lock(opened->mutex);
  if (opened->queue.clear(at, 4 * words) != FETTLE_OK || opened->queue.wait() != FETTLE_OK)
    return failed(driver, opened->queue.why);
  return made;
}

Result<> copy_to_gpu(const FettleDriver& driver, void* device, const void* host, int64_t bytes) {
  return copy(driver, rt::CopyKind::kToDevice, device, host, bytes);
}
Result<> copy_from_gpu(const FettleDriver& driver, void* host, const void* device, int64_t bytes) {
  return copy(driver, rt::CopyKind::kToHost, host, device, bytes);
}

Result<DeviceStream> open_gpu_stream(const FettleDriver& driver) {
  const auto made = std::make_shared<GpuContext>(&driver);
  rt::Reason why{};
  if (!made->device.open(&driver, 0, why)) return failed(driver, why);
  if (!made->queue.open(&made->device, nullptr)) return failed(driver, made->queue.why);
  made->owned.get()->queue = &made->queue;
  return DeviceStream{made, made->owned.get()};
}

Result<> launch_on_gpu(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                       std::span<const int64_t> ints) {
  FettleQueue& queue = *stream->queue;
  const FettleDriver& driver = *queue.device->driver;
  if (queue.enter() != FETTLE_OK) return failed(driver, queue.why);
  if (image.function(stream.get(), const_cast<void**>(buffers.data()), ints.data()) != FETTLE_OK ||
      queue.wait() != FETTLE_OK)
    return failed(driver, queue.why);
  return {};
}

namespace {

/// A graph that is dropped.
struct OwnedGraph {
  const FettleQueue& queue;
  void* graph = nullptr;
  ~OwnedGraph() {
    if (graph) queue.device->driver->drop_graph(queue.device->handle, graph);
  }
};
struct OwnedMark {
  const FettleQueue& queue;
  void* mark;
  explicit OwnedMark(FettleQueue& in)
      : queue(in), mark(in.device->driver->mark(in.device->handle, in.stream, in.why)) {}
  ~OwnedMark() {
    if (mark) queue.device->driver->drop_mark(queue.device->handle, mark);
  }
};

Result<> flush_caches(FettleContext* context, int64_t bytes) {
  FettleQueue& queue = *context->queue;
  void* const block = fettle_device_acquire(context, bytes);
  const bool cleared = block && queue.clear(block, bytes) == FETTLE_OK;
  fettle_device_release(context, block);
  if (!cleared) return failed(*queue.device->driver, queue.why);
  return {};
}

}  // namespace

// Several launches are one graph where the driver has graphs, as they are in a model: else the host's part of a launch
// would be timed where a kernel takes less.
Result<double> time_on_gpu(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                           std::span<const int64_t> ints, const TimedLaunches& launches) {
  FettleQueue& queue = *stream->queue;
  const FettleDriver& driver = *queue.device->driver;
  if (queue.enter() != FETTLE_OK) return failed(driver, queue.why);
  const auto launch_all = [&] {
    int32_t status = FETTLE_OK;
    for (int64_t i = 0; i < launches.calls && status == FETTLE_OK; ++i)
      status = image.function(stream.get(), const_cast<void**>(buffers.data()), ints.data());
    return status;
  };
  OwnedGraph recorded{queue};
  void* const recorder =
      launches.calls > 1 && driver.begin_graph ? driver.begin_graph(queue.device->handle, queue.why) : nullptr;
  if (recorder) {
    void* const own = std::exchange(queue.stream, recorder);
    const int32_t status = launch_all();
    queue.stream = own;
    recorded.graph = driver.end_graph(queue.device->handle, recorder, queue.why);
    if (status != FETTLE_OK) return failed(driver, queue.why);
  }
  const auto work = [&] {
    return recorded.graph ? driver.run_graph(queue.device->handle, recorded.graph, queue.stream, queue.why)
                          : launch_all();
  };
  if (launches.flush_bytes > 0) FETTLE_TRY_VOID(flush_caches(stream.get(), launches.flush_bytes));
  if (!driver.mark) {
    if (queue.wait() != FETTLE_OK) return failed(driver, queue.why);
    const auto begin = std::chrono::steady_clock::now();
    if (work() != FETTLE_OK || queue.wait() != FETTLE_OK) return failed(driver, queue.why);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double seconds = 0;
  const OwnedMark begin(queue);
  if (!begin.mark || work() != FETTLE_OK) return failed(driver, queue.why);
  const OwnedMark end(queue);
  if (!end.mark || driver.seconds_between(queue.device->handle, begin.mark, end.mark, &seconds, queue.why) != FETTLE_OK)
    return failed(driver, queue.why);
  return seconds;
}

Result<std::string> name_of_gpu(const FettleDriver& driver) {
  FETTLE_TRY(Opened* const opened, open(driver));
  return std::string(driver.describe(opened->device.handle));
}

}  // namespace fettle
