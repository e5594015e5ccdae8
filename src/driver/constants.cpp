#include "driver/constants.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "driver/untuned.h"
#include "ir/text.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

const ChosenSchedule& schedule_of(const PlannedCall& call, const std::vector<ChosenSchedule>& schedules) {
  return schedules[static_cast<size_t>(call.workload)];
}

std::vector<int64_t> strings_of(const Plan& plan) {
  std::set<int64_t> found;
  for (const Storage& storage : plan.storages)
    if (storage.constant && storage.constant->dtype().is_string())
      for (const int64_t number : storage.constant->constant->elems<int64_t>()) found.insert(number);
  found.erase(0);
  return {found.begin(), found.end()};
}

/// The packings of large contents that exist.
class KnownPackings {
 public:
  KnownPackings(const Plan& plan, Contents& contents) : contents_(contents) {
    calls_.resize(plan.workloads.size());
    for (const PlannedCall& call : plan.calls) calls_[static_cast<size_t>(call.workload)].push_back(&call);
    plan_ = &plan;
  }

  /// The constants, by the program's parameters, that the schedule of this workload packs in too many ways.
  std::set<int> excess(size_t workload, const ChosenSchedule& schedule) {
    std::set<int> found;
    for_each(workload, schedule, [&](int content, const KernelParam& made, int source) {
      const std::set<Digest>& known = packings_[content];
      if (known.size() >= kMostPackings && !known.contains(made.packing)) found.insert(source);
    });
    return found;
  }

  void add(size_t workload, const ChosenSchedule& schedule) {
    for_each(workload, schedule,
             [&](int content, const KernelParam& made, int) { packings_[content].insert(made.packing); });
  }

 private:
  template <class Visit>
  void for_each(size_t workload, const ChosenSchedule& schedule, Visit visit) {
    for (const PlannedCall* call : calls_[workload])
      for (const KernelParam& made : schedule.info.params)
        for (const int from : made.packed_from) {
          const KernelParam& source = schedule.info.params[static_cast<size_t>(from)];
          const ConstantTensor* tensor = constant_of(*plan_, *call, source);
          if (tensor && tensor->size_bytes >= kSharedFromBytes)
            visit(contents_.number_of(*tensor), made, source.source);
        }
  }

  const Plan* plan_;
  Contents& contents_;
  std::vector<std::vector<const PlannedCall*>> calls_;  // of each workload
  std::map<int, std::set<Digest>> packings_;            // of each content
};

}  // namespace

const ConstantTensor* constant_of(const Plan& plan, const PlannedCall& call, const KernelParam& param) {
  if (param.source < 0) return nullptr;
  return plan.storages[static_cast<size_t>(call.operands[static_cast<size_t>(param.source)].storage)].content();
}

int Contents::number_of(const ConstantTensor& tensor) {
  const auto [known, fresh] = known_.try_emplace({tensor.bytes.get(), tensor.size_bytes}, 0);
  if (!fresh) return known->second;
  std::vector<int>& candidates = of_size_[tensor.size_bytes];
  for (const int number : candidates)
    if (const ConstantTensor& kept = kept_[static_cast<size_t>(number)];
        kept.dtype.is_string() == tensor.dtype.is_string() &&
        std::memcmp(kept.data(), tensor.data(), static_cast<size_t>(tensor.size_bytes)) == 0)
      return known->second = number;
  known->second = static_cast<int>(kept_.size());
  candidates.push_back(known->second);
  kept_.push_back(tensor);
  return known->second;
}

int64_t Contents::total_bytes() const {
  int64_t bytes = 0;
  for (const ConstantTensor& tensor : kept_) bytes += tensor.size_bytes;
  return bytes;
}

int64_t ConstantPlan::stored_bytes() const {
  int64_t bytes = 0;
  for (const StoredConstant& constant : stored) bytes += constant.size_bytes;
  return bytes;
}

ConstantPlan plan_constants(const Plan& plan, const std::vector<ChosenSchedule>& schedules) {
  ConstantPlan planned;
  Contents contents;
  // How it is packed or laid out, and of which contents it is made.
  std::map<std::pair<Digest, std::vector<int>>, int> known;
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const PlannedCall& call = plan.calls[c];
    const std::vector<KernelParam>& params = schedule_of(call, schedules).info.params;
    std::vector<int> content_of(params.size(), -1);
    for (size_t i = 0; i < params.size(); ++i) {
      const ConstantTensor* tensor = constant_of(plan, call, params[i]);
      if (tensor) content_of[i] = contents.number_of(*tensor);
    }
    std::vector<int>& indices = planned.of_call.emplace_back(params.size(), -1);
    for (size_t i = 0; i < params.size(); ++i) {
      const KernelParam& param = params[i];
      if (!param.is_read || (param.source >= 0 && content_of[i] < 0)) continue;
      std::pair<Digest, std::vector<int>> identity;
      if (param.source >= 0) {
        identity = {param.layout.is_identity() ? Digest{} : param.layout.digest(), {content_of[i]}};
      } else {
        identity.first = param.packing;
        for (const int from : param.packed_from) identity.second.push_back(content_of[static_cast<size_t>(from)]);
      }
      const auto [found, fresh] = known.emplace(std::move(identity), static_cast<int>(planned.stored.size()));
      if (fresh) planned.stored.push_back({param.layout.physical_bytes(), static_cast<int>(c), i});
      indices[i] = found->second;
    }
  }
  for (const PlannedHostCall& call : plan.host_calls) {
    std::vector<int>& indices = planned.of_host_call.emplace_back(call.operands.size(), -1);
    for (size_t i = 0; i < call.n_inputs; ++i) {
      const ConstantTensor* const content = plan.storages[static_cast<size_t>(call.operands[i].storage)].content();
      if (!content) continue;
      const ConstantTensor& tensor = *content;
      const std::pair<Digest, std::vector<int>> identity{{}, {contents.number_of(tensor)}};
      const auto [found, fresh] = known.emplace(identity, static_cast<int>(planned.stored.size()));
      if (fresh) planned.stored.push_back({.size_bytes = tensor.size_bytes, .as_it_is = &tensor});
      indices[i] = found->second;
    }
  }
  planned.strings = strings_of(plan);
  planned.weight_bytes = contents.total_bytes();
  return planned;
}

Result<> share_packings(const Plan& plan, const std::vector<KernelRequest>& requests, const std::vector<bool>& settled,
                        const Target& target, int kernel_threads, std::vector<ChosenSchedule>& schedules) {
  Contents contents;
  KnownPackings known(plan, contents);
  const auto shared_target = std::make_shared<const Target>(target);
  for (size_t w = 0; w < plan.workloads.size(); ++w)
    if (settled[w]) known.add(w, schedules[w]);
  for (size_t w = 0; w < plan.workloads.size(); ++w) {
    if (settled[w]) continue;
    std::set<int> excess = known.excess(w, schedules[w]);
    if (!excess.empty()) {
      const KernelRequest& request = requests[w];
      FETTLE_TRY(Func func, parse_func(request.workload));
      const auto fits = [&](const Schedule& schedule) {
        const auto described = describe_schedule(schedule, request.workload);
        return described && known.excess(w, *described).empty();
      };
      if (const auto found = accepted_default(func, shared_target, kernel_threads, request.max_error_bound, fits)) {
        FETTLE_TRY(schedules[w], describe_schedule(*found, request.workload));
        excess.clear();
      }
      // What is an input cannot be packed ahead of time.
      while (!excess.empty()) {
        func = with(func, [&](FuncNode& f) {
          for (const int param : excess) f.params[static_cast<size_t>(param)].kind = ParamKind::kInput;
        });
        FETTLE_TRY(const Schedule plain,
                   untuned_schedule(func, shared_target, kernel_threads, request.max_error_bound));
        FETTLE_TRY(schedules[w], describe_schedule(plain, to_text(func)));
        excess = known.excess(w, schedules[w]);
      }
    }
    known.add(w, schedules[w]);
  }
  return {};
}

}  // namespace fettle
