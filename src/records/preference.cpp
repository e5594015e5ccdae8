#include "records/preference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "ir/compare.h"

namespace fettle {
namespace {

/// The model by what it computes: the workloads of its plan by rule; and whose kernels there may be. Older forms of
/// choices have another first word.
Result<std::string> fact_key(Plans& plans, int threads, const KernelSources& sources) {
  FETTLE_TRY(const Plan* const plan, plans.get());
  std::string text;
  for (const PlannedCall& call : plan->calls) text += plan->workloads[static_cast<size_t>(call.workload)].hash.hex();
  std::set<std::string_view> names;
  for (const KernelSourceDef* source : sources) names.insert(source->name);
  return fmt::format("choice {} {}{}{}", digest_bytes(text).hex(), threads, names.empty() ? "" : " ",
                     fmt::join(names, ","));
}

// A hash is four numbers that doubles hold exactly.
constexpr size_t kNumbers = 4;

void append(std::vector<double>& fact, const Digest& digest) {
  for (const uint64_t half : {digest.high, digest.low})
    for (const uint64_t word : {half >> 32, half & 0xffffffff}) fact.push_back(static_cast<double>(word));
}

bool is_word(double number) { return number >= 0 && number <= 0xffffffff && number == static_cast<uint32_t>(number); }

Digest digest_at(const std::vector<double>& fact, size_t at) {
  const auto half = [&](size_t i) { return static_cast<uint64_t>(fact[i]) << 32 | static_cast<uint64_t>(fact[i + 1]); };
  return {half(at), half(at + 2)};
}

}  // namespace

Result<std::vector<int>> fused_numbers(const Graph& graph, const ModelChoice& choice) {
  std::vector<int> numbers;
  if (choice.fused.empty()) return numbers;
  FETTLE_TRY(const std::vector<Func> programs, fused_programs(graph, choice.layout));
  for (size_t i = 0; i < programs.size(); ++i)
    if (programs[i] && std::ranges::find(choice.fused, canonical_hash(programs[i])) != choice.fused.end())
      numbers.push_back(static_cast<int>(i));
  return numbers;
}

Result<std::vector<Digest>> fused_hashes(const Graph& graph, ImageLayout layout, const std::vector<int>& numbers) {
  std::vector<Digest> hashes;
  if (numbers.empty()) return hashes;
  FETTLE_TRY(const std::vector<Func> programs, fused_programs(graph, layout));
  for (const int number : numbers) {
    const Digest hash = canonical_hash(programs[static_cast<size_t>(number)]);
    if (std::ranges::find(hashes, hash) == hashes.end()) hashes.push_back(hash);
  }
  return hashes;
}

// layout, untuned, how many are fused, their hashes, those of the defaults.
Result<std::optional<ModelChoice>> find_choice(Plans& plans, Database& database, const Target& target, int threads,
                                               const KernelSources& sources) {
  constexpr size_t kFirst = 3;
  FETTLE_TRY(const std::string key, fact_key(plans, threads, sources));
  FETTLE_TRY(const auto fact, database.fact(target.fingerprint().hex(), key));
  const std::optional<ModelChoice> none;
  if (!fact || fact->size() < kFirst || (fact->size() - kFirst) % kNumbers != 0) return none;
  if (!std::ranges::all_of(*fact, is_word)) return none;
  const size_t n_hashes = (fact->size() - kFirst) / kNumbers;
  if ((*fact)[0] > 1 || (*fact)[1] > 1 || (*fact)[2] > static_cast<double>(n_hashes)) return none;
  ModelChoice choice;
  choice.layout = static_cast<ImageLayout>((*fact)[0]);
  choice.untuned = (*fact)[1] != 0;
  for (size_t i = 0; i < n_hashes; ++i)
    (static_cast<double>(i) < (*fact)[2] ? choice.fused : choice.defaults)
        .push_back(digest_at(*fact, kFirst + i * kNumbers));
  return choice;
}

Result<> keep_choice(Plans& plans, Database& database, const Target& target, int threads, const ModelChoice& choice,
                     const KernelSources& sources) {
  FETTLE_TRY(const std::string key, fact_key(plans, threads, sources));
  std::vector<double> fact = {static_cast<double>(choice.layout), choice.untuned ? 1.0 : 0.0,
                              static_cast<double>(choice.fused.size())};
  for (const Digest& hash : choice.fused) append(fact, hash);
  for (const Digest& hash : choice.defaults) append(fact, hash);
  return database.set_fact(target.fingerprint().hex(), key, fact);
}

}  // namespace fettle
