// The table of actions, and how a schedule is made of them.
#include "tests/fuzz/steps.h"

#include "analysis/verify.h"
#include "generations/registry.h"
#include "measure/sampled.h"
#include "schedule/reformulation.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz {
namespace {

using Action = bool (*)(Attempt&);  // true: the program changed, or a decision was made

struct Entry {
  const char* primitive;  // that it is for; null: several in their order
  int weight;
  Action action;
};
constexpr Entry kEntries[] = {
    {"split", 12, actions::split},
    {"tile", 4, actions::tile},
    {"fuse", 6, actions::fuse},
    {"merge", 4, actions::merge},
    {"reorder", 8, actions::reorder},
    {"reschedule", 0, actions::reschedule},  // at the end, and of affine programs
    {"loop_partition", 4, actions::loop_partition},
    {"add_unit_loop", 2, actions::add_unit_loop},
    {"reorder_block_iter_var", 2, actions::reorder_block_iter_var},
    {"parallel", 5, actions::parallel},
    {"vectorize", 8, actions::vectorize},
    {"unroll", 6, actions::unroll},
    {"bind", 3, actions::bind},
    {"pragma", 2, actions::pragma},
    {"prefetch", 2, actions::prefetch},
    {"cache_read", 5, actions::cache_read},
    {"cache_write", 5, actions::cache_write},
    {"cache_inplace", 4, actions::cache_inplace},
    {"cache_index", 3, actions::cache_index},
    {"reindex", 3, actions::reindex},
    {"reindex_cache_read", 3, actions::reindex_cache_read},
    {"reindex_cache_write", 3, actions::reindex_cache_write},
    {"read_at", 4, actions::read_at},
    {"write_at", 4, actions::write_at},
    {"transform_layout", 5, actions::transform_layout},
    {"transform_block_layout", 4, actions::transform_block_layout},
    {"set_scope", 3, actions::set_scope},
    {"rolling_buffer", 2, actions::rolling_buffer},
    {"sample_split", 2, actions::sample_split},
    {"storage_align", 3, actions::storage_align},
    {"set_axis_separator", 2, actions::set_axis_separator},
    {"set_dtype", 2, actions::set_dtype},
    {"blockize", 4, actions::blockize},
    {"tensorize", 2, actions::tensorize},
    {"pad_einsum", 4, actions::pad_einsum},
    {"compute_at", 8, actions::compute_at},
    {"reverse_compute_at", 8, actions::reverse_compute_at},
    {"compute_inline", 5, actions::compute_inline},
    {"reverse_compute_inline", 5, actions::reverse_compute_inline},
    {"fuse_reduction_epilogue", 3, actions::fuse_reduction_epilogue},
    {"decompose_reduction", 6, actions::decompose_reduction},
    {"rfactor", 5, actions::rfactor},
    {"decompose_padding", 4, actions::decompose_padding},
    {"reformulate", 1, actions::reformulate},
    {"software_pipeline", 2, actions::software_pipeline},
    {"double_buffer", 3, actions::double_buffer},
    {"annotate", 1, actions::annotate},
    {"unannotate", 1, actions::annotate},
    {"annotate_buffer_access", 3, actions::annotate_buffer_access},
    {"sample_categorical", 2, actions::sample_categorical},
    {"sample_perfect_tile", 3, actions::sample_perfect_tile},
    {"sample_partitioned_tile", 2, actions::sample_partitioned_tile},
    {"sample_tile", 3, actions::sample_tile},
    {"sample_compute_location", 3, actions::sample_compute_location},
    {"get_block", 0, actions::queries},
    {"get_loops", 0, actions::queries},
    {"get_child_blocks", 1, actions::queries},
    {"get_producers", 0, actions::queries},
    {"get_consumers", 0, actions::queries},
    {"get_output_blocks", 0, actions::queries},
    {nullptr, 8, actions::micro_kernel},
    {nullptr, 3, actions::tensorize_product},
    {nullptr, 3, actions::pipelined_reads},
    {nullptr, 8, actions::rolled_producer},
};

/// One thread of a GPU is slow, and copies of copies below a loop of a large program are many.
bool ends_soon(const Func& func, const Target& target) {
  constexpr double kMostInstances = 2e6;
  return !target.has_threads() || count_instances(func) <= kMostInstances;
}

/// A point of a space of programs for GPUs, with random decisions, or nothing where the space has none.
std::optional<Schedule> point_of_space(const Schedule& start, const std::shared_ptr<const Target>& target,
                                       RandomStream& r) {
  static const std::vector<std::unique_ptr<Space>>* known = [] {
    auto* made = new std::vector<std::unique_ptr<Space>>;
    for (const SpaceDef& def : spaces())
      if (def.on_gpus) made->push_back(def.make());
    return made;
  }();
  const Space& space = *(*known)[r.below(known->size())];
  auto made = space.generate(start.func(), target, 1, start.seed(), nullptr);
  if (!made || error_bound_of(made->func()) > 0 || !verify(made->func(), *target)) return std::nullopt;
  return std::move(*made);
}

/// Moves the references of an argument to the steps that are left; false if one is gone.
bool renumber(ArgValue& arg, const std::vector<int>& now) {
  const auto move = [&](StepRef& ref) {
    if (ref.step < 0 || static_cast<size_t>(ref.step) >= now.size() || now[static_cast<size_t>(ref.step)] < 0)
      return false;
    ref.step = now[static_cast<size_t>(ref.step)];
    return true;
  };
  if (auto* ref = std::get_if<StepRef>(&arg.value)) return move(*ref);
  if (auto* product = std::get_if<ArgValue::Product>(&arg.value)) {
    for (StepRef& ref : product->factors)
      if (!move(ref)) return false;
  }
  if (auto* list = std::get_if<std::vector<ArgValue>>(&arg.value)) {
    for (ArgValue& item : *list)
      if (!renumber(item, now)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string_view> generated_primitives() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kEntries)
    if (entry.primitive) names.emplace_back(entry.primitive);
  return names;
}

Made random_schedule(const Func& func, const std::shared_ptr<const Target>& target, uint64_t seed, int actions,
                     const Tried& tried) {
  RandomStream r{seed, 0x73746570};
  Schedule start(func, seed);
  start.set_target(target);
  Made made{start, 0};
  if (target->kind == "cuda" && r.below(100) < 75) {  // what has no product of halves goes on
    Attempt attempt(start, r, tried);
    if (actions::tensor_kernel(attempt) && verify(attempt.s.func(), *target) && ends_soon(attempt.s.func(), *target)) {
      made.schedule = start = std::move(attempt.s);
      actions = static_cast<int>(r.below(4));
    }
  }
  if (made.schedule.trace().size() == 0 && target->has_threads() && r.below(100) < 40) {
    if (auto point = point_of_space(start, target, r)) {
      made.schedule = start = std::move(*point);
      actions = std::min(actions, static_cast<int>(r.below(4)));
    }
  }
  int total = 0;
  for (const Entry& entry : kEntries) total += entry.weight;
  Schedule current = start;
  const auto keep = [&](Attempt& attempt) {
    current = std::move(attempt.s);
    if (verify(current.func(), *target) && ends_soon(current.func(), *target)) made.schedule = current;
  };
  for (int i = 0; i < actions; ++i) {
    Attempt attempt(current, r, tried);
    bool done = false;
    if (i == 0 && r.below(100) < 15) {  // reformulations come first
      done = actions::reformulate(attempt);
    } else if (target->has_threads() && attempt.chance(35)) {
      done = actions::thread_kernel(attempt);
    } else {
      int at = static_cast<int>(r.below(static_cast<uint64_t>(total)));
      for (const Entry& entry : kEntries) {
        at -= entry.weight;
        if (at >= 0) continue;
        done = entry.action(attempt);
        break;
      }
    }
    if (done) keep(attempt);
  }
  if (seed % 8 == 5) {  // not among the entries: what else is done with a seed stays as it was
    Attempt attempt(current, r, tried);
    if (actions::repeated_sum(attempt)) keep(attempt);
  }
  if (seed % 8 == 2) {  // as above
    Attempt attempt(current, r, tried);
    if (actions::reschedule(attempt)) keep(attempt);
  }
  for (const auto& step : made.schedule.trace().steps) made.applied += !step->def->queries;
  return made;
}

Made random_affine_schedule(const Func& func, const std::shared_ptr<const Target>& target, uint64_t seed, int actions,
                            const Tried& tried) {
  RandomStream r{seed, 0x61666669};
  Schedule current(func, seed);
  current.set_target(target);
  Made made{current, 0};
  if (target->has_threads() && r.below(2) == 0) {
    if (auto point = point_of_space(current, target, r)) made.schedule = std::move(*point);
    return made;
  }
  const std::vector<Action> shapes = {actions::reschedule, actions::reorder, actions::split, actions::loop_partition};
  const std::vector<Action> kinds = {actions::parallel, actions::vectorize, actions::unroll, actions::fuse};
  for (int i = 0; i < actions; ++i) {
    Attempt attempt(current, r, tried);
    const bool first = i < 4;
    if (!(first ? actions::reschedule : attempt.one_of(attempt.chance(50) ? shapes : kinds))(attempt)) continue;
    current = std::move(attempt.s);
    if (verify(current.func(), *target)) made.schedule = current;
  }
  for (const auto& step : made.schedule.trace().steps) made.applied += !step->def->queries;
  return made;
}

Schedule replay_without(const Func& func, const std::shared_ptr<const Target>& target, const ParsedTrace& trace,
                        const std::vector<bool>& dropped) {
  Schedule s(func, 0);
  s.set_target(target);
  std::vector<int> now(trace.steps.size(), -1);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    if (dropped[i]) continue;
    const ParsedStep& step = trace.steps[i];
    std::vector<NamedArg> args = step.def->to_args(step.args.get());
    bool fine = true;
    for (NamedArg& arg : args) fine = fine && renumber(arg.value, now);
    if (!fine) continue;
    const auto typed = step.def->from_args(args);
    if (!typed) continue;
    const auto done = step.def->samples ? s.step_recorded(*step.def, *typed, step.address, step.decision)
                                        : s.step_erased(*step.def, *typed);
    if (done) now[i] = *done;
  }
  return s;
}

}  // namespace fettle::fuzz
