#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/command.h"
#include "cli/container_limits.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/object_cache.h"
#include "cost/predict/micro_kernel_table.h"
#include "driver/model_peers.h"
#include "driver/tune.h"
#include "measure/worker_process.h"
#include "report/machine_peaks.h"
#include "report/peak_loops.h"
#include "rt/device.h"

namespace fettle::cli {
namespace {

namespace fs = std::filesystem;

/// One thing that Fettle needs or can use.
struct Check {
  std::string name;  // of the thing
  bool essential;    // for tuning and compiling
  bool present;
  std::string detail;  // where or which; or why not, and what to do
};

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int affine_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::string size_text(int64_t bytes) {
  return bytes % (1 << 20) == 0 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

Check check_worker() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error).parent_path() / "fettle-worker";
  if (!fs::exists(path, error))
    return {"fettle-worker", true, false, path.string() + " is not there; tuning needs it beside this program"};
  auto worker = WorkerProcess::start(path, {});
  if (!worker) return {"fettle-worker", true, false, worker.error().to_string()};
  worker->end(1);
  return {"fettle-worker", true, true, path.string()};
}

/// Whether files can be made in `folder`, or in the nearest folder above it that exists. Leaves nothing behind.
Check check_folder(const std::string& name, const fs::path& folder, const std::string& otherwise) {
  if (folder.empty()) return {name, false, false, "no place for it: neither HOME nor XDG_* is set; " + otherwise};
  std::error_code error;
  fs::path there = folder;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const bool writable = fs::is_directory(there, error) && ::access(there.c_str(), W_OK | X_OK) == 0;
  if (!writable) return {name, false, false, there.string() + " cannot be written; " + otherwise};
  return {name, false, true, folder.string()};
}

/// 'text' for the shell.
std::string quoted(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

/// Standard output of a shell's command; empty where it cannot be run.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return text;
  char part[256];
  while (const size_t n = std::fread(part, 1, sizeof part, pipe)) text.append(part, n);
  ::pclose(pipe);
  return text;
}

/// model_peers.py, and the packages that it serves.
std::vector<Check> check_peers() {
  const auto paths = bench::find_peer_paths();
  if (!paths) return {{"model_peers.py", false, false, paths.error().message + "; bench --against needs it"}};
  std::vector<Check> checks{{"model_peers.py", false, true, paths->script}};
  // Found without being imported, which would take seconds.
  const std::string versions = output_of(quoted(paths->python) +
                                         " -c 'import importlib.util as u, importlib.metadata as m\n"
                                         "for n in (\"onnxruntime\", \"openvino\"):\n"
                                         "  if u.find_spec(n): print(n, m.version(n))' 2>/dev/null </dev/null");
  for (const std::string package : {"onnxruntime", "openvino"}) {
    Check check{package, false, false, paths->python + " does not have it; bench --against needs it: make setup"};
    std::istringstream lines(versions);
    for (std::string name, version; lines >> name >> version;)
      if (name == package) check = {package, false, true, fmt::format("{} of {}", version, paths->python)};
    checks.push_back(check);
  }
  return checks;
}

nlohmann::json describe_machine(const Target& target, std::string* text) {
  const int online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), affine = affine_cpus(),
            usable = available_threads();
  const std::string processor = processor_name();
  *text += fmt::format("processor      {}\ntarget         {}\nfeatures       {}\n", processor, describe(target),
                       target.features);
  nlohmann::json caches = nlohmann::json::array();
  for (size_t i = 0; i < target.caches.size(); ++i) {
    const CacheLevel& cache = target.caches[i];
    *text += fmt::format("cache L{}       {}, {} ways, lines of {} bytes, shared by {} thread{}\n", i + 1,
                         size_text(cache.size_bytes), cache.ways, cache.line_bytes, cache.shared_by_threads,
                         cache.shared_by_threads == 1 ? "" : "s");
    caches.push_back({{"bytes", cache.size_bytes},
                      {"ways", cache.ways},
                      {"line_bytes", cache.line_bytes},
                      {"shared_by_threads", cache.shared_by_threads}});
  }
  *text +=
      fmt::format("threads        {} online, {} by affinity, {} with the container's quota\n", online, affine, usable);
  return {{"processor", processor},
          {"target",
           {{"kind", target.kind},
            {"cpu", target.cpu},
            {"features", target.features},
            {"vector_bits", target.vector_bits},
            {"vector_registers", target.vector_registers},
            {"frequency_ghz", target.frequency_ghz},
            {"fingerprint", target.fingerprint().hex()}}},
          {"caches", caches},
          {"threads", {{"online", online}, {"affinity", affine}, {"usable", usable}}}};
}

/// "one thread, then all": a line, and what --json has; null where the processor has no instruction for it.
nlohmann::json describe_rate(const std::string& what, const PeakRate& rate, const PeakLoop& loop, int threads,
                             std::string* text) {
  if (rate.one_thread == 0) {
    *text += fmt::format("peak {:<9} no instruction for it\n", what);
    return nullptr;
  }
  *text += fmt::format("peak {:<9} {:.1f} Gop/s on one thread, {:.1f} on {} ({})\n", what, rate.one_thread * 1e-9,
                       rate.all_threads * 1e-9, threads, loop.instruction);
  return {{"gops_one_thread", rate.one_thread * 1e-9},
          {"gops_all_threads", rate.all_threads * 1e-9},
          {"instruction", loop.instruction}};
}

nlohmann::json describe_rate(const PeakRate& bytes) {
  return {{"gb_per_s", bytes.one_thread * 1e-9}, {"gb_per_s_all_threads", bytes.all_threads * 1e-9}};
}

nlohmann::json describe_peaks(const MachinePeaks& peaks, std::string* text) {
  *text += fmt::format("peak fp32      {:.1f} GFLOP/s on one thread, {:.1f} on {}\n", peaks.fp32.one_thread * 1e-9,
                       peaks.fp32.all_threads * 1e-9, peaks.threads);
  nlohmann::json made = {{"gflops_one_thread", peaks.fp32.one_thread * 1e-9},
                         {"gflops_all_threads", peaks.fp32.all_threads * 1e-9},
                         {"operations", describe_rate("all fp32", peaks.operations, fp32_loop(), peaks.threads, text)},
                         {"int8", describe_rate("int8", peaks.int8, int8_loop(), peaks.threads, text)},
                         {"bf16", describe_rate("bf16", peaks.bf16, bf16_loop(), peaks.threads, text)},
                         {"threads", peaks.threads},
                         {"fork_join_us", peaks.fork_join_s * 1e6},
                         {"memory", nlohmann::json::array()}};
  if (peaks.fork_join_s > 0)
    *text += fmt::format("fork and join  {:.2f} us on {} threads\n", peaks.fork_join_s * 1e6, peaks.threads);
  for (const MemoryRates& rates : peaks.memory) {
    const std::string level = rates.level == 0 ? "memory" : fmt::format("L{}", rates.level);
    *text += fmt::format("{:<14} {:.1f} GB/s read and written on one thread, {:.1f} on {}; only read {:.1f}, {:.1f}\n",
                         level, rates.copied.one_thread * 1e-9, rates.copied.all_threads * 1e-9, peaks.threads,
                         rates.read.one_thread * 1e-9, rates.read.all_threads * 1e-9);
    made["memory"].push_back({{"level", level},
                              {"buffer_bytes", rates.buffer_bytes},
                              {"copied", describe_rate(rates.copied)},
                              {"read", describe_rate(rates.read)}});
  }
  return made;
}

nlohmann::json describe_limits(std::string* text) {
  const ContainerLimits limits = read_container_limits();
  const int64_t installed = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  const double gib = 1.0 / (1 << 30);
  *text += fmt::format("memory         {:.1f} GiB{}\n", static_cast<double>(installed) * gib,
                       limits.memory_bytes ? fmt::format(", of which the container may have {:.1f} GiB",
                                                         static_cast<double>(*limits.memory_bytes) * gib)
                                           : "; no limit of a container");
  *text += fmt::format("CPU quota      {}\n", limits.cpus ? fmt::format("{:g} CPUs", *limits.cpus) : "none");
  *text += fmt::format("processes      {}\n",
                       limits.processes ? fmt::format("at most {}", *limits.processes) : "no limit of a container");
  const auto or_null = [](const auto& limit) { return limit ? nlohmann::json(*limit) : nlohmann::json(); };
  return {{"memory_bytes", installed},
          {"container",
           {{"cpus", or_null(limits.cpus)},
            {"memory_bytes", or_null(limits.memory_bytes)},
            {"processes", or_null(limits.processes)}}}};
}

/// Device number 0 of the driver, for models that are compiled for such.
Check check_device(const FettleDriver& driver, const std::string& target) {
  const std::string name = fmt::format("{} device", driver.name);
  rt::Reason why{};
  void* device = driver.open(0, why);
  if (!device) return {name, false, false, fmt::format("{}; --target {} compiles without", why.chars, target)};
  return {name, false, true, fmt::format("{}; compile --target {}", driver.describe(device), target)};
}

Check check_nvrtc() {
  const std::string version = nvrtc_version();
  if (version.empty())
    return {"NVRTC", false, false, "not found; --target cuda needs it: FETTLE_NVRTC, or pip install nvidia-cuda-nvrtc"};
  return {"NVRTC", false, true, version};
}

Check check_micro_kernels(const Target& target) {
  const std::string path = micro_kernel_table_file(target).string();
  if (path.empty()) return {"micro-kernel table", false, false, "each tuning measures it: set XDG_CACHE_HOME"};
  if (const auto table = MicroKernelTable::load(path, target))
    return {"micro-kernel table", false, true,
            fmt::format("{}: {} tiles, {:.2f} GHz", path, table->tiles().size(), table->costs().hz * 1e-9)};
  return {"micro-kernel table", false, false,
          path + " is not there or not of this machine; the first tuning measures it, once"};
}

Result<Report> examine() {
  const Target target = detect_host();
  Report report;
  report.json = describe_machine(target, &report.text);
  report.json["limits"] = describe_limits(&report.text);
  std::vector<Check> checks;
  if (const auto peaks = measure_peaks(target)) {
    report.json["peaks"] = describe_peaks(*peaks, &report.text);
    checks.push_back({"code generation", true, true, "compiles, links and runs on " + target.cpu});
  } else {
    checks.push_back({"code generation", true, false, peaks.error().to_string()});
  }
  checks.push_back(check_worker());
  checks.push_back(check_micro_kernels(target));
  checks.push_back(
      check_folder("cache folder", default_cache_folder(), "nothing measured or compiled is kept: set XDG_CACHE_HOME"));
  checks.push_back(
      check_folder("records", fs::path(default_database()).parent_path(), "give --db FILE, or set XDG_DATA_HOME"));
  checks.push_back(check_device(fettle_cuda_driver, "cuda"));
  checks.push_back(check_nvrtc());
  checks.push_back(check_device(fettle_opencl_driver, "opencl"));
  for (Check& check : check_peers()) checks.push_back(std::move(check));

  report.json["checks"] = nlohmann::json::array();
  std::vector<std::string> lacking;
  for (const Check& check : checks) {
    report.json["checks"].push_back(
        {{"name", check.name}, {"essential", check.essential}, {"present", check.present}, {"detail", check.detail}});
    report.text += fmt::format("{:<16} {:<9} {}\n", check.name,
                               check.present     ? "yes"
                               : check.essential ? "MISSING"
                                                 : "no",
                               check.detail);
    if (check.essential && !check.present) lacking.push_back(check.name);
  }
  report.json["usable"] = lacking.empty();
  report.text += lacking.empty() ? "Fettle can be used here.\n"
                                 : fmt::format("Fettle cannot be used here: {}.\n", fmt::join(lacking, ", "));
  constexpr size_t kNames = 15;
  report.text = wrapped_lines(report.text, kNames);
  report.status = lacking.empty() ? kDone : kCouldNot;
  return report;
}

}  // namespace

Command add_doctor_command(App& app) {
  auto json = std::make_shared<bool>(false);
  App* made = add_subcommand(app, "doctor", "Say what this machine is and reaches, and what is missing",
                             "fettle doctor", json.get());
  return {made, [json] { return examine(); }, json.get()};
}

}  // namespace fettle::cli
