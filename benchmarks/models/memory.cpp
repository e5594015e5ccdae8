#include "models/memory.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "driver/model_peers.h"
#include "runtime/npy.h"

namespace fettle::bench {
namespace {

/// Bytes above the baseline.
Result<double> peak_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return fail(ErrorCode::E708, "no process can be started", command);
  std::string text;
  std::array<char, 256> piece{};
  while (const size_t n = fread(piece.data(), 1, piece.size(), pipe)) text.append(piece.data(), n);
  const int status = pclose(pipe);
  const auto answer = nlohmann::json::parse(text, nullptr, false);
  if (status != 0 || !answer.is_object())
    return fail(ErrorCode::E708, "the process that measures memory failed", command);
  return answer.at("peak_bytes").get<double>() - answer.at("baseline_bytes").get<double>();
}

}  // namespace

Result<PeakMemory> measure_peak_memory(const std::string& library, const std::string& model, int threads,
                                       const std::vector<NamedTensor>& inputs, size_t n_outputs,
                                       const std::string& folder) {
  FETTLE_TRY(const PeerPaths paths, find_peer_paths());
  const std::string script =
      (std::filesystem::path(paths.script).parent_path().parent_path() / "models" / "peak_memory.py").string();
  std::string arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string file = fmt::format("{}/memory{}.npy", folder, i);
    FETTLE_TRY_VOID(write_npy(file, inputs[i].tensor));
    arguments += " '" + file + "'";
  }
  PeakMemory peak;
  FETTLE_TRY(peak.fettle_bytes, peak_of(fmt::format("'{}' '{}' fettle '{}' {}{} outputs={}", paths.python, script,
                                                    library, threads, arguments, n_outputs)));
  FETTLE_TRY(peak.onnxruntime_bytes,
             peak_of(fmt::format("'{}' '{}' onnxruntime '{}' {}{}", paths.python, script, model, threads, arguments)));
  return peak;
}

}  // namespace fettle::bench
