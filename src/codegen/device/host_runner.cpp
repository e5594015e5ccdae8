#include "codegen/device/host_runner.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/device/host_walk.h"
#include "ir/text.h"

namespace fettle {
namespace {

Result<int64_t> value_of(const Expr& e, const IntEnv& known) {
  int64_t number = 0;
  if (evaluate_int(e, known, number) == IntProblem::kNone) return number;
  return fail(ErrorCode::E104, "no value is known for " + to_text(e));
}

class HostRunner : private HostWalk {
 public:
  HostRunner(const DeviceProgram& program, const DeviceCallbacks& callbacks)
      : program_(program), callbacks_(callbacks) {}

  Result<> run(std::span<const DeviceBuffer> params, std::span<const int64_t> ints) {
    const Func& host = program_.host;
    if (params.size() != host->params.size() || ints.size() != host->int_params.size())
      return fail(ErrorCode::E104, fmt::format("{} takes {} buffers and {} integers", host->name, host->params.size(),
                                               host->int_params.size()));
    for (size_t i = 0; i < params.size(); ++i) buffers_[host->params[i].buffer.get()] = params[i];
    for (size_t i = 0; i < ints.size(); ++i) ints_.set(host->int_params[i].var.get(), ints[i]);
    return HostWalk::run(host->body);
  }

 private:
  Result<int64_t> value(const Expr& e) const override { return value_of(e, ints_); }

  Result<> leaf(const Stmt& s) override {
    if (const auto* alloc = s.as<AllocateNode>()) {
      FETTLE_TRY(const int64_t elements, value(element_count(*alloc->buffer)));
      FETTLE_TRY(buffers_[alloc->buffer.get()],
                 callbacks_.allocate(std::max<int64_t>(elements, 0) * alloc->buffer->dtype.element_bytes(), nullptr));
      return HostWalk::run(alloc->body);
    }
    if (const auto* call = s.as<CallFuncNode>()) return launch(*call);
    return fail(ErrorCode::E104, "the host program cannot run: " + to_text(s));
  }

  Result<> launch(const CallFuncNode& call) {
    const auto found = program_.kernels.find(call.name);
    if (found == program_.kernels.end()) return fail(ErrorCode::E104, "there is no kernel " + call.name);
    Launch launch;
    launch.kernel = &found->second;
    launch.name = call.name;
    const Func& func = launch.kernel->func;
    IntEnv known;
    for (const Expr& arg : call.args) {
      if (const auto* pointer = arg.as<AddressNode>()) {
        launch.buffers.push_back(buffers_[pointer->buffer.get()]);
        continue;
      }
      FETTLE_TRY(const int64_t number, value(arg));
      if (launch.ints.size() < func->int_params.size())
        known.set(func->int_params[launch.ints.size()].var.get(), number);
      launch.ints.push_back(number);
    }
    if (launch.buffers.size() != func->params.size() || launch.ints.size() != func->int_params.size())
      return fail(ErrorCode::E104, "wrong arguments for kernel " + call.name);
    for (size_t d = 0; d < 3; ++d) {
      FETTLE_TRY(launch.grid[d], value_of(launch.kernel->grid[d], known));
      launch.block[d] = launch.kernel->block[d];
      if (launch.grid[d] <= 0) return {};
    }
    return callbacks_.launch(launch);
  }

  const DeviceProgram& program_;
  const DeviceCallbacks& callbacks_;
  std::unordered_map<const BufferNode*, DeviceBuffer> buffers_;
};

}  // namespace

Result<> run_host(const DeviceProgram& program, std::span<const DeviceBuffer> params, std::span<const int64_t> ints,
                  const DeviceCallbacks& callbacks) {
  return HostRunner(program, callbacks).run(params, ints);
}

Result<> check_limits(const DeviceProgram& program, const DeviceLimits& limits) {
  for (const auto& [name, kernel] : program.kernels) {
    const int64_t threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
    if (threads > limits.threads)
      return fail(ErrorCode::E230,
                  fmt::format("{} has {} threads in a block, and this device {}", name, threads, limits.threads));
    if (kernel.shared_bytes > limits.shared_bytes)
      return fail(ErrorCode::E230, fmt::format("{} needs {} bytes of shared memory, and this device has {}", name,
                                               kernel.shared_bytes, limits.shared_bytes));
  }
  return {};
}

Result<> run_program(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints,
                     const DeviceLimits& limits, const DeviceCallbacks& callbacks) {
  if (buffers.size() != program.host->params.size())
    return fail(ErrorCode::E104, fmt::format("{} takes {} buffers", program.host->name, program.host->params.size()));
  FETTLE_TRY_VOID(check_limits(program, limits));
  std::vector<DeviceBuffer> params;
  for (const BufferArg& arg : buffers) {
    FETTLE_TRY(const DeviceBuffer made, callbacks.allocate(arg.size_bytes, arg.data));
    params.push_back(made);
  }
  Result<> launched = run_host(program, params, ints, callbacks);
  Result<> done = callbacks.wait();
  FETTLE_TRY_VOID(launched);
  FETTLE_TRY_VOID(done);
  for (size_t i = 0; i < buffers.size(); ++i)
    if (program.host->params[i].kind == ParamKind::kOutput) FETTLE_TRY_VOID(callbacks.read(params[i], buffers[i]));
  return {};
}

}  // namespace fettle
