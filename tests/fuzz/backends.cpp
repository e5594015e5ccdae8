#include "tests/fuzz/backends.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "base/check.h"
#include "codegen/c/c_codegen.h"
#include "codegen/c/testing.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/cuda/run.h"
#include "codegen/llvm/llvm_codegen.h"
#include "codegen/opencl/opencl_codegen.h"
#include "codegen/opencl/testing.h"
#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/visit.h"
#include "rt/context.h"

namespace fettle::fuzz {
namespace {

using Kernel = int32_t(FettleContext*, void**, const int64_t*);

/// Iterations of parallel loops in an order that is neither forwards nor backwards, on one thread: a loop whose
/// iterations depend on one another gives another result, and each time the same.
void scrambled(void*, int64_t n, void (*body)(void*, int64_t), void* closure) {
  for (int64_t i = n - 1; i >= 0; i -= 2) body(closure, i);
  for (int64_t i = n % 2; i < n; i += 2) body(closure, i);
}

FettleContext* context() {
  static FettleContext* made = [] {
    auto* c = new FettleContext{};
    const FettleHostTeam host{
        .struct_bytes = sizeof(FettleHostTeam), .size = [](void*) -> int32_t { return 2; }, .parallel_for = scrambled};
    c->team = fettle_team_wrap(&host);
    c->scratch = fettle_scratch_create();
    return c;
  }();
  return made;
}

/// All Funcs of the jobs in one module, under names of their own; `entries` are the kernels and prologues.
IrModule joined(std::span<Job> jobs, std::set<std::string>& entries) {
  IrModule all;
  const auto add = [&](IrModule& module, const std::string& name) {
    if (module.entry.empty()) return;
    for (auto& [key, func] : module.funcs) {
      if (key != module.entry) {
        all.funcs.insert({key, func});  // a micro-kernel: equal names are equal programs
        continue;
      }
      all.funcs[name] = with(func, [&](FuncNode& f) { f.name = name; });
    }
    module.entry = name;
    entries.insert(name);
  };
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].refused.code != ErrorCode::kNone) continue;
    add(jobs[i].lowered.kernel, fmt::format("kernel{}", i));
    add(jobs[i].lowered.prologue, fmt::format("prologue{}", i));
  }
  return all;
}

int64_t bytes_of(const BufferNode& buffer, const std::vector<IntParam>& params, std::span<const int64_t> ints) {
  VarMap values;
  for (size_t i = 0; i < params.size(); ++i) values[params[i].var.get()] = Expr(ints[i]);
  const auto value = [&](const Expr& e) {
    const Expr known = substitute(e, values);
    FETTLE_CHECK(as_int(known));
    return *as_int(known);
  };
  int64_t count = 1, reach = 1;
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    count *= value(buffer.shape[d]);
    if (!buffer.strides.empty()) reach += (value(buffer.shape[d]) - 1) * value(buffer.strides[d]);
  }
  if (!buffer.strides.empty()) count = reach;
  return count * buffer.dtype.element_bytes();
}

Result<> run_lowered(const JitModule& code, const Job& job, std::span<void* const> buffers,
                     std::span<const int64_t> ints) {
  // Memory by the parameters' names; what the prologue makes is memory of its own.
  std::map<std::string, void*> known;
  for (size_t i = 0; i < buffers.size(); ++i) known[job.scheduled->params[i].buffer->name] = buffers[i];
  std::vector<std::unique_ptr<char[]>> packed;
  const auto call = [&](const IrModule& module, const std::vector<Param>& params) -> Result<> {
    if (module.entry.empty()) return {};
    std::vector<void*> pointers;
    for (const Param& param : params) {
      void*& at = known[param.buffer->name];
      if (!at) {
        const int64_t bytes = bytes_of(*param.buffer, job.lowered.int_params, ints);
        packed.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes + 64)));
        at = packed.back().get() + (64 - reinterpret_cast<uintptr_t>(packed.back().get()) % 64);
        std::fill_n(static_cast<char*>(at), bytes, static_cast<char>(0xcd));
      }
      pointers.push_back(at);
    }
    auto* kernel = code.function<Kernel>(module.entry);
    if (!kernel) return fail(ErrorCode::E303, "no symbol " + module.entry);
    const int32_t status = kernel(context(), pointers.data(), ints.data());
    if (status != 0) return fail(ErrorCode::E302, fmt::format("{} returned {}", module.entry, status));
    return {};
  };
  FETTLE_TRY_VOID(call(job.lowered.prologue, job.lowered.prologue_params));
  return call(job.lowered.kernel, job.lowered.kernel_params);
}

void lower_all(std::span<Job> jobs, const Target& target, const LowerOptions& options) {
  for (Job& job : jobs) {
    auto lowered = lower(job.scheduled, target, options);
    if (lowered)
      job.lowered = std::move(*lowered);
    else
      job.refused = std::move(lowered.error());
  }
}

void set_runs(std::span<Job> jobs, JitModule module) {
  auto code = std::make_shared<JitModule>(std::move(module));
  for (Job& job : jobs) {
    if (job.refused.code != ErrorCode::kNone) continue;
    job.run = [code, &job](std::span<void* const> buffers, std::span<const int64_t> ints) {
      return run_lowered(*code, job, buffers, ints);
    };
  }
}

Result<> compile_llvm(std::span<Job> jobs, const Target& target) {
  lower_all(jobs, target, {});
  LlvmOptions options;
  const IrModule all = joined(jobs, options.more_entries);
  FETTLE_TRY(const std::vector<uint8_t> object, compile_object(all, target, options));
  FETTLE_TRY(JitModule code, JitModule::load(object));
  set_runs(jobs, std::move(code));
  return {};
}

Result<> compile_c(std::span<Job> jobs, const Target& target) {
  lower_all(jobs, target, {.pipeline = Pipeline::kScalar});
  COptions options;
  const IrModule all = joined(jobs, options.more_entries);
  FETTLE_TRY(const std::string source, emit_c(all, target, options));
  FETTLE_TRY(JitModule code, load_c(source, "-O1 -w"));
  set_runs(jobs, std::move(code));
  return {};
}

/// Launches kernels by other names.
class Renamer : public Mutator {
 public:
  explicit Renamer(const std::map<std::string, std::string>& names) : names_(names) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    const auto* launch = s ? s.as<CallFuncNode>() : nullptr;
    return launch ? call_func(names_.at(launch->name), launch->args) : Mutator::rewrite(s);
  }

 private:
  const std::map<std::string, std::string>& names_;
};

/// Adds the kernels of a program to `all`, each under the name of an equal one that is there, if any: nests that no
/// step touched are the same in many jobs. `known`: names by kernel.
void share_kernels(DeviceProgram& program, DeviceProgram& all, std::map<std::string, std::string>& known) {
  std::map<std::string, std::string> names;
  std::map<std::string, DeviceKernel> kernels;
  for (const auto& [name, kernel] : program.kernels) {
    const Func anonymous = with(kernel.func, [](FuncNode& f) { f.name = "kernel"; });
    const std::string key = fmt::format("{} {} {} {} {} {}", canonical_hash(anonymous).hex(), kernel.block[0],
                                        kernel.block[1], kernel.block[2], kernel.shared_bytes, kernel.min_blocks);
    names[name] = known.emplace(key, name).first->second;
    kernels[names[name]] = kernel;
    all.kernels.insert({names[name], kernel});
  }
  program.kernels = std::move(kernels);
  program.host = with(program.host, [&](FuncNode& f) { f.body = Renamer(names).rewrite(f.body); });
}

/// Kernels of all jobs in one program, which `build` makes a module of.
template <class Module, class Emit, class Run>
Result<> compile_kernels(std::span<Job> jobs, const Target& target, Emit emit, Run run) {
  DeviceProgram all;
  std::map<std::string, std::string> known;
  std::vector<std::shared_ptr<const DeviceProgram>> programs(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Func named = with(jobs[i].scheduled, [&](FuncNode& f) { f.name = fmt::format("job{}", i); });
    auto lowered = lower_for_device(named, target);
    if (!lowered) {
      jobs[i].refused = std::move(lowered.error());
      continue;
    }
    share_kernels(*lowered, all, known);
    programs[i] = std::make_shared<const DeviceProgram>(std::move(*lowered));
  }
  FETTLE_TRY(const std::string source, emit(all));
  FETTLE_TRY(Module built, Module::build(source));
  const auto module = std::make_shared<Module>(std::move(built));
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!programs[i]) continue;
    jobs[i].run = [module, run, program = programs[i]](std::span<void* const> buffers, std::span<const int64_t> ints) {
      std::vector<BufferArg> args;
      for (size_t p = 0; p < buffers.size(); ++p)
        args.push_back({buffers[p], bytes_of(*program->host->params[p].buffer, program->host->int_params, ints)});
      return run(*module, *program, args, ints);
    };
  }
  return {};
}

// A hang is told by the process's own time (watch): others may hold the machine meanwhile.
constexpr double kNoTimeout = 1e6, kGivenUpSeconds = 20;

Result<> compile_opencl(std::span<Job> jobs, const Target& target) {
  return compile_kernels<OpenClModule>(
      jobs, target, emit_opencl,
      [](const OpenClModule& module, const DeviceProgram& program, std::span<const BufferArg> args,
         std::span<const int64_t> ints) { return module.run(program, args, ints, {.timeout_s = kNoTimeout}); });
}

/// A device on which a kernel failed does nothing more in this process, so the process ends: that is the finding.
Result<> compile_cuda_kernels(std::span<Job> jobs, const Target& target) {
  return compile_kernels<CudaModule>(
      jobs, target, emit_cuda,
      [](const CudaModule& module, const DeviceProgram& program, std::span<const BufferArg> args,
         std::span<const int64_t> ints) {
        const Result<> done = module.run(program, args, ints, {.timeout_s = kGivenUpSeconds});
        if (!done && (done.error().code == ErrorCode::E710 || done.error().code == ErrorCode::E402)) {
          fmt::print(stderr, "{}\n", done.error().to_string());
          std::abort();
        }
        return done;
      });
}

/// No device: the text compiles, and the scheduled program is interpreted.
struct CompiledText {
  static Result<CompiledText> build(const std::string& source) {
    FETTLE_TRY_VOID(compile_cuda(source, "sm_90").map([](const std::string&) {}));
    return CompiledText{};
  }
};
Result<> compile_cuda_text(std::span<Job> jobs, const Target& target) {
  FETTLE_TRY_VOID(
      compile_kernels<CompiledText>(jobs, target, emit_cuda,
                                    [](const CompiledText&, const DeviceProgram&, std::span<const BufferArg>,
                                       std::span<const int64_t>) { return Result<>(); }));
  for (Job& job : jobs) {
    if (!job.run) continue;
    job.run = [scheduled = job.scheduled](std::span<void* const> buffers, std::span<const int64_t> ints) {
      std::vector<BufferArg> args;
      for (size_t p = 0; p < buffers.size(); ++p)
        args.push_back({buffers[p], bytes_of(*scheduled->params[p].buffer, scheduled->int_params, ints)});
      return interpret(scheduled, args, ints);
    };
  }
  return {};
}

bool always() { return true; }

/// Asked in a process of its own: what OpenCL and CUDA start does not survive the forks that follow.
bool holds_in_child(bool (*fn)()) {
  const pid_t pid = fork();
  if (pid == 0) _exit(fn() ? 0 : 1);
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
bool opencl_is_there() { return holds_in_child(has_opencl); }
bool cuda_is_there() { return holds_in_child(has_cuda_device); }

constexpr Backend kBackends[] = {
    {"llvm", "host", compile_llvm, "", always},
    {"c", "c", compile_c, "", always},
    {"opencl", "opencl", compile_opencl, "an OpenCL device, such as Debian's pocl-opencl-icd", opencl_is_there},
    {"cuda-text", "cuda", compile_cuda_text, "NVRTC (FETTLE_NVRTC may name it)", has_nvrtc},
    {"cuda", "cuda", compile_cuda_kernels, "a CUDA device, and NVRTC (FETTLE_NVRTC may name it)", cuda_is_there},
};

}  // namespace

std::span<const Backend> backends() { return kBackends; }

const Backend* find_backend(std::string_view name) {
  for (const Backend& backend : kBackends)
    if (backend.name == name) return &backend;
  return nullptr;
}

}  // namespace fettle::fuzz
