#include "generations/metaschedule/presets.h"

#include <map>

#include "generations/metaschedule/space_generators.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

std::vector<ScheduleRule> cpu_rules(const std::vector<const char*>& intrinsics) {
  std::vector<ScheduleRule> rules = {
      winograd(),   rows_in_lanes(), apply_custom_rule(), inline_constant_scalars(), auto_inline({.operands = true}),
      add_rfactor()};
  for (const char* intrinsic : intrinsics) rules.push_back(multi_level_tiling_with_intrin(intrinsic));
  rules.push_back(multi_level_tiling());
  rules.push_back(parallelize_vectorize_unroll());
  rules.push_back(random_compute_location());
  return rules;
}

std::vector<Postprocessor> cpu_postprocessors() {
  return {disallow_dynamic_loop(), rewrite_layout(),          rewrite_parallel_vectorize_unroll(),
          rewrite_accumulators(),  rewrite_reduction_block(), rewrite_tensorize(),
          verify_code_size()};
}

std::vector<WeightedMutator> cpu_mutators() {
  return {
      {&mutate_tile_size, 0.90}, {&mutate_unroll, 0.08}, {&mutate_compute_location, 0.05}, {&mutate_parallel, 0.02}};
}

MultiLevelTilingOptions gpu_tiling() {
  MultiLevelTilingOptions options;
  options.tiling = tiling_for_threads();
  options.read = {Reuse::When::kMust, {4}, "shared"};
  options.write = {Reuse::When::kMust, {3}, "local"};
  return options;
}

std::vector<ScheduleRule> gpu_rules(bool tensor_cores) {
  std::vector<ScheduleRule> rules = {winograd(), apply_custom_rule()};
  if (tensor_cores) rules.push_back(multi_level_tiling_tensor_core());
  rules.push_back(multi_level_tiling(gpu_tiling()));
  rules.push_back(inline_constant_scalars());
  rules.push_back(auto_inline({.into_producer = true, .into_consumer = true, .strict = false}));
  rules.push_back(cross_thread_reduction());
  rules.push_back(auto_bind());
  return rules;
}

std::vector<Postprocessor> gpu_postprocessors() {
  return {disallow_dynamic_loop(),   rewrite_cooperative_fetch(), rewrite_unbound_block(),
          rewrite_reduction_block(), rewrite_tensorize(),         verify_gpu_code()};
}

std::vector<WeightedMutator> gpu_mutators() {
  return {{&mutate_tile_size, 0.90}, {&mutate_unroll, 0.08}, {&mutate_thread_binding, 0.02}};
}

std::vector<ScheduleRule> dsp_rules() {
  constexpr int kVectorBits = 1024;
  MultiLevelTilingOptions options;
  options.tiling.structure = "SRSRS";
  options.write = {Reuse::When::kMay, {1, 2}, "global"};
  return {apply_custom_rule(),
          inline_constant_scalars(),
          auto_inline(),
          multi_level_tiling_wide_vector(kVectorBits, options),
          parallelize_vectorize_unroll(),
          random_compute_location()};
}

constexpr std::string_view kNames[] = {"llvm", "x86", "arm", "riscv", "cuda", "cuda-tensorcore", "dsp"};

/// The preset of each target, made once for each: rules are functions without state.
class MetaScheduleSpace : public Space {
 public:
  std::string name() const override { return "metaschedule"; }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    const std::string_view preset = preset_name(*target);
    std::unique_ptr<Space>& space = spaces_[preset];
    if (!space) {
      FETTLE_TRY(Preset made, find_preset(preset));
      space = post_order_apply(std::move(made.rules), std::move(made.postprocessors));
    }
    return space->generate(workload, std::move(target), threads, source, std::move(decisions));
  }

 private:
  mutable std::map<std::string_view, std::unique_ptr<Space>> spaces_;
};

}  // namespace

Result<Preset> find_preset(std::string_view name) {
  if (name == "llvm" || name == "riscv") return Preset{name, cpu_rules({}), cpu_postprocessors(), cpu_mutators()};
  if (name == "x86")
    return Preset{name, cpu_rules({"vpdpbusd_512", "vpdpbusd_256"}), cpu_postprocessors(), cpu_mutators()};
  if (name == "arm") return Preset{name, cpu_rules({"neon_sdot", "neon_udot"}), cpu_postprocessors(), cpu_mutators()};
  if (name == "cuda") return Preset{name, gpu_rules(false), gpu_postprocessors(), gpu_mutators()};
  if (name == "cuda-tensorcore") return Preset{name, gpu_rules(true), gpu_postprocessors(), gpu_mutators()};
  if (name == "dsp") {
    auto postprocessors = cpu_postprocessors();
    postprocessors.push_back(disallow_async_strided_mem_copy());
    postprocessors.push_back(verify_scratchpad_limit());
    return Preset{name, dsp_rules(), std::move(postprocessors), cpu_mutators()};
  }
  return fail(ErrorCode::E241, "no preset " + std::string(name), "find_preset");
}

std::string_view preset_name(const Target& target) {
  if (target.kind == "cuda") return "cuda-tensorcore";
  if (target.has_threads()) return "cuda";
  if (target.arch == "x86_64") return "x86";
  if (target.arch == "aarch64") return "arm";
  if (target.arch.starts_with("riscv")) return "riscv";
  return "llvm";
}

std::vector<std::string_view> preset_names() { return {std::begin(kNames), std::end(kNames)}; }

std::unique_ptr<Space> make_metaschedule_space() { return std::make_unique<MetaScheduleSpace>(); }

}  // namespace fettle
