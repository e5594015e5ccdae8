#include "driver/constants.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "driver/untuned.h"
#include "ir/text.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

const ConstantTensor* constant_of(const Plan& plan, const PlannedCall& call, const KernelParam& param) {
  if (param.source < 0) return nullptr;
  return plan.storages[static_cast<size_t>(call.operands[static_cast<size_t>(param.source)].storage)].content();
}

const ChosenSchedule& schedule_of(const PlannedCall& call, const std::vector<ChosenSchedule>& schedules) {
  return schedules[static_cast<size_t>(call.workload)];
}

/// A tensor of strings has the numbers that they have in the artefact. Their order is that of the process's.
Result<ConstantTensor> as_stored(const ConstantTensor& tensor, const std::vector<int64_t>& strings) {
  if (!tensor.dtype.is_string()) return tensor;
  FETTLE_TRY(TensorBuilder numbered, make_tensor(tensor.dtype, tensor.shape));
  const auto from = tensor.elems<int64_t>();
  for (size_t i = 0; i < from.size(); ++i)
    numbered.elems<int64_t>()[i] = from[i] == 0 ? 0 : std::ranges::lower_bound(strings, from[i]) - strings.begin() + 1;
  return std::move(numbered).finish();
}

std::vector<int64_t> strings_of(const Plan& plan) {
  std::set<int64_t> found;
  for (const Storage& storage : plan.storages)
    if (storage.constant && storage.constant->dtype().is_string())
      for (const int64_t number : storage.constant->constant->elems<int64_t>()) found.insert(number);
  found.erase(0);
  return {found.begin(), found.end()};
}

/// The tensor's bytes, aligned. Constants are made in this process's memory, whatever the device of the kernels: these
/// may run elsewhere, and later.
Result<ConstantBytes> as_it_lies(const ConstantTensor& tensor) {
  constexpr uintptr_t kAlignment = 64;  // a mapped file may hold a tensor anywhere
  if (reinterpret_cast<uintptr_t>(tensor.bytes.get()) % kAlignment == 0)
    return ConstantBytes{tensor.bytes, tensor.size_bytes};
  FETTLE_TRY(const std::shared_ptr<std::byte> bytes, cpu_device.allocate(tensor.size_bytes));
  FETTLE_TRY_VOID(cpu_device.copy_to(bytes.get(), tensor.data(), tensor.size_bytes));
  return ConstantBytes{bytes, tensor.size_bytes};
}

/// The tensor as the kernel or its prologue expects it.
Result<ConstantBytes> laid_out(const ConstantTensor& given, const KernelParam& param,
                               const std::vector<int64_t>& strings) {
  FETTLE_TRY(const ConstantTensor tensor, as_stored(given, strings));
  if (param.layout.is_identity()) return as_it_lies(tensor);
  const int64_t size = param.layout.physical_bytes();
  FETTLE_TRY(const std::shared_ptr<std::byte> bytes, cpu_device.allocate(size));
  std::vector<std::byte> physical(static_cast<size_t>(size));
  param.layout.to_physical(tensor.data(), physical.data());
  FETTLE_TRY_VOID(cpu_device.copy_to(bytes.get(), physical.data(), size));
  return ConstantBytes{bytes, size};
}

/// The tensor was read for now: where it lies in a mapped file, its pages need no memory any more.
void let_go(const ConstantTensor& tensor) {
  constexpr int kPageOut = 21;  // MADV_PAGEOUT, which Linux has from 5.4 on; what is no file stays
  constexpr uintptr_t kPage = 4096;
  if (tensor.size_bytes < kSharedFromBytes) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(tensor.bytes.get()) / kPage * kPage;
  const uintptr_t end = reinterpret_cast<uintptr_t>(tensor.bytes.get()) + static_cast<uintptr_t>(tensor.size_bytes);
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, kPageOut);
}

/// Runs prologues, each loaded once.
class Packer {
 public:
  explicit Packer(const std::vector<int64_t>& strings) : strings_(strings) {}

  /// Fills the buffers that `kernel`'s prologue makes: those of `made`, by the kernel's parameters.
  Result<> run(const Plan& plan, const PlannedCall& call, const BuiltKernel& kernel,
               const std::map<size_t, std::byte*>& made) {
    LoadedImage& prologue = prologues_[kernel.entry];
    if (!prologue.function) {
      FETTLE_TRY(prologue, load_image(kernel.prologue_image, kernel.prologue_entry));
    }
    std::vector<ConstantBytes> held;
    std::vector<void*> buffers;
    for (const int p : kernel.prologue_params) {
      const KernelParam& param = kernel.info.params[static_cast<size_t>(p)];
      if (const auto place = made.find(static_cast<size_t>(p)); place != made.end()) {
        buffers.push_back(place->second);
      } else if (const ConstantTensor* tensor = constant_of(plan, call, param)) {
        FETTLE_TRY(ConstantBytes bytes, laid_out(*tensor, param, strings_));
        buffers.push_back(const_cast<std::byte*>(bytes.bytes.get()));
        held.push_back(std::move(bytes));
      } else {  // stored already
        FETTLE_TRY(const std::shared_ptr<std::byte> scratch, cpu_device.allocate(param.layout.physical_bytes()));
        buffers.push_back(scratch.get());
        held.push_back({scratch, param.layout.physical_bytes()});
      }
    }
    if (!stream_) {
      FETTLE_TRY(stream_, cpu_device.open_stream(1));
    }
    if (!cpu_device.launch(stream_, prologue, buffers, {}))
      return fail(ErrorCode::E710, "packing the constants of " + label_of(call) + " failed");
    for (const int p : kernel.prologue_params)
      if (const ConstantTensor* tensor = constant_of(plan, call, kernel.info.params[static_cast<size_t>(p)]))
        let_go(*tensor);
    return {};
  }

 private:
  const std::vector<int64_t>& strings_;
  DeviceStream stream_;
  std::map<std::string, LoadedImage> prologues_;  // by the entries of their kernels
};

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

Result<std::vector<ConstantBytes>> make_constants(const Plan& plan, const ConstantPlan& planned,
                                                  const std::vector<BuiltKernel>& kernels) {
  std::vector<ConstantBytes> made(planned.stored.size());
  Packer packer(planned.strings);
  for (size_t s = 0; s < made.size(); ++s) {
    if (made[s].bytes) continue;
    const StoredConstant& stored = planned.stored[s];
    if (stored.as_it_is) {
      FETTLE_TRY(const ConstantTensor tensor, as_stored(*stored.as_it_is, planned.strings));
      FETTLE_TRY(made[s], as_it_lies(tensor));
      continue;
    }
    const PlannedCall& call = plan.calls[static_cast<size_t>(stored.call)];
    const BuiltKernel& kernel = kernels[static_cast<size_t>(call.workload)];
    const std::vector<KernelParam>& params = kernel.info.params;
    if (const ConstantTensor* tensor = constant_of(plan, call, params[stored.param])) {
      FETTLE_TRY(made[s], laid_out(*tensor, params[stored.param], planned.strings));
      continue;
    }
    // All that this prologue makes and that nobody has made.
    std::map<size_t, std::byte*> places;
    const std::vector<int>& indices = planned.of_call[static_cast<size_t>(stored.call)];
    for (size_t i = 0; i < indices.size(); ++i) {
      if (params[i].source >= 0 || indices[i] < 0) continue;
      ConstantBytes& place = made[static_cast<size_t>(indices[i])];
      if (place.bytes) continue;
      const int64_t size = params[i].layout.physical_bytes();
      FETTLE_TRY(const std::shared_ptr<std::byte> bytes, cpu_device.allocate(size));
      place = {bytes, size};
      places[i] = bytes.get();
    }
    FETTLE_TRY_VOID(packer.run(plan, call, kernel, places));
  }
  return made;
}

Result<ConstantBytes> ConstantPool::keep(ConstantTensor tensor) {
  const auto number = static_cast<size_t>(contents_.number_of(tensor));
  if (number == kept_.size()) {
    FETTLE_TRY(ConstantBytes bytes, as_it_lies(tensor));
    kept_.push_back(std::move(bytes));
  }
  seen_.push_back(std::move(tensor));
  return kept_[number];
}

Result<LateConstants> defer_constants(const Plan& plan, const ConstantPlan& planned,
                                      const std::vector<BuiltKernel>& kernels, ConstantPool& pool) {
  LateConstants made;
  made.constants.resize(planned.stored.size());
  std::vector<bool> is_made(planned.stored.size(), false);
  std::map<const std::byte*, int> further;  // what prologues alone read
  const auto kept_as_laid_out = [&](const ConstantTensor& tensor, const KernelParam& param) -> Result<ConstantBytes> {
    FETTLE_TRY(ConstantTensor stored, as_stored(tensor, planned.strings));
    if (param.layout.is_identity()) return pool.keep(std::move(stored));
    FETTLE_TRY(const ConstantBytes bytes, laid_out(tensor, param, planned.strings));
    return pool.keep({kU8, {bytes.size}, bytes.bytes, bytes.size});
  };
  for (size_t s = 0; s < planned.stored.size(); ++s) {
    if (is_made[s]) continue;
    const StoredConstant& stored = planned.stored[s];
    is_made[s] = true;
    if (stored.as_it_is) {
      FETTLE_TRY(ConstantTensor tensor, as_stored(*stored.as_it_is, planned.strings));
      FETTLE_TRY(made.constants[s], pool.keep(std::move(tensor)));
      continue;
    }
    const PlannedCall& call = plan.calls[static_cast<size_t>(stored.call)];
    const BuiltKernel& kernel = kernels[static_cast<size_t>(call.workload)];
    const std::vector<KernelParam>& params = kernel.info.params;
    if (const ConstantTensor* tensor = constant_of(plan, call, params[stored.param])) {
      FETTLE_TRY(made.constants[s], kept_as_laid_out(*tensor, params[stored.param]));
      continue;
    }
    // All that this prologue makes and that no other makes.
    LateConstants::Packing packing{kernel.prologue_entry, {}};
    const std::vector<int>& indices = planned.of_call[static_cast<size_t>(stored.call)];
    for (const int p : kernel.prologue_params) {
      const KernelParam& param = params[static_cast<size_t>(p)];
      int index = param.source < 0 ? indices[static_cast<size_t>(p)] : -1;
      if (const ConstantTensor* tensor = constant_of(plan, call, param)) {
        FETTLE_TRY(ConstantBytes bytes, kept_as_laid_out(*tensor, param));
        const auto [found, fresh] = further.try_emplace(bytes.bytes.get(), static_cast<int>(made.constants.size()));
        if (fresh) made.constants.push_back(std::move(bytes));
        index = found->second;
      } else if (index < 0 || (is_made[static_cast<size_t>(index)] && static_cast<size_t>(index) != s)) {
        index = static_cast<int>(made.constants.size());
        made.constants.push_back({nullptr, param.layout.physical_bytes()});
      } else {
        made.constants[static_cast<size_t>(index)].size = param.layout.physical_bytes();
        is_made[static_cast<size_t>(index)] = true;
      }
      packing.constants.push_back(index);
    }
    made.packings.push_back(std::move(packing));
  }
  return made;
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
