#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/on_threads.h"
#include "driver/constants.h"

namespace fettle {
namespace {

/// A tensor of strings has the numbers that they have in the artefact. Their order is that of the process's.
Result<ConstantTensor> as_stored(const ConstantTensor& tensor, const std::vector<int64_t>& strings) {
  if (!tensor.dtype.is_string()) return tensor;
  FETTLE_TRY(TensorBuilder numbered, make_tensor(tensor.dtype, tensor.shape));
  const auto from = tensor.elems<int64_t>();
  for (size_t i = 0; i < from.size(); ++i)
    numbered.elems<int64_t>()[i] = from[i] == 0 ? 0 : std::ranges::lower_bound(strings, from[i]) - strings.begin() + 1;
  return std::move(numbered).finish();
}

/// The tensor's bytes, aligned. Constants are made in this process's memory, whatever the device of the kernels: these
/// may run elsewhere, and later.
Result<ConstantBytes> as_it_lies(const ConstantTensor& tensor) {
  constexpr uintptr_t kAlignment = 64;  // a mapped file may hold a tensor anywhere
  if (reinterpret_cast<uintptr_t>(tensor.bytes.get()) % kAlignment == 0)
    return ConstantBytes{tensor.bytes, tensor.size_bytes};
  FETTLE_TRY(const std::shared_ptr<std::byte> bytes, cpu_device.allocate(tensor.size_bytes));
  std::memcpy(bytes.get(), tensor.data(), static_cast<size_t>(tensor.size_bytes));
  return ConstantBytes{bytes, tensor.size_bytes};
}

/// The tensor as the kernel or its prologue expects it.
Result<ConstantBytes> laid_out(const ConstantTensor& given, const KernelParam& param,
                               const std::vector<int64_t>& strings) {
  FETTLE_TRY(const ConstantTensor tensor, as_stored(given, strings));
  if (param.layout.is_identity()) return as_it_lies(tensor);
  const int64_t size = param.layout.physical_bytes();
  FETTLE_TRY(const std::shared_ptr<std::byte> bytes, cpu_device.allocate(size));
  param.layout.to_physical(tensor.data(), bytes.get());
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

/// What is to be done for constants that are made together.
struct Making {
  const StoredConstant* stored = nullptr;
  ConstantBytes* made = nullptr;        // what is kept as it is, or laid out
  std::map<size_t, std::byte*> places;  // what the prologue of the call's kernel fills, by the kernel's parameters
};

/// Constants that a prologue makes have their place in `made` then.
Result<std::vector<Making>> what_to_make(const Plan& plan, const ConstantPlan& planned,
                                         const std::vector<BuiltKernel>& kernels, std::vector<ConstantBytes>& made) {
  std::vector<Making> all;
  for (size_t s = 0; s < made.size(); ++s) {
    if (made[s].bytes) continue;
    const StoredConstant& stored = planned.stored[s];
    Making making{&stored, &made[s], {}};
    if (!stored.as_it_is) {
      const PlannedCall& call = plan.calls[static_cast<size_t>(stored.call)];
      const std::vector<KernelParam>& params = kernels[static_cast<size_t>(call.workload)].info.params;
      if (!constant_of(plan, call, params[stored.param])) {
        // All that this prologue makes and that nobody has made.
        making.made = nullptr;
        const std::vector<int>& indices = planned.of_call[static_cast<size_t>(stored.call)];
        for (size_t i = 0; i < indices.size(); ++i) {
          if (params[i].source >= 0 || indices[i] < 0) continue;
          ConstantBytes& place = made[static_cast<size_t>(indices[i])];
          if (place.bytes) continue;
          const int64_t size = params[i].layout.physical_bytes();
          FETTLE_TRY(const std::shared_ptr<std::byte> bytes, cpu_device.allocate(size));
          place = {bytes, size};
          making.places[i] = bytes.get();
        }
      }
    }
    all.push_back(std::move(making));
  }
  return all;
}

Result<> make(const Making& making, const Plan& plan, const ConstantPlan& planned,
              const std::vector<BuiltKernel>& kernels, Packer& packer) {
  const StoredConstant& stored = *making.stored;
  if (stored.as_it_is) {
    FETTLE_TRY(const ConstantTensor tensor, as_stored(*stored.as_it_is, planned.strings));
    FETTLE_TRY(*making.made, as_it_lies(tensor));
    return {};
  }
  const PlannedCall& call = plan.calls[static_cast<size_t>(stored.call)];
  const BuiltKernel& kernel = kernels[static_cast<size_t>(call.workload)];
  if (!making.made) return packer.run(plan, call, kernel, making.places);
  const KernelParam& param = kernel.info.params[stored.param];
  FETTLE_TRY(*making.made, laid_out(*constant_of(plan, call, param), param, planned.strings));
  return {};
}

}  // namespace

Result<std::vector<ConstantBytes>> make_constants(const Plan& plan, const ConstantPlan& planned,
                                                  const std::vector<BuiltKernel>& kernels, int threads) {
  std::vector<ConstantBytes> made(planned.stored.size());
  FETTLE_TRY(const std::vector<Making> all, what_to_make(plan, planned, kernels, made));
  std::vector<Result<>> results(all.size());
  for_each_on_threads(all.size(), threads, [&] {
    return [&, packer = Packer(planned.strings)](size_t i) mutable {
      results[i] = make(all[i], plan, planned, kernels, packer);
    };
  });
  for (Result<>& result : results) FETTLE_TRY_VOID(std::move(result));
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

}  // namespace fettle
